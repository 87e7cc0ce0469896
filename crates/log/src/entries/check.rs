//! Checks every byte of the entry log without changing any.

use super::EntryOptions;
use super::recover::EntryReplay;
use crate::damage::Damage;
use crate::disk::{self, Disk};
use crate::error::StorageError;
use crate::names::Name;
use crate::recover::look_through_ring;

/// The findings of a check of the entry log.
#[derive(Debug, Default)]
pub struct CheckedEntries {
    /// Damage.
    pub damaged: Vec<Damage>,
    /// An invalid last batch, as a power cut leaves one.
    pub torn: Option<Damage>,
    /// Number of files.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Placements with records.
    pub placements: u64,
    /// Entries that stand in the files, those that stand twice, too.
    pub entries: u64,
}

/// Replays the entry log, and reports damage.
///
/// # Errors
/// The disk fails, or the directory is of another version or another node.
pub fn verify_entries(disk: &dyn Disk, options: &EntryOptions) -> Result<CheckedEntries, StorageError> {
    let mut checked = CheckedEntries::default();
    for name in disk::list(disk)? {
        if let Some(Name::Entries(_)) = Name::parse(&name, options.wal_id) {
            checked.files += 1;
            checked.bytes += disk::length(disk, &name)?;
        }
    }
    if checked.files == 0 {
        return Ok(checked);
    }
    let mut replay = EntryReplay::default();
    let looked = look_through_ring(disk, &options.log(), &mut replay)?;
    checked.entries = replay.entries;
    checked.damaged = looked.damaged;
    checked.torn = looked.torn;
    let gone = std::mem::take(&mut replay.gone);
    checked.placements = replay.finish(&mut checked.damaged, &gone).len() as u64;
    Ok(checked)
}
