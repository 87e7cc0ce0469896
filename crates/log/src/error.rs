//! Whose fault it is: the disk's ([`DiskError`]), the bytes on it ([`ReadError`]), and what ends the node
//! ([`StorageError`]).

use std::fmt;
use std::io;
use std::ops::Range;

use crate::types::LogId;

/// What was asked of the disk.
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

/// An operation that the disk refused.
#[derive(Debug, thiserror::Error)]
#[error("could not {operation} {file} at byte {offset}: {error}")]
pub struct DiskError {
    /// Name of the file in the data directory.
    pub file: String,
    /// Where in it; 0 for operations without a place.
    pub offset: u64,
    /// What was tried.
    pub operation: Operation,
    /// What the operating system said.
    #[source]
    pub error: io::Error,
}

impl DiskError {
    /// Whether bytes can't be read that others can do without: the file isn't there, or its device fails.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self.operation, Operation::Read | Operation::Length)
    }

    pub(crate) fn new(operation: Operation, file: &str, offset: u64, error: io::Error) -> Self {
        DiskError { file: file.to_owned(), offset, operation, error }
    }
}

/// The log can't go on. The node ends with this text.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// An operation failed. A failed write or sync is never tried again: what it left on the disk is unknown.
    #[error(
        "storage failed: {0}; nothing after the last confirmed message is promised, and the node must be restarted on a healthy disk"
    )]
    Disk(#[from] DiskError),
    /// Checkpoints are there and none can be read.
    #[error("storage is damaged: {file}: {reason}; restore the data directory or start on an empty one")]
    Checkpoint {
        /// The newest one.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that the others need isn't there.
    #[error("storage is damaged: {file} is missing ({reason}); restore the data directory")]
    Missing {
        /// Name of the file.
        file: String,
        /// Who needs it.
        reason: String,
    },
    /// There is no space for what a start needs, and no reserve either.
    #[error("the disk is full: {file} needs {needed} bytes ({error}); free some space and start again")]
    NoSpace {
        /// What couldn't be made.
        file: String,
        /// How long it has to be at least.
        needed: u64,
        /// What the operating system said.
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
        /// In the file.
        found: u64,
        /// In the options.
        expected: u64,
    },
    /// The options contradict each other.
    #[error("wrong storage options: {0}")]
    Options(String),
}

/// Stored bytes that aren't what was written. The log they belong to stops; the node goes on.
#[derive(Debug, thiserror::Error)]
#[error("could not read log {log} from {file}, bytes {} to {}: {reason}", .range.start, .range.end)]
pub struct ReadError {
    /// Name of the file.
    pub file: String,
    /// The bytes.
    pub range: Range<u64>,
    /// Whose messages these are.
    pub log: LogId,
    /// What is wrong.
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
