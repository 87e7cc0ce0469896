//! `x-recent-history`: all bindings, and the queue with the last messages, which queues that are bound later get.

use leveret_model::{QueueId, Value};

use super::fanout::Fanout;
use crate::headers::{Header, Headers};

/// The header of a message that isn't kept.
const NO_STORE: &str = "x-recent-history-no-store";

/// The queue with the last messages, and the bindings.
#[derive(Clone, Debug)]
pub(crate) struct History {
    queue: QueueId,
    pub(super) bindings: Fanout,
}

impl History {
    pub(super) fn new(queue: QueueId) -> Self {
        Self { queue, bindings: Fanout::default() }
    }

    pub(super) fn emptied(&self) -> Self {
        Self::new(self.queue)
    }

    /// The queue in which a message is kept. It is none of the destinations that decide about the alternate exchange.
    pub(crate) fn keeps(&self, headers: &dyn Headers) -> Option<QueueId> {
        let no_store = matches!(headers.lookup(NO_STORE), Some(Header::Value(Value::Bool(true))));
        (!no_store).then_some(self.queue)
    }
}
