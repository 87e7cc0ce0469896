//! The frames between replicas of a placement.
//!
//! A request: version 1, kind, zeros (2), placement (4), then the fields of its kind. An answer: version, kind, zeros (2), fields. A vote
//! is term (8), replica (8), leader (1); an id of an entry is 1 (1), term (8), index (8), or 0 (1); bytes are their length (4) and
//! themselves. Entries are as on the disk. All integers are little endian. Decoders take any bytes and never panic, and nothing that they
//! return has a replica 0, a configuration without voters, or a term or index that can't be counted on from. Whether the fields fit
//! together is [`crate::vetting`]'s.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use leveret_log::{ENTRY_HEADER_BYTES, Entry, PlacementId};

use crate::entry_codec::log_id;
use crate::members;
use crate::types::{LogEntry, LogId, Members, NUMBER_MAX, ReplicaId, VoteOfRaft};

const VERSION: u8 = 1;

/// A state that replaces a follower's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SnapshotFrame {
    pub vote: VoteOfRaft,
    pub last: Option<LogId>,
    pub members_at: Option<LogId>,
    pub members: Members,
    /// The placement's clock by then.
    pub clock: u64,
    pub state: Bytes,
}

/// A request of one replica to another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    Append {
        vote: VoteOfRaft,
        previous: Option<LogId>,
        committed: Option<LogId>,
        entries: Vec<LogEntry>,
    },
    Vote {
        vote: VoteOfRaft,
        last: Option<LogId>,
        is_transfer: bool,
    },
    PreVote {
        vote: VoteOfRaft,
        last: Option<LogId>,
        is_transfer: bool,
    },
    Snapshot(SnapshotFrame),
    Transfer {
        from: VoteOfRaft,
        to: ReplicaId,
        last: Option<LogId>,
    },
    /// Asks for something that a state left out.
    Ask(Bytes),
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Appended,
    AppendedUpTo(Option<LogId>),
    Conflict,
    HigherVote(VoteOfRaft),
    Voted { vote: VoteOfRaft, is_granted: bool, last: Option<LogId> },
    Installed(VoteOfRaft),
    Transferred,
    Refused(String),
    Told(Bytes),
}

/// The weight of a request: the heavier ones shouldn't hold up the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameWeight {
    /// A vote, a heartbeat, a transfer.
    Light,
    /// Entries.
    Entries,
    /// A whole state, or something that one left out.
    State,
}

const APPEND: u8 = 1;
const SNAPSHOT: u8 = 4;
const ASK: u8 = 6;
/// Bytes before the fields of a request's kind.
const HEAD: usize = 8;
const VOTE_BYTES: usize = 17;
/// Enough for all fields of a frame that have a fixed length.
const FIXED_BYTES: usize = 96;

/// The placement that a request is for.
pub(crate) fn placement_of(request: &[u8]) -> Option<PlacementId> {
    let bytes = request.get(4..HEAD)?.try_into().ok()?;
    Some(PlacementId(u32::from_le_bytes(bytes)))
}

/// The weight of a request.
pub(crate) fn weight_of(request: &[u8]) -> FrameWeight {
    match request.get(1) {
        Some(&(SNAPSHOT | ASK)) => FrameWeight::State,
        Some(&APPEND) if !is_heartbeat(request) => FrameWeight::Entries,
        _ => FrameWeight::Light,
    }
}

/// Whether an append has no entries.
fn is_heartbeat(request: &[u8]) -> bool {
    let mut rest = request.get(HEAD + VOTE_BYTES..).unwrap_or_default();
    for _ in 0..2 {
        let id = if rest.first() == Some(&1) { 17 } else { 1 };
        rest = rest.get(id..).unwrap_or_default();
    }
    rest.starts_with(&[0; 4])
}

struct Writer(BytesMut);

impl Writer {
    /// A frame of this kind whose parts of any length have so many bytes.
    fn new(kind: u8, long: usize) -> Writer {
        let mut bytes = BytesMut::with_capacity(FIXED_BYTES + long);
        bytes.put_slice(&[VERSION, kind, 0, 0]);
        Writer(bytes)
    }

    fn id(&mut self, id: Option<LogId>) {
        self.0.put_u8(u8::from(id.is_some()));
        if let Some(id) = id {
            self.0.put_u64_le(id.leader_id.term);
            self.0.put_u64_le(id.index);
        }
    }

    fn vote(&mut self, vote: &VoteOfRaft) {
        self.0.put_u64_le(vote.leader_id.term);
        self.0.put_u64_le(vote.leader_id.voted_for);
        self.0.put_u8(u8::from(vote.committed));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.put_u32_le(bytes.len() as u32);
        self.0.put_slice(bytes);
    }
}

/// Takes fields from the beginning of bytes.
pub(crate) struct FrameReader(pub(crate) Bytes);

impl FrameReader {
    pub(crate) fn take(&mut self, count: usize) -> Option<Bytes> {
        (self.0.len() >= count).then(|| self.0.split_to(count))
    }

    /// A field of a fixed length. Nothing is shared for it.
    fn field<const N: usize>(&mut self) -> Option<[u8; N]> {
        let field = self.0.first_chunk().copied()?;
        self.0.advance(N);
        Some(field)
    }

    fn byte(&mut self) -> Option<u8> {
        self.field().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        self.byte().and_then(|byte| (byte <= 1).then_some(byte == 1))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.field().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.field().map(u64::from_le_bytes)
    }

    fn id(&mut self) -> Option<Option<LogId>> {
        if !self.flag()? {
            return Some(None);
        }
        let (term, index) = (self.u64()?, self.u64()?);
        (index.max(term) <= NUMBER_MAX).then(|| Some(log_id(term, index)))
    }

    fn vote(&mut self) -> Option<VoteOfRaft> {
        let (term, replica, is_leader) = (self.u64()?, self.u64()?, self.flag()?);
        if term > NUMBER_MAX || replica == 0 {
            return None;
        }
        Some(match is_leader {
            true => VoteOfRaft::new_committed(term, replica),
            false => VoteOfRaft::new(term, replica),
        })
    }

    pub(crate) fn bytes(&mut self) -> Option<Bytes> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn head(&mut self) -> Option<u8> {
        let [version, kind, rest @ ..] = self.field::<4>()?;
        (version == VERSION && rest == [0; 2]).then_some(kind)
    }

    pub(crate) fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

impl Request {
    /// Bytes of the parts that may have any length: so much at once costs less than growing step by step.
    fn long(&self) -> usize {
        match self {
            Request::Append { entries, .. } => {
                entries.iter().map(|entry| 4 + ENTRY_HEADER_BYTES + entry.payload.bytes_hint()).sum()
            }
            Request::Snapshot(frame) => frame.state.len(),
            Request::Ask(question) => question.len(),
            Request::Vote { .. } | Request::PreVote { .. } | Request::Transfer { .. } => 0,
        }
    }

    pub(crate) fn encode(self, placement: PlacementId) -> Bytes {
        let kind = match self {
            Request::Append { .. } => 1,
            Request::Vote { .. } => 2,
            Request::PreVote { .. } => 3,
            Request::Snapshot(_) => 4,
            Request::Transfer { .. } => 5,
            Request::Ask(_) => ASK,
        };
        let mut to = Writer::new(kind, self.long());
        to.0.put_u32_le(placement.0);
        match self {
            Request::Append { vote, previous, committed, entries } => {
                to.vote(&vote);
                to.id(previous);
                to.id(committed);
                to.0.put_u32_le(entries.len() as u32);
                for entry in entries {
                    let entry = entry.into_entry(placement);
                    to.0.put_u32_le(entry.encoded_bytes() as u32);
                    to.0.put_slice(&entry.head());
                    to.0.put_slice(&entry.body);
                }
            }
            Request::Vote { vote, last, is_transfer } | Request::PreVote { vote, last, is_transfer } => {
                to.vote(&vote);
                to.id(last);
                to.0.put_u8(u8::from(is_transfer));
            }
            Request::Snapshot(SnapshotFrame { vote, last, members_at, members, clock, state }) => {
                to.vote(&vote);
                to.id(last);
                to.id(members_at);
                to.bytes(&members::encode(&members));
                to.0.put_u64_le(clock);
                to.bytes(&state);
            }
            Request::Transfer { from, to: target, last } => {
                to.vote(&from);
                to.0.put_u64_le(target);
                to.id(last);
            }
            Request::Ask(question) => to.bytes(&question),
        }
        to.0.freeze()
    }

    /// The placement and the request in these bytes; `None` if they aren't a request of this version.
    pub(crate) fn decode(bytes: &Bytes) -> Option<(PlacementId, Request)> {
        let mut from = FrameReader(bytes.clone());
        let kind = from.head()?;
        let placement = PlacementId(from.u32()?);
        let request = match kind {
            1 => {
                let (vote, previous, committed) = (from.vote()?, from.id()?, from.id()?);
                let count = from.u32()?;
                // The count isn't believed: so many don't fit.
                let most = from.0.len() / ENTRY_HEADER_BYTES;
                let mut entries = Vec::with_capacity(most.min(count as usize));
                for _ in 0..count {
                    let (entry, is_carried) = Entry::decode(&from.bytes()?).ok()?;
                    if entry.placement != placement || is_carried {
                        return None;
                    }
                    entries.push(LogEntry::of(entry).ok()?);
                }
                Request::Append { vote, previous, committed, entries }
            }
            2 => Request::Vote { vote: from.vote()?, last: from.id()?, is_transfer: from.flag()? },
            3 => Request::PreVote { vote: from.vote()?, last: from.id()?, is_transfer: from.flag()? },
            4 => Request::Snapshot(SnapshotFrame {
                vote: from.vote()?,
                last: from.id()?,
                members_at: from.id()?,
                members: members::decode(&from.bytes()?)?,
                clock: from.u64()?,
                state: from.bytes()?,
            }),
            5 => Request::Transfer { from: from.vote()?, to: from.u64().filter(|to| *to != 0)?, last: from.id()? },
            ASK => Request::Ask(from.bytes()?),
            _ => return None,
        };
        from.end((placement, request))
    }
}

impl Reply {
    pub(crate) fn encode(&self) -> Bytes {
        let kind = match self {
            Reply::Appended => 1,
            Reply::AppendedUpTo(_) => 2,
            Reply::Conflict => 3,
            Reply::HigherVote(_) => 4,
            Reply::Voted { .. } => 5,
            Reply::Installed(_) => 6,
            Reply::Transferred => 7,
            Reply::Refused(_) => 8,
            Reply::Told(_) => 9,
        };
        let long = match self {
            Reply::Refused(reason) => reason.len(),
            Reply::Told(answer) => answer.len(),
            _ => 0,
        };
        let mut to = Writer::new(kind, long);
        match self {
            Reply::Appended | Reply::Conflict | Reply::Transferred => {}
            Reply::AppendedUpTo(id) => to.id(*id),
            Reply::HigherVote(vote) | Reply::Installed(vote) => to.vote(vote),
            Reply::Voted { vote, is_granted, last } => {
                to.vote(vote);
                to.0.put_u8(u8::from(*is_granted));
                to.id(*last);
            }
            Reply::Refused(reason) => to.bytes(reason.as_bytes()),
            Reply::Told(answer) => to.bytes(answer),
        }
        to.0.freeze()
    }

    pub(crate) fn decode(bytes: &Bytes) -> Option<Reply> {
        let mut from = FrameReader(bytes.clone());
        let reply = match from.head()? {
            1 => Reply::Appended,
            2 => Reply::AppendedUpTo(from.id()?),
            3 => Reply::Conflict,
            4 => Reply::HigherVote(from.vote()?),
            5 => Reply::Voted { vote: from.vote()?, is_granted: from.flag()?, last: from.id()? },
            6 => Reply::Installed(from.vote()?),
            7 => Reply::Transferred,
            8 => Reply::Refused(String::from_utf8(from.bytes()?.to_vec()).ok()?),
            9 => Reply::Told(from.bytes()?),
            _ => return None,
        };
        from.end(reply)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::types::{Commands, MemberInfo, Payload};

    const PLACEMENT: PlacementId = PlacementId(4);

    fn members() -> Members {
        let all: BTreeMap<_, _> = [1, 2, 3].map(|id| (id, MemberInfo)).into_iter().collect();
        Members::new(vec![BTreeSet::from([1, 2])], all).unwrap()
    }

    fn entry(index: u64, payload: Payload) -> LogEntry {
        LogEntry { id: log_id(3, index), payload, led_by: 2, clock: 5, committed: 1 }
    }

    fn requests() -> Vec<Request> {
        let (vote, last) = (VoteOfRaft::new_committed(3, 2), Some(log_id(2, 7)));
        let entries = vec![
            entry(8, Payload::Blank),
            entry(9, Payload::Commands(Commands(Bytes::from_static(b"abc")))),
            entry(10, Payload::Members(members())),
        ];
        vec![
            Request::Append { vote, previous: last, committed: None, entries },
            Request::Append { vote, previous: None, committed: last, entries: Vec::new() },
            Request::Vote { vote: VoteOfRaft::new(4, 1), last, is_transfer: true },
            Request::PreVote { vote: VoteOfRaft::new(4, 1), last: None, is_transfer: false },
            Request::Snapshot(SnapshotFrame {
                vote,
                last,
                members_at: Some(log_id(1, 0)),
                members: members(),
                clock: 77,
                state: Bytes::from_static(b"state"),
            }),
            Request::Transfer { from: vote, to: 3, last },
            Request::Ask(Bytes::from_static(b"what")),
        ]
    }

    #[test]
    fn requests_are_found_again_and_cut_ones_refused() {
        for request in requests() {
            let bytes = request.clone().encode(PLACEMENT);
            assert_eq!(Request::decode(&bytes), Some((PLACEMENT, request)));
            for length in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes.slice(..length)), None);
            }
            assert_eq!(Request::decode(&[&bytes[..], &[0]].concat().into()), None);
        }
    }

    #[test]
    fn heartbeats_are_light_and_entries_are_not() {
        let weights: Vec<_> = requests().into_iter().map(|request| request.encode(PLACEMENT)).collect();
        let weights: Vec<_> = weights.iter().map(|bytes| (placement_of(bytes), weight_of(bytes))).collect();
        use FrameWeight::{Entries, Light, State};
        assert_eq!(
            weights,
            [Entries, Light, Light, Light, State, Light, State].map(|weight| (Some(PLACEMENT), weight))
        );
        assert_eq!((placement_of(&[1, 1, 0, 0, 1]), weight_of(&[])), (None, Light));
    }

    #[test]
    fn replies_are_found_again_and_cut_ones_refused() {
        let (vote, last) = (VoteOfRaft::new(3, 2), Some(log_id(2, 7)));
        let replies = [
            Reply::Appended,
            Reply::AppendedUpTo(last),
            Reply::Conflict,
            Reply::HigherVote(vote),
            Reply::Voted { vote, is_granted: true, last: None },
            Reply::Installed(vote),
            Reply::Transferred,
            Reply::Refused("no".into()),
            Reply::Told(Bytes::from_static(b"that")),
        ];
        for reply in replies {
            let bytes = reply.encode();
            assert_eq!(Reply::decode(&bytes), Some(reply));
            for length in 0..bytes.len() {
                assert_eq!(Reply::decode(&bytes.slice(..length)), None);
            }
        }
    }

    #[test]
    fn replica_0_and_numbers_without_end_are_refused() {
        let highest = Some(log_id(NUMBER_MAX, NUMBER_MAX));
        let with = |vote, last| Request::Vote { vote, last, is_transfer: false }.encode(PLACEMENT);
        assert!(Request::decode(&with(VoteOfRaft::new(NUMBER_MAX, 1), highest)).is_some());
        for (vote, last) in [
            (VoteOfRaft::new(3, 0), None),
            (VoteOfRaft::new(NUMBER_MAX + 1, 1), None),
            (VoteOfRaft::new(u64::MAX, 1), None),
            (VoteOfRaft::new(3, 1), Some(log_id(NUMBER_MAX + 1, 7))),
            (VoteOfRaft::new(3, 1), Some(log_id(2, NUMBER_MAX + 1))),
        ] {
            assert_eq!(Request::decode(&with(vote, last)), None, "{vote} {last:?}");
            assert_eq!(Reply::decode(&Reply::Voted { vote, is_granted: true, last }.encode()), None);
        }
        let vote = VoteOfRaft::new_committed(3, 2);
        assert_eq!(Request::decode(&Request::Transfer { from: vote, to: 0, last: None }.encode(PLACEMENT)), None);
        let long = LogEntry { id: log_id(3, NUMBER_MAX + 1), ..entry(8, Payload::Blank) };
        let append = Request::Append { vote, previous: None, committed: None, entries: vec![long] };
        assert_eq!(Request::decode(&append.encode(PLACEMENT)), None);
    }

    #[test]
    fn an_entry_with_a_wrong_bit_is_refused() {
        let bytes = requests()[0].clone().encode(PLACEMENT);
        let at = bytes.len() - 60;
        for bit in 0..8 {
            let mut wrong = bytes.to_vec();
            wrong[at] ^= 1 << bit;
            assert_eq!(Request::decode(&wrong.into()), None);
        }
    }
}
