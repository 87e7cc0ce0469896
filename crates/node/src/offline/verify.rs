use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use leveret_broker::offline::Offline;
use leveret_log::{
    BodyFiles, CheckedEntries, Damage, Disk, EntryOptions, Hit, LogId, StorageError, Verified, verify_entries,
};

use super::directory::{CannotCheck, OfflineDirectory, STORE};
use crate::disk::FsDisk;
use crate::identity::{Found, IDENTITY_FILE, Identity, IdentityError};
use crate::random;

/// The result of `leveret verify`.
pub struct Checked {
    /// The log's result.
    pub verified: Verified,
    /// The owners of the logs.
    pub offline: Offline,
    /// Logs whose state is lost, and the shared messages that may have been theirs: no copy has these.
    pub unattributed: (Vec<LogId>, u64),
    /// Messages in the repaired copy, if one was made.
    pub copied: Option<u64>,
    /// The entry log's result. A copy has no entry log: its replicas join again under new ids.
    pub entries: CheckedEntries,
    /// How long the check took.
    pub took: Duration,
}

/// Checks a data directory; with `copy`, also writes its valid contents there.
///
/// # Errors
/// It can't be checked, or the copy can't be created.
pub fn verify(directory: &OfflineDirectory, copy: Option<&Path>) -> Result<Checked, CannotCheck> {
    let begin = Instant::now();
    let options = &directory.options;
    let mut offline = Offline::default();
    let mut verified = leveret_log::verify(&directory.disk, options, &mut offline)?;
    if verified.can_be_salvaged {
        offline = Offline::salvaging();
        leveret_log::salvage(&directory.disk, options, &mut verified, &mut offline)?;
    } else if let Err(error) = offline.check()
        && verified.refused.is_none()
    {
        verified.refused = Some(error.to_string());
    }
    let files = BodyFiles::new(options.node_id, options.wal_id);
    let mut sound = Vec::new();
    let mut bad = Vec::new();
    for (number, id) in offline.body_files() {
        match files.verify(&directory.disk, id) {
            Ok(bytes) => {
                verified.files += 1;
                verified.bytes += bytes;
                sound.push(id);
            }
            Err(damage) => {
                bad.push(number);
                verified.damaged.push(offline.with_messages(damage, number));
            }
        }
    }
    let entry_options = EntryOptions { node_id: options.node_id, wal_id: options.wal_id, ..EntryOptions::default() };
    let entries = verify_entries(&directory.disk, &entry_options)?;
    let took = begin.elapsed();
    if let Found::Unusable(reason) = &directory.identity {
        verified.damaged.push(damaged_identity(directory, reason));
    }
    let unattributed = offline.unattributed(&verified);
    let mut copied = None;
    if let Some(path) = copy {
        offline.salvage(&verified)?;
        bad.into_iter().for_each(|number| offline.leave_out(number));
        let disk = new_directory(path)?;
        let refused = |source: IdentityError| CannotCheck::Copy { path: path.to_owned(), reason: source.to_string() };
        for id in sound {
            files.copy(&directory.disk, &disk, id).map_err(StorageError::from)?;
        }
        leveret_log::repair(&directory.disk, &disk, options, &verified, &mut offline)?;
        // The identity is written last: without it a copy that was cut off can't be started.
        if let Some(identity) = copied_identity(directory).map_err(refused)? {
            identity.write(&disk, options).map_err(refused)?;
        }
        copied = Some(offline.copied());
    }
    Ok(Checked { verified, offline, unattributed, copied, entries, took })
}

fn damaged_identity(directory: &OfflineDirectory, reason: &str) -> Damage {
    Damage {
        file: IDENTITY_FILE.into(),
        range: 0..directory.disk.len(IDENTITY_FILE).unwrap_or(0),
        reason: format!("the identity of the node can't be taken: {reason}"),
        logs: Hit::Logs(Vec::new()),
        messages: Vec::new(),
        unknown: 0,
    }
}

/// The identity of a copy; none if the log was begun without one. If the identity is unusable, the copy becomes another
/// node, whose log continues under the id that it has.
fn copied_identity(directory: &OfflineDirectory) -> Result<Option<Identity>, IdentityError> {
    match &directory.identity {
        Found::Here(identity) => Ok(Some(*identity)),
        Found::Unusable(_) => Identity::new(directory.options.node_id, &mut random::fill).map(Some),
        Found::Empty | Found::Before => Ok(None),
    }
}

/// Creates the directory of the copy. It must be new, so that existing files are never written to.
fn new_directory(path: &Path) -> Result<FsDisk, CannotCheck> {
    let refuse = |reason: String| CannotCheck::Copy { path: path.to_owned(), reason };
    match std::fs::read_dir(path) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(refuse("it is there and not empty".into()));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(refuse(error.to_string())),
    }
    FsDisk::open(&path.join(STORE)).map_err(|error| refuse(error.to_string()))
}
