//! Scans of a stream's chunks on the reading disk thread, for one reader: it gets the messages that it wants, and is told how far
//! the scan went.

use std::sync::Arc;

use leveret_log::{Disk, Lent, LogId, Skim, Skimmed, StoredMessage};
use leveret_message::chunk::{self, FilePart, Joining, SKIM_BYTES, SharedChunk};
use leveret_message::{Absent, Added, Batch, BatchBuilder};
use leveret_queue::{Scan, StreamFilter};

use crate::streams::StoreRef;

/// A scan ends when it has found chunks of so many bytes.
const FOUND_BYTES: usize = 256 << 10;
/// A scan ends when it has looked at so many bytes, whatever it has found: other reads wait for the thread.
const LOOKED_BYTES: usize = 4 << 20;
/// A chunk that is skipped by its header counts as so many bytes: about what a read of it costs.
const SKIPPED_BYTES: usize = 4 << 10;
/// Shorter chunks are read: a call of the system for each costs more than a copy.
const IN_FILE_BYTES_MIN: u64 = 8 << 10;
/// Chunks of fewer messages are put together: a batch of its own costs more than a copy of these.
const FEW_MESSAGES: usize = 32;

/// The outcome of a scan.
#[derive(Debug)]
pub struct Scanned {
    /// The messages that are wanted, in runs, each with the offset of its first message. The first chunk may begin before the offset
    /// that was asked for.
    pub runs: Vec<(u64, Arc<Batch>)>,
    /// The same for [`Scan::whole_chunks`]; short chunks that follow each other are joined.
    pub chunks: Vec<(u64, Arc<SharedChunk>)>,
    /// The offset behind the last message that was looked at; where the scan began if it found no chunk.
    pub end: u64,
    /// [`Scan::since_ms`] for the next scan: nothing once a chunk was found that isn't older.
    pub since_ms: Option<u64>,
    /// Messages that can't be read and were left out, with the offset of the first of each run.
    pub skipped: Vec<(u64, Absent)>,
}

/// A function that is called with a part of a stream that was searched, or with the reason why it can't be read.
pub(crate) type PassFound = Arc<dyn Fn(Result<Scanned, String>) + Send + Sync>;

/// Messages that are being found.
struct Finding<'a> {
    scan: &'a Scan,
    /// The stream's name.
    name: &'a str,
    /// The offset at which the scan begins.
    from: u64,
    /// Chunks from before this time are skipped, up to the first one that isn't older.
    since_ms: Option<u64>,
    /// The offset up to which all were looked at, and that time for a scan that begins there. Chunks behind it may have been skimmed and
    /// turn out to be damaged.
    end: u64,
    since_ms_at_end: Option<u64>,
    wall_ms: u64,
    runs: Vec<(u64, Arc<Batch>)>,
    chunks: Vec<(u64, Arc<SharedChunk>)>,
    joining: Joining,
    /// Messages of small chunks, and the offset of the first of them.
    few: BatchBuilder,
    few_from: u64,
    /// Messages that can't be read, with the offset of the first of each run.
    skipped: Vec<(u64, Absent)>,
    /// How many of them come before the next message, which says so to its reader.
    skipped_before: u64,
}

/// Scans a stream from offset `from` on. `wall_ms` is the present time in milliseconds since the Unix epoch.
///
/// # Errors
/// A chunk can't be read or is damaged, before any was found.
pub(crate) fn scan(
    (store, log, name): (&StoreRef, LogId, &str),
    from: u64,
    scan: &Scan,
    disk: &dyn Disk,
    wall_ms: u64,
) -> Result<Scanned, String> {
    let mut finding = Finding::new(from, scan, name, wall_ms);
    let (mut found, mut looked) = (0, 0);
    while found < FOUND_BYTES && looked < LOOKED_BYTES {
        let Some(plan) = store.plan_read(log, finding.end, FOUND_BYTES) else { break };
        let mut skipped = 0;
        let read = plan.skim(disk, SKIM_BYTES, |chunk| {
            let decision = finding.skim(&chunk);
            skipped += usize::from(decision == Skim::Skip);
            decision
        });
        let (chunks, seen) = match read {
            Ok((_, seen)) if seen == finding.end => break,
            Ok(read) => read,
            Err(error) if finding.end == from => return Err(error.to_string()),
            // The next scan begins with the error.
            Err(_) => break,
        };
        looked += skipped * SKIPPED_BYTES;
        for chunk in chunks {
            let (weight, behind) = (chunk.weight(), chunk.last() + 1);
            looked += chunk.bytes();
            match finding.look(chunk) {
                Ok(()) => found += weight,
                Err(reason) if finding.end == from => return Err(reason),
                Err(_) => return Ok(finding.finish()),
            }
            finding.reached(behind);
        }
        finding.reached(seen);
    }
    Ok(finding.finish())
}

/// A chunk whose entries stay in their file, of which these are the first bytes.
fn chunk_in(lent: &Lent, head: &[u8]) -> Result<SharedChunk, chunk::ChunkError> {
    let (need, have) = (SKIM_BYTES as u64, head.len() as u64);
    let damaged = chunk::ChunkError::Truncated { part: "head", at: 0, need, have };
    let (header, bloom) = chunk::skim(head).ok_or(damaged)?;
    let length = u32::try_from(lent.length).unwrap_or(u32::MAX);
    SharedChunk::in_file(header, bloom, &FilePart { file: lent.file.clone(), at: lent.at, length })
}

impl<'a> Finding<'a> {
    fn new(from: u64, scan: &'a Scan, name: &'a str, wall_ms: u64) -> Self {
        let since_ms = scan.since_ms;
        let (runs, chunks, joining, few) = (Vec::new(), Vec::new(), Joining::default(), BatchBuilder::default());
        let (end, since_ms_at_end) = (from, since_ms);
        let (few_from, skipped, skipped_before) = (0, Vec::new(), 0);
        Self {
            scan,
            name,
            from,
            since_ms,
            end,
            since_ms_at_end,
            wall_ms,
            runs,
            chunks,
            joining,
            few,
            few_from,
            skipped,
            skipped_before,
        }
    }

    /// All chunks before this offset were looked at.
    fn reached(&mut self, end: u64) {
        (self.end, self.since_ms_at_end) = (end, self.since_ms);
    }

    /// Whether a chunk has to be read, by its header and its Bloom filter. If those are damaged it is read, which tells.
    fn skim(&mut self, chunk: &Skimmed<'_>) -> Skim {
        if self.scan.end.is_some_and(|end| chunk.number >= end) {
            return Skim::Stop;
        }
        // The end of the search for a time mustn't depend on chunks that are stored, and aren't part of the stream.
        if self.scan.is_gap(chunk.number) {
            return Skim::Skip;
        }
        let Some((header, bloom)) = chunk::skim(chunk.bytes) else { return Skim::Take };
        if self.since_ms.is_some_and(|since_ms| header.timestamp_ms.max(0).cast_unsigned() < since_ms) {
            return Skim::Skip;
        }
        self.since_ms = None;
        let filter = self.scan.filter.as_deref();
        match filter.is_none_or(|filter| filter.may_match(bloom)) {
            true if self.may_lend(chunk.number) && header.chunk_bytes() >= IN_FILE_BYTES_MIN => Skim::Lend,
            true => Skim::Take,
            false => Skim::Skip,
        }
    }

    /// Whether the reader has messages of the chunk that begins at this offset.
    fn has_some_of(&self, number: u64) -> bool {
        self.scan.goes_on && number < self.from
    }

    /// Whether the entries of this chunk may stay in their file.
    fn may_lend(&self, number: u64) -> bool {
        self.scan.in_files && !self.has_some_of(number)
    }

    /// Takes the wanted messages of a chunk.
    fn look(&mut self, stored: StoredMessage) -> Result<(), String> {
        let StoredMessage { number, messages, payload, lent } = stored;
        let damaged = |error: chunk::ChunkError| format!("the chunk with message {number}: {error}");
        let wrong_number =
            |found: u64| Err(format!("the chunk with message {number} has {found} messages, expected {messages}"));
        let filter = self.scan.filter.as_deref();
        if self.scan.whole_chunks {
            let chunk = match &lent {
                Some(lent) => chunk_in(lent, &payload),
                None => chunk::of_stored(payload).and_then(SharedChunk::decode),
            };
            let chunk = chunk.map_err(damaged)?;
            if chunk.len() != u64::from(messages) {
                return wrong_number(chunk.len());
            }
            let (first, chunk) = match self.has_some_of(number) {
                true => {
                    let rest = chunk.without_first(self.from - number).map_err(damaged)?;
                    (number + chunk.len() - rest.len(), rest)
                }
                false => (number, chunk),
            };
            self.joining.push(first, chunk, &mut self.chunks);
            return Ok(());
        }
        let bytes = chunk::of_stored(payload).map_err(damaged)?;
        let batch = chunk::decode(&bytes, self.name).map_err(damaged)?;
        if batch.len() != usize::from(messages) {
            return wrong_number(batch.len() as u64);
        }
        match filter.filter(|filter| filter.looks_at_messages()) {
            Some(filter) => self.keep_matches(number, &batch, filter),
            None if !batch.absent().is_empty() => self.keep_readable(number, &batch, |_| true),
            None => self.keep(number, batch),
        }
        Ok(())
    }

    /// Keeps the wanted messages of those that can be read. The first one behind others says how many were skipped.
    fn keep_readable(&mut self, first: u64, batch: &Batch, is_wanted: impl Fn(usize) -> bool) {
        let mut absent = batch.absent().iter().peekable();
        let mut index = 0;
        while index < batch.len() {
            if let Some(gap) = absent.next_if(|gap| gap.first as usize <= index) {
                self.skipped.push((first + u64::from(gap.first), gap.clone()));
                self.skipped_before += u64::from(gap.count);
                index += gap.count as usize;
                continue;
            }
            if is_wanted(index) {
                self.add(first + index as u64, batch, index);
            }
            index += 1;
        }
    }

    fn keep(&mut self, first: u64, batch: Batch) {
        if self.skipped_before > 0 || batch.len() < FEW_MESSAGES && !batch.has_large() {
            (0..batch.len()).for_each(|index| self.add(first + index as u64, &batch, index));
            return;
        }
        self.end_few();
        self.runs.push((first, Arc::new(batch)));
    }

    fn keep_matches(&mut self, first: u64, batch: &Batch, filter: &StreamFilter) {
        let wall_ms = self.wall_ms;
        self.keep_readable(first, batch, |index| {
            filter.messages.is_match(batch, index, wall_ms).expect("a chunk holds its messages whole")
        });
    }

    /// Adds a copy of one message.
    fn add(&mut self, offset: u64, batch: &Batch, index: usize) {
        let is_next = self.few_from + self.few.len() as u64 == offset;
        if !is_next || self.few.is_full() {
            self.end_few();
        }
        if self.few.is_empty() {
            self.few_from = offset;
        }
        match std::mem::take(&mut self.skipped_before) {
            0 => self.few.push_copy(&batch.message(index)),
            skipped => self.few.push_annotated(&batch.message(index), &Added::of_skipped(skipped)),
        }
    }

    fn end_few(&mut self) {
        if !self.few.is_empty() {
            self.runs.push((self.few_from, Arc::new(self.few.finish())));
        }
    }

    fn finish(mut self) -> Scanned {
        self.end_few();
        self.joining.finish(&mut self.chunks);
        let Self { runs, chunks, end, skipped, .. } = self;
        Scanned { runs, chunks, end, since_ms: self.since_ms_at_end, skipped }
    }
}

#[cfg(test)]
mod tests {
    use leveret_message::chunk::{ChunkBuilder, stored_head};

    use super::*;

    /// The beginning of a stored chunk with one message of this time.
    fn head(received_ms: u64) -> Vec<u8> {
        let mut chunk = ChunkBuilder::new(16);
        chunk.push_sections(b"sections", None, received_ms).expect("it is small");
        let chunk = chunk.finish();
        [&stored_head(&chunk)[..], chunk.rest()].concat()
    }

    /// The chunk at `number`, of messages with these bodies, as the store has it.
    fn stored(number: u64, bodies: &[&[u8]]) -> StoredMessage {
        let mut builder = ChunkBuilder::new(16);
        for body in bodies {
            builder.push_sections(body, None, 7).expect("it is small");
        }
        let mut chunk = builder.finish();
        chunk.set_first(number);
        let payload = [&stored_head(&chunk)[..], chunk.rest()].concat();
        StoredMessage { number, messages: bodies.len() as u16, payload: payload.into(), lent: None }
    }

    #[test]
    fn a_reader_that_goes_on_within_a_chunk_gets_the_rest_of_it() {
        let long = [7; 9000];
        for (goes_on, in_files) in [(false, false), (true, false), (true, true)] {
            let scan = Scan { whole_chunks: true, goes_on, in_files, ..Scan::default() };
            let mut finding = Finding::new(12, &scan, "s", 0);
            let first = stored(10, &[b"a", &long, b"c", b"d"]);
            let decision = finding.skim(&Skimmed { number: 10, bytes: &first.payload[..SKIM_BYTES] });
            assert_eq!(decision, Skim::Take, "what it has of it has to be cut off");
            finding.look(first).expect("it is sound");
            finding.look(stored(14, &[&long])).expect("it is sound");
            let chunks = finding.finish().chunks;
            let found: Vec<_> = chunks.iter().map(|(first, chunk)| (*first, chunk.len())).collect();
            assert_eq!(found, if goes_on { [(12, 2), (14, 1)] } else { [(10, 4), (14, 1)] });
            let (_, rest) = &chunks[0];
            assert_eq!(rest.header().check_length(rest.chunk_bytes() as usize), Ok(()));
            assert!(rest.entries().ends_with(b"d") && rest.messages().is_ok_and(|all| all.len() as u64 == rest.len()));
        }
    }

    #[test]
    fn damage_is_found_when_a_part_of_a_chunk_is_cut_off() {
        let scan = Scan { whole_chunks: true, goes_on: true, ..Scan::default() };
        let mut finding = Finding::new(12, &scan, "s", 0);
        let mut chunk = stored(10, &[b"aaaa", b"bbbb", b"cccc"]);
        let mut bytes = chunk.payload.to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        chunk.payload = bytes.into();
        let error = finding.look(chunk).expect_err("a bit is wrong");
        assert!(error.contains("the chunk with message 10"), "{error}");
    }

    #[test]
    fn a_withdrawn_chunk_doesnt_end_the_search_for_a_time() {
        let scan = Scan { since_ms: Some(50), gaps: vec![1..3, 5..6], ..Scan::default() };
        let mut finding = Finding::new(0, &scan, "s", 0);
        // After a crash the clock was set back.
        let chunks = [(0, 10), (1, 60), (3, 20), (4, 50), (5, 70), (6, 20)];
        let decisions = chunks.map(|(number, ms)| finding.skim(&Skimmed { number, bytes: &head(ms) }));
        use Skim::{Skip, Take};
        assert_eq!(decisions, [Skip, Skip, Skip, Take, Skip, Take]);
        finding.reached(7);
        assert_eq!(finding.finish().since_ms, None, "the next scan takes older chunks, too");
    }

    #[test]
    fn a_damaged_chunk_doesnt_end_the_search_for_a_time() {
        let scan = Scan { since_ms: Some(50), ..Scan::default() };
        let mut finding = Finding::new(0, &scan, "s", 0);
        finding.reached(1);
        let skim = |finding: &mut Finding<'_>, number, ms| finding.skim(&Skimmed { number, bytes: &head(ms) });
        assert_eq!([skim(&mut finding, 1, 10), skim(&mut finding, 2, 60)], [Skim::Skip, Skim::Take]);
        // Chunk 2 proves damaged when it is read. The next scan skips chunk 1 again, and ends at the error.
        let Scanned { end, since_ms, .. } = finding.finish();
        assert_eq!((end, since_ms), (1, Some(50)));
    }
}
