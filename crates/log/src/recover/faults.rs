//! The list of damage found in WAL files, which outlives these files.

use super::{Damage, Hit, fault_list, write_file};
use crate::disk::{self, Disk};
use crate::error::DiskError;
use crate::names::{self, Name};
use crate::options::Options;
use crate::types::LogId;

/// The list in the directory.
#[derive(Debug, Default)]
pub(super) struct Faults {
    stored: Vec<Damage>,
}

impl Faults {
    /// Reads the list.
    pub(super) fn load(&mut self, disk: &dyn Disk, options: &Options, name: &str) -> Result<(), DiskError> {
        let length = disk::length(disk, name)?;
        let read = disk::repeat(disk, |disk| {
            let bytes = disk::read(disk, name, 0, length as usize).map_err(Some)?;
            fault_list::decode(&bytes, options.node_id, options.wal_id).ok_or(None)
        });
        self.stored = match read {
            Ok(stored) => stored,
            Err(Some(error)) => return Err(error),
            Err(None) => vec![Damage::new(name, 0..length, Hit::Any, "the list of earlier damage isn't whole")],
        };
        Ok(())
    }

    /// The damage in files that no start replays any more. Others are judged by what is in them now.
    pub(super) fn retired(&self, options: &Options, floor: u64) -> Vec<Damage> {
        let is_retired = |fault: &&Damage| wal_file(fault, options).is_none_or(|sequence| sequence < floor);
        self.stored.iter().filter(is_retired).cloned().collect()
    }

    /// Makes the list that of all this damage, as far as it hit messages in WAL files or was already in the list. Durable when it
    /// returns.
    pub(super) fn store(&mut self, disk: &dyn Disk, options: &Options, damaged: &[Damage]) -> Result<(), DiskError> {
        let hits_messages = |fault: &Damage| match &fault.logs {
            Hit::Logs(logs) => logs.iter().any(|log| *log != LogId::METADATA),
            Hit::Any => true,
        };
        let is_listed =
            |fault: &&Damage| wal_file(fault, options).is_some() && hits_messages(fault) || self.stored.contains(fault);
        let listed: Vec<Damage> = damaged.iter().filter(is_listed).cloned().collect();
        if listed == self.stored {
            return Ok(());
        }
        let name = names::faults(options.wal_id);
        let new = format!("{name}.new");
        write_file(disk, options, &new, &fault_list::encode(&listed, options.node_id, options.wal_id))?;
        disk::rename(disk, &new, &name)?;
        disk::sync_directory(disk)?;
        self.stored = listed;
        Ok(())
    }
}

/// Sequence of the WAL file that is damaged.
fn wal_file(fault: &Damage, options: &Options) -> Option<u64> {
    match Name::parse(&fault.file, options.wal_id) {
        Some(Name::Wal(sequence)) => Some(sequence),
        _ => None,
    }
}
