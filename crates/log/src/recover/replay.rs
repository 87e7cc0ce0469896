//! Replays the WAL files in order, and judges batches that don't fit.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::certain::DoubtfulBatch;
use super::groups::{Arrival, OpenGroups};
use super::metadata::Trail;
use super::{Covered, Cut, Damage, Hit, Numbers, Replay, Report, write_file};
use crate::disk::{self, Disk, READS_MAX, Repeated};
use crate::error::{DiskError, StorageError};
use crate::format::batch::{BATCH_HEADER_BYTES, BatchHeader, FLAG_CLOSING, FLAG_RESTART, RecordRun};
use crate::format::batch_check::{self, Batch};
use crate::format::closed::Closed;
use crate::format::file_header::{FILE_HEADER_BYTES, FileHeader};
use crate::format::record::{self, Record, RecordKind};
use crate::format::{SECTOR, is_zero, u64_at};
use crate::metadata::MetadataStart;
use crate::options::Options;
use crate::ring::Ring;
use crate::scan::{Wanted, Window, find_batch};
use crate::types::{JointRecord, LogId, Position, SettleReason};
use crate::wal::WalFile;

/// Sequence of the first WAL file of a directory, which begins with the first batch.
const FIRST_FILE: u64 = 1;
/// Bytes put aside of a batch whose length can't be read.
const CUT_BYTES_MAX: u64 = 1 << 20;
/// Size of the chunks in which files are read, unless a batch is larger: where batches are small, system calls cost
/// more than checksums.
const CHUNK_BYTES: usize = 256 << 10;

/// An invalid batch. The data after it decides its meaning:
///
/// - Nothing, or only batches that were written before it was durable: a power cut tore it.
/// - A batch with the same sequence: an earlier recovery decided so.
/// - A later batch: it was durable once and is damaged.
struct Doubt {
    file: String,
    offset: u64,
    /// End of the bad bytes as far as known.
    end: u64,
    /// The batch, if its header is valid.
    batch: Option<(Batch, Bytes)>,
    /// Otherwise its run table, if that is whole.
    runs: Option<Vec<RecordRun>>,
    /// All of it could be read. Unreadable bytes aren't the result of a power cut.
    is_readable: bool,
}

/// The place of a record in the log.
struct RecordPlace<'a> {
    /// The bytes of its batch.
    bytes: &'a Bytes,
    run: &'a RecordRun,
    /// Index in the run.
    index: u64,
    position: Position,
    /// Whether the position is the record's own. Behind a bad row it is the highest possible one.
    is_exact: bool,
}

/// The end of the log.
pub(super) struct Replayed {
    /// The WAL files in use.
    pub files: VecDeque<WalFile>,
    /// Position of the last record.
    pub position: Position,
    /// Sequence of the last batch.
    pub batch: u64,
    pub metadata: MetadataStart,
}

pub(super) struct Replaying<'a> {
    disk: &'a dyn Disk,
    options: &'a Options,
    covered: &'a FxHashMap<LogId, Covered>,
    files: VecDeque<WalFile>,
    /// Position of the last record taken.
    position: Position,
    sequence: u64,
    closed: bool,
    doubt: Option<Doubt>,
    groups: OpenGroups,
    trail: Trail,
    /// The last batches taken that weren't durable when the last one was written. None is damaged.
    doubtful: VecDeque<DoubtfulBatch>,
    /// The last batch that a clean stop recorded as durable, and the sequence of its file.
    pub last_closed: (u64, u64),
    window: Window,
    /// WAL files that begin with the first batch after a start, and its sequence.
    pub restarts: Vec<(u64, u64)>,
    /// Whether valid records in a run with invalid ones are replayed too. A start doesn't, because readers can't
    /// reach them.
    pub takes_rest: bool,
    /// Whether a batch was found that closed the log.
    pub has_closed: bool,
    /// Contradictions and missing metadata are passed over.
    pub salvages: bool,
    /// Sequence of the very first batch found.
    pub first_found: Option<u64>,
    /// Whether the first batch found is in the very first file of the directory, so that those before it were in that file, too.
    pub is_first_file: bool,
    /// Batches are missing, as if they had been retired.
    pub has_gap: bool,
    /// The last file that had a durable batch when another file was prepared, and that file's name.
    pub named_by: Option<(u64, String)>,
    /// The damage of the batches before the first one found, if there was none of their bytes.
    before_first: Option<Damage>,
    /// Number of damages in the report when the last batch was taken. Later ones come between it and the next batch.
    reported: usize,
}

impl<'a> Replaying<'a> {
    pub(super) fn new(
        disk: &'a dyn Disk,
        options: &'a Options,
        covered: &'a FxHashMap<LogId, Covered>,
        position: Position,
        sequence: u64,
    ) -> Replaying<'a> {
        Replaying {
            disk,
            options,
            covered,
            files: VecDeque::new(),
            position,
            sequence,
            // All batches may be retired: only a directory that never had one counts as closed without a closing
            // batch.
            closed: sequence == 0,
            doubt: None,
            groups: OpenGroups::new(options),
            trail: Trail::new(covered.get(&LogId::METADATA).map_or(0, |covered| covered.position)),
            doubtful: VecDeque::new(),
            last_closed: (0, 0),
            window: Window::default(),
            restarts: Vec::new(),
            takes_rest: false,
            has_closed: false,
            salvages: false,
            first_found: None,
            is_first_file: false,
            has_gap: false,
            named_by: None,
            before_first: None,
            reported: 0,
        }
    }

    /// Sequence of the last batch taken.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Position of the last record taken.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// All damage, apart from that of batches that aren't there because their files were retired.
    pub(super) fn damage_behind_first(&self, report: &Report) -> Vec<Damage> {
        report.damaged.iter().filter(|damage| self.before_first.as_ref() != Some(damage)).cloned().collect()
    }

    /// Replays a file; `next` is its successor.
    pub(super) fn file(
        &mut self,
        sequence: u64,
        next: Option<u64>,
        report: &mut Report,
        replay: &mut dyn Replay,
    ) -> Result<(), StorageError> {
        let mut file = WalFile::new(self.options, sequence, 0);
        file.length = disk::length(self.disk, &file.name)?;
        let damages = report.damaged.len();
        self.window = Window::default();
        let header_damage = self.check_file_header(&file)?;
        let mut offset = FILE_HEADER_BYTES;
        while offset + BATCH_HEADER_BYTES as u64 <= file.length {
            let (bytes, is_whole, header) = self.fetch_header(&file, offset)?;
            match header {
                // An earlier start put them aside, and what was confirmed since is in later files.
                Some(header)
                    if self.restarts.iter().any(|(file, first)| *file > sequence && *first <= header.sequence) =>
                {
                    break;
                }
                Some(header) if header.sequence <= self.sequence && !planted!(TakeEarlierUse) => {
                    if offset == FILE_HEADER_BYTES && !self.salvages {
                        let (found, last) = (header.sequence, self.sequence);
                        return Err(StorageError::Order { file: file.name.to_string(), found, last });
                    }
                    break;
                }
                Some(header) if self.is_torn_before(&file, next, offset, &header)? => break,
                Some(header) => {
                    offset = self.batch(&mut file, offset, &header, report, replay)?;
                    if self.doubt.is_none() && header.flags & FLAG_CLOSING != 0 {
                        break;
                    }
                }
                None => match self.later_batch(&file, offset)? {
                    Some((later, header)) => {
                        let is_second = self.is_in_doubt(&file);
                        if !is_second {
                            self.doubt_header(&file, offset, later)?;
                        }
                        if self.is_torn_before(&file, next, later, &header)? {
                            break;
                        }
                        if is_second {
                            self.doubt_header(&file, offset, later)?;
                        }
                        file.known.note_gap(offset..later);
                        offset = later;
                    }
                    None if !is_whole => {
                        // Whether there was a batch can't be told.
                        let range = offset..offset + BATCH_HEADER_BYTES as u64;
                        let reason = "the bytes can't be read, and nothing valid follows";
                        report.damaged.push(Damage::new(&file.name, range, Hit::Any, reason));
                        break;
                    }
                    None => {
                        let expected = self.sequence + 1;
                        if self.doubt.is_none() && BatchHeader::resembles(&bytes, &file.identity, expected) {
                            let end = file.length.min(offset + CUT_BYTES_MAX);
                            self.doubt_header(&file, offset, end)?;
                        }
                        break;
                    }
                },
            }
        }
        let is_in_doubt = self.is_in_doubt(&file);
        if file.last_batch != 0 || is_in_doubt || report.damaged.len() > damages {
            // Without a batch it was a spare file, whose preparation was interrupted while its header was written.
            report.damaged.extend(header_damage);
            self.files.push_back(file);
        }
        Ok(())
    }

    /// Notes where an earlier start went on with a new file: from the sequence of its first batch on, no earlier file counts.
    pub(super) fn note_restarts(&mut self, files: impl Iterator<Item = u64>) -> Result<(), DiskError> {
        for sequence in files {
            if let (.., Some(first)) = self.first_header(sequence)?
                && first.flags & FLAG_RESTART != 0
            {
                self.restarts.push((sequence, first.sequence));
            }
        }
        self.window.forget();
        Ok(())
    }

    /// A file, the bytes of its first batch's header, and that header if it is valid.
    fn first_header(&mut self, sequence: u64) -> Result<(WalFile, Bytes, Option<BatchHeader>), DiskError> {
        let mut file = WalFile::new(self.options, sequence, 0);
        file.length = disk::length(self.disk, &file.name)?;
        self.window.forget();
        let (bytes, _, header) = self.fetch_header(&file, FILE_HEADER_BYTES)?;
        self.window.forget();
        Ok((file, bytes, header))
    }

    /// Begins with the first batch that is found, as files before it were used again.
    pub(super) fn find_beginning(&mut self, files: &[u64]) -> Result<(), DiskError> {
        // The sequence that the bytes before it claim, if they look like those of a batch.
        let mut before = None;
        for sequence in files {
            let (file, bytes, header) = self.first_header(*sequence)?;
            let is_first = header.is_some();
            if !is_first && BatchHeader::resembles(&bytes, &file.identity, u64::MAX) {
                before = Some(u64_at(&bytes, 32));
            }
            let header = match header {
                None => self.later_batch(&file, FILE_HEADER_BYTES)?.map(|(_, header)| header),
                header => header,
            };
            let Some(header) = header else { continue };
            // An earlier start put a torn batch aside and used its sequence again. Any other bytes before the first batch were one.
            let was_put_aside = is_first && header.flags & FLAG_RESTART != 0 && before == Some(header.sequence);
            let missing = !is_first || before.is_some() && !was_put_aside;
            self.sequence = header.sequence.saturating_sub(if missing { 2 } else { 1 });
            self.position = header.first_position - 1;
            self.closed = false;
            return Ok(());
        }
        Ok(())
    }

    /// Whether there is an invalid last batch, and it is in this file.
    fn is_in_doubt(&self, file: &WalFile) -> bool {
        self.doubt.as_ref().is_some_and(|doubt| *doubt.file == *file.name)
    }

    /// The bytes, with zeros for unreadable ones, and whether all were readable. They were read this often `before`.
    fn fetch(&mut self, file: &WalFile, offset: u64, length: usize, before: u32) -> Result<(Bytes, bool), DiskError> {
        let disk = Repeated { disk: self.disk, before };
        match self
            .window
            .fetch(&disk, Wanted { file: &file.name, end: file.length, offset, length, chunk: CHUNK_BYTES })
        {
            Err(error) if error.is_unreadable() => {
                let (bytes, is_whole) = disk::read_around(self.disk, &file.name, offset, length)?;
                Ok((bytes.into(), is_whole))
            }
            bytes => Ok((bytes?, true)),
        }
    }

    /// As [`Self::fetch`], with what `look` finds in the bytes. Reads up to three times until it says that they are right,
    /// because a read with wrong bytes may succeed the next time.
    fn fetch_right<T>(
        &mut self,
        file: &WalFile,
        offset: u64,
        length: usize,
        look: impl Fn(&Bytes) -> (T, bool),
    ) -> Result<(Bytes, bool, T), DiskError> {
        let mut reads = 1;
        loop {
            let (bytes, is_whole) = self.fetch(file, offset, length, reads - 1)?;
            let (found, is_right) = look(&bytes);
            if is_right || reads == READS_MAX {
                return Ok((bytes, is_whole, found));
            }
            self.window.forget();
            reads += 1;
        }
    }

    /// The bytes at `offset`, whether all of them were readable, and the header if they are one.
    fn fetch_header(&mut self, file: &WalFile, offset: u64) -> Result<(Bytes, bool, Option<BatchHeader>), DiskError> {
        let room = file.length.saturating_sub(offset);
        self.fetch_right(file, offset, BATCH_HEADER_BYTES, |bytes| {
            let header = BatchHeader::decode(bytes, &file.identity, room);
            // The end of the batches is often right before bytes that were never written, or those of an earlier use of the file.
            let is_right = header.is_some() || is_zero(bytes) || BatchHeader::is_of_another_use(bytes, &file.identity);
            (header, is_right)
        })
    }

    /// Whether a power cut may have torn the doubtful batch although batches of the file follow it, the first at
    /// `later`. This is so if all of them were written before it was durable, and no later file proves that it was.
    /// Then nothing from it on counts, as if it had been the last.
    fn is_torn_before(
        &mut self,
        file: &WalFile,
        next: Option<u64>,
        later: u64,
        header: &BatchHeader,
    ) -> Result<bool, DiskError> {
        let expected = self.sequence + 1;
        let is_readable = self.doubt.as_ref().is_some_and(|doubt| doubt.is_readable);
        if !self.is_in_doubt(file) || !is_readable || header.sequence <= expected {
            return Ok(false);
        }
        let mut found = Some((later, *header));
        let mut end = later;
        while let Some((at, header)) = found {
            if header.first_unsynced() > expected {
                return Ok(false);
            }
            end = at + header.padded_bytes();
            found = match self.fetch_header(file, end)?.2 {
                Some(header) if header.sequence > expected => Some((end, header)),
                _ => find_batch(self.disk, &file.name, &file.identity, end, file.length, expected)?,
            };
        }
        if self.was_file_durable(file, next, expected)? {
            return Ok(false);
        }
        if let Some(doubt) = &mut self.doubt {
            doubt.end = end;
        }
        Ok(true)
    }

    /// Whether all of a file was durable, including the batch `expected`. A file is durable before the next one
    /// begins, unless that begins with the same sequence because an earlier recovery cut this file here. It is also
    /// durable after a clean stop.
    fn was_file_durable(&mut self, file: &WalFile, next: Option<u64>, expected: u64) -> Result<bool, DiskError> {
        if let Some(next) = next {
            let mut next = WalFile::new(self.options, next, 0);
            next.length = disk::length(self.disk, &next.name)?;
            self.window.forget();
            let (_, _, first) = self.fetch_header(&next, FILE_HEADER_BYTES)?;
            self.window.forget();
            if let Some(first) = first {
                return Ok(first.sequence > expected);
            }
        }
        let (closed_batch, closed_file) = self.last_closed;
        Ok(closed_file == file.sequence && expected <= closed_batch)
    }

    fn check_file_header(&mut self, file: &WalFile) -> Result<Option<Damage>, StorageError> {
        let (bytes, _, header) = self.fetch_right(file, 0, FILE_HEADER_BYTES as usize, |bytes| {
            let header = FileHeader::decode(bytes);
            let is_right = header.is_some() || is_zero(bytes);
            (header, is_right)
        })?;
        match header {
            Some(header) if header.node_id != self.options.node_id => {
                Err(StorageError::WrongNode { found: header.node_id, expected: self.options.node_id })
            }
            // The header of an earlier use: the file was renamed, and the power failed before the new header was
            // written.
            Some(header) if header.kind == self.options.ring.file_kind() => {
                let is_later = |(named, _): &(u64, String)| *named < header.batches_in;
                if header.sequence == file.sequence
                    && header.batches_in > 0
                    && self.named_by.as_ref().is_none_or(is_later)
                {
                    self.named_by = Some((header.batches_in, file.name.to_string()));
                }
                Ok(None)
            }
            None if is_zero(&bytes) => Ok(None),
            _ => {
                let nobody = Hit::Logs(Vec::new());
                Ok(Some(Damage::new(&file.name, 0..FILE_HEADER_BYTES, nobody, "the file header is wrong")))
            }
        }
    }

    /// Takes a batch with a valid header, or treats it as doubtful. Returns the offset of the next one.
    fn batch(
        &mut self,
        file: &mut WalFile,
        offset: u64,
        header: &BatchHeader,
        report: &mut Report,
        replay: &mut dyn Replay,
    ) -> Result<u64, DiskError> {
        let is_first = self.first_found.is_none();
        if is_first {
            (self.first_found, self.is_first_file) = (Some(header.sequence), file.sequence == FIRST_FILE);
        }
        // If the sequence is the expected one, nothing is missing: an earlier recovery cut the doubtful batch.
        let doubt = self.doubt.take().filter(|_| header.sequence > self.sequence + 1);
        let place = doubt.as_ref().filter(|doubt| doubt.batch.is_none());
        let place = place.map(|doubt| (doubt.file.clone(), doubt.offset..doubt.end));
        if let Some(doubt) = doubt {
            self.damage(doubt, file, report, replay);
        }
        if header.sequence > self.sequence + 1 {
            let is_before_first = is_first && place.is_none();
            let gap = self.gap(file, offset, header.sequence, place);
            if is_before_first {
                self.before_first = Some(gap.clone());
            }
            report.damaged.push(gap);
            self.sequence = header.sequence - 1;
            self.has_gap = true;
        }
        let length = header.padded_bytes();
        let (bytes, is_readable, checked) = self.fetch_right(file, offset, length as usize, |bytes| {
            let batch = batch_check::check(bytes, &file.identity);
            let is_right = batch.as_ref().is_some_and(|batch| batch.faults.is_empty());
            (batch, is_right)
        })?;
        match checked {
            Some(batch) if batch.faults.is_empty() || planted!(AcceptTornBatch) => {
                self.take(file, offset, &batch, &bytes, report, replay);
            }
            Some(batch) => {
                self.doubt = Some(Doubt {
                    file: file.name.to_string(),
                    offset,
                    end: offset + length,
                    batch: Some((batch, bytes)),
                    runs: None,
                    is_readable,
                });
            }
            None => self.doubt_header(file, offset, offset + length)?,
        }
        Ok(offset + length)
    }

    /// The damage of batches that are missing before the batch `next` at `offset`. Bytes before it without a batch header may have had
    /// them.
    fn gap(&self, file: &WalFile, offset: u64, next: u64, place: Option<(String, Range<u64>)>) -> Damage {
        let missing = format!("batches {} to {} are missing", self.sequence + 1, next - 1);
        match (place, self.files.back().filter(|_| file.last_batch == 0)) {
            (Some((name, range)), _) if *name == *file.name => {
                Damage::new(&name, range, Hit::Any, format!("{missing} here"))
            }
            (Some((name, range)), _) => {
                let reason = format!("{missing} from here on up to the beginning of {}", file.name);
                Damage::new(&name, range, Hit::Any, reason)
            }
            (None, Some(before)) => {
                let (batch, name, end) = (before.last_batch, &before.name, before.end);
                let reason = format!("{missing} before this place: {name} ends with batch {batch} at byte {end}");
                Damage::new(&file.name, offset..offset, Hit::Any, reason)
            }
            (None, None) => Damage::new(&file.name, offset..offset, Hit::Any, format!("{missing} before this place")),
        }
    }

    fn doubt_header(&mut self, file: &WalFile, offset: u64, end: u64) -> Result<(), DiskError> {
        let length = (end - offset).min(CUT_BYTES_MAX * 64) as usize;
        let (bytes, is_readable) = disk::read_around(self.disk, &file.name, offset, length)?;
        let (runs, whole) = batch_check::runs_behind_bad_header(&bytes, &file.identity, self.sequence + 1);
        if whole && self.first_found.is_none() {
            // The sums of its rows belong to this sequence.
            (self.first_found, self.is_first_file) = (Some(self.sequence + 1), file.sequence == FIRST_FILE);
        }
        let (file, runs) = (file.name.to_string(), whole.then_some(runs));
        self.doubt = Some(Doubt { file, offset, end, batch: None, runs, is_readable });
        Ok(())
    }

    /// Reports the doubtful batch as damage, because later batches follow it.
    fn damage(&mut self, doubt: Doubt, file: &mut WalFile, report: &mut Report, replay: &mut dyn Replay) {
        let Some((batch, bytes)) = doubt.batch else {
            // Readers and retirements have to pass over it, too.
            let gap = doubt.offset..doubt.end;
            let place = if *doubt.file == *file.name { Some(&mut *file) } else { self.files.back_mut() };
            if let Some(place) = place.filter(|place| *place.name == *doubt.file) {
                place.known.note_gap(gap);
            }
            let damage = Damage::new(&doubt.file, doubt.offset..doubt.end, Hit::Any, "a batch header is wrong");
            report.damaged.push(match &doubt.runs {
                Some(runs) => damage.with_runs(runs),
                None => damage,
            });
            self.sequence += 1;
            return;
        };
        self.groups.damaged_before = Some(report.damaged.len());
        for fault in &batch.faults {
            let mut damage = Damage::of_fault(&doubt.file, doubt.offset, batch.header.bytes(), fault);
            let is_hit = |run: &&RecordRun| Some(run.log) == fault.log && run.kind.is_numbered();
            let mut hit = batch.faulty.iter().map(|(run, _)| run).filter(is_hit).peekable();
            // A start takes nothing of these runs, whatever is whole in them.
            if !self.takes_rest && hit.peek().is_some() {
                damage.messages = hit.map(Numbers::of_run).collect();
            }
            report.damaged.push(damage);
        }
        if *doubt.file == *file.name {
            file.known.faulty.push(doubt.offset);
            self.take(file, doubt.offset, &batch, &bytes, report, replay);
        } else if let Some(mut before) = self.files.pop_back() {
            // The file of the doubtful batch is the last one before this one.
            debug_assert_eq!(*before.name, *doubt.file);
            before.known.faulty.push(doubt.offset);
            self.take(&mut before, doubt.offset, &batch, &bytes, report, replay);
            self.files.push_back(before);
        }
        self.groups.damaged_before = None;
    }

    fn take(
        &mut self,
        file: &mut WalFile,
        offset: u64,
        batch: &Batch,
        bytes: &Bytes,
        report: &mut Report,
        replay: &mut dyn Replay,
    ) {
        let header = &batch.header;
        if header.flags & FLAG_RESTART != 0 {
            // Groups that the previous process left open were never committed.
            self.groups.withdraw_all(report, replay);
        }
        let is_exact = self.follow_metadata(file, offset, batch, report);
        let records_at = offset + header.prefix_bytes();
        let rows = batch.rows.iter().map(|row| Some(*row));
        let mut runs: Vec<_> = batch.runs.iter().zip(rows).zip(batch.positions.iter().copied()).collect();
        if self.takes_rest {
            runs.extend(batch.faulty.iter().map(|(run, position)| ((run, None), *position)));
            runs.sort_by_key(|((run, _), _)| run.offset);
        }
        for ((run, row), position) in runs {
            if let Some(row) = row.filter(|_| self.options.ring == Ring::Store) {
                file.index.note_run(offset, records_at, row as usize, run);
            }
            replay.run(file.sequence, records_at + u64::from(run.offset));
            if run.kind.holds_messages() {
                replay.stands(run.log, run.first, run.last());
            }
            for (i, record) in (0..).zip(batch.records_left(run, bytes)) {
                let Some(record) = record else { continue };
                let place = RecordPlace { bytes, run, index: i, position: position + i, is_exact };
                self.replay_record(&place, &record, report, replay);
            }
        }
        let is_whole = batch.faults.is_empty() && bytes.len() as u64 == header.padded_bytes();
        while self.doubtful.pop_front_if(|batch| batch.sequence < header.first_unsynced()).is_some() {}
        if is_whole {
            let (sequence, file, bytes) = (header.sequence, file.name.clone(), bytes.clone());
            self.doubtful.push_back(DoubtfulBatch { sequence, file, offset, bytes });
        }
        file.end = offset + header.padded_bytes();
        file.last_batch = header.sequence;
        file.last_position = header.last_position();
        self.sequence = header.sequence;
        self.position = header.last_position();
        self.closed = header.flags & FLAG_CLOSING != 0;
        self.has_closed |= self.closed;
        self.reported = report.damaged.len();
    }

    /// Notes which metadata records before this batch and in it can't be read, and what the batch says of those before it.
    /// Returns whether the positions of its records are exact.
    fn follow_metadata(&mut self, file: &WalFile, offset: u64, batch: &Batch, report: &Report) -> bool {
        let header = &batch.header;
        if header.first_position > self.position + 1 {
            let mut places = self.places_since(report);
            if places.is_empty() {
                places.push((file.name.to_string(), offset..offset));
            }
            self.trail.suspect(self.position + 1, header.first_position - 1, places, report.damaged.len());
        }
        self.trail.mark(header.metadata_mark);
        let in_file = |fault: &batch_check::Fault| offset + fault.range.start..offset + fault.range.end;
        let is_of_table =
            |fault: &&batch_check::Fault| fault.log.is_none() && fault.range.start < header.prefix_bytes();
        if let Some(fault) = batch.faults.iter().find(is_of_table) {
            let places = vec![(file.name.to_string(), in_file(fault))];
            self.trail.suspect(header.first_position, header.last_position(), places, report.damaged.len());
            return false;
        }
        let is_metadata = |run: &RecordRun| run.log == LogId::METADATA && run.kind == RecordKind::Control;
        let place = batch.faults.iter().find(|fault| fault.log == Some(LogId::METADATA)).map(in_file);
        for (run, position) in batch.faulty.iter().filter(|(run, _)| is_metadata(run)) {
            let place = place.clone().unwrap_or(offset..offset);
            let places = vec![(file.name.to_string(), place)];
            self.trail.suspect(*position, *position + run.records() - 1, places, report.damaged.len());
        }
        true
    }

    /// Damaged places since the last batch, which may have had metadata.
    fn places_since(&self, report: &Report) -> Vec<(String, Range<u64>)> {
        let since = report.damaged.iter().skip(self.reported).filter(|damage| damage.logs.may_be(LogId::METADATA));
        let mut places: Vec<_> = since.map(|damage| (damage.file.clone(), damage.range.clone())).collect();
        places.dedup();
        places
    }

    /// Hands on the metadata that was held back.
    ///
    /// # Errors
    /// Metadata is lost: no copy of it can be read.
    fn hand_on_metadata(&mut self, report: &mut Report, replay: &mut dyn Replay) -> Result<(), StorageError> {
        let mut places: Vec<Damage> = Vec::new();
        for place in self.trail.lost().flat_map(|lost| lost.with_second_copies(&report.damaged)) {
            if places.iter().all(|known| known.place() != place.place()) {
                places.push(place);
            }
        }
        if !places.is_empty() && !self.salvages && self.options.ring == Ring::Store {
            return Err(StorageError::Metadata { places });
        }
        for (kind, payload) in self.trail.held() {
            report.replayed += 1;
            replay.control(LogId::METADATA, kind, payload);
        }
        report.metadata_mended += self.trail.mended();
        Ok(())
    }

    /// Replays a record.
    fn replay_record(
        &mut self,
        place: &RecordPlace<'_>,
        record: &Record<'_>,
        report: &mut Report,
        replay: &mut dyn Replay,
    ) {
        let RecordPlace { bytes, run, index, position, is_exact } = *place;
        let covered = self.covered.get(&run.log).copied().unwrap_or_default();
        let covered = match covered {
            _ if planted!(ReplayTwice) => Covered::default(),
            Covered { next, position: 1.. } if planted!(ForgetSettlesAfterCheckpoint) => {
                Covered { next, position: Position::MAX }
            }
            covered => covered,
        };
        let is_new = match run.kind {
            // All messages of a reference record or chunk came into their log together.
            RecordKind::Message | RecordKind::References | RecordKind::Chunk => run.first + index >= covered.next,
            // The state of its log says nothing about the group's other logs.
            RecordKind::GroupCommit => true,
            RecordKind::Filler => return,
            // It is about records before it.
            RecordKind::Copies => {
                if !self.trail.second_copies(record.payload) {
                    report.damaged.push(unknown("copies", run.log, position));
                }
                return;
            }
            _ => position > covered.position,
        };
        if !is_new {
            return;
        }
        report.replayed += 1;
        match run.kind {
            RecordKind::Message => {
                let number = run.first + index;
                if let Some(slot) = record.group {
                    let message = Arrival::Message(number, bytes.slice_ref(record.payload));
                    self.groups.arrived(slot, position, (run.log, message), report);
                }
                replay.message(run.log, number, record.payload);
            }
            RecordKind::Chunk => {
                if let Some(slot) = record.group {
                    let chunk = Arrival::Chunk(run.first, run.count, bytes.slice_ref(record.payload));
                    self.groups.arrived(slot, position, (run.log, chunk), report);
                }
                replay.chunk(JointRecord {
                    log: run.log,
                    first: run.first,
                    messages: run.count,
                    payload: record.payload,
                });
            }
            RecordKind::References => replay.references(JointRecord {
                log: run.log,
                first: run.first,
                messages: run.count,
                payload: record.payload,
            }),
            RecordKind::Control
                if run.log == LogId::METADATA
                    && !self.trail.first_copy(position, is_exact, record.detail, record.payload) => {}
            RecordKind::Control => replay.control(run.log, record.detail, record.payload),
            RecordKind::Close | RecordKind::Copies | RecordKind::Filler => {}
            RecordKind::Settle => self.settle(run.log, position, record, report, replay),
            RecordKind::GroupCommit if record.payload.len() == 8 => {
                let first = u64_at(record.payload, 0);
                self.groups.commit(record.group.unwrap_or_default(), first, report, replay);
            }
            RecordKind::GroupCommit => report.damaged.push(unknown("group commit", run.log, position)),
        }
    }

    fn settle(
        &mut self,
        log: LogId,
        position: Position,
        record: &Record<'_>,
        report: &mut Report,
        replay: &mut dyn Replay,
    ) {
        let reason = SettleReason::from_code(record.detail);
        match (reason, record::decode_ranges(record.payload), record.group) {
            (Some(reason), Some(ranges), None) => replay.settle(log, reason, &ranges),
            (Some(reason), Some(ranges), Some(slot)) => {
                self.groups.settle(slot, position, (log, reason, ranges), report);
            }
            _ => report.damaged.push(unknown("settle", log, position)),
        }
    }

    /// Searches for a later batch of the same use of the file after bad bytes.
    fn later_batch(&self, file: &WalFile, offset: u64) -> Result<Option<(u64, BatchHeader)>, DiskError> {
        find_batch(self.disk, &file.name, &file.identity, offset + SECTOR, file.length, self.sequence)
    }

    /// A clean stop recorded that the log went further: the doubtful batch was durable, and missing ones are lost.
    pub(super) fn must_reach(&mut self, closed: &Closed, report: &mut Report, replay: &mut dyn Replay) {
        if closed.batch <= self.sequence {
            return;
        }
        self.was_durable(report, replay);
        if closed.batch > self.sequence {
            let name = self.options.ring.file(closed.file).text(self.options.wal_id);
            let end = self.end();
            let at = match (end.as_ref(), disk::length(self.disk, &name)) {
                (Some((file, _)), _) if *file == name => String::new(),
                (_, Ok(_)) => format!(" at the end of {name}, in which there is no batch"),
                (_, Err(_)) => format!(" at the end of {name}, which is missing"),
            };
            let (first, last) = (self.sequence + 1, closed.batch);
            let reason = format!(
                "batches {first} to {last} are missing: the log ends here with record {}, and the last clean stop left batch {last} \
                 with record {}{at}",
                self.position, closed.position
            );
            let (file, range) = end.unwrap_or((name, 0..0));
            report.damaged.push(Damage::new(&file, range, Hit::Any, reason));
        }
        if closed.position > self.position {
            let places = self.places_since(report);
            self.trail.suspect(self.position + 1, closed.position, places, report.damaged.len());
        }
        self.trail.mark(closed.metadata_mark);
        self.sequence = self.sequence.max(closed.batch);
        self.position = self.position.max(closed.position);
    }

    /// States in the checkpoint reflect records only once they are durable: the log went at least as far. Whatever is missing up to
    /// there was lost, and new records may not take its positions, since a later replay would pass over them.
    pub(super) fn must_reach_states(&mut self, report: &mut Report, replay: &mut dyn Replay) {
        let reached = self.covered.values().map(|covered| covered.position).max().unwrap_or(0);
        if reached <= self.position {
            return;
        }
        self.was_durable(report, replay);
        if reached > self.position {
            let missing = self.position + 1;
            let reason = format!(
                "the records {missing} to {reached}, which states in the checkpoint reflect, are missing: the log ends here with batch \
                 {}",
                self.sequence
            );
            let (file, range) = self.end().unwrap_or_default();
            report.damaged.push(Damage::new(&file, range, Hit::Any, reason));
            let places = self.places_since(report);
            self.trail.suspect(missing, reached, places, report.damaged.len());
            // So later starts see the gap, too.
            self.sequence += 1;
            self.position = reached;
        }
    }

    /// The file in which the log ends, and what is behind its last batch there.
    fn end(&self) -> Option<(String, Range<u64>)> {
        let last = self.files.back()?;
        Some((last.name.to_string(), last.end..last.length.max(last.end)))
    }

    /// Whether this file has a batch, or damage.
    pub(super) fn is_in_use(&self, sequence: u64) -> bool {
        let is_there = |file: &WalFile| file.sequence == sequence && (file.last_batch > 0 || !file.known.is_empty());
        self.files.iter().any(is_there)
    }

    /// This file had a durable batch: if its first one is in doubt, that is damage.
    pub(super) fn was_begun(&mut self, sequence: u64, report: &mut Report, replay: &mut dyn Replay) {
        let is_first = |file: &WalFile| file.sequence == sequence && file.last_batch == 0 && self.is_in_doubt(file);
        if self.files.back().is_some_and(is_first) {
            self.was_durable(report, replay);
        }
    }

    /// The last batch is damaged, not torn.
    fn was_durable(&mut self, report: &mut Report, replay: &mut dyn Replay) {
        if let Some(doubt) = self.doubt.take()
            && let Some(mut file) = self.files.pop_back()
        {
            self.damage(doubt, &mut file, report, replay);
            self.files.push_back(file);
        }
    }

    /// Drops the file if it holds nothing but the doubtful batch: then it isn't in use.
    fn drop_doubtful_file(&mut self) {
        let is_empty = |file: &WalFile| file.last_batch == 0 && file.known.is_empty();
        if let Some(doubt) = &self.doubt
            && self.files.back().is_some_and(|file| *file.name == *doubt.file && is_empty(file))
        {
            self.files.pop_back();
        }
    }

    /// The damage of the remaining doubtful batch, the files in use, and whether the log was closed.
    ///
    /// # Errors
    /// Metadata is lost.
    pub(super) fn into_doubt(
        mut self,
        report: &mut Report,
        replay: &mut dyn Replay,
    ) -> Result<(Option<Damage>, VecDeque<WalFile>, bool), StorageError> {
        self.hand_on_metadata(report, replay)?;
        self.groups.withdraw_all(report, replay);
        self.drop_doubtful_file();
        let torn = self.doubt.map(|doubt| {
            let damage = Damage::new(&doubt.file, doubt.offset..doubt.end, Hit::Any, "the last batch isn't whole");
            match (doubt.batch, doubt.runs) {
                // A start takes none of it, even if parts of it are valid.
                (Some((batch, _)), _) => {
                    let faults = batch.faults.iter();
                    let hit = faults.map(|fault| Damage::of_fault("", 0, batch.header.bytes(), fault));
                    damage.with_runs(&batch.runs).with_all(hit)
                }
                (None, Some(runs)) => damage.with_runs(&runs),
                (None, None) => damage,
            }
        });
        let closed = self.closed && torn.is_none();
        Ok((torn, self.files, closed))
    }

    /// Treats the remaining doubtful batch as the torn last one: puts it aside and makes everything taken durable.
    ///
    /// # Errors
    /// The disk fails, or metadata is lost; then nothing is changed.
    pub(super) fn finish(mut self, report: &mut Report, replay: &mut dyn Replay) -> Result<Replayed, StorageError> {
        self.hand_on_metadata(report, replay)?;
        self.groups.withdraw_all(report, replay);
        self.drop_doubtful_file();
        if let Some(doubt) = self.doubt.take() {
            let length = (doubt.end - doubt.offset) as usize;
            let (bytes, _) = disk::read_around(self.disk, &doubt.file, doubt.offset, length)?;
            let kept = format!("cut-{}-{:x}", doubt.file, doubt.offset);
            write_file(self.disk, self.options, &kept, &bytes)?;
            report.cut = Some(Cut { file: doubt.file, range: doubt.offset..doubt.end, kept });
        }
        if planted!(ReuseBatchNumber) {
            self.sequence = self.sequence.saturating_sub(1);
        }
        if self.sequence > self.last_closed.0 && !planted!(TrustLastBatch) {
            for batch in &self.doubtful {
                batch.write_again(self.disk)?;
            }
            // They are all in one file.
            if let Some(last) = self.doubtful.back()
                && self.files.back().is_some_and(|back| *back.name != *last.file)
            {
                disk::sync(self.disk, &last.file)?;
            }
        }
        if let Some(last) = self.files.back().filter(|_| !planted!(SkipSyncOfRecovered)) {
            disk::sync(self.disk, &last.name)?;
        }
        report.clean = self.closed;
        report.closed = self.closed || self.sequence > 0 && self.last_closed.0 == self.sequence;
        let metadata = self.trail.start(self.position);
        Ok(Replayed { files: self.files, position: self.position, batch: self.sequence, metadata })
    }
}

/// Damage by a record that this version doesn't write like this.
fn unknown(kind: &str, log: LogId, position: Position) -> Damage {
    let reason = format!("the {kind} record at position {position} isn't one of this version");
    Damage::new("", 0..0, Hit::Logs(vec![log]), reason)
}
