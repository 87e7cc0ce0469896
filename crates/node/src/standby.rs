//! A process between `stop_app` and `start_app`: without a node, waiting for commands and signals.

use std::io;
use std::sync::mpsc::{Receiver, Sender};

use crate::http::SideRuntime;
use crate::signals;

/// The requester's name for stopping a node without ending its process, passed to
/// [`NodeHandle::ask_to_stop`](crate::NodeHandle::ask_to_stop).
pub const STOP_APP: &str = "stop_app";

/// The request to start a node in a process without one.
pub const START_APP: &str = "start_app";

/// A process without a node. Tasks running on it end when it is dropped.
#[derive(Debug)]
pub struct Standby {
    side: SideRuntime,
    asks: Sender<&'static str>,
    asked: Receiver<&'static str>,
}

impl Standby {
    /// Begins to handle signals.
    ///
    /// # Errors
    /// The system provides no thread, or doesn't let the process handle signals.
    pub fn start() -> io::Result<Self> {
        let side = SideRuntime::start()?;
        let (asks, asked) = signals::listen()?;
        Ok(Self { side, asks, asked })
    }

    /// Runs `work` until this is dropped.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.side.spawn(work);
    }

    /// The sender that ends [`Standby::wait`], by [`START_APP`] or the name of the requester that wants the process to
    /// end.
    #[must_use]
    pub fn asks(&self) -> Sender<&'static str> {
        self.asks.clone()
    }

    /// Waits for a request. Returns [`START_APP`], or the name of the requester or signal that ends the process.
    #[must_use]
    pub fn wait(&self) -> &'static str {
        // It has a sender itself, so there is one as long as it waits.
        self.asked.recv().unwrap_or("the end of its senders")
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.side.stop();
    }
}
