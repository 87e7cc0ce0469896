//! Errors by cause: the disk ([`DiskError`]), the bytes on it ([`ReadError`]), and errors that end the node
//! ([`StorageError`]).

use std::fmt;
use std::io;
use std::ops::Range;

use crate::damage::{Damage, PlaceText};
use crate::types::LogId;

/// A disk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// List the directory.
    List,
    /// Make a file.
    Create,
    /// Write to a file.
    Write,
    /// Flush a file.
    Sync,
    /// Flush the directory.
    SyncDirectory,
    /// Read from a file.
    Read,
    /// Ask for a file's length.
    Length,
    /// Unlink a file.
    Remove,
    /// Rename a file.
    Rename,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::List => "list the directory",
            Operation::Create => "create",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::SyncDirectory => "sync the directory",
            Operation::Read => "read",
            Operation::Length => "find the length of",
            Operation::Remove => "remove",
            Operation::Rename => "rename",
        })
    }
}

/// A disk operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("could not {operation} {file} at byte {offset}: {error}")]
pub struct DiskError {
    /// Name of the file in the data directory.
    pub file: String,
    /// Offset in the file; 0 for operations without one.
    pub offset: u64,
    /// The operation.
    pub operation: Operation,
    /// The operating system's error.
    #[source]
    pub error: io::Error,
}

impl DiskError {
    /// Whether the error is confined to some bytes that others can do without: the file doesn't exist, or its device
    /// fails.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self.operation, Operation::Read | Operation::Length)
    }

    /// Whether there is no space on the disk, or in the quota of the process's user.
    #[must_use]
    pub fn has_no_space(&self) -> bool {
        matches!(self.error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    pub(crate) fn new(operation: Operation, file: &str, offset: u64, error: io::Error) -> Self {
        DiskError { file: file.to_owned(), offset, operation, error }
    }
}

/// The log can't continue. The node ends with this text.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A disk operation failed. A failed write or sync is never retried, because its effect on the disk is unknown.
    #[error(
        "storage failed: {0}; nothing after the last confirmed message is promised, and the node must be restarted on a healthy disk"
    )]
    Disk(#[from] DiskError),
    /// A thread panicked while it changed the log or the model, which may be half changed.
    #[error(
        "a thread panicked while it changed the log or the objects of the node (see the lines before); the node stops"
    )]
    Panicked,
    /// The owner of a log can't say which of its messages are live, so that none of them may be removed.
    #[error(
        "storage stops: the owner of log {log} can't say which of its messages are live (see the lines before); the node has to be \
         restarted, which reads it from the disk"
    )]
    UnknownState {
        /// The log.
        log: LogId,
    },
    /// Checkpoints exist, but none can be read.
    #[error(
        "storage is damaged: {place}{}; nothing was changed; restore the data directory, or save all states, metadata and messages \
         that are whole with `leveret verify DIR --repair-to COPY`", also(.others)
    )]
    Checkpoint {
        /// The newest one, and the problem with it.
        place: Box<Damage>,
        /// Other damage found.
        others: Vec<Damage>,
    },
    /// Metadata can't be read in any of its copies.
    #[error(
        "storage is damaged: the metadata (users, queues, bindings and so on) can't be read in any copy: {}; nothing was \
         changed; restore the data directory, or save all other metadata and all messages that are whole with \
         `leveret verify DIR --repair-to COPY`", listed(.places)
    )]
    Metadata {
        /// Where the copies are, and what is wrong with each.
        places: Vec<Damage>,
    },
    /// Stored bytes can't be read because of an error of the device or of the operating system. They may be intact.
    #[error(
        "storage can't be read: {0}; nothing was changed, since bytes that can't be read may be intact; mend the disk and start \
         again, or save what can be read with `leveret verify DIR --repair-to COPY`"
    )]
    Unreadable(DiskError),
    /// A file that other files depend on is missing.
    #[error(
        "storage is damaged: {file} is missing ({reason}){}; nothing was changed; restore the data directory, or save all metadata \
         and messages that are whole with `leveret verify DIR --repair-to COPY`", also(.others)
    )]
    Missing {
        /// Name of the file.
        file: String,
        /// Why it is needed.
        reason: String,
        /// Other damage found.
        others: Vec<Damage>,
    },
    /// WAL files contradict each other.
    #[error(
        "storage is damaged: {file} begins with batch {found}, although batch {last} comes before it; nothing was changed; restore the \
         data directory, or save all metadata and messages that are whole with `leveret verify DIR --repair-to COPY`"
    )]
    Order {
        /// Name of the file.
        file: String,
        /// Sequence of its first batch.
        found: u64,
        /// Sequence of the last batch before it.
        last: u64,
    },
    /// The disk has no space for the files that a start needs, and there is no reserve either.
    #[error("the disk is full: {file} needs {needed} bytes ({error}); free some space and start again")]
    NoSpace {
        /// The file that couldn't be created.
        file: String,
        /// The least length it needs, in bytes.
        needed: u64,
        /// The disk's error.
        error: DiskError,
    },
    /// A file was written by a version with other formats.
    #[error("storage can't be read: {file} has format version {found}, this version reads {}", crate::format::VERSION)]
    Version {
        /// Name of the file.
        file: String,
        /// Its version.
        found: u16,
    },
    /// The directory belongs to another node.
    #[error("the data directory belongs to node {found:#x}, this is node {expected:#x}")]
    WrongNode {
        /// The id in the file.
        found: u64,
        /// The id in the options.
        expected: u64,
    },
    /// The options are inconsistent.
    #[error("wrong storage options: {0}")]
    Options(String),
}

impl StorageError {
    /// Whether the start is refused because of damage, so that a repaired copy may help.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(
            self,
            StorageError::Checkpoint { .. }
                | StorageError::Missing { .. }
                | StorageError::Metadata { .. }
                | StorageError::Order { .. }
        )
    }
}

/// Most places that a text lists.
const PLACES_MAX: usize = 8;

fn listed(places: &[Damage]) -> String {
    let mut texts: Vec<String> = places.iter().take(PLACES_MAX).map(Damage::to_string).collect();
    let more = places.len().saturating_sub(PLACES_MAX);
    if more > 0 {
        texts.push(format!("and {more} more places"));
    }
    texts.join("; ")
}

fn also(others: &[Damage]) -> String {
    if others.is_empty() { String::new() } else { format!("; also damaged: {}", listed(others)) }
}

/// Stored bytes that aren't those written. The log they belong to stops; the node continues.
#[derive(Debug, thiserror::Error)]
#[error("could not read log {log} from {}: {reason}", PlaceText(.file, .range))]
pub struct ReadError {
    /// Name of the file.
    pub file: String,
    /// The range of bytes in it.
    pub range: Range<u64>,
    /// The log that the messages belong to.
    pub log: LogId,
    /// The problem.
    pub reason: String,
}

impl ReadError {
    pub(crate) fn from_disk(error: DiskError, log: LogId) -> ReadError {
        ReadError { range: error.offset..error.offset, reason: error.to_string(), file: error.file, log }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_file_offset_operation_and_cause() {
        let error = StorageError::from(DiskError::new(
            Operation::Sync,
            "wal-0000-0000000000000001",
            512,
            io::Error::other("Input/output error"),
        ));
        let text = error.to_string();
        for part in ["wal-0000-0000000000000001", "512", "sync", "Input/output error"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
