//! HELLO: what a node says of itself.

use crate::wire::{FieldReader, FieldWriter};

const RELEASE_BYTES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 255;
const ADDRESSES_MAX: usize = 16;
const ADDRESS_BYTES_MAX: usize = 300;

/// The purpose of a link. Links of a pair of nodes are separate connections, so that none of them waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// Votes, heartbeats, gossip, forwarded requests.
    Control,
    /// Entries of placements.
    Append,
    /// States and other large bodies.
    Bulk,
    /// The traffic of clients, one for each core.
    Data,
    /// Questions to a node that isn't a member of the same cluster yet. It ends with them.
    Ask,
}

impl LinkKind {
    /// All kinds.
    pub const ALL: [LinkKind; 5] = [LinkKind::Control, LinkKind::Append, LinkKind::Bulk, LinkKind::Data, LinkKind::Ask];

    /// The name in texts and in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LinkKind::Control => "control",
            LinkKind::Append => "append",
            LinkKind::Bulk => "bulk",
            LinkKind::Data => "data",
            LinkKind::Ask => "ask",
        }
    }

    /// Most bytes of all bodies that are on their way on such a link.
    #[must_use]
    pub fn bodies_bytes_max(self) -> usize {
        match self {
            LinkKind::Bulk => 1 << 30,
            _ => 64 << 20,
        }
    }

    fn from_byte(byte: u8) -> Option<LinkKind> {
        Self::ALL.into_iter().find(|kind| kind.to_byte() == byte)
    }

    fn to_byte(self) -> u8 {
        self as u8 + 1
    }
}

/// A range of versions of the protocol between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The lowest one that is spoken.
    pub min: u16,
    /// The highest one that is spoken.
    pub max: u16,
}

impl Versions {
    /// The versions of this release.
    pub const OWN: Versions = Versions { min: 1, max: 1 };

    /// The version that both speak, if there is one.
    #[must_use]
    pub fn common(self, other: Versions) -> Option<u16> {
        let max = self.max.min(other.max);
        (max >= self.min.max(other.min)).then_some(max)
    }
}

/// A node's words about itself. They are believed once its proof is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Versions of the protocol between nodes.
    pub versions: Versions,
    /// Release, such as `0.1.0`.
    pub release: String,
    /// Node name, such as `rabbit@host`.
    pub node_name: String,
    /// The id in its identity.
    pub node_id: u64,
    /// The id of its cluster; none if it has never been in one.
    pub cluster_id: Option<[u8; 16]>,
    /// Its member number; none if it isn't a member.
    pub member: Option<u16>,
    /// Number of starts on its directory.
    pub boot: u64,
    /// Random number of this start.
    pub start_nonce: u32,
    /// Wall time of this start, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Number of members of its cluster; 1 if it is alone.
    pub members: u16,
    /// Whether it has nothing that joining another node would lose.
    pub is_blank: bool,
    /// The purpose of the link.
    pub link: LinkKind,
    /// Hosts and ports at which its listener for nodes can be reached.
    pub addresses: Vec<String>,
    /// Random bytes, new for each link: proofs can't be used twice.
    pub challenge: [u8; 32],
}

impl Hello {
    /// Encodes it. Texts that are too long are cut, and addresses beyond 16 left out.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = FieldWriter::default();
        to.u16(self.versions.min);
        to.u16(self.versions.max);
        to.0.extend(self.challenge);
        to.u8(self.link.to_byte());
        to.text(&self.release, RELEASE_BYTES_MAX);
        to.text(&self.node_name, NAME_BYTES_MAX);
        to.u64(self.node_id);
        to.u8(u8::from(self.cluster_id.is_some()));
        to.0.extend(self.cluster_id.iter().flatten());
        to.u8(u8::from(self.member.is_some()));
        self.member.into_iter().for_each(|member| to.u16(member));
        to.u64(self.boot);
        to.u32(self.start_nonce);
        to.u64(self.started_at_ms);
        to.u16(self.members);
        to.u8(u8::from(self.is_blank));
        to.u8(self.addresses.len().min(ADDRESSES_MAX) as u8);
        self.addresses.iter().take(ADDRESSES_MAX).for_each(|address| to.text(address, ADDRESS_BYTES_MAX));
        to.0
    }

    /// Decodes it. Fields that a newer version has behind these are skipped.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Hello> {
        let mut from = FieldReader(bytes);
        let versions = Versions { min: from.u16()?, max: from.u16()? };
        if versions.min > versions.max {
            return None;
        }
        let challenge = from.array()?;
        let link = LinkKind::from_byte(from.u8()?)?;
        let (release, node_name) = (from.text(RELEASE_BYTES_MAX)?, from.text(NAME_BYTES_MAX)?);
        let node_id = from.u64()?;
        let cluster_id = if from.flag()? { Some(from.array()?) } else { None };
        let member = if from.flag()? { Some(from.u16()?) } else { None };
        let (boot, start_nonce, started_at_ms) = (from.u64()?, from.u32()?, from.u64()?);
        let (members, is_blank) = (from.u16()?, from.flag()?);
        let count = usize::from(from.u8()?);
        if count > ADDRESSES_MAX {
            return None;
        }
        let addresses = (0..count).map(|_| from.text(ADDRESS_BYTES_MAX)).collect::<Option<_>>()?;
        Some(Hello {
            versions,
            release,
            node_name,
            node_id,
            cluster_id,
            member,
            boot,
            start_nonce,
            started_at_ms,
            members,
            is_blank,
            link,
            addresses,
            challenge,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn hello(name: &str, challenge: u8) -> Hello {
        Hello {
            versions: Versions::OWN,
            release: "0.1.0".into(),
            node_name: name.into(),
            node_id: 7,
            cluster_id: Some([3; 16]),
            member: Some(2),
            boot: 4,
            start_nonce: 5,
            started_at_ms: 6,
            members: 3,
            is_blank: false,
            link: LinkKind::Control,
            addresses: vec!["a.example:25672".into(), "[::1]:25672".into()],
            challenge: [challenge; 32],
        }
    }

    fn any_hello() -> impl Strategy<Value = Hello> {
        let texts = ("[a-z0-9.]{0,64}", "[a-z@.é]{0,80}", vec("[a-z0-9.:]{0,300}", 0..16));
        let ids = (any::<u64>(), option::of(any::<[u8; 16]>()), option::of(any::<u16>()));
        let numbers = (any::<u64>(), any::<u32>(), any::<u64>(), any::<u16>(), any::<bool>());
        let rest = (0..5usize, any::<[u8; 32]>(), any::<u16>(), any::<u16>());
        (texts, ids, numbers, rest).prop_map(|(texts, ids, numbers, rest)| {
            let (release, node_name, addresses) = texts;
            let (node_id, cluster_id, member) = ids;
            let (boot, start_nonce, started_at_ms, members, is_blank) = numbers;
            let (link, challenge, first, second) = rest;
            let versions = Versions { min: first.min(second), max: first.max(second) };
            Hello {
                versions,
                release,
                node_name,
                node_id,
                cluster_id,
                member,
                boot,
                start_nonce,
                started_at_ms,
                members,
                is_blank,
                link: LinkKind::ALL[link],
                addresses,
                challenge,
            }
        })
    }

    proptest! {
        #[test]
        fn a_hello_is_found_again_with_newer_fields_behind_it(hello in any_hello(), more in vec(any::<u8>(), 0..40)) {
            let mut bytes = hello.encode();
            prop_assert_eq!(Hello::decode(&bytes), Some(hello.clone()));
            let length = bytes.len();
            bytes.extend(more);
            prop_assert_eq!(Hello::decode(&bytes), Some(hello));
            prop_assert_eq!(Hello::decode(&bytes[..length - 1]), None);
        }

        #[test]
        fn any_bytes_are_a_hello_or_not(bytes in vec(any::<u8>(), 0..400)) {
            if let Some(hello) = Hello::decode(&bytes) {
                prop_assert_eq!(Hello::decode(&hello.encode()), Some(hello));
            }
        }
    }

    #[test]
    fn texts_that_are_too_long_or_forge_log_lines_are_refused() {
        let long = Hello { node_name: "é".repeat(200), ..hello("a", 1) };
        assert_eq!(Hello::decode(&long.encode()).unwrap().node_name, "é".repeat(127));
        let forged = Hello { node_name: "a\nERROR b".into(), ..hello("a", 1) };
        assert_eq!(Hello::decode(&forged.encode()), None);
        let many = Hello { addresses: vec!["a:1".into(); 20], ..hello("a", 1) };
        assert_eq!(Hello::decode(&many.encode()).unwrap().addresses.len(), 16);
    }

    #[test]
    fn the_highest_common_version_is_spoken() {
        let range = |min, max| Versions { min, max };
        assert_eq!(range(1, 3).common(range(2, 5)), Some(3));
        assert_eq!(range(4, 5).common(range(1, 4)), Some(4));
        assert_eq!(range(1, 2).common(range(3, 4)), None);
    }
}
