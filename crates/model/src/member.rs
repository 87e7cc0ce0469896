use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::MemberNumber;

/// A node of a cluster, as all its members know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number.
    pub number: MemberNumber,
    /// Its name, such as `rabbit@host`, unique among members.
    pub name: Arc<str>,
    /// The id of its data directory.
    pub node_id: u64,
    /// Number of its last start that the cluster knows of.
    pub boot: u64,
    /// Random number of that start.
    pub nonce: u32,
    /// Where its listener for other nodes can be reached: hosts with ports.
    pub addresses: Vec<Arc<str>>,
}

/// Arguments of [`Command::PutMember`](crate::Command::PutMember): a node joins, or a member has started again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PutMember {
    /// Its name.
    pub name: Arc<str>,
    /// The id of its data directory.
    pub node_id: u64,
    /// Number of its starts.
    pub boot: u64,
    /// Random number of this start.
    pub nonce: u32,
    /// Where it can be reached.
    pub addresses: Vec<Arc<str>>,
}

/// The entries of placement 0 that are in the metadata: those up to this one. It is logged with the effects of each entry, so that none is
/// applied twice after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedEntry {
    /// Term and index; `None` before the first one.
    pub at: Option<(u64, u64)>,
    /// Term and index of the entry with the placement's members.
    pub members_at: Option<(u64, u64)>,
    /// Its members, as in that entry.
    #[serde(with = "bytes")]
    pub members: Vec<u8>,
    /// The placement's clock, in milliseconds since the Unix epoch.
    pub clock: u64,
}

/// Bytes as hexadecimal digits.
mod bytes {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let digits = String::deserialize(from)?;
        if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
            return Err(D::Error::custom(format!("{digits} has no pairs of hexadecimal digits")));
        }
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(D::Error::custom);
        (0..digits.len()).step_by(2).map(byte).collect()
    }
}
