//! A stream: a log that many read, again and again. Its messages have offsets, which are the numbers of the queue from 0 on.
//! Reading takes nothing away; retention removes the oldest messages, by bytes and by age.
//!
//! Messages come in chunks, as RabbitMQ's stream protocol has them: all that were submitted together. The caller logs each chunk as
//! one record, so that it is there as a whole or not at all.

mod consume;
mod copy;
mod deliver;
mod end;
mod groups;
mod offered;
mod reader;
mod readers;
mod retention;
mod shown;
#[cfg(test)]
mod sizes;
mod tail;
mod timers;

use std::ops::Range;
use std::sync::Arc;

use leveret_message::chunk::SharedChunk;
use leveret_model::QueueOptions;

pub use self::deliver::{ChunkTurn, TakenChunk};
use self::groups::Groups;
pub use self::offered::OfferedChunk;
pub use self::reader::Scan;
use self::readers::Readers;
use self::retention::Retention;
use self::tail::Tail;
use crate::answers::{QueueState, Submission};
use crate::counts::{Count, QueueCounts};
use crate::deadlines::Deadlines;
use crate::effects::Effects;
use crate::epoch::Epoch;
use crate::ledger::Ledger;
use crate::nanos::Nanos;
use crate::pending::{Awaited, ChunkPlacement, Pending, PendingForm, PendingMessages, Place, Watermarks};
use crate::planted::{Bug, is_planted};
use crate::publishers::HeldPublishers;
use crate::replica::{Parts, Replica};
use crate::shared::References;
use crate::stream_state::{StreamState, WriterRun};
use crate::surroundings::Surroundings;

/// A chunk that was submitted and isn't part of the stream yet.
struct PendingChunk {
    chunk: Arc<SharedChunk>,
    /// It is stored as part of the chunk before it.
    is_joined: bool,
    /// Its publisher and the number of its last message, if it has a name.
    writer: Option<Box<(Arc<str>, u64)>>,
}

/// A chunk as it is stored, with those that became part of it.
struct StoredChunk {
    first: u64,
    bytes: u64,
    at_ms: u64,
}

/// Its messages are never looked at one by one: only messages that will be delayed are.
impl PendingForm for PendingChunk {
    fn body_length(&self, _index: usize) -> u32 {
        0
    }
}

/// The outcome of [`StreamQueue::submit_chunk`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkSubmission {
    /// Its messages have these offsets.
    Accepted(Submission),
    /// Messages of its publisher up to this number were submitted before. Nothing was done: the caller offers a chunk without them.
    Behind(u64),
    /// The stream has failed.
    Refused,
}

/// A queue of type stream.
pub struct StreamQueue {
    state: QueueState,
    /// Whether its deletion is on its way to disk.
    is_closed: bool,
    /// Wall time of monotonic zero.
    epoch: Epoch,
    pending: PendingMessages<PendingChunk>,
    /// The offsets that are there, and the bytes of their chunks.
    ledger: Ledger,
    kept: StreamState,
    retention: Retention,
    /// The deadlines that the owner of the timers knows.
    announced: Deadlines,
    tail: Tail,
    readers: Readers,
    groups: Groups,
    /// Always empty: a stream stores its chunks itself.
    references: References,
    /// Time when its last chunk was published, or when it became empty.
    published: Nanos,
    /// Time of the last change of its readers.
    changed: Nanos,
    held_publishers: HeldPublishers,
    counts: QueueCounts,
}

impl StreamQueue {
    /// A stream that begins with this replica.
    pub fn new(options: QueueOptions, replica: Replica, surroundings: Surroundings, now: Nanos) -> Self {
        let Replica { mut ledger, parts: Parts { stream: mut kept, .. }, .. } = replica;
        let Surroundings { budget, epoch, .. } = surroundings;
        ledger.start_counting();
        kept.index.trim((ledger.low(), ledger.next()), ledger.bytes());
        Self {
            retention: Retention::new(&options),
            state: QueueState::Running,
            is_closed: false,
            epoch,
            pending: PendingMessages::new(ledger.next() + u64::from(is_planted(Bug::SkipOffset) && ledger.next() > 0)),
            ledger,
            kept,
            announced: Deadlines::NONE,
            tail: Tail::new(budget),
            readers: Readers::default(),
            groups: Groups::default(),
            references: References::default(),
            published: now,
            changed: now,
            held_publishers: HeldPublishers::default(),
            counts: QueueCounts::default(),
        }
    }

    /// Whether it is running, failed or deleted.
    pub fn state(&self) -> &QueueState {
        &self.state
    }

    /// Number of messages.
    pub fn ready(&self) -> u64 {
        self.ledger.len()
    }

    /// Number of readers.
    pub fn consumer_count(&self) -> usize {
        self.readers.len()
    }

    fn wall_ms(&self, now: Nanos) -> u64 {
        self.epoch.wall_ms(now)
    }

    /// The first offset that is there, and the one behind the last.
    fn offsets(&self) -> (u64, u64) {
        (self.ledger.low(), self.ledger.next())
    }

    /// Number of messages that are there from this position on. Offsets of a group that a crash prevented have none.
    fn available(&self, next: u64) -> u64 {
        self.ledger.live_count(next)
    }

    /// Phase one: reserves offsets for the `count` messages of a chunk. `None` if the stream is closed.
    pub fn submit_chunk(&mut self, count: u32, writer: Option<&WriterRun>, now: Nanos) -> Option<ChunkSubmission> {
        if self.is_closed {
            return None;
        }
        if self.state != QueueState::Running {
            return Some(ChunkSubmission::Refused);
        }
        if let Some(writer) = writer {
            if let Some(last) = self.kept.writers.submitted(&writer.name).filter(|last| *last >= writer.first) {
                return Some(ChunkSubmission::Behind(last));
            }
            self.kept.writers.submit(writer, self.wall_ms(now));
        }
        self.count(Count::Publish, u64::from(count), now);
        Some(ChunkSubmission::Accepted(Submission { first: self.pending.reserve(count), accepted: count }))
    }

    /// Sets the place of a chunk.
    pub fn submitted_chunk(
        &mut self,
        submission: Submission,
        offered: OfferedChunk<'_>,
        placement: ChunkPlacement<'_>,
        submitted: Nanos,
        effects: &mut Effects,
    ) {
        let (Submission { first, accepted: count }, OfferedChunk { chunk, writer }) = (submission, offered);
        assert!(u64::from(count) == chunk.len(), "a stream takes whole chunks");
        let is_joined = matches!(placement, ChunkPlacement::Joined(_)) && !is_planted(Bug::CountJoinedTwice);
        let place = match placement {
            ChunkPlacement::At(place) | ChunkPlacement::Joined(place) => Awaited::At(place),
            ChunkPlacement::In(group) => Awaited::Group(group.clone()),
        };
        // Header and filter of a joined chunk are those of the one before.
        let bytes = if is_joined { u64::from(chunk.header().data_length) } else { chunk.chunk_bytes() };
        let delayed = Vec::new();
        let writer = writer.map(|writer| Box::new((writer.name.clone(), writer.last)));
        let batch = PendingChunk { chunk: chunk.clone(), is_joined, writer };
        let pending =
            Pending { place, first, batch, index: 0, count, bytes, awaited: 0, durable: true, submitted, delayed };
        if self.pending.is_empty() && pending.place.is_reached(Watermarks::default()) {
            let stored = self.admit(pending);
            self.note_stored(Some(stored));
            self.after_growth(submitted, effects);
            return;
        }
        self.pending.push(pending);
    }

    /// Phase two: all chunks that its commit stream has written become part of the stream; those of a group have to be durable.
    pub fn apply(&mut self, reached: Watermarks, effects: &mut Effects) {
        let (mut newest, mut stored) = (None, None);
        self.pending.begin(reached);
        while let Some(pending) = self.pending.pop_reached(reached) {
            newest = Some(pending.submitted);
            let is_joined = pending.batch.is_joined;
            let chunk = self.admit(pending);
            match &mut stored {
                // They have the same place, so that all of a record comes in one call.
                Some(StoredChunk { bytes, .. }) if is_joined => *bytes += chunk.bytes,
                _ => self.note_stored(stored.replace(chunk)),
            }
        }
        self.note_stored(stored);
        if let Some(submitted) = newest {
            self.after_growth(submitted, effects);
        }
    }

    /// Makes a chunk part of the stream, all but the index. Returns what the index says of it.
    fn admit(&mut self, pending: Pending<PendingChunk>) -> StoredChunk {
        let Pending { first, batch, count, bytes, submitted, .. } = pending;
        let PendingChunk { chunk, writer, .. } = batch;
        self.ledger.accept(first, u64::from(count), bytes);
        let stored = StoredChunk { first, bytes, at_ms: chunk.received_ms() };
        if let Some(writer) = writer {
            let (name, last) = *writer;
            self.kept.writers.apply(&name, last, chunk.received_ms());
        }
        // Readers may also wait for an offset that isn't there yet.
        let is_wanted = self.readers.first_position().is_some_and(|position| position < self.ledger.next());
        if self.state == QueueState::Running && is_wanted {
            self.tail.push(first, chunk, submitted);
        }
        self.published = submitted;
        stored
    }

    fn note_stored(&mut self, chunk: Option<StoredChunk>) {
        if let Some(StoredChunk { first, bytes, at_ms }) = chunk {
            self.kept.index.add(first, bytes, at_ms, self.retention.size());
        }
    }

    fn after_growth(&mut self, now: Nanos, effects: &mut Effects) {
        if self.state != QueueState::Running {
            return;
        }
        self.retain(now, effects);
        let (_, end) = self.offsets();
        self.readers.schedule_waiting(end, effects);
    }

    /// Withdraws messages that were submitted and aren't applied. Returns their offsets, which are reused.
    pub fn withdraw(&mut self) -> Range<u64> {
        self.kept.writers.withdraw();
        self.pending.withdraw()
    }

    /// See [`crate::Queue::pending_place`].
    pub fn pending_place(&self) -> Option<Place> {
        self.pending.last_place().map_or(Some(Place::NOTHING), Awaited::place)
    }

    /// Whether unapplied messages are part of a group.
    pub fn awaits_group(&self) -> bool {
        self.pending.awaits_group()
    }

    /// Counts `count` more, before the numbers of messages change by it.
    fn count(&mut self, what: Count, count: u64, now: Nanos) {
        self.counts.add(what, count, self.lengths(), now);
    }
}
