//! Sessions of the page in a cluster: the key of their tokens, and those that were ended, which members tell each other.
//!
//! A token holds all that there is of a session, so that each member can judge it. A member only has to know of sessions that were ended
//! before their time. A member that starts knows nothing of earlier ones until another tells it, and takes no session that is older.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use leveret_peer::{Gossip, GossipEndedSession, TokenKey};
use parking_lot::Mutex;

/// Most sessions that are known to have been ended. Beyond, sessions that began before the oldest of these end, too.
const ENDED_MAX: usize = 4096;

/// The sessions of the page in the node's cluster.
#[derive(Debug, Default)]
pub struct PageSessions {
    key: OnceLock<TokenKey>,
    ended: Mutex<Ended>,
}

#[derive(Debug, Default)]
struct Ended {
    /// By their random number.
    sessions: BTreeMap<u128, GossipEndedSession>,
    /// The wall time since which all of them are known; `None` before the node's start.
    since_ms: Option<u64>,
    /// The wall time until which no session that began is open.
    until_ms: u64,
}

impl Ended {
    fn insert(&mut self, session: GossipEndedSession) {
        self.sessions.insert(session.id, session);
        if self.sessions.len() > ENDED_MAX
            && let Some((id, began_ms)) =
                self.sessions.values().map(|old| (old.id, old.began_ms)).min_by_key(|old| old.1)
        {
            self.sessions.remove(&id);
            self.until_ms = self.until_ms.max(began_ms);
        }
    }
}

impl PageSessions {
    /// Begins at a wall time, in milliseconds since the Unix epoch. Only the first call counts.
    pub(crate) fn begin(&self, key: TokenKey, now_ms: u64) {
        if self.key.set(key).is_ok() {
            self.ended.lock().since_ms = Some(now_ms);
        }
    }

    /// The key of tokens; `None` if the node isn't a member of a cluster.
    #[must_use]
    pub fn key(&self) -> Option<&TokenKey> {
        self.key.get()
    }

    /// Ends a session on all members.
    pub fn end(&self, session: GossipEndedSession, now_ms: u64) {
        let mut ended = self.ended.lock();
        ended.sessions.retain(|_, session| session.ends_ms > now_ms);
        ended.insert(session);
    }

    /// Whether a session was ended.
    #[must_use]
    pub fn has_ended(&self, id: u128, began_ms: u64) -> bool {
        let ended = self.ended.lock();
        began_ms <= ended.until_ms || ended.sessions.contains_key(&id)
    }

    /// Whether this node would know if a session that began then had been ended.
    #[must_use]
    pub fn knows_since(&self, began_ms: u64) -> bool {
        self.ended.lock().since_ms.is_some_and(|since_ms| since_ms <= began_ms)
    }

    /// Adds what other members are told.
    pub(crate) fn add(&self, words: &mut Gossip) {
        let ended = self.ended.lock();
        if let Some(since_ms) = ended.since_ms {
            words.ended_sessions = Some(ended.sessions.values().copied().collect());
            words.ended_sessions_since_ms = Some(since_ms);
            words.ended_sessions_until_ms = Some(ended.until_ms);
        }
    }

    /// Takes what another member tells.
    pub(crate) fn hear(&self, words: &Gossip, now_ms: u64) {
        let mut ended = self.ended.lock();
        for session in words.ended_sessions.iter().flatten().filter(|session| session.ends_ms > now_ms) {
            ended.insert(*session);
        }
        ended.until_ms = ended.until_ms.max(words.ended_sessions_until_ms.unwrap_or(0));
        if let (Some(since_ms), Some(theirs)) = (ended.since_ms, words.ended_sessions_since_ms) {
            ended.since_ms = Some(since_ms.min(theirs));
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_peer::Cookie;

    use super::*;

    fn sessions(now_ms: u64) -> PageSessions {
        let sessions = PageSessions::default();
        sessions.begin(Cookie::new(b"C").token_key([0; 16]), now_ms);
        sessions
    }

    fn session(id: u128, began_ms: u64) -> GossipEndedSession {
        GossipEndedSession { id, began_ms, ends_ms: began_ms + 100_000 }
    }

    fn tell(from: &PageSessions, to: &PageSessions, now_ms: u64) {
        let mut words = Gossip::default();
        from.add(&mut words);
        to.hear(&words, now_ms);
    }

    #[test]
    fn a_member_that_starts_learns_of_ended_sessions_from_others() {
        let (old, new) = (sessions(10), sessions(500));
        old.end(session(1, 20), 30);
        assert!(!new.knows_since(20) && old.knows_since(20) && new.knows_since(500));
        tell(&old, &new, 500);
        assert!(new.knows_since(20) && new.has_ended(1, 20) && !new.has_ended(2, 20));
        tell(&new, &old, 500);
        assert!(!old.knows_since(9), "nobody knows of what was before");
    }

    #[test]
    fn a_session_whose_time_is_over_is_forgotten() {
        let (one, other) = (sessions(0), sessions(0));
        one.end(session(1, 10), 10);
        tell(&one, &other, 100_010);
        assert!(!other.has_ended(1, 10));
        one.end(session(2, 100_000), 100_010);
        assert!(!one.has_ended(1, 10) && one.has_ended(2, 100_000));
    }

    #[test]
    fn sessions_older_than_the_oldest_that_is_known_have_ended() {
        let one = sessions(0);
        for id in 0..ENDED_MAX as u64 + 1 {
            one.end(session(id.into(), 10 + id), 10);
        }
        assert!(one.has_ended(0, 10) && one.has_ended(u128::MAX, 9) && one.has_ended(1, 11));
        assert!(!one.has_ended(u128::MAX, 11));
        let other = sessions(0);
        tell(&one, &other, 10);
        assert!(other.has_ended(0, 10) && other.has_ended(u128::MAX, 10) && !other.has_ended(u128::MAX, 11));
    }

    #[test]
    fn a_node_that_is_alone_has_no_key_and_tells_nothing() {
        let alone = PageSessions::default();
        let mut words = Gossip::default();
        alone.add(&mut words);
        assert!(words == Gossip::default() && alone.key().is_none() && !alone.knows_since(u64::MAX));
    }
}
