//! Files that were put aside because bytes in them were wrong: a retirement or an earlier version did so. What is whole in them may
//! be all that is left of messages.

use std::ops::Range;

use crate::disk::{self, Disk};
use crate::error::DiskError;
use crate::format::{Identity, SECTOR};
use crate::names::Name;
use crate::options::Options;
use crate::recover::{Damage, Hit, Numbers};
use crate::segment;
use crate::types::LogId;
use crate::walk::{Piece, Walk};

/// Beginning of the name of such a file.
const ASIDE: &str = "damaged-";

/// A file that was put aside and has messages that are in no other file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its name.
    pub file: String,
    /// Number of these messages.
    pub messages: u64,
}

/// The batches of a file that was put aside, if this is the name of one.
pub(crate) fn walk<'a>(disk: &'a dyn Disk, options: &Options, name: &'a str) -> Result<Option<Walk<'a>>, DiskError> {
    let Some(inner) = name.strip_prefix(ASIDE).and_then(|inner| Name::parse(inner, options.wal_id)) else {
        return Ok(None);
    };
    let length = disk::length(disk, name)?;
    let (identity, end) = match inner {
        Name::Wal(sequence) => (Identity::wal(options.node_id, options.wal_id, sequence), length),
        Name::Segment(id) => {
            let identity = Identity::segment(options.node_id, options.wal_id, id);
            (identity, segment::batches_end(disk, name, length)?)
        }
        Name::Checkpoint(_) | Name::Metadata(_) | Name::Entries(_) => return Ok(None),
    };
    Ok(Some(Walk::new(disk, name, identity, end)))
}

/// The messages in batches that no start took, because their headers and run tables were wrong, and that can be read again: in files
/// that were put aside, or became segments.
pub(super) fn healed(disk: &dyn Disk, options: &Options, retired: &[Damage]) -> Result<Vec<Numbers>, DiskError> {
    let mut healed = Vec::new();
    let names = disk::list(disk)?;
    for fault in retired.iter().filter(|fault| is_of_batches(fault)) {
        let Some(Name::Wal(sequence)) = Name::parse(&fault.file, options.wal_id) else { continue };
        let identity = Identity::wal(options.node_id, options.wal_id, sequence);
        for name in [format!("{ASIDE}{}", fault.file), fault.file.clone()] {
            if !names.contains(&name) {
                continue;
            }
            let mut walk = Walk::new(disk, &name, identity, disk::length(disk, &name)?);
            while let Some(piece) = walk.next()? {
                let Piece::Batch { offset, batch, .. } = piece else { continue };
                let end = offset + batch.header.padded_bytes();
                if fault.range.start <= offset && end <= fault.range.end {
                    healed.extend(batch.message_runs().map(Numbers::of_run));
                }
            }
        }
    }
    Ok(healed)
}

/// Whether a damage is of whole batches, of which it isn't known which messages they had. Of other batches a start took some.
fn is_of_batches(fault: &Damage) -> bool {
    let Range { start, end } = fault.range;
    fault.logs == Hit::Any && fault.messages.is_empty() && start < end && start % SECTOR == 0 && end % SECTOR == 0
}

/// The files that were put aside and have some of the messages that are wanted.
pub(super) fn find(
    disk: &dyn Disk,
    options: &Options,
    is_wanted: impl Fn(LogId, u64) -> bool,
) -> Result<Vec<SetAside>, DiskError> {
    let mut found = Vec::new();
    let mut names = disk::list(disk)?;
    names.sort_unstable();
    for file in names {
        let Some(mut walk) = walk(disk, options, &file)? else { continue };
        let mut messages = 0;
        while let Some(piece) = walk.next()? {
            let Piece::Batch { batch, bytes, .. } = piece else { continue };
            for run in batch.message_runs() {
                for (index, record) in (0..).zip(batch.records_left(run, &bytes)) {
                    let numbers = run.numbers_of(index);
                    let is_missing = numbers.filter(|number| is_wanted(run.log, *number));
                    messages += record.map_or(0, |_| is_missing.count() as u64);
                }
            }
        }
        drop(walk);
        if messages > 0 {
            found.push(SetAside { file, messages });
        }
    }
    Ok(found)
}
