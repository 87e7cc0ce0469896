//! The WAL files: the current one, the full ones, the next one, and those that can be reused.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::format::Identity;
use crate::format::file_header::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::index::FileIndex;
use crate::names::Name;
use crate::options::Options;
use crate::pin::Pin;
use crate::ring::Ring;
use crate::step::Step;
use crate::store::Segment;
use crate::types::Position;

/// Zeros that one job writes: the most that the commit lane waits for when it needs the file.
const FILL_BYTES: u64 = 1 << 20;
/// Most bytes between two syncs that somebody waits for. With more, zeros cost more than what those syncs take longer.
const BYTES_PER_WAIT_MAX: u64 = 1 << 20;

/// A WAL file.
#[derive(Debug)]
pub(crate) struct WalFile {
    pub sequence: u64,
    pub name: Arc<str>,
    pub kind: FileKind,
    pub identity: Identity,
    /// Its length on disk.
    pub length: u64,
    /// Offset of the next batch; all before it is written.
    pub end: u64,
    /// Offset up to which the file was written before this use, even if only with zeros. After it blocks are only
    /// allocated, so that a sync of bytes written there also waits for the file system's journal, and takes twice as
    /// long.
    pub written: u64,
    /// Syncs of it that somebody waited for.
    pub waits: u64,
    pub index: FileIndex,
    /// Whether a batch in it is durable.
    pub is_begun: bool,
    /// Sequence of the last file that had a durable batch when this one was prepared; 0 if that isn't known.
    pub after: u64,
    /// Position of the last record of its last batch; 0 if it has none.
    pub last_position: Position,
    pub last_batch: u64,
    /// Damage that recovery found in it.
    pub known: Known,
    /// An error of the device kept it from being copied.
    pub is_unreadable: bool,
    /// Cloned by read plans.
    pub pin: Pin,
}

/// Damage of a file that was already reported. Readers skip it in order to reach the records of other logs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Bytes without a batch header, from the offset of an expected batch to the next valid one.
    pub gaps: Vec<Range<u64>>,
    /// Offsets of batches with bad rows.
    pub faulty: Vec<u64>,
}

impl Known {
    /// The offset to continue at if there is no batch at `offset`.
    pub(crate) fn skip(&self, offset: u64) -> Option<u64> {
        self.gaps.iter().find(|gap| gap.start == offset).map(|gap| gap.end)
    }

    /// Notes bytes without a batch header.
    pub(crate) fn note_gap(&mut self, gap: Range<u64>) {
        if self.gaps.iter().all(|known| known.start != gap.start) {
            self.gaps.push(gap);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gaps.is_empty() && self.faulty.is_empty()
    }

    pub(crate) fn is_faulty(&self, batch: u64) -> bool {
        self.faulty.contains(&batch)
    }
}

impl WalFile {
    pub(crate) fn new(options: &Options, sequence: u64, length: u64) -> WalFile {
        WalFile {
            sequence,
            name: options.ring.file(sequence).text(options.wal_id).into(),
            kind: options.ring.file_kind(),
            identity: options.ring.identity(options.node_id, options.wal_id, sequence),
            length,
            end: FILE_HEADER_BYTES,
            written: 0,
            waits: 0,
            is_begun: false,
            after: 0,
            index: FileIndex::default(),
            last_position: 0,
            last_batch: 0,
            known: Known::default(),
            is_unreadable: false,
            pin: Pin::default(),
        }
    }

    pub(crate) fn room(&self) -> u64 {
        self.length - self.end
    }

    pub(crate) fn header(&self) -> FileHeader {
        let header = FileHeader::new(self.kind, &self.identity, self.sequence, self.length);
        FileHeader { batches_in: self.after, ..header }
    }
}

/// All WAL files.
#[derive(Debug)]
pub(crate) struct WalFiles {
    /// Not retired yet, oldest first.
    pub full: VecDeque<WalFile>,
    pub current: WalFile,
    pub spare: Option<WalFile>,
    /// A job is writing zeros to the spare one.
    filling: bool,
    /// The file that a job is preparing.
    preparing: Option<WalFile>,
    preparing_is_new: bool,
    /// Retired files, to be reused or removed once they have no readers.
    pub retired: Vec<WalFile>,
    /// A file that had become a segment, and joins them once the checkpoint and the index that name it are removed.
    returning: Option<WalFile>,
    /// Room in the next file that the commit lane waits for.
    pub wanted: Option<u64>,
    pub next_sequence: u64,
    /// Value of [`Options::fill_after`].
    fill_after: u64,
    /// The last file that was retired became a segment, so that there is none to reuse.
    pub keeps_files: bool,
    /// Number of retired files that are kept for reuse.
    pub kept_max: usize,
}

impl WalFiles {
    pub(crate) fn new(options: &Options, full: VecDeque<WalFile>, current: WalFile) -> WalFiles {
        WalFiles {
            fill_after: options.fill_after,
            keeps_files: false,
            kept_max: 1,
            next_sequence: current.sequence + 1,
            full,
            current,
            spare: None,
            filling: false,
            preparing: None,
            preparing_is_new: false,
            retired: Vec::new(),
            returning: None,
            wanted: None,
        }
    }

    pub(crate) fn unretired(&self) -> usize {
        self.full.len() + 1
    }

    /// Sequence of the oldest file that isn't retired, apart from the `skip` oldest.
    pub(crate) fn floor(&self, skip: usize) -> u64 {
        self.full.get(skip).map_or(self.current.sequence, |file| file.sequence)
    }

    /// Switches to the next file if one with room for a batch of this size is ready.
    pub(crate) fn advance(&mut self, batch: u64) -> bool {
        if self.filling {
            self.wanted = Some(batch);
            return false;
        }
        match self.spare.take() {
            Some(spare) if spare.room() >= batch => {
                let full = std::mem::replace(&mut self.current, spare);
                self.full.push_back(full);
                self.wanted = None;
                true
            }
            spare => {
                // A spare that is too small would come after the larger file: it goes back to the retired ones.
                self.retired.extend(spare);
                self.wanted = Some(batch);
                false
            }
        }
    }

    /// Whether the next batch goes where nothing was written before, after so many bytes that more can be expected.
    fn is_slow(&self) -> bool {
        self.current.end > self.current.written && self.current.end >= self.fill_after
    }

    /// Whether the next file, unlike the current one, was written before, and has room for such a batch.
    pub(crate) fn has_faster(&self, batch: u64) -> bool {
        let is_faster = |spare: &WalFile| spare.written >= spare.length && spare.room() >= batch;
        self.is_slow() && !self.filling && self.spare.as_ref().is_some_and(is_faster)
    }

    /// Whether the next file has to be prepared: one was asked for, half of the current one is used, or the current
    /// one is slow.
    pub(crate) fn wants_spare(&self) -> bool {
        let half_full = self.current.end * 2 > self.current.length;
        // A new file is filled with zeros, which takes its time.
        let is_early = self.keeps_files && self.retired.is_empty() && self.current.end >= self.fill_after;
        let is_time = self.wanted.is_some() || half_full || is_early || self.is_slow();
        self.preparing.is_none() && self.spare.is_none() && is_time
    }

    /// Whether the next file has parts that were never written, there is time to fill them, and somebody waits for the
    /// syncs that this makes faster.
    pub(crate) fn wants_fill(&self) -> bool {
        let is_written = |spare: &WalFile| spare.written >= spare.length;
        let is_soon_needed = self.wanted.is_some() || self.current.room() < self.current.length / 8;
        let is_worth_it = self.current.waits * BYTES_PER_WAIT_MAX >= self.current.end;
        let is_time = is_worth_it && !is_soon_needed && !self.filling;
        is_time && self.spare.as_ref().is_some_and(|spare| !is_written(spare))
    }

    /// The steps that write the next piece of zeros.
    pub(crate) fn fill(&mut self) -> Option<Vec<Step>> {
        if !self.wants_fill() {
            return None;
        }
        let spare = self.spare.as_ref()?;
        self.filling = true;
        let from = spare.written.max(FILE_HEADER_BYTES);
        let count = FILL_BYTES.min(spare.length - from);
        Some(vec![Step::WriteZeros(spare.name.clone(), from..from + count), Step::Sync(spare.name.clone())])
    }

    /// Ends the writing of a piece; if there was no space for it, the rest stays as it is.
    pub(crate) fn filled(&mut self, is_written: bool) {
        self.filling = false;
        if let Some(spare) = &mut self.spare {
            let from = spare.written.max(FILE_HEADER_BYTES);
            spare.written = if is_written { spare.length.min(from + FILL_BYTES) } else { spare.length };
        }
    }

    /// The steps that prepare the next file, if it is time. If there is none to reuse, one is created only if
    /// allowed.
    pub(crate) fn prepare(&mut self, options: &Options, may_create: bool) -> Option<Vec<Step>> {
        if !self.wants_spare() {
            return None;
        }
        let batch = self.wanted.unwrap_or(0);
        let length = options.file_bytes.max(FILE_HEADER_BYTES + batch);
        let fits = |at: &usize| {
            let old = &self.retired[*at];
            old.length == length && old.pin.may_be_written() && self.may_go(options, old)
        };
        let reusable = (0..self.retired.len()).find(fits);
        if reusable.is_none() && !may_create {
            return None;
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let mut file = WalFile::new(options, sequence, length);
        if self.current.is_begun {
            file.after = self.current.sequence;
        }
        let old = reusable.map(|at| self.retired.swap_remove(at));
        file.written = old.as_ref().map_or(0, |old| old.written.max(old.end));
        self.preparing_is_new = old.is_none();
        let mut steps = Vec::new();
        match old {
            Some(old) => {
                #[cfg(feature = "planted-bugs")]
                if options.has_bug(crate::options::Bug::ReuseSalt) || planted!(TakeEarlierUse) {
                    file.identity.salt = old.identity.salt;
                }
                steps.push(Step::Rename(old.name, file.name.clone()));
            }
            None => steps.push(Step::Create(file.name.clone(), length)),
        }
        steps.push(Step::WriteStart(file.name.clone(), file.header().encode().to_vec()));
        steps.push(Step::Sync(file.name.clone()));
        steps.push(Step::SyncDirectory);
        #[cfg(feature = "planted-bugs")]
        if options.has_bug(crate::options::Bug::SkipDirectorySync) {
            steps.pop();
        }
        self.preparing = Some(file);
        Some(steps)
    }

    /// Whether no retired file with records comes before this one. A start finds the files of the entry log by their names, and has to
    /// find records in files that follow each other.
    fn may_go(&self, options: &Options, file: &WalFile) -> bool {
        let has_records = |other: &WalFile| other.end > FILE_HEADER_BYTES && other.sequence < file.sequence;
        options.ring == Ring::Store || file.end <= FILE_HEADER_BYTES || !self.retired.iter().any(has_records)
    }

    /// Gives up preparing the next file. Returns the name of a file that was begun; one that existed before is used
    /// another time.
    pub(crate) fn give_up_preparing(&mut self) -> Option<Arc<str>> {
        let file = self.preparing.take()?;
        if self.preparing_is_new {
            return Some(file.name);
        }
        self.retired.push(file);
        None
    }

    /// Whether a job is preparing the next file.
    pub(crate) fn is_preparing(&self) -> bool {
        self.preparing.is_some() || self.filling
    }

    pub(crate) fn prepared(&mut self) {
        self.spare = self.preparing.take();
    }

    /// Takes back a file that had become a segment and has no live message any more, if it can be used again and there is
    /// no other. Returns whether it did.
    pub(crate) fn take_back(&mut self, options: &Options, segment: &Segment) -> bool {
        let Some(Name::Wal(sequence)) = Name::parse(&segment.name, options.wal_id) else { return false };
        let fits = segment.length == options.file_bytes && segment.pin.may_be_written();
        if !fits || !self.retired.is_empty() || self.returning.is_some() {
            return false;
        }
        let file = WalFile::new(options, sequence, segment.length);
        self.returning = Some(WalFile { written: segment.end, end: segment.end, ..file });
        true
    }

    /// The steps before the reuse of a file are done: nothing refers to it any more.
    pub(crate) fn returned(&mut self) {
        self.retired.extend(self.returning.take());
    }

    /// The steps that remove a retired file that isn't needed: a few are kept for reuse.
    pub(crate) fn discard(&mut self, options: &Options) -> Option<Vec<Step>> {
        let fit = |file: &WalFile| file.length == options.file_bytes && file.pin.may_be_written();
        // The newest ones are kept, since the oldest has to go first.
        let mut surplus = self.retired.iter().filter(|file| fit(file)).count().saturating_sub(self.kept_max);
        let at = self.retired.iter().position(|file| {
            let is_kept = fit(file) && surplus == 0;
            surplus -= usize::from(fit(file) && !is_kept);
            !is_kept && !file.pin.is_shared() && self.may_go(options, file)
        })?;
        let file = self.retired.remove(at);
        let mut steps = vec![Step::Remove(file.name)];
        if options.ring == Ring::Entries {
            // A later file may not go before it is gone for good.
            steps.push(Step::SyncDirectory);
        }
        Some(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (WalFiles, Options) {
        let options = Options { file_bytes: 64 << 10, fill_after: 2000, ..Options::default() };
        let current = WalFile { waits: 1, ..WalFile::new(&options, 1, options.file_bytes) };
        (WalFiles::new(&options, VecDeque::new(), current), options)
    }

    #[test]
    fn the_next_file_is_prepared_when_half_is_used() {
        let (mut files, options) = files();
        assert_eq!(files.prepare(&options, true), None);
        files.current.end = 40_000;
        let steps = files.prepare(&options, true).unwrap();
        assert!(matches!(&steps[0], Step::Create(_, 65_536)));
        assert_eq!(steps.last(), Some(&Step::SyncDirectory));
        assert_eq!(files.prepare(&options, true), None, "one at a time");
        files.prepared();
        assert!(files.advance(60_000));
        assert_eq!((files.current.sequence, files.unretired()), (2, 2));
        assert_eq!((files.floor(0), files.floor(1)), (1, 2));
    }

    #[test]
    fn a_file_that_was_never_written_is_left_for_one_that_was() {
        let (mut files, options) = files();
        files.current.end = 1000;
        assert!(!files.wants_spare(), "a few records aren't a load");
        files.current.end = 2000;
        files.prepare(&options, true).unwrap();
        files.prepared();
        assert!(!files.has_faster(100));
        let steps = files.fill().unwrap();
        assert!(matches!(&steps[0], Step::WriteZeros(_, range) if *range == (FILE_HEADER_BYTES..65_536)), "{steps:?}");
        assert!(matches!(&steps[1], Step::Sync(_)));
        assert!(!files.has_faster(100) && files.fill().is_none(), "it is on its way");
        files.filled(true);
        assert!(files.fill().is_none() && !files.has_faster(65_536) && files.has_faster(60_000));
        assert!(files.advance(60_000));
        files.current.end = 30_000;
        assert!(!files.wants_spare(), "this one is as good as another");
    }

    #[test]
    fn zeros_are_written_where_nothing_was_before() {
        let (mut files, options) = files();
        let mut old = WalFile::new(&options, 0, options.file_bytes);
        old.end = 8192;
        files.retired.push(old);
        files.current.end = 2000;
        files.prepare(&options, true).unwrap();
        files.prepared();
        let steps = files.fill().unwrap();
        assert!(matches!(&steps[0], Step::WriteZeros(_, range) if *range == (8192..65_536)), "{steps:?}");
    }

    #[test]
    fn a_file_is_not_used_while_zeros_are_written_to_it() {
        let (mut files, options) = files();
        files.current.end = 2000;
        files.prepare(&options, true).unwrap();
        files.prepared();
        files.fill().unwrap();
        assert!(!files.advance(100) && files.is_preparing());
        assert_eq!(files.prepare(&options, true), None);
        files.filled(false);
        assert!(!files.is_preparing() && files.fill().is_none(), "without space for zeros it is used as it is");
        assert!(files.advance(100));
    }

    #[test]
    fn a_new_file_is_prepared_early_when_retired_ones_are_kept() {
        let (mut files, _) = files();
        files.current.written = files.current.length;
        files.current.end = 3000;
        assert!(!files.wants_spare());
        files.keeps_files = true;
        assert!(files.wants_spare());
        files.current.end = 1000;
        assert!(!files.wants_spare(), "no load yet");
    }

    #[test]
    fn zeros_are_not_worth_it_if_nobody_waits_for_syncs() {
        let (mut files, options) = files();
        files.current.waits = 0;
        files.current.end = 2000;
        files.prepare(&options, true).unwrap();
        files.prepared();
        assert_eq!(files.fill(), None);
        files.current.waits = 1;
        assert!(files.fill().is_some());
    }

    #[test]
    fn a_file_that_is_needed_soon_is_used_as_it_is() {
        let (mut files, options) = files();
        files.current.end = 60_000;
        files.prepare(&options, true).unwrap();
        files.prepared();
        assert_eq!(files.fill(), None);
    }

    #[test]
    fn a_batch_larger_than_a_file_gets_a_longer_one_in_order() {
        let (mut files, options) = files();
        files.current.end = 40_000;
        files.prepare(&options, true).unwrap();
        files.prepared();
        assert!(!files.advance(100_000));
        let steps = files.prepare(&options, true).unwrap();
        assert!(matches!(&steps[0], Step::Create(_, 100_512)));
        files.prepared();
        assert!(files.advance(100_000));
        assert_eq!(files.current.sequence, 3);
        assert_eq!(files.retired.len(), 1);
    }

    #[test]
    fn retired_files_are_used_again_unless_somebody_reads_them() {
        let (mut files, options) = files();
        files.current.end = 40_000;
        files.retired.push(WalFile::new(&options, 0, options.file_bytes));
        let pin = files.retired[0].pin.clone();
        let steps = files.prepare(&options, true).unwrap();
        assert!(matches!(&steps[0], Step::Create(..)));
        files.prepared();
        files.advance(100);
        files.current.end = 40_000;
        drop(pin);
        let steps = files.prepare(&options, true).unwrap();
        assert!(matches!(&steps[0], Step::Rename(..)));
    }

    #[test]
    fn a_file_that_cant_be_created_is_given_up_an_existing_one_kept() {
        let (mut files, options) = files();
        files.current.end = 40_000;
        assert_eq!(files.prepare(&options, false), None, "there is none to be used again");
        files.prepare(&options, true).unwrap();
        assert_eq!(files.give_up_preparing().as_deref(), Some("wal-0000-0000000000000002"));
        assert!(files.wants_spare());
        files.retired.push(WalFile::new(&options, 0, options.file_bytes));
        assert!(matches!(&files.prepare(&options, false).unwrap()[0], Step::Rename(..)));
        assert_eq!(files.give_up_preparing(), None);
        let steps = files.prepare(&options, false).unwrap();
        assert!(matches!(&steps[0], Step::Rename(from, _) if &**from == "wal-0000-0000000000000003"));
    }

    #[test]
    fn a_file_of_which_parts_were_lent_is_removed() {
        let (mut files, options) = files();
        files.current.end = 40_000;
        files.retired.push(WalFile::new(&options, 0, options.file_bytes));
        let pin = files.retired[0].pin.clone();
        assert_eq!(files.discard(&options), None, "it is being read");
        pin.note_lent();
        drop(pin);
        assert!(matches!(&files.prepare(&options, true).unwrap()[0], Step::Create(..)));
        assert!(matches!(&files.discard(&options).unwrap()[..], [Step::Remove(_)]));
    }

    #[test]
    fn a_file_that_was_a_segment_is_used_again_if_no_other_is() {
        let (mut files, options) = files();
        let segment = |sequence: u64, length| {
            let identity = Identity::wal(0, 0, sequence);
            Segment::new(Name::Wal(sequence).text(0).into(), identity, length, length)
        };
        assert!(!files.take_back(&options, &segment(1, 4096)), "it is too short");
        let lent = segment(1, options.file_bytes);
        lent.pin.note_lent();
        assert!(!files.take_back(&options, &lent));
        assert!(files.take_back(&options, &segment(2, options.file_bytes)));
        assert!(!files.take_back(&options, &segment(3, options.file_bytes)), "one is enough");
        assert!(files.retired.is_empty(), "the checkpoint that names it may still be there");
        files.returned();
        files.current.end = 40_000;
        let steps = files.prepare(&options, true).unwrap();
        assert!(matches!(&steps[0], Step::Rename(from, _) if &**from == "wal-0000-0000000000000002"), "{steps:?}");
        files.prepared();
        assert_eq!(files.fill(), None, "all of it was written before");
    }

    #[test]
    fn one_retired_file_is_kept() {
        let (mut files, options) = files();
        for sequence in [5, 6] {
            files.retired.push(WalFile::new(&options, sequence, options.file_bytes));
        }
        files.retired.push(WalFile::new(&options, 7, 1 << 20));
        assert!(files.discard(&options).is_some());
        assert!(files.discard(&options).is_some());
        assert!(files.discard(&options).is_none());
        assert_eq!(files.retired[0].length, options.file_bytes);
    }
}
