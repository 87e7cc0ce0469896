use std::future::Future;
use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tracing::debug;

/// How much HTTP makes way for messages: a list of 100,000 queues computes for tens of milliseconds, and a core that shares
/// its processor with it would wait for whole time slices. With both processors busy it still gets a tenth of one.
const NICENESS: i32 = 10;

/// The runtime beside the cores, of one thread: HTTP, and whatever else is slow and none of AMQP's
/// business.
#[derive(Debug)]
pub(crate) struct SideRuntime {
    handle: Handle,
    /// Dropping it ends the runtime and all that runs on it.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl SideRuntime {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("leveret-http".to_owned()).spawn(move || {
            // Linux takes it for this thread and those that it starts, not for the process.
            if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
                debug!("cannot lower the priority of HTTP: {error}");
            }
            let _ = runtime.block_on(stopped);
            // What runs on its blocking threads isn't waited for: it must not hold up the end of the process.
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
