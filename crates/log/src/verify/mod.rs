//! Checks every byte of a data directory without changing any.
//!
//! The check replays what a start would replay, with the same code, but keeps only the numbers of the messages; then
//! it reads every segment in full. A live message that is in no file is missing, whatever the checksums say.

use std::collections::BTreeMap;

use crate::disk::{self, Disk};
use crate::error::{DiskError, StorageError};
use crate::format::{Identity, VERSION};
use crate::names::Name;
use crate::options::Options;
use crate::recover::{Damage, Hit, Numbers, Recovery, Replay};
use crate::types::{LogId, Position};

mod alive;
pub(crate) mod aside;
mod segments;

use alive::AliveLogs;
pub use aside::SetAside;

/// Receives the replay of a check, which is the same as at a start, and answers questions about owners.
pub trait Owners: Replay {
    /// Whether this log still has an owner: messages of a log without one can't be lost.
    fn owns(&self, log: LogId) -> bool;
    /// The messages of a log whose bytes are in the shared log.
    fn elsewhere(&self, log: LogId) -> Vec<Numbers>;
    /// The live messages of all logs whose bytes are among these of the shared log.
    fn referring(&self, shared: &Numbers) -> Vec<Numbers>;
}

/// The findings of a check.
#[derive(Debug, Default)]
pub struct Verified {
    /// Damage. Only lost messages, those that were live, are listed.
    pub damaged: Vec<Damage>,
    /// An invalid last batch, and the batches after it that were written before it was durable. A power cut tears
    /// batches this way; then nothing in them was confirmed except for queues of the class `os`. The next start puts
    /// them aside.
    pub torn: Option<Damage>,
    /// The error with which a start would be refused.
    pub refused: Option<String>,
    /// Number of the damages, the first ones, that the refusal names.
    pub(crate) refused_by: usize,
    /// Whether it would be refused because of damage, of which [`salvage`] may find more.
    pub can_be_salvaged: bool,
    /// Whether the log was closed by a clean stop.
    pub closed: bool,
    /// Format version of the directory.
    pub version: u16,
    /// Number of files checked.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Number of live messages.
    pub messages: u64,
    /// Position of the last record.
    pub position: Position,
    /// Sequence of the last batch.
    pub(crate) batch: u64,
    /// End of the last valid batch in each WAL file.
    pub(crate) ends: BTreeMap<String, u64>,
    /// Files that were put aside, and have messages that are in no other file: a repaired copy has these.
    pub set_aside: Vec<SetAside>,
    /// The live messages that are in no file in use, sorted.
    pub(crate) missing: Vec<Numbers>,
    /// Messages that no start took because of damage in WAL files that were retired since, sorted. What of them is in files that
    /// were put aside belongs into a repaired copy, although no state counts it.
    pub untaken: Vec<Numbers>,
    /// Files that a start would remove: leftovers of an interrupted step, or spare files.
    pub unused: Vec<String>,
}

impl Verified {
    /// Whether every byte in use is as written.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.torn.is_none() && self.refused.is_none()
    }

    /// Whether a message belongs into a repaired copy if it is in a file that was put aside.
    pub(crate) fn wants_aside(&self, log: LogId, number: u64) -> bool {
        Numbers::have(&self.missing, log, number) || Numbers::have(&self.untaken, log, number)
    }

    /// Adds the damage in WAL files that were retired since a start found it, and looks for what is left in files that were put
    /// aside.
    fn add_retired(&mut self, retired: Vec<Damage>, disk: &dyn Disk, options: &Options) -> Result<(), DiskError> {
        let mut untaken = aside::healed(disk, options, &retired)?;
        untaken.extend(retired.iter().flat_map(|damage| damage.messages.iter().copied()));
        self.untaken = joined(untaken);
        self.damaged.extend(retired);
        // Nothing is read if nothing could be found.
        if !self.missing.is_empty() || !self.untaken.is_empty() {
            self.set_aside = aside::find(disk, options, |log, number| self.wants_aside(log, number))?;
        }
        Ok(())
    }
}

/// Reads everything in a data directory that a start would use, and reports damage.
///
/// Memory: the sets of numbers that a start holds too, and one batch at a time.
///
/// # Errors
/// The disk fails, or the directory is of another version or another node.
pub fn verify(disk: &dyn Disk, options: &Options, owners: &mut dyn Owners) -> Result<Verified, StorageError> {
    options.check().map_err(StorageError::Options)?;
    let mut recovery = Recovery::new(disk, options.clone());
    recovery.is_check = true;
    recovery.list()?;
    let mut verified = Verified { version: VERSION, ..Verified::default() };
    let mut alive = AliveLogs::new(owners);
    let replayed = recovery.load_checkpoint(&mut alive).and_then(|()| recovery.look_through_wal(&mut alive));
    let mut retired = Vec::new();
    match replayed {
        Ok(looked) => {
            verified.damaged = looked.damaged;
            retired = looked.retired;
            verified.torn = looked.torn;
            verified.closed = looked.closed;
            verified.position = looked.position;
            verified.batch = looked.batch;
            verified.ends = looked.files.iter().map(|file| (file.name.to_string(), file.end)).collect();
            let unused = recovery.leftovers(&looked.files);
            let unused = unused.into_iter().filter(|name| !recovery.may_be_kept(*name));
            verified.unused = unused.map(|name| name.text(options.wal_id)).collect();
            // A file without a whole batch isn't in use, but this one explains something.
            verified.unused.retain(|name| verified.torn.as_ref().is_none_or(|torn| torn.file != *name));
            for id in recovery.named_segments() {
                segments::verify(disk, options, id, &mut alive, &mut verified.damaged)?;
            }
            let names: Vec<String> = disk::list(disk)?.into_iter().filter(|name| is_ours(name, options)).collect();
            for name in names.iter().filter(|name| !verified.unused.contains(name)) {
                verified.files += 1;
                verified.bytes += disk::length(disk, name)?;
            }
        }
        Err(error) if error.is_damage() => {
            verified.refused = Some(error.to_string());
            verified.can_be_salvaged = true;
            verified.damaged = recovery.refused_by(&error);
            verified.refused_by = verified.damaged.len();
            verify_alone(disk, options, &mut verified)?;
        }
        Err(error) => return Err(error),
    }
    let damaged = &mut verified.damaged;
    alive.all_are_owned = damaged.iter().any(|damage| match &damage.logs {
        Hit::Logs(logs) => logs.contains(&LogId::METADATA),
        Hit::Any => true,
    });
    damaged.iter_mut().for_each(|damage| alive.leave_alive(damage));
    verified.missing = alive.missing();
    damaged.extend(missing(verified.missing.clone(), recovery.checkpoint_name()));
    retired.retain(|damage| alive.may_hit_owned(damage));
    verified.add_retired(retired, disk, options)?;
    verified.messages = alive.count();
    Ok(verified)
}

/// Looks for what can be saved of a directory that a start refuses: states, metadata and messages, as far as they are whole. Then
/// `verified` can be repaired.
///
/// # Errors
/// The disk fails, or the directory is of another version or another node.
pub fn salvage(
    disk: &dyn Disk,
    options: &Options,
    verified: &mut Verified,
    owners: &mut dyn Owners,
) -> Result<(), StorageError> {
    let mut recovery = Recovery::new(disk, options.clone());
    recovery.is_check = true;
    recovery.salvages = true;
    recovery.list()?;
    let mut alive = AliveLogs::new(owners);
    recovery.load_checkpoint(&mut alive)?;
    let looked = recovery.look_through_wal(&mut alive)?;
    // Now it is known which messages are live, so that only the lost ones are named.
    let mut damaged = looked.damaged;
    for id in recovery.named_segments() {
        segments::verify(disk, options, id, &mut alive, &mut damaged)?;
    }
    alive.all_are_owned = true;
    damaged.iter_mut().for_each(|damage| alive.leave_alive(damage));
    verified.damaged.truncate(verified.refused_by);
    let mut others = Vec::new();
    for damage in damaged {
        match verified.damaged.iter_mut().find(|known| known.place() == damage.place()) {
            Some(known) => known.messages.extend(damage.messages),
            None => others.push(damage),
        }
    }
    verified.damaged.extend(others);
    verified.missing = alive.missing();
    verified.damaged.extend(missing(verified.missing.clone(), recovery.checkpoint_name()));
    verified.position = looked.position;
    verified.batch = looked.batch;
    verified.ends = looked.files.iter().map(|file| (file.name.to_string(), file.end)).collect();
    verified.messages = alive.count();
    verified.add_retired(looked.retired, disk, options)?;
    Ok(())
}

/// Replays as a start would, without changing anything, whatever is damaged.
///
/// # Errors
/// A start would be refused.
pub fn look(disk: &dyn Disk, options: &Options, replay: &mut dyn Replay) -> Result<(), StorageError> {
    let mut recovery = Recovery::new(disk, options.clone());
    recovery.is_check = true;
    recovery.list()?;
    recovery.load_checkpoint(replay)?;
    recovery.look_through_wal(replay).map(drop)
}

/// The same messages, sorted and each once.
fn joined(mut messages: Vec<Numbers>) -> Vec<Numbers> {
    messages.sort_unstable();
    let mut joined: Vec<Numbers> = Vec::new();
    for numbers in messages {
        match joined.last_mut() {
            Some(last) if last.log == numbers.log && numbers.first <= last.last => {
                last.last = last.last.max(numbers.last)
            }
            _ => joined.push(numbers),
        }
    }
    joined
}

fn is_ours(name: &str, options: &Options) -> bool {
    Name::parse(name, options.wal_id).is_some()
}

/// Messages that the checkpoint counts and that no segment holds.
fn missing(missing: Vec<Numbers>, checkpoint: String) -> Option<Damage> {
    if missing.is_empty() {
        return None;
    }
    let mut logs: Vec<LogId> = missing.iter().map(|numbers| numbers.log).collect();
    logs.dedup();
    let reason = "messages that are alive by this checkpoint are in no file";
    Some(Damage { messages: missing, ..Damage::new(&checkpoint, 0..0, Hit::Logs(logs), reason) })
}

/// Checks each file by itself, because nothing can be replayed without a checkpoint or the beginning of the WAL.
fn verify_alone(disk: &dyn Disk, options: &Options, verified: &mut Verified) -> Result<(), DiskError> {
    let mut names = disk::list(disk)?;
    names.sort_unstable();
    for text in names {
        let name = Name::parse(&text, options.wal_id).filter(|name| !matches!(name, Name::Entries(_)));
        let Some(name) = name else { continue };
        verified.files += 1;
        verified.bytes += disk::length(disk, &text)?;
        let identity = match name {
            Name::Wal(sequence) => Identity::wal(options.node_id, options.wal_id, sequence),
            Name::Segment(id) => Identity::segment(options.node_id, options.wal_id, id),
            Name::Checkpoint(_) | Name::Metadata(_) | Name::Entries(_) => continue,
        };
        segments::verify_alone(disk, &text, identity, &mut verified.damaged)?;
    }
    Ok(())
}
