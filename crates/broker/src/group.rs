//! A group: settles and messages of several queues of one commit stream that take effect together or not at all, even after a
//! crash.
//!
//! The queues are visited one after the other, each under its own lock. In memory every settle takes effect at once, and
//! messages wait in their queues until the commit record is durable. There is no rollback: everything that could refuse has to
//! be checked before the first step.
//!
//! A large group stays open over several turns of its core, so that none of them is long. Meanwhile its stream announces no
//! place behind the group's first record ([`crate::streams::CommitStream::watermarks`]), so that nothing may wait for the stream
//! or for its room before the group is closed. One core has one such group of its connections at a time, and one of its
//! deferred work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leveret_log::{GroupId, NewChunk, Wait};
use leveret_queue::{GroupPlace, Place};

use crate::queue_handle::{LocalQueue, Waiting};
use crate::queue_stream::QueueStream;
use crate::remote::Lane;
use crate::shared_messages::SharedMessages;
use crate::streams::{LocalStream, Record};
use crate::ticket::{StreamId, Ticket};
use crate::wait_for::WaitFor;

/// An open group, begun by a caller that has checked that the stream has room.
pub struct Group {
    stream: StreamId,
    /// The same as the one that its records are appended to; `None` before the first.
    records: Option<QueueStream>,
    /// Its id; `None` before the first record.
    id: Option<GroupId>,
    place: Arc<GroupPlace>,
    /// Queues whose dead letters it moves, with the answers that wait until it is durable.
    moving: Vec<(LocalQueue, Vec<Waiting>)>,
    /// The lane that it is said on, and its number there, if its queues are on another node.
    away: Option<(Arc<Lane>, u64)>,
    /// Whether a queue of it has gone to another stream: it isn't carried out as a whole.
    is_broken: bool,
    /// Ranges of the shared log that a queue releases when the group takes effect.
    released: Vec<(Arc<SharedMessages>, u64, u64)>,
}

impl Group {
    /// An empty group of this stream.
    pub fn new(stream: StreamId) -> Self {
        Self {
            stream,
            records: None,
            id: None,
            place: Arc::default(),
            moving: Vec::new(),
            away: None,
            is_broken: false,
            released: Vec::new(),
        }
    }

    /// The stream that it belongs to.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Appends a record of a queue with this stream as part of it.
    pub(crate) fn append(&mut self, to: &QueueStream, record: Record<'_>) -> Ticket {
        self.records.get_or_insert_with(|| to.clone());
        to.append_in(&mut self.id, record)
    }

    /// Appends a chunk of a stream with this log as part of it.
    pub(crate) fn append_chunk(&mut self, to: &Arc<LocalStream>, chunk: &NewChunk<'_>) -> Ticket {
        self.records.get_or_insert_with(|| QueueStream::Log(to.clone()));
        to.append_chunk_in(&mut self.id, chunk)
    }

    /// Its number on a lane; `None` if it was begun on another one, whose link has ended since.
    pub(crate) fn away_in(&mut self, lane: &Arc<Lane>) -> Option<u64> {
        let (on, number) = self.away.get_or_insert_with(|| (lane.clone(), lane.begin_group()));
        Arc::ptr_eq(on, lane).then_some(*number)
    }

    /// A queue of it has gone to another stream: whoever waits for the group hears that it is gone.
    pub(crate) fn break_off(&mut self) {
        self.is_broken = true;
    }

    pub(crate) fn place(&self) -> &Arc<GroupPlace> {
        &self.place
    }

    /// Releases a range of the shared log for a queue once the group is written; before that, a crash brings it back.
    pub(crate) fn release(&mut self, shared: &Arc<SharedMessages>, first: u64, last: u64) {
        self.released.push((shared.clone(), first, last));
    }

    /// Notes that it moves dead letters of `queue`; `waiting` waits for it and for earlier moves.
    pub(crate) fn moves(&mut self, queue: &LocalQueue, waiting: Vec<Waiting>) {
        self.moving.push((queue.clone(), waiting));
    }

    /// Closes it. Returns the condition of its answer, which is nothing if the group has no records.
    pub fn commit(mut self, wait: Wait) -> WaitFor {
        if let Some((lane, number)) = self.away.take() {
            let (ticket, committed) = lane.commit(number);
            let ticket = self.closed(ticket);
            return if self.is_broken { ticket.into() } else { committed };
        }
        self.commit_records(wait).into()
    }

    /// Closes a group of queues of this node. Returns the ticket of its answer.
    pub fn close(mut self, wait: Wait) -> Ticket {
        self.commit_records(wait)
    }

    fn commit_records(&mut self, wait: Wait) -> Ticket {
        let ticket = match self.away.take() {
            Some((lane, number)) => Some(lane.commit(number).0),
            None => self.records.as_ref().zip(self.id.take()).and_then(|(stream, id)| stream.commit_group(id, wait)),
        };
        self.closed(ticket.unwrap_or(Ticket::new(self.stream, Place::NOTHING)))
    }

    /// Its records are committed at this place.
    fn closed(&mut self, ticket: Ticket) -> Ticket {
        self.place.close(ticket.place());
        for (shared, first, last) in std::mem::take(&mut self.released) {
            shared.release(first, last);
        }
        for (queue, waiting) in std::mem::take(&mut self.moving) {
            queue.moved_in(ticket.place(), waiting);
        }
        if self.is_broken { Ticket::new(StreamId::NOBODYS, Place::new(1)) } else { ticket }
    }
}

impl Drop for Group {
    /// The caller panicked. Its steps took effect in memory and can't be taken back, so they are logged, too.
    fn drop(&mut self) {
        if self.id.is_some() || self.away.is_some() || !self.moving.is_empty() {
            self.commit_records(Wait::Lazy);
            if let Some(stream) = &self.records {
                stream.announce();
            }
        }
    }
}

/// The right of a core's connections to a group that stays open over several turns. One has it at a time: confirms wait for
/// every group that is open, and the first of several that are written side by side would be closed hardly earlier than the last.
#[derive(Debug, Default)]
pub struct GroupSlot(AtomicBool);

/// A slot that is taken until this is dropped.
#[derive(Debug)]
pub struct TakenSlot(Arc<GroupSlot>);

impl GroupSlot {
    /// Takes the slot, if it is free. A connection that doesn't get it tries again in its next turn: connections of a core take
    /// turns in a circle, so that the next one after the holder gets it.
    pub fn take(self: &Arc<Self>) -> Option<TakenSlot> {
        (!self.0.swap(true, Ordering::Relaxed)).then(|| TakenSlot(self.clone()))
    }
}

impl Drop for TakenSlot {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}
