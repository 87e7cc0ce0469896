//! The outcome of publishing to a queue.

use std::sync::{Arc, OnceLock};

use leveret_queue::PublishSlot;

use crate::ticket::Awaited;

/// The result of publishing messages together.
#[derive(Debug, Clone)]
pub struct Published {
    /// Which of them were accepted.
    pub acceptance: Acceptance,
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

/// The messages that were accepted of those that were published together, as far as that is known.
#[derive(Debug, Clone)]
pub enum Acceptance {
    /// So many were accepted, counted from the first one.
    Known(u32),
    /// It is told when their place is reached.
    Later(Arc<Fate>),
}

/// The outcome of a publish whose queue answers later: the commit stream writes it before it says that the place is reached. Once nobody
/// waits for it any more, it is forgotten.
#[derive(Debug, Default)]
pub struct Fate(OnceLock<NotTaken>);

/// The reason why messages aren't in a queue.
#[derive(Debug, Clone)]
pub enum NotTaken {
    /// The queue didn't accept some of them.
    Refused(Arc<RefusedPublish>),
    /// The queue was deleted before they came: they are handled as if they had been routed a moment later.
    Gone,
    /// The log that they were written to left before their place was reached.
    Lost,
}

/// A queue didn't accept all messages that were published together.
#[derive(Debug, Clone)]
pub struct RefusedPublish {
    /// Number of accepted messages, counted from the first one.
    pub accepted: u32,
    /// The queue's name.
    pub queue: Arc<str>,
    /// The reason why it didn't accept the others.
    pub reason: RefusalReason,
}

/// The reason why a queue doesn't accept messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// A length limit, and `x-overflow` says that messages are refused.
    Limit,
    /// The queue has stopped.
    Stopped,
}

impl Fate {
    /// Not all messages are in the queue.
    pub(crate) fn tell(&self, what: NotTaken) {
        // It is told once; a second time would be a mistake of the stream, and what the first said may be acted on already.
        let is_first = self.0.set(what).is_ok();
        debug_assert!(is_first, "a publish was answered twice");
    }

    /// The reason why some messages aren't in the queue; `None` if all are, once the place is reached.
    pub fn told(&self) -> Option<&NotTaken> {
        self.0.get()
    }
}

/// The result of publishing messages to a queue of this node, which knows at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublishedHere {
    /// Number of accepted messages, counted from the first one.
    pub accepted: u32,
    /// See [`Published::awaited`].
    pub awaited: Awaited,
    /// See [`Published::is_behind`].
    pub is_behind: bool,
    /// See [`Published::is_gone`].
    pub is_gone: bool,
    /// See [`Published::slot`].
    pub slot: PublishSlot,
}

impl PublishedHere {
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

impl From<PublishedHere> for Published {
    #[inline]
    fn from(published: PublishedHere) -> Self {
        let PublishedHere { accepted, awaited, is_behind, is_gone, slot } = published;
        Self { acceptance: Acceptance::Known(accepted), awaited, is_behind, is_gone, slot }
    }
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
