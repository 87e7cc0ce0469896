//! Answers to decisions about messages that somebody elsewhere carries out.

use std::sync::Arc;

use leveret_queue::{GroupPlace, Place};

use crate::outbox::{Event, Outbox};
use crate::ticket::StreamId;
use crate::wait_for::WaitFor;

/// An answer that waits for a decision about messages of a queue elsewhere, or of one whose leader may change.
pub(crate) struct DecisionAnswer {
    over: Arc<GroupPlace>,
    stream: StreamId,
    outbox: Arc<Outbox>,
}

impl DecisionAnswer {
    /// An answer of `outbox`, which ends if this stream leaves.
    pub(crate) fn new(outbox: &Arc<Outbox>, stream: StreamId) -> Self {
        Self { over: Arc::default(), stream, outbox: outbox.clone() }
    }

    /// The condition of the answer.
    pub(crate) fn wait(&self) -> WaitFor {
        WaitFor::moved(self.stream, self.over.clone())
    }

    /// The decision is carried out for good.
    pub(crate) fn over(self) {
        self.over.close(Place::NOTHING);
        self.outbox.send(Event::Durable(self.stream));
    }
}
