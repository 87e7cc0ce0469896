//! A channel's consumer of direct reply-to.

use std::sync::Arc;

use leveret_broker::reply_to::{REPLY_TO, Registration, ReplyTarget, is_volatile};

/// A channel's consumer of answers.
pub(crate) struct ReplyConsumer {
    pub tag: Arc<[u8]>,
    registration: Registration,
}

impl ReplyConsumer {
    /// A consumer with this tag.
    pub(crate) fn new(tag: Arc<[u8]>, registration: Registration) -> Self {
        Self { tag, registration }
    }

    /// The target of the answers.
    pub(crate) fn target(&self) -> &Arc<ReplyTarget> {
        self.registration.target()
    }
}

/// Whether a queue name means direct reply-to.
pub(crate) fn is_reply_name(name: &str) -> bool {
    name == REPLY_TO || is_volatile(name.as_bytes())
}
