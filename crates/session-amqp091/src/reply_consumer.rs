//! Consumers of direct reply-to, and the answers that come for them.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use leveret_broker::reply::Reply;
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

/// The channels with a consumer of answers, and the answers that wait for the socket.
#[derive(Default)]
pub(crate) struct ArrivedReplies {
    /// By the key of their consumer.
    channels: FxHashMap<u64, u16>,
    waiting: VecDeque<Reply>,
}

impl ArrivedReplies {
    /// Answers with this key are for a consumer of this channel.
    pub(crate) fn begin(&mut self, key: u64, channel: u16) {
        self.channels.insert(key, channel);
    }

    /// A consumer has ended.
    pub(crate) fn end(&mut self, consumer: &ReplyConsumer) {
        self.channels.remove(&consumer.target().key());
    }

    /// The channel whose consumer has this key.
    pub(crate) fn channel(&self, key: u64) -> Option<u16> {
        self.channels.get(&key).copied()
    }

    /// Adds an answer that came.
    pub(crate) fn push(&mut self, reply: Reply) {
        self.waiting.push_back(reply);
    }

    /// The answer that is sent next.
    pub(crate) fn pop(&mut self) -> Option<Reply> {
        self.waiting.pop_front()
    }

    /// Number of answers that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops the answers that wait.
    pub(crate) fn drop_waiting(&mut self) {
        self.waiting.clear();
    }
}
