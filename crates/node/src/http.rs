use std::future::Future;
use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tracing::debug;

/// The niceness of HTTP compared with messages: a list of 100,000 queues computes for tens of milliseconds, and a core
/// that shares its processor with it would wait for whole time slices. With both processors busy, HTTP still gets a
/// tenth of one.
const NICENESS: i32 = 10;

/// The single-threaded runtime beside the cores: HTTP, and other slow work that isn't part of AMQP.
#[derive(Debug)]
pub(crate) struct SideRuntime {
    handle: Handle,
    /// Dropping it ends the runtime with all its tasks.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl SideRuntime {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("leveret-http".to_owned()).spawn(move || {
            // Linux applies it to this thread and the threads that it starts, not to the process.
            if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
                debug!("cannot lower the priority of HTTP: {error}");
            }
            let _ = runtime.block_on(stopped);
            // Its blocking threads aren't waited for: they must not delay the end of the process.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
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
