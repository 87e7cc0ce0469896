//! The limits of the entry log.

use crate::options::Options;
use crate::ring::Ring;
use crate::types::Nanos;

/// The entry log's options. [`EntryOptions::default`] is for production.
#[derive(Clone, Debug)]
pub struct EntryOptions {
    /// Length of a file. At least 16 KiB.
    pub file_bytes: u64,
    /// Number of files, all allocated at the first start. At least 3.
    pub files: usize,
    /// Newest bytes of each placement that are kept in memory.
    pub cached_bytes: usize,
    /// Size of the buffer that collects a batch.
    pub buffer_bytes: usize,
    /// Deadline for making records durable that no caller waits for.
    pub lazy_flush: Nanos,
    /// Bytes reserved in a file of their own for a full disk. `None` means those of one file.
    pub disk_reserve: Option<u64>,
    /// Id of the node that created the directory.
    pub node_id: u64,
    /// Id of the store's WAL beside which it is.
    pub wal_id: u16,
}

impl Default for EntryOptions {
    fn default() -> EntryOptions {
        let store = Options::default();
        EntryOptions {
            file_bytes: store.file_bytes,
            files: 4,
            cached_bytes: 4 << 20,
            buffer_bytes: store.buffer_bytes,
            lazy_flush: store.lazy_flush,
            disk_reserve: None,
            node_id: 0,
            wal_id: 0,
        }
    }
}

impl EntryOptions {
    /// The options of the log that the records are written to.
    pub(super) fn log(&self) -> Options {
        Options {
            file_bytes: self.file_bytes,
            buffer_bytes: self.buffer_bytes,
            // Votes and carried entries may take what appends of entries leave.
            reserve_bytes: self.buffer_bytes / 8,
            // One more is the next file.
            unretired_max: self.files.max(3) - 1,
            disk_reserve: Some(self.disk_reserve.unwrap_or(self.file_bytes)),
            lazy_flush: self.lazy_flush,
            node_id: self.node_id,
            wal_id: self.wal_id,
            ring: Ring::Entries,
            ..Options::default()
        }
    }
}
