//! The outcome of publishing to a queue.

use leveret_queue::PublishSlot;

use crate::ticket::Awaited;

/// The result of publishing messages together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Number of accepted messages, counted from the first one.
    pub accepted: u32,
    /// The place that their confirm waits for.
    pub awaited: Awaited,
    /// Whether its consumers could take messages that have left memory: publishers then yield the disk and the processors to
    /// them.
    pub is_behind: bool,
    /// Whether the queue accepts no messages any more, because its deletion is in flight to the disk: the messages count as
    /// published after the deletion. Their confirm waits until the deletion is durable.
    pub is_gone: bool,
    /// The slot of the last message, if the queue's publishers are paced.
    pub slot: PublishSlot,
}

impl Published {
    /// Number of messages that are in the queue now, or will be.
    pub(crate) fn taken(&self) -> u32 {
        if self.is_gone { 0 } else { self.accepted }
    }

    /// Of messages that weren't accepted.
    pub(crate) fn none() -> Self {
        Self {
            accepted: 0,
            awaited: Awaited::default(),
            is_behind: false,
            is_gone: false,
            slot: PublishSlot::default(),
        }
    }
}

/// The result of publishing a chunk to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkPublished {
    /// It was offered, and accepted as a whole or not at all.
    Offered(Published),
    /// Nothing was done: messages of its publisher up to this number were published before. The publisher offers a chunk without them.
    Behind {
        /// The number.
        last: u64,
        /// The place that a confirm of these messages waits for.
        awaited: Awaited,
    },
}

/// The queues that get a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// This queue alone.
    Alone,
    /// Other queues, too; with the message's number if it is in the shared log.
    Several(Option<u64>),
    /// The same from a publisher that can't be paced.
    Unpaced(Option<u64>),
}
