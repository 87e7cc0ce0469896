//! A reader of a stream: a consumer with a position.

use std::ops::Range;
use std::sync::Arc;

use leveret_message::Batch;
use leveret_message::chunk::SharedChunk;
use leveret_selector::{Budget, Verdict};

use crate::contents::MemoryBudget;
use crate::dispatch::{Comebacks, Consumer, ConsumerOptions};
use crate::filters::StreamFilter;
use crate::ledger::Ledger;
use crate::nanos::Nanos;
use crate::number_set::NumberSet;
use crate::reads::OwnReads;
use crate::records::Run;
use crate::stream::tail::Tail;

/// A reader with fewer bytes than this in memory, by their weight, asks for the next read while it is given the rest.
const READ_AHEAD_BYTES: u64 = 128 << 10;

/// A consumer and its position.
pub(super) struct Reader {
    pub(super) consumer: Consumer,
    /// Messages with lower offsets were delivered to it, or aren't wanted, or were gone when it came to them.
    next: u64,
    /// Messages with lower offsets were read from disk for it: all that it wants of them are in `reads`.
    scanned: u64,
    reads: Reads,
    /// The end of the stream when the last read was asked for. Messages from there on may be stored, but they weren't part of the
    /// stream then: they may be withdrawn, and others may have got their offsets since.
    readable: u64,
    /// Chunks from before this time are skipped up to the first one that isn't, in milliseconds since the Unix epoch.
    since_ms: Option<u64>,
    /// Whether it was given a chunk since it began at its position: from then on a chunk begins where the one before it ended, although
    /// the stored one may begin earlier. Messages that were joined when they were stored are given one by one while they are in memory.
    has_begun: bool,
    filter: Option<Arc<StreamFilter>>,
    tracked: Option<Box<TrackedReader>>,
}

/// Stored messages that were read for a reader, in the form that it takes.
enum Reads {
    Messages(OwnReads),
    Chunks(OwnReads<SharedChunk>),
}

/// One match for each call that doesn't depend on the form.
macro_rules! pass {
    ($reads:expr, $own:ident => $call:expr) => {
        match $reads {
            Reads::Messages($own) => $call,
            Reads::Chunks($own) => $call,
        }
    };
}

impl Reads {
    fn new(whole_chunks: bool) -> Self {
        if whole_chunks { Self::Chunks(OwnReads::default()) } else { Self::Messages(OwnReads::default()) }
    }

    fn is_able(&self) -> bool {
        pass!(self, own => own.is_able())
    }

    fn free_below(&mut self, next: u64) {
        pass!(self, own => own.free_below(next));
    }

    /// The first messages that were read from `offset` on; chunks are none.
    fn messages_from(&self, offset: u64) -> Option<(u64, &Arc<Batch>)> {
        match self {
            Self::Messages(own) => own.from(offset),
            Self::Chunks(_) => None,
        }
    }

    /// The first chunk that was read from `offset` on.
    fn chunk_from(&self, offset: u64) -> Option<(u64, &Arc<SharedChunk>)> {
        match self {
            Self::Messages(_) => None,
            Self::Chunks(own) => own.from(offset),
        }
    }

    /// Forgets what was read, and the read that is under way.
    fn clear(&mut self) {
        *self = Self::new(matches!(self, Self::Chunks(_)));
    }
}

/// Messages that a read has found, in the form that the reader takes.
pub(super) enum Found {
    Messages(Vec<(u64, Arc<Batch>)>),
    Chunks(Vec<(u64, Arc<SharedChunk>)>),
}

/// The part of a reader whose offset the stream keeps.
pub(super) struct TrackedReader {
    name: Arc<str>,
    /// Messages that were delivered to it and aren't settled.
    unsettled: NumberSet,
}

impl TrackedReader {
    /// Notes messages that it settled.
    pub(super) fn settled(&mut self, runs: &[Run]) {
        runs.iter().for_each(|run| self.unsettled.remove_range(run.first, run.last));
    }

    /// Whether nothing is left to settle.
    pub(super) fn has_settled_all(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// The name by which its offset is kept, and the lowest offset that it hasn't settled if `next` is its position.
    pub(super) fn kept_offset(&self, next: u64) -> (Arc<str>, u64) {
        (self.name.clone(), self.unsettled.first().unwrap_or(next))
    }
}

/// The chunks that a reader wants.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// Its filter.
    pub filter: Option<Arc<StreamFilter>>,
    /// Chunks from before this time are skipped up to the first one that isn't, in milliseconds since the Unix epoch.
    pub since_ms: Option<u64>,
    /// Messages from this offset on aren't part of the stream yet; `None` if all that are found are wanted.
    pub end: Option<u64>,
    /// Whether it takes whole chunks, as they are stored.
    pub whole_chunks: bool,
    /// Whether the entries of these may stay in their files.
    pub in_files: bool,
    /// Whether the reader has those messages of the first chunk that come before the offset at which the scan begins.
    pub goes_on: bool,
    /// Offsets without a message, ascending. The store may still have the chunks of a group there that a crash prevented.
    pub gaps: Vec<Range<u64>>,
}

impl Scan {
    /// Whether a chunk that begins at this offset isn't part of the stream.
    pub fn is_gap(&self, offset: u64) -> bool {
        let behind = self.gaps.partition_point(|gap| gap.end <= offset);
        self.gaps.get(behind).is_some_and(|gap| gap.contains(&offset))
    }
}

/// The next messages for a reader.
#[derive(Debug)]
pub(super) enum Next {
    /// `count` messages of a batch from `index` on, the first one with this offset; and when they were submitted, if that is known.
    Found { offset: u64, batch: Arc<Batch>, index: u32, count: u32, submitted: Option<Nanos> },
    /// They have to be read from disk, from this offset on.
    Read(u64),
    /// The work of one turn is done.
    Pause,
    /// There are none.
    End,
}

/// The next chunk for a reader that takes whole ones.
#[derive(Debug)]
pub(super) enum NextChunk {
    /// One that it wants, with the offset of its first message; and when it was submitted, if that is known.
    Found { first: u64, chunk: Arc<SharedChunk>, submitted: Option<Nanos> },
    /// It has to be read from disk, from this offset on.
    Read(u64),
    /// The work of one turn is done.
    Pause,
    /// There is none.
    End,
}

/// The work that a turn may do for messages that the reader doesn't want.
pub(super) struct TurnWork {
    pub(super) wall_ms: u64,
    pub(super) budget: Budget,
    pub(super) chunks: u32,
}

impl TurnWork {
    /// The limits of a turn: well below a millisecond.
    pub(super) fn begin(wall_ms: u64) -> Self {
        Self { wall_ms, budget: Budget::new(4_000), chunks: 1000 }
    }
}

impl Reader {
    pub(super) fn new(options: ConsumerOptions, next: u64, since_ms: Option<u64>, now: Nanos) -> Self {
        let stream = options.stream.as_ref();
        let filter = stream.and_then(|stream| stream.filter.clone());
        let name = stream.and_then(|stream| stream.tracking.clone());
        let whole_chunks = stream.is_some_and(|stream| stream.whole_chunks);
        let tracked = name.map(|name| Box::new(TrackedReader { name, unsettled: NumberSet::default() }));
        let consumer = Consumer::new(options, &Comebacks::default(), now);
        let reads = Reads::new(whole_chunks);
        Self { consumer, next, scanned: 0, reads, readable: 0, since_ms, has_begun: false, filter, tracked }
    }

    /// The offset of the next message that it may get.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Notes messages that were delivered to it, and have to be settled.
    pub(super) fn delivered(&mut self, first: u64, count: u32) {
        if let Some(tracked) = &mut self.tracked
            && count > 0
        {
            tracked.unsettled.insert_range(first, first + u64::from(count) - 1);
        }
    }

    /// Whether the stream keeps its offset.
    pub(super) fn is_tracked(&self) -> bool {
        self.tracked.is_some()
    }

    /// Notes messages that it settled.
    pub(super) fn settled(&mut self, runs: &[Run]) {
        if let Some(tracked) = &mut self.tracked {
            tracked.settled(runs);
        }
    }

    /// The name by which its offset is kept, and the lowest offset that it hasn't settled.
    pub(super) fn kept_offset(&self) -> Option<(Arc<str>, u64)> {
        self.tracked.as_ref().map(|tracked| tracked.kept_offset(self.next))
    }

    /// The deliveries that it has to settle yet, and its position, if it has to settle something and the stream keeps its offset.
    pub(super) fn into_unsettled(self) -> Option<(Box<TrackedReader>, u64)> {
        let next = self.next;
        self.tracked.filter(|tracked| !tracked.has_settled_all()).map(|tracked| (tracked, next))
    }

    /// The chunks that it wants of a stream with these messages.
    pub(super) fn scan(&self, ledger: &Ledger) -> Scan {
        let (filter, gaps) = (self.filter.clone(), ledger.holes());
        let whole_chunks = self.takes_chunks();
        let in_files = self.consumer.options.stream.as_ref().is_some_and(|stream| stream.chunks_in_files);
        let (since_ms, end, goes_on) = (self.since_ms, Some(self.readable), self.has_begun);
        Scan { filter, since_ms, end, whole_chunks, in_files, goes_on, gaps }
    }

    /// Whether it takes whole chunks.
    pub(super) fn takes_chunks(&self) -> bool {
        matches!(self.reads, Reads::Chunks(_))
    }

    /// Moves its position.
    pub(super) fn advance(&mut self, next: u64) {
        self.next = next;
        self.reads.free_below(next);
    }

    /// Notes that it was given a chunk, which ends before this offset.
    pub(super) fn given_chunk(&mut self, next: u64) {
        self.has_begun = true;
        self.advance(next);
    }

    /// Whether it can't go on before a read returns.
    pub(super) fn is_blocked(&self) -> bool {
        !self.reads.is_able() && self.next >= self.scanned
    }

    /// Asks for a read from `offset` on, unless one is under way. `end` is that of the stream.
    pub(super) fn wait_for_read(&mut self, offset: u64, end: u64) -> bool {
        let is_new = self.reads.is_able();
        if is_new {
            self.readable = end;
            pass!(&mut self.reads, own => own.wait(offset));
        }
        is_new
    }

    /// The offset from which to read ahead, before `end`.
    fn read_ahead(&self, tail: &Tail, end: u64) -> Option<u64> {
        let from = self.scanned;
        let has_reads = self.next < from && from < end && self.reads.is_able();
        let weight = pass!(&self.reads, own => own.weight());
        (has_reads && weight < READ_AHEAD_BYTES && tail.find(from).is_none()).then_some(from)
    }

    /// Asks for a read ahead, if it is time for one. Returns the offset from which on.
    pub(super) fn ask_ahead(&mut self, tail: &Tail, end: u64) -> Option<u64> {
        let ahead = self.read_ahead(tail, end)?;
        self.wait_for_read(ahead, end).then_some(ahead)
    }

    /// Goes on from another position: what was read before isn't wanted.
    pub(super) fn begin_at(&mut self, next: u64, since_ms: Option<u64>) {
        self.reads.clear();
        (self.next, self.scanned, self.since_ms, self.has_begun) = (next, 0, since_ms, false);
    }

    /// Sets the position back to messages that it was given and that weren't sent: they are read again.
    pub(super) fn go_back(&mut self, next: u64) {
        if next < self.next {
            // The answer of a read that is under way would be one from behind these messages.
            self.reads.clear();
            (self.next, self.scanned) = (next, 0);
        }
    }

    /// A read has finished, see [`crate::StreamRead`]. False if it doesn't wait for this one.
    pub(super) fn loaded(
        &mut self,
        (from, end): (u64, u64),
        since_ms: Option<u64>,
        found: Found,
        budget: &Arc<MemoryBudget>,
    ) -> bool {
        let readable = self.readable;
        let is_awaited = match (&mut self.reads, found) {
            (Reads::Messages(own), Found::Messages(mut runs)) => {
                runs.retain(|(first, _)| *first < readable);
                own.loaded(from, runs, budget)
            }
            (Reads::Chunks(own), Found::Chunks(mut chunks)) => {
                chunks.retain(|(first, _)| *first < readable);
                own.loaded(from, chunks, budget)
            }
            // A reader waits for what it takes.
            (Reads::Messages(_), Found::Chunks(_)) | (Reads::Chunks(_), Found::Messages(_)) => false,
        };
        if !is_awaited {
            return false;
        }
        self.scanned = end.min(self.readable).max(from);
        self.since_ms = since_ms;
        self.reads.free_below(self.next);
        true
    }

    /// The next messages that it wants: at most `most` of those from `low` to `end`. Its position is in front of them afterwards.
    pub(super) fn find(&mut self, tail: &Tail, (low, end): (u64, u64), most: u32, work: &mut TurnWork) -> Next {
        if self.next < low {
            self.advance(low);
        }
        loop {
            if self.next >= end {
                return Next::End;
            }
            if self.next < self.scanned {
                match self.reads.messages_from(self.next) {
                    Some((first, batch)) if first.max(self.next) < self.scanned => {
                        let offset = first.max(self.next);
                        let index = (offset - first) as u32;
                        let left = u32::try_from(self.scanned - offset).unwrap_or(u32::MAX);
                        let (batch, count) = (batch.clone(), (batch.len() as u32 - index).min(most).min(left));
                        self.next = offset;
                        return Next::Found { offset, batch, index, count, submitted: None };
                    }
                    _ => self.advance(self.scanned),
                }
                continue;
            }
            let Some((first, tail_chunk)) = tail.find(self.next) else { return Next::Read(self.next) };
            let (chunk, submitted) = (tail_chunk.chunk.clone(), tail_chunk.submitted);
            if !self.wants(&chunk) {
                self.advance(first + chunk.len());
                if work.chunks == 0 {
                    return Next::Pause;
                }
                work.chunks -= 1;
                continue;
            }
            // The disk thread decompresses what may become long.
            let Some(batch) = chunk.messages_at_once().cloned() else { return Next::Read(self.next) };
            let index = (self.next - first) as u32;
            match self.wanted(&batch, index, most, work) {
                Ok((index, 0)) => self.advance(first + u64::from(index)),
                Ok((index, count)) => {
                    let offset = first + u64::from(index);
                    self.advance(offset);
                    return Next::Found { offset, batch, index, count, submitted: Some(submitted) };
                }
                Err(index) => {
                    self.advance(first + u64::from(index));
                    return Next::Pause;
                }
            }
        }
    }

    /// The next chunk that it wants, of those from `low` to `end`. Its position is in front of it afterwards, or within it.
    pub(super) fn find_chunk(&mut self, tail: &Tail, (low, end): (u64, u64), work: &mut TurnWork) -> NextChunk {
        if self.next < low {
            self.advance(low);
        }
        loop {
            if self.next >= end {
                return NextChunk::End;
            }
            if self.next < self.scanned {
                match self.reads.chunk_from(self.next) {
                    Some((first, chunk)) if first < self.scanned => {
                        return NextChunk::Found { first, chunk: chunk.clone(), submitted: None };
                    }
                    _ => self.advance(self.scanned),
                }
                continue;
            }
            let Some((first, tail_chunk)) = tail.find(self.next) else { return NextChunk::Read(self.next) };
            let (chunk, submitted) = (tail_chunk.chunk.clone(), tail_chunk.submitted);
            if self.wants(&chunk) {
                return NextChunk::Found { first, chunk, submitted: Some(submitted) };
            }
            self.advance(first + chunk.len());
            if work.chunks == 0 {
                return NextChunk::Pause;
            }
            work.chunks -= 1;
        }
    }

    fn wants(&mut self, chunk: &SharedChunk) -> bool {
        if self.since_ms.is_some_and(|since_ms| chunk.received_ms() < since_ms) {
            return false;
        }
        // Chunks of several publishers, or after a clock was set back, may be in another order than their times.
        self.since_ms = None;
        self.filter.as_ref().is_none_or(|filter| filter.may_match(chunk.bloom()))
    }

    /// The first run of wanted messages from `index` on: its index and its length, which is 0 at the end of the batch. The error is
    /// the index at which the work of the turn is done.
    fn wanted(&self, batch: &Batch, index: u32, most: u32, work: &mut TurnWork) -> Result<(u32, u32), u32> {
        let end = batch.len() as u32;
        let Some(filter) = self.filter.as_ref().filter(|filter| filter.looks_at_messages()) else {
            return Ok((index, (end - index).min(most)));
        };
        let (mut first, mut count) = (index, 0);
        while first + count < end && count < most {
            let at = first + count;
            let verdict = filter.messages.evaluate(batch, at as usize, work.wall_ms, &mut work.budget);
            match verdict.expect("a chunk holds its messages whole") {
                Verdict::Match => count += 1,
                Verdict::NoMatch if count > 0 => break,
                Verdict::NoMatch => first = at + 1,
                Verdict::OutOfBudget if count > 0 => break,
                Verdict::OutOfBudget => return Err(at),
            }
        }
        Ok((first, count))
    }
}
