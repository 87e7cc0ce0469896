//! Work on many things at once that was begun and isn't finished.

use std::collections::{VecDeque, btree_map, hash_map};
use std::sync::Arc;

use leveret_model::QueueId;
use rustc_hash::FxHashMap;

use super::channel::Channel;
use super::held::Answer;
use super::run::RunOnItsWay;
use super::tx::Committing;
use leveret_broker::settlement::Settlement;
use leveret_session::fan_out::FanOut;
use leveret_session::gone::GoneAt;

/// A piece of work that was begun and isn't finished.
pub(crate) enum Unfinished {
    /// Handing a run to many queues.
    FanOut(RunOnItsWay, Box<FanOut>),
    /// Settling deliveries of a channel.
    Settling(Settling),
    /// Committing a transaction.
    Commit(Box<Committing>),
    /// Ending a channel.
    Channel(EndingChannel),
    /// Ending the connection.
    Connection(EndingConnection),
}

/// The work that a connection has begun, in the order in which it is done.
#[derive(Default)]
pub(crate) struct UnfinishedWork {
    queue: VecDeque<Unfinished>,
}

impl UnfinishedWork {
    /// Adds a piece of work, behind all others.
    pub(super) fn add(&mut self, unfinished: Unfinished) {
        self.queue.push_back(unfinished);
    }

    /// Takes out the piece that is done next.
    pub(super) fn take_first(&mut self) -> Option<Unfinished> {
        self.queue.pop_front()
    }

    /// Puts back the first piece, of which something is left.
    pub(super) fn put_first(&mut self, unfinished: Unfinished) {
        self.queue.push_front(unfinished);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the connection is ending.
    pub(super) fn ends_connection(&self) -> bool {
        self.queue.iter().any(|unfinished| matches!(unfinished, Unfinished::Connection(_)))
    }

    /// Whether deliveries of a channel are being settled, or its transaction is being committed.
    pub(super) fn is_settling(&self, number: u16) -> bool {
        self.queue.iter().any(|unfinished| match unfinished {
            Unfinished::Settling(settling) => settling.channel == number,
            Unfinished::Commit(committing) => committing.channel() == number,
            _ => false,
        })
    }

    /// Takes out a channel's next settlement.
    pub(super) fn take_settling(&mut self, number: u16) -> Option<Settling> {
        let is_its = |other: &Unfinished| matches!(other, Unfinished::Settling(other) if other.channel == number);
        let at = self.queue.iter().position(is_its)?;
        match self.queue.remove(at) {
            Some(Unfinished::Settling(settling)) => Some(settling),
            _ => None,
        }
    }
}

pub(crate) struct Settling {
    pub channel: u16,
    /// The last delivery-tag to settle.
    pub up_to: u64,
    pub settlement: Settlement,
    /// `basic.recover-ok` is sent afterwards.
    pub recover_ok: bool,
}

/// A channel that is ending and that frames no longer reach: its consumers are removed, its deliveries requeued in
/// place.
pub(crate) struct EndingChannel {
    channel: Box<Channel>,
    /// Keys of its consumers.
    consumers: btree_map::IntoIter<Arc<[u8]>, u64>,
    /// The time from which on the queues that are deleted with it are gone.
    gone_at: GoneAt,
    /// The answer to the client. None if the broker closed the channel, as its close was sent already.
    answer: Option<Answer>,
}

impl EndingChannel {
    pub(super) fn new(mut channel: Box<Channel>, answer: Option<Answer>) -> Self {
        let consumers = channel.take_consumers();
        Self { channel, consumers, gone_at: GoneAt::default(), answer }
    }

    /// The channel, without its consumers.
    pub(super) fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// Takes out the key of the consumer that is removed next.
    pub(super) fn next_consumer(&mut self) -> Option<u64> {
        self.consumers.next().map(|(_, key)| key)
    }

    /// A queue is deleted with it, and gone from then on.
    pub(super) fn deletes(&mut self, gone_at: GoneAt) {
        self.gone_at.and(gone_at);
    }

    /// Takes the time from which on the queues that were deleted with it so far are gone.
    fn take_gone_at(&mut self) -> GoneAt {
        std::mem::take(&mut self.gone_at)
    }

    /// The time from which on the queues that were deleted with it are gone, and the answer that is sent then.
    pub(super) fn into_answer(self) -> (GoneAt, Option<Answer>) {
        (self.gone_at, self.answer)
    }
}

/// A connection that is ending with everything that it owns.
pub(crate) struct EndingConnection {
    answer: Option<Answer>,
    gone_at: GoneAt,
    /// None until earlier unfinished work is done.
    left: Option<Remains>,
}

/// The parts of a connection that are left to end.
struct Remains {
    /// The channel that is being ended.
    channel: Option<EndingChannel>,
    channels: hash_map::IntoIter<u16, Box<Channel>>,
    /// The first id of the exclusive queues that are left; none if no more are.
    exclusive_queues: Option<QueueId>,
}

/// A channel that is ended next, of a connection that is ending.
pub(super) enum NextChannel {
    /// Something of it was ended before.
    Begun(EndingChannel),
    /// Nothing of it was.
    New(u16, Box<Channel>),
}

impl EndingConnection {
    pub(super) fn new(answer: Option<Answer>) -> Self {
        Self { answer, gone_at: GoneAt::default(), left: None }
    }

    /// Whether its parts have begun to end.
    pub(super) fn has_begun(&self) -> bool {
        self.left.is_some()
    }

    /// Its parts begin to end: these channels, and exclusive queues from this id on.
    pub(super) fn begin(&mut self, channels: FxHashMap<u16, Box<Channel>>, exclusive_queues: Option<QueueId>) {
        self.left = Some(Remains { channel: None, channels: channels.into_iter(), exclusive_queues });
    }

    /// Takes out the channel that is ended next.
    pub(super) fn next_channel(&mut self) -> Option<NextChannel> {
        let left = self.left.as_mut()?;
        match left.channel.take() {
            Some(begun) => Some(NextChannel::Begun(begun)),
            None => left.channels.next().map(|(number, channel)| NextChannel::New(number, channel)),
        }
    }

    /// A part of a channel has ended. What is left of it comes next.
    pub(super) fn channel_ended(&mut self, mut channel: EndingChannel, is_done: bool) {
        self.gone_at.and(channel.take_gone_at());
        if let Some(left) = &mut self.left {
            left.channel = Some(channel).filter(|_| !is_done);
        }
    }

    /// The id from which on its exclusive queues are deleted; none if no more are left.
    pub(super) fn next_queue(&mut self) -> Option<&mut QueueId> {
        self.left.as_mut()?.exclusive_queues.as_mut()
    }

    /// Some of its exclusive queues are deleted, and gone from then on; without that, no more are left.
    pub(super) fn queues_deleted(&mut self, gone_at: Option<GoneAt>) {
        match (gone_at, &mut self.left) {
            (Some(gone_at), _) => self.gone_at.and(gone_at),
            (None, Some(left)) => left.exclusive_queues = None,
            (None, None) => {}
        }
    }

    /// Whether all of its parts have ended.
    pub(super) fn is_done(&self) -> bool {
        let is_empty =
            |left: &Remains| left.channel.is_none() && left.channels.len() == 0 && left.exclusive_queues.is_none();
        self.left.as_ref().is_some_and(is_empty)
    }

    /// The time from which on all queues that were deleted with it are gone, and the answer that is sent then.
    pub(super) fn into_answer(self) -> (GoneAt, Option<Answer>) {
        (self.gone_at, self.answer)
    }
}
