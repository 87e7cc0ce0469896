//! Tokens of the page's sessions, which its cookie holds.
//!
//! A node that is alone keeps its sessions, and a token is nothing but a random text. In a cluster, the token of a user of the model
//! holds the session itself, signed with a key that all members have, so that each of them takes it. A login that another backend gave
//! stays with the member that it was made at, which its token names.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leveret_model::{MemberNumber, User};
use leveret_node::{GossipEndedSession, TokenKey};
use sha2::{Digest, Sha256};

use crate::sessions::SessionId;

/// The beginning of a signed token, with the version of its form.
const SIGNED: &str = "s1.";
/// The beginning of a token that names the member that keeps the session.
const KEPT_AT: &str = "m1.";
/// Longest signed token; browsers keep cookies of 4096 bytes.
const TOKEN_BYTES_MAX: usize = 3072;
const DIGEST_BYTES: usize = 16;
const SIGNATURE_BYTES: usize = 32;

/// A token as a request has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionToken {
    /// The name of a session that a node keeps: that member, or the one that is asked.
    Kept(Option<MemberNumber>, SessionId),
    /// A session whose signature hasn't been looked at yet.
    Signed(String),
}

impl SessionToken {
    pub(crate) fn of(token: &str) -> Self {
        if token.len() <= TOKEN_BYTES_MAX
            && let Some(signed) = token.strip_prefix(SIGNED)
        {
            return Self::Signed(signed.to_owned());
        }
        let kept = token.strip_prefix(KEPT_AT).and_then(|rest| rest.split_once('.'));
        let kept = kept.and_then(|(member, _)| Some(MemberNumber(member.parse().ok()?)));
        Self::Kept(kept, SessionId::of(token))
    }

    /// The token of a session that a member keeps, before it has its random part.
    pub(crate) fn prefix(member: Option<MemberNumber>) -> String {
        member.map_or(String::new(), |member| format!("{KEPT_AT}{}.", member.0))
    }
}

/// A session that its token holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedSession {
    /// The name of the user.
    pub(crate) name: String,
    /// A random number.
    pub(crate) id: u128,
    /// Wall time of its beginning, in milliseconds since the Unix epoch.
    pub(crate) began_ms: u64,
    /// Wall time of its end.
    pub(crate) ends_ms: u64,
    /// The digest of the user's password as it was then.
    password: [u8; DIGEST_BYTES],
}

/// The digest of a password's stored form: another password, or another user of the name, has another one.
fn digest(user: &User) -> [u8; DIGEST_BYTES] {
    let mut digest = Sha256::new();
    for part in [user.password_hash.as_deref().unwrap_or(""), &user.hashing_algorithm] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let digest = digest.finalize();
    std::array::from_fn(|at| digest[at])
}

impl SignedSession {
    pub(crate) fn new(user: &User, id: u128, began_ms: u64, lasts_ms: u64) -> Self {
        let ends_ms = began_ms.saturating_add(lasts_ms);
        Self { name: user.name.to_string(), id, began_ms, ends_ms, password: digest(user) }
    }

    /// Whether the user has the same password as at the login.
    pub(crate) fn is_of(&self, user: &User) -> bool {
        digest(user) == self.password
    }

    /// The token; `None` if it is too long for a cookie.
    pub(crate) fn token(&self, key: &TokenKey) -> Option<String> {
        let mut bytes = self.id.to_be_bytes().to_vec();
        bytes.extend(self.began_ms.to_be_bytes());
        bytes.extend(self.ends_ms.to_be_bytes());
        bytes.extend(self.password);
        bytes.extend(self.name.as_bytes());
        let signature = key.sign(&bytes);
        bytes.extend(signature);
        Some(format!("{SIGNED}{}", URL_SAFE_NO_PAD.encode(bytes))).filter(|token| token.len() <= TOKEN_BYTES_MAX)
    }

    /// The session of a token without its beginning; `None` if no member of this cluster has signed it.
    pub(crate) fn of(signed: &str, key: &TokenKey) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(signed).ok()?;
        let (text, signature) = bytes.split_at_checked(bytes.len().checked_sub(SIGNATURE_BYTES)?)?;
        if !key.is_signed(text, signature) {
            return None;
        }
        let (id, rest) = text.split_first_chunk()?;
        let (began_ms, rest) = rest.split_first_chunk()?;
        let (ends_ms, rest) = rest.split_first_chunk()?;
        let (password, name) = rest.split_first_chunk()?;
        Some(Self {
            name: String::from_utf8(name.to_vec()).ok()?,
            id: u128::from_be_bytes(*id),
            began_ms: u64::from_be_bytes(*began_ms),
            ends_ms: u64::from_be_bytes(*ends_ms),
            password: *password,
        })
    }

    /// The session as members tell each other that it was ended.
    pub(crate) fn ended(&self) -> GossipEndedSession {
        GossipEndedSession { id: self.id, began_ms: self.began_ms, ends_ms: self.ends_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(hash: &str) -> User {
        User { name: "ü".into(), password_hash: Some(hash.into()), hashing_algorithm: "x".into(), tags: Vec::new() }
    }

    #[test]
    fn a_signed_session_is_read_with_the_key_of_its_cluster_only() {
        let (key, other) = (TokenKey::new([1; 32]), TokenKey::new([2; 32]));
        let session = SignedSession::new(&user("1"), u128::MAX - 1, 5, 10);
        let token = session.token(&key).expect("a short name");
        let SessionToken::Signed(signed) = SessionToken::of(&token) else { panic!("{token}") };
        assert_eq!(SignedSession::of(&signed, &key), Some(session.clone()));
        assert_eq!(SignedSession::of(&signed, &other), None);
        assert!(session.is_of(&user("1")) && !session.is_of(&user("2")) && session.ends_ms == 15);
        for at in 0..signed.len() {
            let mut changed = signed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("text");
            assert_eq!(SignedSession::of(&changed, &key), None, "letter {at}");
        }
        assert!(SignedSession::of("", &key).is_none() && SignedSession::of("AAAA", &key).is_none());
    }

    #[test]
    fn a_token_names_the_member_that_keeps_its_session() {
        let token = SessionToken::prefix(Some(MemberNumber(7))) + "abc";
        assert_eq!(SessionToken::of(&token), SessionToken::Kept(Some(MemberNumber(7)), SessionId::of(&token)));
        assert_eq!(SessionToken::of("abc"), SessionToken::Kept(None, SessionId::of("abc")));
        assert!(matches!(SessionToken::of("m1.x.abc"), SessionToken::Kept(None, _)));
        let long = format!("s1.{}", "A".repeat(TOKEN_BYTES_MAX));
        assert!(matches!(SessionToken::of(&long), SessionToken::Kept(None, _)));
    }
}
