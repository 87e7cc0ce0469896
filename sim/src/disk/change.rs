//! What is done to a disk, so that it can be done again.

use std::sync::Arc;

/// A change of the disk, in the order in which they were made. Reads are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file was made.
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
        /// Where.
        offset: u64,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// A file was synced.
    Sync {
        /// The file.
        name: String,
    },
    /// A file's sync failed, and the operating system forgot which of its bytes aren't on the disk: readers see them,
    /// later syncs succeed, and nothing brings them there but writing them again.
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
