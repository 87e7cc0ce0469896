//! Commit streams: logs that records are appended to, each with its watermarks.
//!
//! A [`CommitStream`] is what confirms and order need. Records are appended to a [`LocalStream`], or to a placement that this node leads
//! ([`crate::replicas::PlacedStream`]): each has methods for the records that it takes, so that the other streams, whose places are numbers
//! of calls, can't be given any.
//!
//! A queue belongs to one stream, and so does a group. A condition on several streams waits for each separately ([`waits`]): a
//! stream that is stuck doesn't hold up the others. Streams come and go while the node runs ([`Streams`]).
//!
//! A commit stream says in which order records take effect, and when they are safe. The log that has a queue's messages is
//! another matter, a [`Store`]: here both are one log, but a replicated queue's messages are in the node's own store while its
//! records are committed elsewhere.

mod answers;
mod known;
mod late;
mod local;
mod record;
pub mod waits;

use std::sync::Arc;

use leveret_log::{LogId, ReadPlan};
use leveret_queue::{Place, WaitReason, Watermarks};

pub(crate) use self::answers::{AnsweredCalls, AnsweredStream};
pub use self::known::{Placing, Streams, WhenOver};
pub(crate) use self::late::CarriedOut;
pub use self::late::LateStream;
pub use self::local::LocalStream;
pub use self::record::{ControlRecord, Record};
use crate::outbox::Outbox;
use crate::ticket::{Awaited, StreamId};

/// A queue as seen by a commit stream: it has to be applied once a place is reached.
pub trait Apply: Send + Sync {
    /// Applies all messages that are durable, or written if that is enough for this queue.
    fn apply(self: Arc<Self>);
}

/// The recipient of the notification that a place is reached.
pub enum Waiter {
    /// A connection, which then does its work itself.
    Connection(Arc<Outbox>),
    /// A queue whose publisher is gone.
    Queue(Arc<dyn Apply>),
    /// A caller outside the cores. The function is called on a disk thread and must only forward the notification.
    Call(Box<dyn FnOnce() + Send>),
}

/// The places that confirms and order wait for.
pub trait CommitStream: Send + Sync {
    /// Its id.
    fn id(&self) -> StreamId;

    /// False while publishes have to be held back, because too much is in flight.
    fn has_room(&self) -> bool;

    /// Whether clients may publish: it has room, and no alarm of another node holds them back. Only [`has_room`](Self::has_room) counts for
    /// the broker's own messages.
    fn takes_publishers(&self) -> bool {
        self.has_room()
    }

    /// Its watermarks, which confirms and answers wait for. No record of a group is reached before the group is durable as a
    /// whole, nor is anything that came after it: a message that is behind one of the group's in its queue can't be seen
    /// earlier.
    fn watermarks(&self) -> Watermarks;

    /// The watermarks up to which queues apply their messages. They may be ahead of [`CommitStream::watermarks`], never
    /// behind.
    fn progress(&self) -> Watermarks;

    /// The place of the last record that was appended.
    fn appended(&self) -> Place;

    /// Notifies `waiter` when a place is reached, in this call if it is, or when the stream leaves.
    fn notify(&self, awaited: Awaited, waiter: Waiter);

    /// As [`CommitStream::notify`] for callers under a queue's lock: never notifies in this call. If the place is reached
    /// already, the notification comes with the next place that is.
    fn notify_later(&self, awaited: Awaited, waiter: Waiter);

    /// A thread panicked while it changed something that everything depends on, the log or the model: nothing is written any
    /// more, so that nothing is confirmed, and the process ends.
    fn give_up(&self);

    /// Starts the processing of records appended since the last call.
    fn announce(&self);

    /// From now on, records may be appended that only have to be written.
    fn defer_syncs(&self);

    /// The reason why publishes wait while there is no room.
    fn publish_wait(&self) -> WaitReason;

    /// It has left the node: no place is reached any more, and whoever waits for one is notified, now and later.
    fn leave(&self);
}

/// One of the logs of this node's disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct StoreId(pub u16);

impl StoreId {
    /// The first one, which also has the control plane's records.
    pub const FIRST: Self = Self(0);
}

/// A log of this node's disk, which has the messages of queues. It is sought by a queue's log, and knows nothing of confirms.
pub trait Store: Send + Sync {
    /// Its id.
    fn id(&self) -> StoreId;

    /// A plan to read about `bytes` bytes of a log's messages from number `from` on. `None` if there are none.
    fn plan_read(&self, log: LogId, from: u64, bytes: usize) -> Option<ReadPlan>;

    /// Plans to read these messages of a log, runs of first and last number, in this order; each reads about `bytes` bytes at most.
    fn plan_reads_of(&self, log: LogId, numbers: &[(u64, u64)], bytes: usize) -> Vec<ReadPlan>;

    /// Forgets a log whose owner is gone.
    fn forget(&self, log: LogId);
}

/// A shared store.
pub type StoreRef = Arc<dyn Store>;

/// A shared commit stream.
pub type StreamRef = Arc<dyn CommitStream>;
