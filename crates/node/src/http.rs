use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tracing::debug;

/// The niceness of HTTP compared with messages: a list of 100,000 queues computes for tens of milliseconds, and a core
/// that shares its processor with it would wait for whole time slices. With both processors busy, HTTP still gets a
/// tenth of one.
const NICENESS: i32 = 10;

/// Time for which the thread for blocking work waits for more: the life of the process, as long as it may be.
const BLOCKING_THREAD_LIFE: Duration = Duration::from_secs(u32::MAX as u64);

/// The single-threaded runtime beside the cores: HTTP, and other slow work that isn't part of AMQP.
#[derive(Debug)]
pub(crate) struct SideRuntime {
    handle: Handle,
    /// Dropping it ends the runtime with all its tasks.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl SideRuntime {
    /// Starts its threads: the one that runs tasks, and one for blocking work. Both are there from the start on, since a
    /// runtime that gets no thread for blocking work panics.
    ///
    /// # Errors
    /// The system provides no thread.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .thread_keep_alive(BLOCKING_THREAD_LIFE)
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, is_started) = mpsc::channel();
        let thread = thread::Builder::new().name("leveret-http".to_owned()).spawn(move || {
            // Linux applies it to this thread and the threads that it starts, not to the process.
            if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
                debug!("cannot lower the priority of HTTP: {error}");
            }
            let blocking = catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn_blocking(|| ()))));
            let _ = started.send(blocking.is_ok());
            let _ = runtime.block_on(stopped);
            // Its blocking threads aren't waited for: they must not delay the end of the process.
            runtime.shutdown_background();
        })?;
        let mut side = Self { handle, stop: Some(stop), thread: Some(thread) };
        if is_started.recv() != Ok(true) {
            side.stop();
            return Err(io::Error::other("the system provides no thread for the blocking work of HTTP"));
        }
        Ok(side)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Drops all that runs on it; afterwards none of it touches the broker.
    pub(crate) fn stop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
