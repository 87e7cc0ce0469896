//! The changes of a node that need another start: it joins the cluster of another node, or forgets everything.

use std::fs;
use std::io;
use std::path::PathBuf;

use leveret_log::Options as LogOptions;
use leveret_model::MemberNumber;
use tracing::info;

use crate::cluster::member::Membership;
use crate::disk::FsDisk;
use crate::identity::{Found, Identity, IdentityError, Standing};
use crate::lock::DirectoryLock;
use crate::offline::STORE;

/// The requester's name for a stop after which the node starts as [`NodeHandle::next_start`](crate::NodeHandle::next_start) says.
pub const START_ANEW: &str = "a change of its cluster";

/// The name of the store while it is being removed.
const OLD: &str = "store.old";

/// The state of a node after its next start.
#[derive(Clone, Copy, Debug)]
pub enum NextStart {
    /// A member of another node's cluster, without anything of its own.
    Joined(Joined),
    /// A new node.
    Reset,
}

/// A membership that another node has given.
#[derive(Clone, Copy, Debug)]
pub struct Joined(pub(crate) Membership);

/// The reason why a node's data can't be removed.
#[derive(Debug, thiserror::Error)]
pub enum NextStartError {
    /// The directory can't be changed.
    #[error("cannot remove the data in {path}: {source}")]
    Directory {
        /// The path that failed.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The identity can't be read or written.
    #[error("cannot write the node's identity: {0}")]
    Identity(#[from] IdentityError),
}

impl NextStart {
    /// Removes the data of a node that has stopped.
    ///
    /// # Errors
    /// It can't be removed, or the identity can't be written. The node has its old data, or none and no cluster.
    pub fn prepare(self, lock: &DirectoryLock) -> Result<(), NextStartError> {
        let (store, old) = (lock.directory().join(STORE), lock.directory().join(OLD));
        let failed = |path: &PathBuf| {
            let path = path.clone();
            move |source| NextStartError::Directory { path, source }
        };
        let options = LogOptions::default();
        let last = match Found::read(&FsDisk::open(&store).map_err(failed(&store))?, &options)? {
            Found::Here(identity) => Some(identity),
            Found::Empty | Found::Before | Found::Unusable(_) => None,
        };
        remove(&old).map_err(failed(&old))?;
        fs::rename(&store, &old).map_err(failed(&store))?;
        fs::create_dir(&store).map_err(failed(&store))?;
        if let (NextStart::Joined(Joined(Membership { member, cluster_id })), Some(last)) = (self, last) {
            let standing = Standing::Member;
            let identity = Identity { member, cluster_id, standing, log_node_id: last.node_id, ..last };
            identity.write(&FsDisk::open(&store).map_err(failed(&store))?, &options)?;
        }
        remove(&old).map_err(failed(&old))?;
        match self {
            NextStart::Joined(Joined(Membership { member: MemberNumber(number), .. })) => {
                info!("the node's own data is removed; it starts as member {number} of the cluster");
            }
            NextStart::Reset => info!("the node's data is removed; it starts as a new node"),
        }
        Ok(())
    }
}

fn remove(directory: &PathBuf) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
