//! The types that the engine is given: entries, members, terms.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use openraft::entry::{RaftEntry, RaftPayload};
use openraft::impls::leader_id_std::LeaderId;
use openraft::vote::RaftLeaderId;
use openraft::{AsyncRuntime, Membership, RaftTypeConfig};

/// Id of a replica: its member number, and how often it gave up its id before.
pub type ReplicaId = u64;

/// Highest term and index that is believed: the engine counts on from them.
pub(crate) const NUMBER_MAX: u64 = u64::MAX >> 1;
/// Most bytes of entries that are read or sent at once, unless a single one has more.
pub(crate) const ENTRIES_BYTES: usize = 4 << 20;
/// Most bytes of a state that is sent whole.
pub(crate) const STATE_BYTES_MAX: usize = 1 << 30;

/// The engine's knowledge of a member besides its id: nothing. Links find it by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberInfo;

pub(crate) type Members = Membership<ReplicaId, MemberInfo>;
pub(crate) type Leader = LeaderId<u64, ReplicaId>;
pub(crate) type Term = <Leader as RaftLeaderId>::Committed;
pub(crate) type LogId = openraft::LogId<Term>;
pub(crate) type VoteOfRaft = openraft::Vote<Leader>;

/// Commands of a placement, as an entry has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands(pub Bytes);

impl fmt::Display for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "commands of {} bytes", self.0.len())
    }
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Blank,
    Commands(Commands),
    Members(Members),
}

impl Payload {
    /// About so many bytes in an entry: exactly so many, but for members, which are short.
    pub(crate) fn bytes_hint(&self) -> usize {
        match self {
            Payload::Commands(commands) => commands.0.len(),
            Payload::Blank | Payload::Members(_) => 0,
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Payload::Blank => f.write_str("blank"),
            Payload::Commands(commands) => commands.fmt(f),
            Payload::Members(members) => members.fmt(f),
        }
    }
}

impl RaftPayload for Payload {
    type D = Commands;
    type NodeId = ReplicaId;
    type Node = MemberInfo;

    fn blank() -> Payload {
        Payload::Blank
    }

    fn with_normal(self, commands: Commands) -> Payload {
        Payload::Commands(commands)
    }

    fn with_membership(self, members: Members) -> Payload {
        Payload::Members(members)
    }

    fn get_membership(&self) -> Option<Members> {
        match self {
            Payload::Members(members) => Some(members.clone()),
            _ => None,
        }
    }
}

/// An entry as the engine has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub id: LogId,
    pub payload: Payload,
    /// The replica that led; 0 until the entry is appended where it was made. Nobody led in term 0: each member makes that entry itself,
    /// and all make the same one.
    pub led_by: ReplicaId,
    pub clock: u64,
    pub committed: u64,
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.payload)
    }
}

impl RaftEntry for LogEntry {
    type CommittedLeaderId = Term;
    type Payload = Payload;

    fn new(id: LogId, payload: Payload) -> LogEntry {
        LogEntry { id, payload, led_by: 0, clock: 0, committed: 0 }
    }

    fn log_id_parts(&self) -> (&Term, u64) {
        (&self.id.leader_id, self.id.index)
    }

    fn set_log_id(&mut self, new: LogId) {
        self.id = new;
    }

    fn get_membership(&self) -> Option<Members> {
        self.payload.get_membership()
    }
}

/// The engine's types over a runtime.
pub(crate) struct Types<R>(PhantomData<fn() -> R>);

impl<R> fmt::Debug for Types<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Types")
    }
}

impl<R> Clone for Types<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Types<R> {}

impl<R> Default for Types<R> {
    fn default() -> Self {
        Types(PhantomData)
    }
}

impl<R> PartialEq for Types<R> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<R> Eq for Types<R> {}

impl<R> PartialOrd for Types<R> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<R> Ord for Types<R> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<R: AsyncRuntime> RaftTypeConfig for Types<R> {
    type D = Commands;
    type R = crate::Applied;
    type NodeId = ReplicaId;
    type Node = MemberInfo;
    type Term = u64;
    type LeaderId = Leader;
    type Vote = VoteOfRaft;
    type Payload = Payload;
    type Entry = LogEntry;
    type AsyncRuntime = R;
    type Responder<T>
        = openraft::impls::OneshotResponder<Self, T>
    where
        T: 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}
