//! Sessions of the page that this node keeps: who logged in, by a token that only the browser has.
//!
//! They are in memory and end with the node. Only hashes of the tokens are kept, so that nobody who reads the memory can go on
//! with a session.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::account::Account;

/// Most sessions of one user; the oldest ends for a new one.
const OF_USER_MAX: usize = 64;
/// Most sessions of all users.
const ALL_MAX: usize = 4096;

/// The hash of a session's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionId([u8; 32]);

/// The open sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<SessionId, Session>>,
}

struct Session {
    /// The user as it logged in.
    account: Account,
    began: Instant,
    ends: Instant,
}

/// The reason why a session can't begin.
#[derive(Debug)]
pub(crate) enum NoSession {
    TooMany,
    /// The system gives no randomness.
    NoToken(io::Error),
}

impl SessionId {
    /// The session of a token.
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Its name in requests between nodes.
    pub(crate) fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The session with this name; `None` if it can't be one.
    pub(crate) fn of_hex(name: &str) -> Option<Self> {
        let digits = name.as_bytes();
        let byte = |at: usize| u8::from_str_radix(std::str::from_utf8(digits.get(2 * at..2 * at + 2)?).ok()?, 16).ok();
        let mut bytes = [0; 32];
        for (at, to) in bytes.iter_mut().enumerate() {
            *to = byte(at)?;
        }
        (digits.len() == 64).then_some(Self(bytes))
    }
}

impl Sessions {
    /// Begins a session. Returns its token, which begins so.
    ///
    /// # Errors
    /// There are too many, or there is no randomness.
    pub(crate) fn begin(
        &self,
        prefix: &str,
        account: Account,
        lasts: Duration,
        now: Instant,
    ) -> Result<String, NoSession> {
        let token = format!("{prefix}{:032x}{:032x}", random()?, random()?);
        let mut open = self.open.lock();
        open.retain(|_, session| session.ends > now);
        let own = open.iter().filter(|(_, session)| session.account.user.name == account.user.name);
        let own: Vec<_> = own.map(|(id, session)| (session.began, *id)).collect();
        if own.len() >= OF_USER_MAX
            && let Some((_, oldest)) = own.iter().min_by_key(|(began, _)| *began)
        {
            open.remove(oldest);
        }
        if open.len() >= ALL_MAX {
            return Err(NoSession::TooMany);
        }
        open.insert(SessionId::of(&token), Session { account, began: now, ends: now + lasts });
        Ok(token)
    }

    /// The user of a session as it logged in; `None` if there is no such session any more.
    pub(crate) fn account(&self, id: SessionId, now: Instant) -> Option<Account> {
        let mut open = self.open.lock();
        let session = open.get(&id)?;
        if session.ends <= now {
            open.remove(&id);
            return None;
        }
        Some(session.account.clone())
    }

    /// Ends a session, if it is open.
    pub(crate) fn end(&self, id: SessionId) {
        self.open.lock().remove(&id);
    }
}

/// A random number.
///
/// # Errors
/// There is no randomness.
pub(crate) fn random() -> Result<u128, NoSession> {
    let mut bytes = [0; 16];
    let mut have = 0;
    while have < bytes.len() {
        let given = rustix::rand::getrandom(&mut bytes[have..], rustix::rand::GetRandomFlags::empty());
        have += given.map_err(|error| NoSession::NoToken(error.into()))?;
    }
    Ok(u128::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Account {
        Account::without_login(name, Vec::new())
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_session_lasts_until_its_time_or_its_end() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let token = sessions.begin("", user("a"), HOUR, now).expect("begins");
        assert_eq!(token.len(), 64);
        let id = SessionId::of(&token);
        assert!(SessionId::of_hex(&id.to_hex()) == Some(id) && SessionId::of_hex("ab").is_none());
        assert_eq!(sessions.account(id, now + HOUR / 2).expect("is open").user.name, "a".into());
        assert!(sessions.account(SessionId::of(&token[1..]), now).is_none());
        assert!(sessions.account(id, now + HOUR).is_none());
        let other = sessions.begin("", user("a"), HOUR, now).expect("begins");
        assert_ne!(token, other);
        sessions.end(SessionId::of(&other));
        assert!(sessions.account(SessionId::of(&other), now).is_none());
    }

    #[test]
    fn the_oldest_session_of_a_user_ends_for_a_new_one() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let begin = |at: u64, name: &str| {
            let token = sessions.begin("", user(name), HOUR, now + Duration::from_millis(at)).expect("begins");
            SessionId::of(&token)
        };
        let other = begin(0, "b");
        let ids: Vec<_> = (1..=OF_USER_MAX as u64 + 1).map(|at| begin(at, "a")).collect();
        let open = |id: &SessionId| sessions.account(*id, now + HOUR / 2).is_some();
        assert!(open(&other) && !open(&ids[0]) && ids[1..].iter().all(open));
    }

    #[test]
    fn all_sessions_together_have_a_limit_that_ended_ones_free() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        for at in 0..ALL_MAX {
            sessions.begin("", user(&at.to_string()), HOUR, now).expect("begins");
        }
        assert!(matches!(sessions.begin("", user("x"), HOUR, now), Err(NoSession::TooMany)));
        sessions.begin("", user("x"), HOUR, now + HOUR).expect("begins");
    }
}
