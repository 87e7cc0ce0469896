//! A process between `stop_app` and `start_app`: without a node, waiting for commands and signals.

use std::io;
use std::sync::mpsc::{Receiver, Sender};

use crate::http::SideRuntime;
use crate::signals;

/// Asks a node to stop without ending its process, as [`NodeHandle::ask_to_stop`](crate::NodeHandle::ask_to_stop) takes it.
pub const STOP_APP: &str = "stop_app";

/// Asks a process without a node to start one.
pub const START_APP: &str = "start_app";

/// See the module. What runs on it ends when it is dropped.
#[derive(Debug)]
pub struct Standby {
    side: SideRuntime,
    asks: Sender<&'static str>,
    asked: Receiver<&'static str>,
}

impl Standby {
    /// Begins to listen to signals.
    ///
    /// # Errors
    /// The system gives no thread, or doesn't let the process listen.
    pub fn start() -> io::Result<Self> {
        let side = SideRuntime::start()?;
        let (asks, asked) = signals::listen(side.handle())?;
        Ok(Self { side, asks, asked })
    }

    /// Runs `work` until this is dropped.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.side.spawn(work);
    }

    /// Ends [`Standby::wait`] by [`START_APP`] or the name of whoever wants the process to end.
    #[must_use]
    pub fn asks(&self) -> Sender<&'static str> {
        self.asks.clone()
    }

    /// Waits until somebody asks; what was asked, or the name of the signal that ends the process.
    #[must_use]
    pub fn wait(&self) -> &'static str {
        // It can't end before the runtime that holds the sender, which is ours.
        self.asked.recv().unwrap_or("the end of its runtime")
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.side.stop();
    }
}
