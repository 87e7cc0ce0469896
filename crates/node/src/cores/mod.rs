//! The cores: one thread with a current-thread runtime each, its connections, timers and read buffer.

mod accept;
mod connection;
mod deferred;
pub(crate) mod errand;
mod handshake;
mod linger;
mod links;
mod load;
mod mailbox;
mod pause;
mod precise;
mod proxy;
mod stream;
mod timers;
mod unread;
mod wake;
mod wheel;

use std::io;
use std::sync::Arc;
use std::thread;

use leveret_broker::Broker;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::accept::{Acceptors, listen};
pub use self::accept::{Listener, SocketOptions};

pub(crate) use self::links::LinkSeats;

use self::accept::Arrival;
use self::deferred::DeferredTask;
use self::load::Load;
use self::mailbox::Mailbox;
use self::pause::Pauses;
use self::timers::{Driver, Timers};
use self::wake::WakeMailbox;
use crate::clock::Clock;

/// State that the tasks of one core share, and the part of it that other threads may use.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) index: usize,
    pub(crate) clock: Clock,
    load: Load,
    mailbox: Arc<WakeMailbox>,
    timers: Arc<Timers>,
    /// The buffer of all reads on this core, locked for the time of a turn. Only the core's own thread locks it.
    buffer: Mutex<Vec<u8>>,
}

/// A core with a running thread.
#[derive(Debug)]
pub(crate) struct RunningCore {
    pub(crate) core: Arc<Core>,
    handle: Handle,
    /// The sender that hands accepted connections to the core.
    reception: mpsc::UnboundedSender<Arrival>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Core {
    fn new(index: usize, clock: &Clock) -> Self {
        Self {
            index,
            clock: clock.clone(),
            load: Load::default(),
            mailbox: Arc::new(Mailbox::new()),
            timers: Arc::new(Timers::new()),
            buffer: Mutex::new(Vec::new()),
        }
    }

    /// Number of its connections.
    pub(crate) fn connections(&self) -> usize {
        self.load.connections()
    }

    /// Schedules the tasks for which other threads left notes.
    fn collect_mail(&self) {
        errand::turn();
        wake::deliver(self.mailbox.collect());
    }
}

impl RunningCore {
    /// Starts the thread of core `index`.
    pub(crate) fn start(index: usize, clock: &Clock) -> io::Result<Self> {
        let core = Arc::new(Core::new(index, clock));
        let (parking, waking) = (core.clone(), core.mailbox.clone());
        let pauses = Mutex::new(Pauses::new(clock.monotonic()));
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .on_thread_park(move || {
                // Tasks that an errand made ready run before the next wait.
                if !errand::run() {
                    let look = || (parking.clock.monotonic(), parking.load.moved());
                    let pause = pauses.lock().before_wait(look);
                    if let Some(pause) = pause {
                        thread::sleep(pause);
                    }
                }
                parking.mailbox.park(wake::deliver);
            })
            .on_thread_unpark(move || wake::deliver(waking.unparked()))
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let (reception, guests) = mpsc::unbounded_channel();
        let here = core.clone();
        let thread = thread::Builder::new().name(format!("leveret-core-{index}")).spawn(move || {
            wake::enter(&here.mailbox);
            leveret_broker::remote::set_core(index);
            runtime.spawn(Driver::new(here.timers.clone(), here.clock.clone()));
            runtime.spawn(accept::receive(guests));
            // An error means that the sender was dropped, which is a stop too.
            let _ = runtime.block_on(stopped);
            // The remaining connections are dropped, which notifies the broker.
            drop(runtime);
            wake::leave();
            errand::hand_over();
        })?;
        Ok(Self { core, handle, reception, stop: Some(stop), thread: Some(thread) })
    }

    /// Starts the task that does the deferred work of this core's queues.
    pub(crate) fn serve_queues(&self, broker: &Arc<Broker>) {
        self.handle.spawn(DeferredTask::serve(self.core.clone(), broker.clone()));
    }

    /// Drops this core's connections and waits for its thread.
    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for RunningCore {
    fn drop(&mut self) {
        self.stop();
    }
}
