//! Whether frames fit together, and with what the replica knows. The engine asserts what a member that follows the protocol would never
//! send, so that one bad frame would end the process: such a frame is refused in words before the engine sees it.

use leveret_log::ENTRY_BYTES_MAX;

use crate::frame::{Reply, Request, SnapshotFrame};
use crate::types::{LogEntry, LogId, ReplicaId, STATE_BYTES_MAX, VoteOfRaft};

/// The knowledge of a replica that a request must not contradict.
pub(crate) struct Vetted<'a> {
    pub replica: ReplicaId,
    /// Term of its vote.
    pub term: u64,
    /// Term and index of the last entry that it knows to be committed.
    pub committed: Option<(u64, u64)>,
    /// Term of an entry of its log.
    pub term_of: &'a dyn Fn(u64) -> Option<u64>,
}

type Checked = Result<(), String>;

fn term(id: &LogId) -> u64 {
    id.leader_id.term
}

fn next(id: Option<&LogId>) -> u64 {
    id.map_or(0, |id| id.index + 1)
}

fn unless(is_wrong: bool, text: impl FnOnce() -> String) -> Checked {
    if is_wrong { Err(text()) } else { Ok(()) }
}

impl Vetted<'_> {
    fn leader(&self, vote: &VoteOfRaft) -> Checked {
        let sender = vote.leader_id.voted_for;
        unless(!vote.committed, || format!("the vote of term {} isn't that of a leader", vote.leader_id.term))?;
        unless(vote.leader_id.term == 0, || "nobody leads in term 0".into())?;
        unless(sender == self.replica, || format!("replica {sender} was named as its own leader by another"))
    }

    fn candidate(&self, vote: &VoteOfRaft, last: Option<&LogId>) -> Checked {
        let (stands_in, sender) = (vote.leader_id.term, vote.leader_id.voted_for);
        unless(vote.committed, || format!("the vote of term {stands_in} is that of a leader, who asks for no votes"))?;
        unless(sender == self.replica, || format!("replica {sender} was asked for a vote for itself by another"))?;
        below_vote(last, vote)
    }

    /// An entry of a leader whose vote is accepted can't differ from one that is committed.
    fn committed(&self, id: &LogId) -> Checked {
        let Some((last_term, last)) = self.committed else { return Ok(()) };
        // Nearly all entries are new, and need no look at the log.
        if id.index > last && term(id) >= last_term {
            return Ok(());
        }
        // A log that a state has just replaced keeps its old entries until they are purged. They say nothing.
        let is_replaced = (self.term_of)(last) != Some(last_term);
        let known = |index| (self.term_of)(index).filter(|_| !is_replaced);
        let is_wrong = match id.index {
            index if index == last => term(id) != last_term,
            index if index > last => true,
            index => known(index).map_or(term(id) > last_term, |known| known != term(id)),
        };
        unless(is_wrong, || {
            let there = known(id.index).map_or("none there".into(), |term| format!("one of term {term} there"));
            let committed = format!("the committed entries, the last of which is {last} of term {last_term}");
            format!("{id} contradicts {committed}; the log has {there}")
        })
    }

    fn entries(&self, vote: &VoteOfRaft, previous: Option<&LogId>, entries: &[LogEntry]) -> Checked {
        let (mut due, mut last, mut clock) = (next(previous), previous.map_or(0, term), 0);
        for entry in entries {
            let id = &entry.id;
            unless(id.index != due, || format!("entry {} was sent where entry {due} is due", id.index))?;
            unless(term(id) < last, || format!("{id} follows an entry of term {last}; terms never fall"))?;
            below_vote(Some(id), vote)?;
            unless((entry.led_by == 0) != (term(id) == 0), || format!("{id} was led by {}", entry.led_by))?;
            unless(term(id) == vote.leader_id.term && entry.led_by != vote.leader_id.voted_for, || {
                format!("{id} was led by {}, and {} leads in that term", entry.led_by, vote.leader_id.voted_for)
            })?;
            unless(entry.clock < clock, || format!("the clock of {id} goes back from {clock} to {}", entry.clock))?;
            (due, last, clock) = (id.index + 1, term(id), entry.clock);
        }
        Ok(())
    }

    fn snapshot(&self, frame: &SnapshotFrame) -> Checked {
        self.leader(&frame.vote)?;
        let Some(last) = &frame.last else { return Err("a state without a last entry".into()) };
        let Some(members_at) = &frame.members_at else { return Err("a state without members".into()) };
        below_vote(Some(last), &frame.vote)?;
        unless(members_at.index > last.index || term(members_at) > term(last), || {
            format!("the members of {members_at} are in a state up to {last}")
        })?;
        let bytes = frame.state.len();
        unless(bytes > STATE_BYTES_MAX, || format!("a state of {bytes} bytes; it has at most {STATE_BYTES_MAX}"))?;
        if frame.vote.leader_id.term < self.term { Ok(()) } else { self.committed(last) }
    }

    /// Whether the engine may see this request.
    ///
    /// # Errors
    /// The fault of a request that no member which follows the protocol would have sent.
    pub(crate) fn check(&self, request: &Request) -> Checked {
        match request {
            Request::Append { vote, previous, committed, entries } => {
                self.leader(vote)?;
                below_vote(previous.as_ref(), vote)?;
                below_vote(committed.as_ref(), vote)?;
                self.entries(vote, previous.as_ref(), entries)?;
                // The engine turns an older leader away, whose entries may well be others.
                if vote.leader_id.term < self.term {
                    return Ok(());
                }
                let mut ids = previous.iter().chain(committed).chain(entries.iter().map(|entry| &entry.id));
                ids.try_for_each(|id| self.committed(id))
            }
            Request::Vote { vote, last, .. } => self.candidate(vote, last.as_ref()),
            Request::PreVote { vote, last, is_transfer } => {
                unless(*is_transfer, || "nobody is asked beforehand when a leadership is handed over".into())?;
                self.candidate(vote, last.as_ref())
            }
            Request::Snapshot(frame) => self.snapshot(frame),
            Request::Transfer { from, last, .. } => {
                self.leader(from)?;
                below_vote(last.as_ref(), from)
            }
            Request::Ask(_) => Ok(()),
        }
    }
}

fn below_vote(id: Option<&LogId>, vote: &VoteOfRaft) -> Checked {
    let above = id.filter(|id| term(id) > vote.leader_id.term);
    above.map_or(Ok(()), |id| Err(format!("{id} is of a later term than the vote, {}", vote.leader_id.term)))
}

/// The request that an answer belongs to, and who asked.
pub(crate) struct AskedOf {
    pub replica: ReplicaId,
    /// Term of the vote that the asking replica has by now.
    pub term: u64,
    /// Term of the request's vote.
    pub with: u64,
    /// Ids of the entry before those sent, and of the last one.
    pub sent: (Option<LogId>, Option<LogId>),
    /// The last entry that the other replica has acknowledged to this leader.
    pub acknowledged: Option<LogId>,
}

impl AskedOf {
    fn vote(&self, vote: &VoteOfRaft) -> Checked {
        let (named, of) = (vote.leader_id.voted_for, vote.leader_id.term);
        unless(named == self.replica && of > self.term, || {
            format!("a vote for replica {named} in term {of}, in which it hasn't stood")
        })
    }

    /// Whether the engine may see this answer.
    ///
    /// # Errors
    /// The fault of an answer that no member which follows the protocol would have given.
    pub(crate) fn check(&self, reply: &Reply) -> Checked {
        let (previous, last) = &self.sent;
        match reply {
            Reply::AppendedUpTo(id) => unless(id < previous || id > last, || {
                format!("{id:?} was acknowledged, of entries behind {previous:?} up to {last:?}")
            }),
            Reply::Conflict => unless(previous.is_none() || previous <= &self.acknowledged, || {
                format!("it doesn't have {previous:?} any more, and has acknowledged {:?}", self.acknowledged)
            }),
            Reply::HigherVote(vote) => {
                let of = vote.leader_id.term;
                unless(of <= self.with, || format!("a vote of term {of} isn't above that of term {}", self.with))?;
                self.vote(vote)
            }
            Reply::Voted { vote, .. } | Reply::Installed(vote) => self.vote(vote),
            Reply::Appended | Reply::Transferred | Reply::Refused(_) | Reply::Told(_) => Ok(()),
        }
    }
}

/// Whether commands of this length can be an entry.
///
/// # Errors
/// They are too long.
pub(crate) fn check_commands(bytes: usize) -> Checked {
    let max = ENTRY_BYTES_MAX - leveret_log::ENTRY_HEADER_BYTES;
    unless(bytes > max, || format!("commands of {bytes} bytes; an entry has at most {max}"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use bytes::Bytes;

    use super::*;
    use crate::entry_codec::log_id;
    use crate::types::{MemberInfo, Members, Payload};

    /// Replica 1, which follows in term 5 and has committed entry 7 of term 4; entry 3 is of term 2.
    fn check(request: &Request) -> Checked {
        let term_of = |index| [(3, 2), (7, 4)].into_iter().find_map(|(known, term)| (known == index).then_some(term));
        Vetted { replica: 1, term: 5, committed: Some((4, 7)), term_of: &term_of }.check(request)
    }

    fn leader() -> VoteOfRaft {
        VoteOfRaft::new_committed(5, 2)
    }

    fn entry(term: u64, index: u64) -> LogEntry {
        LogEntry { id: log_id(term, index), payload: Payload::Blank, led_by: 2, clock: 100 + index, committed: 0 }
    }

    fn append(previous: Option<LogId>, committed: Option<LogId>, entries: Vec<LogEntry>) -> Request {
        Request::Append { vote: leader(), previous, committed, entries }
    }

    fn snapshot() -> SnapshotFrame {
        let all: BTreeMap<_, _> = [(1, MemberInfo), (2, MemberInfo)].into();
        SnapshotFrame {
            vote: leader(),
            last: Some(log_id(5, 9)),
            members_at: Some(log_id(0, 0)),
            members: Members::new(vec![BTreeSet::from([1, 2])], all).unwrap(),
            clock: 5,
            state: Bytes::new(),
        }
    }

    #[test]
    fn requests_of_members_that_follow_the_protocol_pass() {
        let first = LogEntry { led_by: 0, clock: 0, ..entry(0, 0) };
        let old = Request::Append {
            vote: VoteOfRaft::new_committed(3, 3),
            previous: Some(log_id(3, 7)),
            committed: None,
            entries: vec![],
        };
        let vote = VoteOfRaft::new(6, 3);
        for request in [
            append(None, None, vec![first]),
            append(Some(log_id(4, 7)), Some(log_id(4, 7)), vec![entry(4, 8), entry(5, 9)]),
            append(Some(log_id(5, 20)), Some(log_id(5, 18)), Vec::new()),
            append(Some(log_id(2, 3)), None, vec![entry(3, 4)]),
            // Another of the same index is committed by now; the engine says so.
            old,
            Request::Vote { vote, last: None, is_transfer: true },
            Request::PreVote { vote, last: Some(log_id(5, 1)), is_transfer: false },
            Request::Snapshot(snapshot()),
            Request::Snapshot(SnapshotFrame { last: Some(log_id(4, 7)), ..snapshot() }),
            Request::Transfer { from: leader(), to: 1, last: Some(log_id(5, 9)) },
        ] {
            assert_eq!(check(&request), Ok(()), "{request:?}");
        }
    }

    /// A state up to entry 7 of term 4 was installed, and the entries that it replaced aren't purged yet.
    #[test]
    fn replaced_entries_of_a_log_refuse_nothing() {
        let term_of = |index| (index < 6).then_some(2);
        let replica = Vetted { replica: 1, term: 5, committed: Some((4, 7)), term_of: &term_of };
        let delayed = append(Some(log_id(2, 3)), Some(log_id(4, 5)), vec![entry(4, 4)]);
        assert_eq!(replica.check(&delayed), Ok(()));
        let wrong = append(Some(log_id(5, 5)), None, Vec::new());
        let error = replica.check(&wrong).expect_err("term 5 began later");
        assert!(error.contains("the log has none there"), "{error}");
    }

    #[test]
    fn appends_that_the_engine_would_assert_against_are_refused() {
        let previous = Some(log_id(4, 7));
        let with = |change: fn(&mut LogEntry)| {
            let mut changed = entry(5, 8);
            change(&mut changed);
            append(previous, None, vec![changed])
        };
        let of_vote = |vote| Request::Append { vote, previous, committed: None, entries: Vec::new() };
        for (request, text) in [
            (append(previous, None, vec![entry(5, 9)]), "entry 8 is due"),
            (append(previous, None, vec![entry(5, 8), entry(5, 8)]), "entry 9 is due"),
            (append(None, None, vec![entry(1, 3)]), "entry 0 is due"),
            (append(previous, None, vec![entry(5, 8), entry(4, 9)]), "terms never fall"),
            (append(Some(log_id(5, 8)), None, vec![entry(4, 9)]), "terms never fall"),
            (append(previous, None, vec![entry(6, 8)]), "later term than the vote"),
            (append(Some(log_id(6, 8)), None, Vec::new()), "later term than the vote"),
            (append(previous, Some(log_id(6, 8)), Vec::new()), "later term than the vote"),
            (with(|entry| entry.led_by = 0), "was led by 0"),
            (with(|entry| entry.led_by = 3), "and 2 leads in that term"),
            (
                append(previous, None, vec![entry(5, 8), LogEntry { clock: 3, ..entry(5, 9) }]),
                "goes back from 108 to 3",
            ),
            (append(Some(log_id(3, 7)), None, Vec::new()), "contradicts the committed entries"),
            (append(Some(log_id(3, 8)), None, Vec::new()), "contradicts the committed entries"),
            (append(Some(log_id(1, 3)), None, Vec::new()), "contradicts the committed entries"),
            (append(Some(log_id(5, 5)), None, Vec::new()), "contradicts the committed entries"),
            (append(previous, Some(log_id(5, 6)), Vec::new()), "contradicts the committed entries"),
            (of_vote(VoteOfRaft::new(5, 2)), "isn't that of a leader"),
            (of_vote(VoteOfRaft::new_committed(5, 1)), "named as its own leader"),
            (of_vote(VoteOfRaft::new_committed(0, 2)), "nobody leads in term 0"),
        ] {
            let error = check(&request).expect_err(text);
            assert!(error.contains(text), "{error} for {text}");
        }
    }

    #[test]
    fn states_and_votes_the_engine_would_assert_against_are_refused() {
        let state = |change: fn(&mut SnapshotFrame)| {
            let mut frame = snapshot();
            change(&mut frame);
            Request::Snapshot(frame)
        };
        let vote = |vote, last| Request::Vote { vote, last, is_transfer: false };
        for (request, text) in [
            (state(|frame| frame.last = None), "without a last entry"),
            (state(|frame| frame.members_at = None), "without members"),
            (state(|frame| frame.last = Some(log_id(6, 9))), "later term than the vote"),
            (state(|frame| frame.last = Some(log_id(5, 7))), "contradicts the committed entries"),
            (state(|frame| frame.last = Some(log_id(5, 2))), "contradicts the committed entries"),
            (state(|frame| frame.members_at = Some(log_id(5, 10))), "in a state up to"),
            (state(|frame| frame.vote = VoteOfRaft::new(5, 2)), "isn't that of a leader"),
            (state(|frame| frame.vote = VoteOfRaft::new_committed(5, 1)), "named as its own leader"),
            (vote(leader(), None), "asks for no votes"),
            (vote(VoteOfRaft::new(6, 1), None), "for itself by another"),
            (vote(VoteOfRaft::new(6, 2), Some(log_id(7, 1))), "later term than the vote"),
            (Request::PreVote { vote: VoteOfRaft::new(6, 2), last: None, is_transfer: true }, "beforehand"),
            (Request::Transfer { from: VoteOfRaft::new(5, 2), to: 1, last: None }, "isn't that of a leader"),
            (Request::Transfer { from: leader(), to: 1, last: Some(log_id(6, 1)) }, "later term than the vote"),
        ] {
            let error = check(&request).expect_err(text);
            assert!(error.contains(text), "{error} for {text}");
        }
    }

    #[test]
    fn answers_that_the_engine_would_assert_against_are_refused() {
        let sent = (Some(log_id(4, 7)), Some(log_id(5, 9)));
        let asked = AskedOf { replica: 1, term: 5, with: 5, sent, acknowledged: Some(log_id(4, 6)) };
        let up_to = |term, index| Reply::AppendedUpTo(Some(log_id(term, index)));
        let voted = |vote| Reply::Voted { vote, is_granted: true, last: None };
        for reply in [
            up_to(4, 7),
            up_to(5, 9),
            Reply::Conflict,
            Reply::HigherVote(VoteOfRaft::new(6, 3)),
            voted(VoteOfRaft::new(5, 1)),
            Reply::Installed(leader()),
        ] {
            assert_eq!(asked.check(&reply), Ok(()), "{reply:?}");
        }
        for (reply, text) in [
            (up_to(4, 6), "was acknowledged"),
            (up_to(5, 10), "was acknowledged"),
            (Reply::AppendedUpTo(None), "was acknowledged"),
            (Reply::HigherVote(VoteOfRaft::new(5, 3)), "isn't above"),
            (Reply::HigherVote(VoteOfRaft::new(6, 1)), "hasn't stood"),
            (voted(VoteOfRaft::new(6, 1)), "hasn't stood"),
            (Reply::Installed(VoteOfRaft::new_committed(9, 1)), "hasn't stood"),
        ] {
            let error = asked.check(&reply).expect_err(text);
            assert!(error.contains(text), "{error} for {text}");
        }
        let lost = AskedOf { acknowledged: Some(log_id(4, 7)), ..asked };
        assert!(lost.check(&Reply::Conflict).unwrap_err().contains("has acknowledged"));
    }

    #[test]
    fn commands_have_a_limit() {
        assert_eq!(check_commands(512 << 20), Ok(()));
        assert!(check_commands(ENTRY_BYTES_MAX).unwrap_err().contains("at most 537919432"));
    }
}
