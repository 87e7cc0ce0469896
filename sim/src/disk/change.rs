//! Changes of a disk, recorded so that a disk can be rebuilt as of any of them.

use std::sync::Arc;

/// A change of the disk. Reads aren't changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file was created.
    Create {
        /// Its name.
        name: String,
        /// Its length.
        length: u64,
    },
    /// Bytes were written.
    Write {
        /// The file.
        name: String,
        /// The position in the file.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// A file was synced.
    Sync {
        /// The file.
        name: String,
    },
    /// A sync of a file failed, and the operating system marked its unsynced pages as clean. Readers still see their
    /// bytes, and later syncs succeed without writing them. The bytes become durable only if they are written again.
    LoseUnsynced {
        /// The file.
        name: String,
    },
    /// The directory was synced.
    SyncDirectory,
    /// A file was unlinked.
    Remove {
        /// The file.
        name: String,
    },
    /// A file was renamed.
    Rename {
        /// Its old name.
        from: String,
        /// Its new name.
        to: String,
    },
}
