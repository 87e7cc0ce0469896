//! The file that keeps transfers.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use leveret_broker::transfer::TransferTarget;
use serde::{Deserialize, Serialize};

use super::{Kept, Transfer, TransferProgress, TransferRequest, Transfers};
use crate::kept_file;

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// How the file names a target.
#[derive(Serialize, Deserialize)]
#[serde(remote = "TransferTarget", rename_all = "lowercase")]
pub(super) enum KeptTarget {
    Queue(String),
    Exchange { name: String, routing_key: String },
}

#[derive(Serialize, Deserialize)]
pub(super) struct KeptTransfer {
    pub(super) id: u64,
    pub(super) asked: TransferRequest,
    pub(super) progress: TransferProgress,
}

#[derive(Serialize, Deserialize)]
struct Content {
    last_id: u64,
    transfers: Vec<KeptTransfer>,
}

impl KeptTransfer {
    pub(super) fn of(transfer: &Transfer) -> Self {
        let (asked, progress) = (transfer.asked.clone(), transfer.progress.lock().clone());
        Self { id: transfer.id, asked, progress }
    }
}

impl Transfers {
    /// Reads a file that an earlier node wrote; without one, nothing happens.
    ///
    /// # Errors
    /// It can't be read, or isn't such a file. Nothing of it is taken then.
    pub(crate) fn read(&self, path: &Path) -> io::Result<()> {
        let Some(bytes) = kept_file::read(path, FILE_BYTES_MAX)? else { return Ok(()) };
        let content: Content = serde_json::from_slice(&bytes)?;
        let mut kept = Kept { last_id: content.last_id, ..Kept::default() };
        for entry in content.transfers {
            kept.last_id = kept.last_id.max(entry.id);
            kept.insert(entry.id, entry.asked, entry.progress);
        }
        *self.kept.lock() = kept;
        Ok(())
    }

    /// The content of the file.
    ///
    /// # Errors
    /// None, as all of it can be written as JSON.
    pub(crate) fn content(&self) -> serde_json::Result<Vec<u8>> {
        let kept = self.kept.lock();
        let entry = |transfer: &Arc<Transfer>| KeptTransfer::of(transfer);
        serde_json::to_vec_pretty(&Content {
            last_id: kept.last_id,
            transfers: kept.by_id.values().map(entry).collect(),
        })
    }
}

/// Writes such a file in the place of an older one; its name is on disk, too, when this returns.
///
/// # Errors
/// The disk's.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    kept_file::replace(path, |file| file.write_all(content))?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
