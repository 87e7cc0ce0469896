//! Gossip: what members tell each other of themselves, when it changes and each second.
//!
//! Fields, each a tag (1), its length (4) and its bytes. A field replaces the one that was told before, and one that is absent hasn't changed.
//! Unknown tags, and bytes behind what this version knows of a field, are skipped.

use crate::wire::{FieldReader, FieldWriter};

/// Most bytes of a message.
const BYTES_MAX: usize = 16 << 20;
/// Most entries of a list.
const ENTRIES_MAX: usize = 1 << 16;
const WORD_BYTES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 300;
/// Most bytes of the name of a vhost or a user.
const NAME_BYTES_MAX: usize = 1 << 10;

/// A value that has a form as a field.
trait Field: Sized {
    fn put(&self, to: &mut FieldWriter);
    fn take(from: &mut FieldReader<'_>) -> Option<Self>;
}

impl Field for u64 {
    fn put(&self, to: &mut FieldWriter) {
        to.u64(*self);
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        from.u64()
    }
}

impl Field for u32 {
    fn put(&self, to: &mut FieldWriter) {
        to.u32(*self);
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        from.u32()
    }
}

impl Field for u16 {
    fn put(&self, to: &mut FieldWriter) {
        to.u16(*self);
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        from.u16()
    }
}

impl Field for bool {
    fn put(&self, to: &mut FieldWriter) {
        to.u8(u8::from(*self));
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        from.flag()
    }
}

impl Field for String {
    fn put(&self, to: &mut FieldWriter) {
        to.text(self, WORD_BYTES_MAX);
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        from.text(WORD_BYTES_MAX)
    }
}

/// Each entry behind its length, so that a newer version's are longer.
impl<T: Field> Field for Vec<T> {
    fn put(&self, to: &mut FieldWriter) {
        let entries = self.len().min(ENTRIES_MAX);
        to.u32(entries as u32);
        for entry in &self[..entries] {
            let mut bytes = FieldWriter::default();
            entry.put(&mut bytes);
            to.u32(bytes.0.len() as u32);
            to.0.extend(bytes.0);
        }
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        let count = from.u32()? as usize;
        if count > ENTRIES_MAX {
            return None;
        }
        let mut entry = || {
            let length = from.u32()? as usize;
            T::take(&mut FieldReader(from.bytes(length)?))
        };
        (0..count).map(|_| entry()).collect()
    }
}

/// A listener of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GossipListener {
    /// The interface as RabbitMQ shows it.
    pub interface: String,
    /// Its port.
    pub port: u16,
    /// RabbitMQ's name of its protocol.
    pub protocol: String,
    /// Its purpose, in words.
    pub purpose: String,
}

impl Field for GossipListener {
    fn put(&self, to: &mut FieldWriter) {
        to.text(&self.interface, TEXT_BYTES_MAX);
        to.u16(self.port);
        to.text(&self.protocol, WORD_BYTES_MAX);
        to.text(&self.purpose, TEXT_BYTES_MAX);
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        let (interface, port) = (from.text(TEXT_BYTES_MAX)?, from.u16()?);
        Some(GossipListener {
            interface,
            port,
            protocol: from.text(WORD_BYTES_MAX)?,
            purpose: from.text(TEXT_BYTES_MAX)?,
        })
    }
}

/// An address at which clients find a node, for protocols that tell clients where something is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GossipAddress {
    /// RabbitMQ's name of the protocol.
    pub protocol: String,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Field for GossipAddress {
    fn put(&self, to: &mut FieldWriter) {
        to.text(&self.protocol, WORD_BYTES_MAX);
        to.text(&self.host, TEXT_BYTES_MAX);
        to.u16(self.port);
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        Some(GossipAddress {
            protocol: from.text(WORD_BYTES_MAX)?,
            host: from.text(TEXT_BYTES_MAX)?,
            port: from.u16()?,
        })
    }
}

/// Open connections of a vhost, or connections and channels of a user, on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GossipCount {
    /// The name of the vhost or the user.
    pub name: String,
    /// Its connections.
    pub connections: u64,
    /// Its channels; 0 for a vhost, which has no limit of them.
    pub channels: u64,
}

impl Field for GossipCount {
    fn put(&self, to: &mut FieldWriter) {
        to.text(&self.name, NAME_BYTES_MAX);
        to.u64(self.connections);
        to.u64(self.channels);
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        Some(GossipCount { name: from.name(NAME_BYTES_MAX)?, connections: from.u64()?, channels: from.u64()? })
    }
}

/// A placement of queues that a member leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GossipLed {
    /// Its number.
    pub placement: u32,
    /// The term of the leadership.
    pub term: u64,
}

impl Field for GossipLed {
    fn put(&self, to: &mut FieldWriter) {
        to.u32(self.placement);
        to.u64(self.term);
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        Some(GossipLed { placement: from.u32()?, term: from.u64()? })
    }
}

/// A key of the configuration with a digest of its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GossipSetting {
    /// The key.
    pub key: String,
    /// The digest of its value.
    pub digest: u64,
}

impl Field for GossipSetting {
    fn put(&self, to: &mut FieldWriter) {
        to.text(&self.key, TEXT_BYTES_MAX);
        to.u64(self.digest);
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        Some(GossipSetting { key: from.text(TEXT_BYTES_MAX)?, digest: from.u64()? })
    }
}

/// A session of the page that was ended before its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GossipEndedSession {
    /// Its random number.
    pub id: u128,
    /// Wall time of its beginning, in milliseconds since the Unix epoch.
    pub began_ms: u64,
    /// Wall time of its end if nobody had ended it.
    pub ends_ms: u64,
}

impl Field for GossipEndedSession {
    fn put(&self, to: &mut FieldWriter) {
        to.u64((self.id >> 64) as u64);
        to.u64(self.id as u64);
        to.u64(self.began_ms);
        to.u64(self.ends_ms);
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        let (high, low) = (from.u64()?, from.u64()?);
        let id = u128::from(high) << 64 | u128::from(low);
        Some(GossipEndedSession { id, began_ms: from.u64()?, ends_ms: from.u64()? })
    }
}

/// A node's replica of the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GossipReplica {
    /// RabbitMQ's word for its role, such as `leader`.
    pub role: String,
    /// Whether it votes.
    pub is_voter: bool,
    /// Its term.
    pub term: u64,
    /// Index of its last entry.
    pub last: u64,
    /// Index of the last entry that it knows to be committed.
    pub committed: u64,
    /// Index of the last entry that it has applied.
    pub applied: u64,
    /// Index of the last entry of its last snapshot.
    pub snapshot: u64,
}

impl Field for GossipReplica {
    fn put(&self, to: &mut FieldWriter) {
        to.text(&self.role, WORD_BYTES_MAX);
        to.u8(u8::from(self.is_voter));
        [self.term, self.last, self.committed, self.applied, self.snapshot].into_iter().for_each(|value| to.u64(value));
    }

    fn take(from: &mut FieldReader<'_>) -> Option<Self> {
        let (role, is_voter, term, last) = (from.text(WORD_BYTES_MAX)?, from.flag()?, from.u64()?, from.u64()?);
        let (committed, applied, snapshot) = (from.u64()?, from.u64()?, from.u64()?);
        Some(GossipReplica { role, is_voter, term, last, committed, applied, snapshot })
    }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $tag:literal $field:ident: $kind:ty,)+) => {
        /// A node's words of itself, as far as they are known or have changed.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Gossip {
            $($(#[$doc])* pub $field: Option<$kind>,)+
        }

        impl Gossip {
            /// Encodes the fields that it has.
            #[must_use]
            pub fn encode(&self) -> Vec<u8> {
                let mut to = FieldWriter::default();
                $(if let Some(value) = &self.$field {
                    let mut bytes = FieldWriter::default();
                    value.put(&mut bytes);
                    to.u8($tag);
                    to.u32(bytes.0.len() as u32);
                    to.0.extend(bytes.0);
                })+
                to.0
            }

            /// Decodes it. Fields that aren't known are skipped.
            #[must_use]
            pub fn decode(bytes: &[u8]) -> Option<Gossip> {
                if bytes.len() > BYTES_MAX {
                    return None;
                }
                let (mut from, mut gossip) = (FieldReader(bytes), Gossip::default());
                while !from.0.is_empty() {
                    let (tag, length) = (from.u8()?, from.u32()? as usize);
                    let mut field = FieldReader(from.bytes(length)?);
                    match tag {
                        $($tag => gossip.$field = Some(Field::take(&mut field)?),)+
                        _ => {}
                    }
                }
                Some(gossip)
            }

            /// The fields that it has and that are others than in `earlier`.
            #[must_use]
            pub fn news(&self, earlier: &Gossip) -> Gossip {
                Gossip { $($field: (self.$field != earlier.$field).then(|| self.$field.clone()).flatten(),)+ }
            }

            /// Takes the fields that `newer` has.
            pub fn take(&mut self, newer: Gossip) {
                $(if newer.$field.is_some() {
                    self.$field = newer.$field;
                })+
            }
        }
    };
}

fields! {
    /// Its wall time, in milliseconds since the Unix epoch. Told each second.
    1 wall_ms: u64,
    /// RabbitMQ's words for the resources whose alarms are raised, such as `memory`.
    2 alarms: Vec<String>,
    /// Whether it is in maintenance.
    3 is_in_maintenance: bool,
    /// Its cores.
    4 cores: u32,
    /// RabbitMQ's version as it says it.
    5 version: String,
    /// Its open listeners.
    6 listeners: Vec<GossipListener>,
    /// The members that it doesn't reach.
    7 unreached: Vec<u16>,
    /// Connections of the vhosts that have a limit.
    8 vhosts: Vec<GossipCount>,
    /// Connections and channels of the users that have a limit.
    9 users: Vec<GossipCount>,
    /// The keys of its configuration that were set.
    10 settings: Vec<GossipSetting>,
    /// Its replica of the metadata. Told each second.
    11 replica: GossipReplica,
    /// Its addresses for clients.
    12 addresses: Vec<GossipAddress>,
    /// The placements of queues that it leads. 13 had them without terms.
    14 led: Vec<GossipLed>,
    /// The sessions of the page that were ended before their time.
    15 ended_sessions: Vec<GossipEndedSession>,
    /// The wall time since which it knows of all of these.
    16 ended_sessions_since_ms: u64,
    /// The wall time until which no session that began is open.
    17 ended_sessions_until_ms: u64,
    /// The placements of queues whose leadership it gave away because somebody asked for it, with the terms of the next leaders.
    18 given: Vec<GossipLed>,
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn gossip() -> Gossip {
        Gossip {
            wall_ms: Some(5),
            alarms: Some(vec!["memory".into()]),
            is_in_maintenance: Some(true),
            cores: Some(2),
            version: Some("4.3.5".into()),
            listeners: Some(vec![GossipListener {
                interface: "[::]".into(),
                port: 5672,
                protocol: "amqp".into(),
                purpose: "AMQP".into(),
            }]),
            unreached: Some(vec![1, 7]),
            vhosts: Some(vec![GossipCount { name: "a\nb".into(), connections: 3, channels: 0 }]),
            users: Some(vec![GossipCount { name: "me".into(), connections: 3, channels: 9 }]),
            settings: Some(vec![GossipSetting { key: "heartbeat".into(), digest: 77 }]),
            replica: Some(GossipReplica {
                role: "leader".into(),
                is_voter: true,
                term: 4,
                last: 9,
                ..Default::default()
            }),
            addresses: Some(vec![GossipAddress { protocol: "stream".into(), host: "b.example".into(), port: 5552 }]),
            led: Some(vec![GossipLed { placement: 1, term: 7 }, GossipLed { placement: 24, term: u64::MAX }]),
            ended_sessions: Some(vec![GossipEndedSession { id: u128::MAX - 7, began_ms: 1, ends_ms: 2 }]),
            ended_sessions_since_ms: Some(1),
            ended_sessions_until_ms: Some(0),
            given: Some(vec![GossipLed { placement: 3, term: 8 }]),
        }
    }

    #[test]
    fn only_changed_fields_travel_and_replace_the_others() {
        let earlier = gossip();
        let now = Gossip { alarms: Some(Vec::new()), wall_ms: Some(6), ..gossip() };
        let news = now.news(&earlier);
        assert_eq!(news, Gossip { alarms: Some(Vec::new()), wall_ms: Some(6), ..Gossip::default() });
        let mut heard = earlier;
        heard.take(Gossip::decode(&news.encode()).expect("is gossip"));
        assert_eq!(heard, now);
    }

    #[test]
    fn fields_and_parts_of_newer_versions_are_skipped() {
        let mut bytes = gossip().encode();
        bytes.extend([200, 3, 0, 0, 0, 1, 2, 3]);
        // A field of cores that is longer than ours.
        bytes.extend([4, 6, 0, 0, 0, 8, 0, 0, 0, 9, 9]);
        assert_eq!(Gossip::decode(&bytes), Some(Gossip { cores: Some(8), ..gossip() }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_gossip_or_none(bytes in vec(any::<u8>(), 0..200), at in 0..400usize, byte in any::<u8>()) {
            let _ = Gossip::decode(&bytes);
            let mut damaged = gossip().encode();
            prop_assert_eq!(Gossip::decode(&damaged), Some(gossip()));
            if let Some(found) = damaged.get_mut(at) {
                *found = byte;
            }
            let _ = Gossip::decode(&damaged);
            let _ = Gossip::decode(&damaged[..at.min(damaged.len())]);
        }
    }
}
