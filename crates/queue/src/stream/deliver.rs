//! The turn of a reader.

use std::sync::Arc;

use leveret_message::Batch;
use leveret_message::chunk::{Joined, SharedChunk};

use crate::answers::TurnEnd;
use crate::consumer_id::ConsumerId;
use crate::counts::Count;
use crate::dispatch::{CreditState, Portion};
use crate::effects::{Effects, Signal, Taken};
use crate::nanos::Nanos;
use crate::reads::StreamRead;
use crate::records::AttemptCounts;
use crate::stream::StreamQueue;
use crate::stream::reader::{Found, Next, NextChunk, Reader, Scan, TurnWork};
use crate::stream::tail::Tail;

/// A chunk that was handed to a reader.
#[derive(Debug, Clone)]
pub struct TakenChunk {
    /// Offset of its first message.
    pub first: u64,
    /// The chunk.
    pub chunk: Arc<SharedChunk>,
    /// Whether it is sent as a part of the one before it, and needs no credit.
    pub joins: bool,
}

/// The end of a turn in which chunks were handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkTurn {
    /// Whether the reader has to come again.
    pub end: TurnEnd,
    /// The first offset of the last chunk that is part of the stream.
    pub committed: u64,
}

/// The limits of a turn, and what is left of them.
struct Turn<'a> {
    tail: &'a Tail,
    /// The first offset that is there, and the one behind the last.
    offsets: (u64, u64),
    messages: u32,
    bytes: u64,
    work: TurnWork,
    now: Nanos,
}

impl StreamQueue {
    /// Hands out messages to a scheduled reader: at most this.
    pub fn take(
        &mut self,
        id: ConsumerId,
        most: Portion,
        now: Nanos,
        out: &mut Vec<Taken>,
        effects: &mut Effects,
    ) -> TurnEnd {
        let Portion { messages, bytes } = most;
        let (work, offsets, tail) = (TurnWork::begin(self.wall_ms(now)), self.offsets(), &self.tail);
        let mut turn = Turn { tail, offsets, messages, bytes, work, now };
        let end = offsets.1;
        let before = out.len();
        let outcome = self.readers.update(id, end, effects, |reader| {
            let automatic = reader.consumer.options.automatic_ack;
            let (reads, pauses) = turn.deliver(reader, out);
            let is_able = reader.consumer.is_eligible() && !reader.is_blocked();
            let is_done = !is_able || !pauses && reader.next() >= end;
            if is_done {
                reader.consumer.end_turn_alone(now);
            }
            (automatic, reads, is_done)
        });
        let Some((automatic, reads, is_done)) = outcome else { return TurnEnd::Done };
        reads.into_iter().for_each(|from| effects.rare_mut().own_reads.push((id, from)));
        let taken: u64 = out[before..].iter().map(|taken| u64::from(taken.count)).sum();
        self.count(if automatic { Count::DeliverNoAck } else { Count::Deliver }, taken, now);
        self.free_passed();
        self.keep_offset_of(id, now, effects);
        self.finish_drain(id, effects);
        if is_done { TurnEnd::Done } else { TurnEnd::More }
    }

    /// Hands out whole chunks to a scheduled reader that takes them: about `bytes`, but at least one. Short ones that follow each other
    /// are joined.
    pub fn take_chunks(
        &mut self,
        id: ConsumerId,
        bytes: u64,
        now: Nanos,
        out: &mut Vec<TakenChunk>,
        effects: &mut Effects,
    ) -> ChunkTurn {
        let (work, offsets, tail) = (TurnWork::begin(self.wall_ms(now)), self.offsets(), &self.tail);
        let committed = self.kept.index.last_chunk().unwrap_or(0);
        let mut turn = Turn { tail, offsets, messages: u32::MAX, bytes, work, now };
        let (end, before) = (offsets.1, out.len());
        let outcome = self.readers.update(id, end, effects, |reader| {
            if !reader.takes_chunks() {
                return (None, true);
            }
            let (reads, pauses) = turn.deliver_chunks(reader, out);
            let is_able = reader.consumer.is_eligible() && !reader.is_blocked();
            let is_done = !is_able || !pauses && reader.next() >= end;
            if is_done {
                reader.consumer.end_turn_alone(now);
            }
            (reads, is_done)
        });
        let Some((read, is_done)) = outcome else { return ChunkTurn { end: TurnEnd::Done, committed } };
        read.into_iter().for_each(|from| effects.rare_mut().own_reads.push((id, from)));
        self.count(Count::DeliverNoAck, out[before..].iter().map(|taken| taken.chunk.len()).sum(), now);
        self.free_passed();
        ChunkTurn { end: if is_done { TurnEnd::Done } else { TurnEnd::More }, committed }
    }

    /// Frees memory that all readers have passed.
    pub(super) fn free_passed(&mut self) {
        match self.readers.first_position() {
            Some(position) => self.tail.free_below(position),
            None => self.tail.clear(),
        }
    }

    /// Ends the drain of a reader whose credit is used up, or for which there are no messages.
    pub(super) fn finish_drain(&mut self, id: ConsumerId, effects: &mut Effects) {
        let (_, end) = self.offsets();
        let Some(reader) = self.readers.look(id) else { return };
        let (consumer, available) = (&reader.consumer, self.available(reader.next()));
        if !consumer.draining || consumer.credit() > 0 && available > 0 {
            return;
        }
        let drained = self.readers.update(id, end, effects, |reader| {
            let consumer = &mut reader.consumer;
            consumer.draining = false;
            consumer.use_up_credit();
            let CreditState { delivery_count, available, .. } = consumer.credit_state(available);
            let signal = Signal::Drained { key: consumer.options.key, delivery_count, available };
            (consumer.options.link.clone(), signal)
        });
        effects.signals.extend(drained);
    }

    /// The chunks that a reader wants to be read; `None` if it is gone.
    pub fn scan(&self, id: ConsumerId) -> Option<Scan> {
        self.readers.look(id).map(|reader| reader.scan(&self.ledger))
    }

    /// A read requested by [`crate::RareEffects::own_reads`] has finished.
    pub fn loaded(&mut self, read: StreamRead, runs: Vec<(u64, Arc<Batch>)>, now: Nanos, effects: &mut Effects) {
        self.found(read, Found::Messages(runs), now, effects);
    }

    /// As [`loaded`](Self::loaded), for a reader that takes whole chunks.
    pub fn loaded_chunks(
        &mut self,
        read: StreamRead,
        chunks: Vec<(u64, Arc<SharedChunk>)>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        self.found(read, Found::Chunks(chunks), now, effects);
    }

    fn found(&mut self, read: StreamRead, found: Found, now: Nanos, effects: &mut Effects) {
        let StreamRead { reader: id, from, end: scanned, since_ms } = read;
        let (low, end) = self.offsets();
        let budget = self.tail.budget().clone();
        let is_empty = scanned <= from && (low..end).contains(&from);
        let live = self.ledger.live_run(from).map_or(end, |(first, _)| first);
        // The store has nothing between two live messages: a group that a crash prevented had these offsets. They count as scanned. The
        // reader may still have messages before them to deliver, so its position stays.
        let scanned = if is_empty { live } else { scanned };
        let is_there = self.readers.update(id, end, effects, |reader| {
            let is_awaited = reader.loaded((from, scanned), since_ms, found, &budget);
            if is_awaited {
                reader.consumer.changed = now;
            }
            is_awaited
        });
        if is_there == Some(true) && is_empty && live == from {
            self.fail(format!("message {from} is not in its message store"), effects);
            return;
        }
        self.finish_drain(id, effects);
    }
}

impl Turn<'_> {
    /// Gives a reader whole chunks. Returns as [`Turn::deliver`] does.
    fn deliver_chunks(&mut self, reader: &mut Reader, out: &mut Vec<TakenChunk>) -> (Option<u64>, bool) {
        let (_, end) = self.offsets;
        let (mut read, mut pauses, mut bytes_left) = (None, false, self.bytes);
        let mut joined: Option<Joined> = None;
        while bytes_left > 0 {
            let has_credit = reader.consumer.is_eligible();
            if !has_credit && joined.is_none() {
                break;
            }
            match reader.find_chunk(self.tail, self.offsets, &mut self.work) {
                NextChunk::Found { first, chunk, submitted } => {
                    let joins = joined.as_mut().is_some_and(|joined| joined.join(first, &chunk));
                    if !joins {
                        if !has_credit {
                            break;
                        }
                        reader.consumer.handed(1);
                        joined = Joined::new(first, &chunk);
                    }
                    bytes_left = bytes_left.saturating_sub(chunk.chunk_bytes());
                    reader.given_chunk(first + chunk.len());
                    if let Some(submitted) = submitted {
                        reader.consumer.record_latency(self.now.saturating_sub(submitted), chunk.len());
                    }
                    out.push(TakenChunk { first, chunk, joins });
                }
                // Not for a chunk that may need credit.
                NextChunk::Read(_) if !has_credit => break,
                NextChunk::Read(from) => {
                    read = reader.wait_for_read(from, end).then_some(from);
                    break;
                }
                NextChunk::Pause => {
                    pauses = true;
                    break;
                }
                NextChunk::End => break,
            }
        }
        let read = read.or_else(|| reader.ask_ahead(self.tail, end));
        (read, pauses)
    }

    /// Gives a reader messages. Returns the offset of a read that it needs, and whether it has to go on in another turn although it
    /// found nothing.
    fn deliver(&mut self, reader: &mut Reader, out: &mut Vec<Taken>) -> (Option<u64>, bool) {
        let (_, end) = self.offsets;
        if !reader.consumer.is_eligible() {
            return (None, false);
        }
        let most = self.messages.min(reader.consumer.credit());
        let (mut left, mut bytes_left) = (most, self.bytes);
        let (mut read, mut pauses) = (None, false);
        while left > 0 && bytes_left > 0 {
            let (offset, batch, index, count, submitted) =
                match reader.find(self.tail, self.offsets, left, &mut self.work) {
                    Next::Found { offset, batch, index, count, submitted } => (offset, batch, index, count, submitted),
                    Next::Read(from) => {
                        read = reader.wait_for_read(from, end).then_some(from);
                        break;
                    }
                    Next::Pause => {
                        pauses = true;
                        break;
                    }
                    Next::End => break,
                };
            let attempts = AttemptCounts::default();
            let mut taken = Taken { batch, index, count, first: offset, redelivered: false, attempts, durable: false };
            let size = taken.clip(bytes_left);
            left -= taken.count;
            bytes_left = taken.left_of(bytes_left, size);
            reader.advance(offset + u64::from(taken.count));
            if !reader.consumer.options.automatic_ack {
                reader.delivered(offset, taken.count);
            }
            if let Some(submitted) = submitted {
                let elapsed = self.now.saturating_sub(submitted);
                reader.consumer.record_latency(elapsed, u64::from(taken.count));
            }
            out.push(taken);
        }
        let read = read.or_else(|| reader.ask_ahead(self.tail, end));
        let count = most - left;
        if !reader.consumer.options.automatic_ack {
            reader.consumer.unacknowledged += count;
        }
        reader.consumer.handed(count);
        (read, pauses)
    }
}
