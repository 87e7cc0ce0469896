use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use leveret_broker::offline::NotRepairable;
use leveret_log::{Disk, Options, StorageError};

use crate::disk::FsDisk;
use crate::identity::{Found, IDENTITY_FILE, IdentityError, log_node_id};
use crate::lock::{LOCK_FILE, lock_itself, process_on};

/// The reason why a directory can't be checked, shown or repaired.
#[derive(Debug, thiserror::Error)]
pub enum CannotCheck {
    /// A node runs on it.
    #[error("data directory {directory} is in use by process {process}: stop the node first, or check a copy")]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The process that its lock file names.
        process: String,
    },
    /// The directory can't be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The path that failed.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It isn't a data directory.
    #[error("{directory} is not a data directory: {reason}")]
    NotOne {
        /// The directory.
        directory: PathBuf,
        /// The part that is missing.
        reason: &'static str,
    },
    /// A newer release wrote its identity.
    #[error("cannot use {path}: {source}")]
    Identity {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: IdentityError,
    },
    /// The disk failed, or another version or node wrote the directory.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The copy can't be created.
    #[error("cannot write {path}: {reason}")]
    Copy {
        /// The new directory.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// Too little is left for a copy.
    #[error(transparent)]
    NotRepairable(#[from] NotRepairable),
}

/// A data directory that no node can use while this lives.
#[derive(Debug)]
pub struct OfflineDirectory {
    path: PathBuf,
    pub(super) disk: FsDisk,
    pub(super) identity: Found,
    /// The options with which a node would read the log.
    pub(super) options: Options,
    _locks: Vec<File>,
}

impl OfflineDirectory {
    /// Opens a data directory, or the `store` in one, for reading.
    ///
    /// # Errors
    /// See [`CannotCheck`].
    pub fn open(path: &Path) -> Result<OfflineDirectory, CannotCheck> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| CannotCheck::Unreadable { path, source }
        };
        let kind = std::fs::metadata(path).map_err(unreadable(path))?;
        let not_one = |reason| CannotCheck::NotOne { directory: path.to_owned(), reason };
        if !kind.is_dir() {
            return Err(not_one("it is a file"));
        }
        let is_store = path.file_name().is_some_and(|name| name == STORE) && !path.join(STORE).exists();
        let (parent, store) = match is_store {
            true => (path.parent().unwrap_or(path).to_owned(), path.to_owned()),
            false => (path.to_owned(), path.join(STORE)),
        };
        let locks = lock(&parent)?;
        if !store.exists() {
            return Err(not_one("it has no directory `store`"));
        }
        let disk = FsDisk::open_for_reading(&store);
        let names = disk.list().map_err(unreadable(&store))?;
        if !names.iter().any(|name| name.starts_with("wal-") || name.starts_with("checkpoint-")) {
            return Err(not_one("its `store` holds no file of a log"));
        }
        let mut options = Options::default();
        let identity_error = |source| CannotCheck::Identity { path: store.join(IDENTITY_FILE), source };
        let identity = Found::read(&disk, &options).map_err(identity_error)?;
        options.node_id = match &identity {
            Found::Here(identity) => identity.log_node_id,
            Found::Empty | Found::Before => 0,
            Found::Unusable(_) => log_node_id(&disk, &options)?,
        };
        Ok(OfflineDirectory { path: path.to_owned(), disk, identity, options, _locks: locks })
    }

    /// The path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The log's directory in a data directory.
pub(crate) const STORE: &str = "store";

/// Takes shared locks, on the directory and on its file: several processes may read, no node may start. A copy has no
/// file.
fn lock(directory: &Path) -> Result<Vec<File>, CannotCheck> {
    let in_use = || CannotCheck::InUse { directory: directory.to_owned(), process: process_on(directory) };
    let itself = lock_itself(directory, File::try_lock_shared).ok_or_else(in_use)?;
    let path = directory.join(LOCK_FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(itself.into_iter().collect()),
        Err(source) => return Err(CannotCheck::Unreadable { path, source }),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(itself.into_iter().chain([file]).collect()),
        Err(TryLockError::WouldBlock) => Err(in_use()),
        Err(TryLockError::Error(source)) => Err(CannotCheck::Unreadable { path, source }),
    }
}
