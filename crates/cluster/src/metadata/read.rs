//! Catching up: a member that has looked something up in vain asks for what the others may have been told already.
//!
//! The member asks the leader, which makes sure that a majority still follows it, for the index of the last committed entry; when it has
//! applied that one itself, its lookups find whatever had been answered anywhere before it asked (Raft's read index: Ongaro's thesis, 6.4).

use std::time::Duration;

use bytes::Bytes;
use leveret_model::MemberNumber;
use openraft::AsyncRuntime;

use super::{Metadata, MetadataHost};
use crate::placement::ReadIndex;

/// The request for the leader's read index. That for a change is JSON, which begins otherwise.
pub(super) const READ: &[u8] = &[1];
/// Longest time for all of it: a lookup that finds nothing isn't worth more without a leader.
const WITHIN: Duration = Duration::from_secs(2);
/// Longest time when the last try has failed: clients of a minority don't wait for each lookup.
const WITHIN_AFTER_FAILURE: Duration = Duration::from_millis(200);
/// Time after which a member that knows no leader looks again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The answer of a member that was asked for its read index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// Index of the last entry that was committed.
    At(u64),
    /// That member doesn't lead; another one may.
    NotLeader(Option<MemberNumber>),
    /// It can't be said now.
    Unknown,
}

impl Read {
    fn encode(self) -> Bytes {
        match self {
            Read::At(index) => Bytes::from([&[1], &index.to_le_bytes()[..]].concat()),
            Read::NotLeader(other) => {
                Bytes::from([&[2], &other.map_or(Vec::new(), |member| member.0.to_le_bytes().to_vec())[..]].concat())
            }
            Read::Unknown => Bytes::from_static(&[3]),
        }
    }

    fn decode(bytes: &[u8]) -> Read {
        match bytes {
            [1, index @ ..] => index.try_into().map_or(Read::Unknown, |index| Read::At(u64::from_le_bytes(index))),
            [2, low, high] => Read::NotLeader(Some(MemberNumber(u16::from_le_bytes([*low, *high])))),
            [2] => Read::NotLeader(None),
            _ => Read::Unknown,
        }
    }
}

impl<R: AsyncRuntime, H: MetadataHost> Metadata<R, H> {
    /// Catches up for all who asked, until nobody asks: those who come meanwhile share the next time.
    pub(super) async fn catch_up(&self) {
        loop {
            let askers = self.0.port.behind();
            if askers.is_empty() {
                self.0.catches_up.set(false);
                return;
            }
            let has_caught_up = self.read().await;
            self.0.has_caught_up.set(has_caught_up);
            askers.into_iter().for_each(|answer| answer(has_caught_up));
        }
    }

    /// Whether this member has applied all that was committed when this was called. It is tried for a while.
    async fn read(&self) -> bool {
        if planted!(SkipReadBarrier) {
            return true;
        }
        let shared = &self.0.shared;
        let within = if self.0.has_caught_up.get() { WITHIN } else { WITHIN_AFTER_FAILURE };
        let deadline = shared.host.now() + within.min(self.0.patience).as_nanos() as u64;
        let mut hint = None;
        loop {
            let now = shared.host.now();
            if now >= deadline || self.0.placement.stopped().is_some() {
                return false;
            }
            let left = Duration::from_nanos(deadline - now);
            let leader = hint.take().or(self.leader().1);
            let read = match leader {
                Some(leader) if leader == shared.member => {
                    R::timeout(left, self.read_here()).await.unwrap_or(Read::Unknown)
                }
                Some(leader) => match shared.host.ask_member(leader, Bytes::from_static(READ), left).await {
                    Ok(read) => Read::decode(&read),
                    Err(_) => Read::Unknown,
                },
                None => Read::Unknown,
            };
            match read {
                Read::At(index) => return self.wait_until_applied(index, deadline).await,
                Read::NotLeader(Some(other)) if leader != Some(other) => hint = Some(other),
                Read::NotLeader(_) | Read::Unknown => R::sleep(AGAIN_AFTER).await,
            }
        }
    }

    async fn wait_until_applied(&self, index: u64, deadline: u64) -> bool {
        let shared = &self.0.shared;
        loop {
            let count = shared.entries.count();
            if self.0.placement.state().applied.is_some_and(|(_, applied)| applied >= index) {
                return true;
            }
            let now = shared.host.now();
            if now >= deadline {
                return false;
            }
            let _ = R::timeout(Duration::from_nanos(deadline - now), shared.entries.more_than(count)).await;
        }
    }

    async fn read_here(&self) -> Read {
        match self.0.placement.read_index().await {
            ReadIndex::At(index) => Read::At(index),
            ReadIndex::NotLeader(other) => Read::NotLeader(other.map(super::member_of)),
            ReadIndex::Unknown => Read::Unknown,
        }
    }

    /// Answers another member that asks for the read index.
    pub(super) async fn answer_read(&self) -> Bytes {
        R::timeout(WITHIN, self.read_here()).await.unwrap_or(Read::Unknown).encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_written() {
        let all = [
            Read::At(0),
            Read::At(u64::MAX),
            Read::NotLeader(None),
            Read::NotLeader(Some(MemberNumber(513))),
            Read::Unknown,
        ];
        for read in all {
            assert_eq!(Read::decode(&read.encode()), read);
        }
        for wrong in [&b""[..], &[1], &[1, 2], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[2, 1], &[2, 1, 2, 3], &[9]] {
            assert_eq!(Read::decode(wrong), Read::Unknown, "{wrong:?}");
        }
    }
}
