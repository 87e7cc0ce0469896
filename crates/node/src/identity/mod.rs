//! The identity of a node: the file `identity` beside the files of the log. docs/storage.md describes it byte by byte.
//!
//! The log's node id is stored separately from the node's. Directories of releases without identities have 0 in their
//! log, which seeds its salts and is in its headers, so it stays 0 there.

use std::io;
use std::ops::ControlFlow;

use leveret_log::{Disk, DiskError, Dumped, Operation, Options, StorageError};
use leveret_model::MemberNumber;

/// The file's name in the directory of the log.
pub(crate) const IDENTITY_FILE: &str = "identity";

/// The file's name until it is complete.
const NEW_FILE: &str = "identity.new";

/// Size of the file in bytes.
const IDENTITY_BYTES: usize = 64;

const MAGIC: &[u8; 4] = b"LVRN";
const VERSION: u16 = 2;

/// The version that knows neither nonces nor clusters.
const EARLIER: u16 = 1;

/// Bytes other than the checksum that are zero in this version; a later one may use them.
const ZEROS: [std::ops::Range<usize>; 3] = [6..8, 47..48, 56..60];

/// Prefixes of the log's files. If there is such a file but no identity, a release without identities wrote it.
const LOG_FILES: [&str; 6] = ["wal-", "segment-", "checkpoint-", "closed-", "body-", "raft-"];

/// The form in which RabbitMQ shows the id of a cluster; 32 hexadecimal digits follow.
const CLUSTER_ID_PREFIX: &str = "rabbitmq-cluster-id-";

/// Source of random bytes: the system's, or a test's.
pub(crate) type Random<'a> = &'a mut dyn FnMut(&mut [u8]) -> io::Result<()>;

/// Identifies a node, its cluster and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Random, never 0.
    pub node_id: u64,
    /// The cluster id as in the global parameter `internal_cluster_id`.
    pub cluster_id: [u8; 16],
    /// Number of starts on this directory.
    pub boot: u64,
    /// 0 for a node that never joined another one.
    pub member: MemberNumber,
    /// Random number of this start: two starts with the same number are told apart by it, those of a copied directory.
    pub nonce: u32,
    /// Its place among other nodes.
    pub standing: Standing,
    /// The node id in the log's files, and in its salts.
    pub log_node_id: u64,
}

/// The place of a node among others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has data of its own, and no cluster.
    #[default]
    Alone,
    /// It has no data yet, and is to become part of a cluster: one that exists, or one that it seeds.
    Forming,
    /// It is a member of a cluster.
    Member,
}

impl Standing {
    const ALL: [Standing; 3] = [Standing::Alone, Standing::Forming, Standing::Member];

    fn byte(self) -> u8 {
        Self::ALL.iter().position(|one| *one == self).map_or(0, |at| at as u8)
    }
}

/// The reason why a node has no identity. The texts follow the path of the file.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// There are files of the log, but no valid identity.
    #[error(
        "{0}; restore the data directory, or let `leveret verify DIR --repair-to COPY` write a copy with a new identity"
    )]
    Unusable(String),
    /// A newer release wrote it.
    #[error("it has format version {0}, this version reads {VERSION}; start the release that wrote it")]
    Version(u16),
    /// The disk fails, or is full.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The system has no randomness.
    #[error("the system gives no random bytes: {0}")]
    Random(io::Error),
}

impl From<DiskError> for IdentityError {
    fn from(error: DiskError) -> Self {
        Self::Storage(error.into())
    }
}

/// The result of looking for the identity of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// None yet: there is nothing of a log.
    Empty,
    /// None: a release without identities wrote the log, with node id 0.
    Before,
    /// The identity.
    Here(Identity),
    /// There was one, as far as can be known, but it is unusable for this reason.
    Unusable(String),
}

impl Identity {
    /// Counts a start on the directory of `disk`, durably, with a new identity if there is none yet.
    ///
    /// # Errors
    /// The file can't be read or written, or is incomplete. Then it is unchanged, or the start is counted.
    ///
    /// `standing` is that of an empty directory.
    pub(crate) fn begin(
        disk: &dyn Disk,
        options: &Options,
        standing: Standing,
        random: Random<'_>,
    ) -> Result<Self, IdentityError> {
        let last = match Found::read(disk, options)? {
            Found::Empty => {
                let new = Self::new(0, random)?;
                Self { log_node_id: new.node_id, standing, ..new }
            }
            Found::Before => Self::new(0, random)?,
            Found::Here(identity) => identity,
            Found::Unusable(reason) => return Err(IdentityError::Unusable(reason)),
        };
        let mut nonce = [0; 4];
        random(&mut nonce).map_err(IdentityError::Random)?;
        let nonce = u32::from_le_bytes(nonce);
        let identity = Self { boot: last.boot.saturating_add(1), nonce, ..last };
        identity.write(disk, options)?;
        Ok(identity)
    }

    /// An identity without any counted start, for a log with this node id.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn new(log_node_id: u64, random: Random<'_>) -> Result<Self, IdentityError> {
        let mut node_id = [0; 8];
        while node_id == [0; 8] {
            random(&mut node_id).map_err(IdentityError::Random)?;
        }
        let mut cluster_id = [0; 16];
        random(&mut cluster_id).map_err(IdentityError::Random)?;
        let node_id = u64::from_le_bytes(node_id);
        let (member, standing) = Default::default();
        Ok(Self { node_id, cluster_id, boot: 0, member, nonce: 0, standing, log_node_id })
    }

    /// Takes over the cluster id that the node shows, if it has this form and differs.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn follow(&mut self, shown: &str, disk: &dyn Disk, options: &Options) -> Result<(), IdentityError> {
        match cluster_id_of(shown) {
            Some(cluster_id) if cluster_id != self.cluster_id => {
                self.cluster_id = cluster_id;
                self.write(disk, options)
            }
            _ => Ok(()),
        }
    }

    /// The cluster id as the global parameter `internal_cluster_id` shows it.
    pub(crate) fn cluster_id_text(&self) -> String {
        format!("{CLUSTER_ID_PREFIX}{:032x}", u128::from_be_bytes(self.cluster_id))
    }

    /// Replaces the file durably. On a full disk this uses the log's reserve, as recovery does.
    ///
    /// # Errors
    /// The disk fails, or is full.
    pub(crate) fn write(&self, disk: &dyn Disk, options: &Options) -> Result<(), IdentityError> {
        let reserve = options.reserve_file();
        match self.put(disk) {
            Err(error) if error.has_no_space() && disk.len(&reserve).is_ok() => {
                disk.remove(&reserve).map_err(failed(Operation::Remove, &reserve))?;
                self.put(disk).map_err(no_space)
            }
            put => put.map_err(no_space),
        }
    }

    fn put(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        let bytes = self.encode();
        disk.create(NEW_FILE, IDENTITY_BYTES as u64).map_err(failed(Operation::Create, NEW_FILE))?;
        disk.write_at(NEW_FILE, 0, &[&bytes]).map_err(failed(Operation::Write, NEW_FILE))?;
        disk.sync(NEW_FILE).map_err(failed(Operation::Sync, NEW_FILE))?;
        disk.rename(NEW_FILE, IDENTITY_FILE).map_err(failed(Operation::Rename, NEW_FILE))?;
        disk.sync_directory().map_err(failed(Operation::SyncDirectory, "."))
    }

    fn encode(&self) -> [u8; IDENTITY_BYTES] {
        let mut bytes = [0; IDENTITY_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.node_id.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.cluster_id);
        bytes[32..40].copy_from_slice(&self.boot.to_le_bytes());
        bytes[40..42].copy_from_slice(&self.member.0.to_le_bytes());
        bytes[42..46].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[46] = self.standing.byte();
        bytes[48..56].copy_from_slice(&self.log_node_id.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, IdentityError> {
        let damaged = |reason: String| Err(IdentityError::Unusable(reason));
        let wrong_length = || damaged(format!("it has {} bytes, not {IDENTITY_BYTES}", bytes.len()));
        let Some(head) = bytes.first_chunk::<IDENTITY_BYTES>() else { return wrong_length() };
        if head[..4] != *MAGIC {
            return damaged(format!("it begins with \"{}\", not with \"LVRN\"", head[..4].escape_ascii()));
        }
        if head[60..] != crc32c::crc32c(&head[..60]).to_le_bytes() {
            return damaged("its checksum is wrong".to_owned());
        }
        let u16_at = |at: usize| u16::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let is_earlier = u16_at(4) == EARLIER;
        if !is_earlier && u16_at(4) != VERSION {
            return Err(IdentityError::Version(u16_at(4)));
        }
        if bytes.len() != IDENTITY_BYTES {
            return wrong_length();
        }
        let zeros = if is_earlier { [6..8, 42..48, 56..60] } else { ZEROS };
        let Some(standing) = Standing::ALL.get(usize::from(head[46])).copied() else {
            return damaged(format!("its byte 46 is {}, which is no standing among other nodes", head[46]));
        };
        if let Some(range) = zeros.into_iter().find(|range| head[range.clone()].iter().any(|byte| *byte != 0)) {
            return damaged(format!("its bytes {} to {} aren't zero", range.start, range.end));
        }
        let identity = Self {
            node_id: u64_at(8),
            cluster_id: std::array::from_fn(|i| head[16 + i]),
            boot: u64_at(32),
            member: MemberNumber(u16_at(40)),
            nonce: u32::from_le_bytes(std::array::from_fn(|i| head[42 + i])),
            standing,
            log_node_id: u64_at(48),
        };
        match identity.node_id {
            0 => damaged("its node id is 0".to_owned()),
            _ => Ok(identity),
        }
    }
}

impl Found {
    /// Looks for the identity; changes nothing.
    ///
    /// # Errors
    /// The directory can't be listed, a newer release wrote the file, or there is none and a file of the log can't be read.
    pub(crate) fn read(disk: &dyn Disk, options: &Options) -> Result<Self, IdentityError> {
        let names = disk.list().map_err(failed(Operation::List, "."))?;
        if names.iter().any(|name| name == IDENTITY_FILE) {
            // One byte more than its size shows whether it is longer.
            let bytes = match disk.read_new(IDENTITY_FILE, 0, IDENTITY_BYTES + 1) {
                Ok(bytes) => bytes,
                Err(error) => return Ok(Found::Unusable(format!("it can't be read: {error}"))),
            };
            return match Identity::decode(&bytes) {
                Ok(identity) => Ok(Found::Here(identity)),
                Err(IdentityError::Unusable(reason)) => Ok(Found::Unusable(reason)),
                Err(error) => Err(error),
            };
        }
        if !names.iter().any(|name| LOG_FILES.iter().any(|prefix| name.starts_with(prefix))) {
            return Ok(Found::Empty);
        }
        Ok(match log_node_id(disk, options)? {
            0 => Found::Before,
            writer => Found::Unusable(format!("it is missing, and node {writer:#x} wrote the log beside it")),
        })
    }
}

/// The node id in the first file of the log whose header is valid; 0 if there is none.
///
/// # Errors
/// The disk can't read: a file that isn't read could have an id.
pub(crate) fn log_node_id(disk: &dyn Disk, options: &Options) -> Result<u64, StorageError> {
    let files = leveret_log::files(disk, options)?;
    // The header of a checkpoint is only available after its content was read, and the WAL has the id as well.
    let is_of_checkpoint = |name: &&String| name.starts_with("checkpoint-") || name.starts_with("metadata-");
    for name in files.iter().filter(|name| !is_of_checkpoint(name)) {
        let mut found = None;
        let mut visit = |dumped: Dumped<'_>| {
            if let Dumped::File(header) = dumped {
                found = Some(header.node_id);
            }
            ControlFlow::Break(())
        };
        match leveret_log::dump(disk, options, name, &mut visit) {
            Err(error @ StorageError::Disk(_)) => return Err(error),
            _ => {
                if let Some(node_id) = found {
                    return Ok(node_id);
                }
            }
        }
    }
    Ok(0)
}

/// The 16 bytes of a cluster id in Leveret's form. RabbitMQ's own ids, which operators may set, have none.
fn cluster_id_of(shown: &str) -> Option<[u8; 16]> {
    let digits = shown.strip_prefix(CLUSTER_ID_PREFIX)?;
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(digits, 16).ok()?.to_be_bytes())
}

fn failed(operation: Operation, file: &str) -> impl FnOnce(io::Error) -> DiskError {
    move |error| DiskError { file: file.to_owned(), offset: 0, operation, error }
}

fn no_space(error: DiskError) -> IdentityError {
    match error.has_no_space() {
        true => {
            let file = IDENTITY_FILE.to_owned();
            IdentityError::Storage(StorageError::NoSpace { file, needed: IDENTITY_BYTES as u64, error })
        }
        false => error.into(),
    }
}

#[cfg(test)]
mod tests;
