//! Changes of a disk, recorded so that they can be repeated.

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
    /// A file's sync failed, and the operating system lost track of which of its bytes aren't on the disk. Readers see
    /// them and later syncs succeed, but they only become durable by being written again.
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
