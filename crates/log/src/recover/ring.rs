//! Opening the files of the entry log. They are replayed as those of the store; nothing but them has a part of the log.

use super::{AttentiveDisk, Looked, Recovery, Replay, Replayed, Report, attentively};
use crate::disk::{self, Disk};
use crate::error::{DiskError, StorageError};
use crate::log::{Log, Start};
use crate::options::Options;
use crate::space::Space;
use crate::step::Step;
use crate::store::Store;
use crate::types::Nanos;
use crate::wal::{WalFile, WalFiles};

/// Opens and replays the files of the entry log, and creates those that are missing in its ring of `files`.
pub(crate) fn recover_ring(
    disk: &dyn Disk,
    options: Options,
    files: usize,
    replay: &mut dyn Replay,
    now: Nanos,
) -> Result<(Log, Report), StorageError> {
    options.check().map_err(StorageError::Options)?;
    attentively(disk, |disk| recover_from(disk, options, files, replay, now))
}

fn recover_from(
    disk: &AttentiveDisk<'_>,
    options: Options,
    files: usize,
    replay: &mut dyn Replay,
    now: Nanos,
) -> Result<(Log, Report), StorageError> {
    let mut recovery = Recovery::new(disk, options);
    recovery.attentive = Some(disk);
    recovery.list()?;
    let Replayed { files: full, position, batch, metadata } = recovery.replay_wal(replay)?;
    let last = full.back().filter(|file| file.last_batch > 0).map_or(0, |file| file.sequence);
    let is_in_use = |sequence: &u64| full.iter().any(|file| file.sequence == *sequence);
    let unused: Vec<u64> = recovery.found.wal.iter().copied().filter(|sequence| !is_in_use(sequence)).collect();
    let mut spares = Vec::new();
    for sequence in unused {
        spares.push(recovery.spare(sequence)?);
    }
    let fresh = recovery.fresh_file_of(&mut spares, last)?;
    recovery.found.next_file += 1;
    while full.len() + 1 + spares.len() < files && !recovery.out_of_space {
        spares.extend(recovery.allocate_spare()?);
    }
    disk::sync_directory(disk)?;
    let has_reserve = recovery.find_reserve()?;
    let mut report = recovery.report;
    report.position = position;
    report.clean &= report.cut.is_none() && report.damaged.is_empty();
    let space = Space::new(&recovery.options, has_reserve, recovery.out_of_space);
    let mut wal = WalFiles::new(&recovery.options, full, fresh);
    wal.next_sequence = recovery.found.next_file;
    wal.retired = spares;
    wal.kept_max = files;
    let start = Start { wal, store: Store::new(), durable: position, batch, space, metadata };
    Ok((Log::open(recovery.options, start, now), report))
}

/// Replays the files of the entry log for a check, which changes nothing.
pub(crate) fn look_through_ring(
    disk: &dyn Disk,
    options: &Options,
    replay: &mut dyn Replay,
) -> Result<Looked, StorageError> {
    options.check().map_err(StorageError::Options)?;
    let mut recovery = Recovery::new(disk, options.clone());
    recovery.is_check = true;
    recovery.list()?;
    recovery.look_through_wal(replay)
}

impl Recovery<'_> {
    /// A file without a batch, which can be used without allocating anything.
    fn spare(&self, sequence: u64) -> Result<WalFile, DiskError> {
        let mut file = WalFile::new(&self.options, sequence, 0);
        file.length = disk::length(self.disk, &file.name)?;
        Ok(file)
    }

    /// The file in which the log goes on: one that is there and unused, or a new one.
    fn fresh_file_of(&mut self, spares: &mut Vec<WalFile>, last: u64) -> Result<WalFile, StorageError> {
        let Some(at) = spares.iter().position(|file| file.length == self.options.file_bytes) else {
            return self.open_fresh_file(last);
        };
        let spare = spares.swap_remove(at);
        let file = WalFile { after: last, ..WalFile::new(&self.options, self.found.next_file, spare.length) };
        let steps = [
            Step::Rename(spare.name, file.name.clone()),
            Step::WriteStart(file.name.clone(), file.header().encode().to_vec()),
            Step::Sync(file.name.clone()),
            Step::SyncDirectory,
        ];
        steps.iter().try_for_each(|step| step.run(self.disk))?;
        Ok(file)
    }

    /// Allocates a file for later use; `None` if the disk is full.
    fn allocate_spare(&mut self) -> Result<Option<WalFile>, DiskError> {
        let file = WalFile::new(&self.options, self.found.next_file, self.options.file_bytes);
        let allocated =
            disk::create(self.disk, &file.name, file.length).and_then(|()| disk::sync(self.disk, &file.name));
        match allocated {
            Ok(()) => {
                self.found.next_file += 1;
                Ok(Some(file))
            }
            Err(error) if error.is_out_of_space() => {
                self.out_of_space = true;
                Step::Discard(file.name).run(self.disk)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
