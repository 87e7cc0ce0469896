use std::sync::Arc;

use leveret_auth::{Mechanism, Response};
use leveret_broker::Authenticate;
use leveret_broker::asked::NowOrLater;
use leveret_broker::authenticate::{LoginOrigin, LoginOutcome};
use leveret_model::Topology;
use parking_lot::RwLock;

/// Users that may log in from this machine only. Copies share one list, which may change while the node runs.
#[derive(Clone, Debug, Default)]
pub struct LoopbackUsers(Arc<RwLock<Vec<String>>>);

impl LoopbackUsers {
    /// A list of these users.
    #[must_use]
    pub fn new(names: Vec<String>) -> Self {
        Self(Arc::new(RwLock::new(names)))
    }

    /// The names of the users.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.read().clone()
    }

    pub(crate) fn have(&self, name: &str) -> bool {
        self.0.read().iter().any(|known| known == name)
    }

    /// Replaces the list, until the node stops.
    pub fn set(&self, names: Vec<String>) {
        *self.0.write() = names;
    }
}

/// Checks passwords against the users of the node.
#[derive(Debug)]
pub struct Passwords {
    loopback_users: LoopbackUsers,
}

impl Passwords {
    /// Checks passwords; `loopback_users` may log in from this machine only.
    #[must_use]
    pub fn new(loopback_users: LoopbackUsers) -> Self {
        Self { loopback_users }
    }
}

impl Passwords {
    fn check(&self, topology: &Topology, mechanism: &str, response: &[u8], peer_is_loopback: bool) -> LoginOutcome {
        let response = response_of(mechanism, response)?.ok_or("malformed AMQPLAIN response")?;
        leveret_auth::authenticate(topology, response, peer_is_loopback, &self.loopback_users.0.read())
            .map_err(|refused| refused.detail)
    }
}

/// The node knows its users, so every answer is there at once.
impl Authenticate for Passwords {
    fn authenticate(
        &self,
        topology: &Topology,
        mechanism: &str,
        response: &[u8],
        origin: LoginOrigin<'_>,
    ) -> NowOrLater<LoginOutcome> {
        NowOrLater::Now(self.check(topology, mechanism, response, origin.is_loopback))
    }

    fn recognise(&self, topology: &Topology, name: &str, origin: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        let loopback_users = self.loopback_users.0.read();
        let recognised = leveret_auth::recognise(topology, "EXTERNAL", name, origin.is_loopback, &loopback_users);
        NowOrLater::Now(recognised.map_err(|refused| refused.detail))
    }
}

/// The response to a mechanism with a password, of which the broker has made PLAIN's form. `None` if AMQPLAIN's is malformed.
///
/// # Errors
/// The mechanism is another one.
pub(crate) fn response_of<'a>(mechanism: &str, response: &'a [u8]) -> Result<Option<Response<'a>>, String> {
    match Mechanism::parse(mechanism) {
        Some(Mechanism::Plain) => Ok(Some(Response::Plain(response))),
        Some(Mechanism::AmqPlain) => Ok(amqplain(response)),
        None => Err(format!("unknown mechanism {}", mechanism.escape_debug())),
    }
}

/// Splits AMQPLAIN's two fields, which the broker converted to PLAIN's form (RFC 4616): nothing, login, password.
fn amqplain(response: &[u8]) -> Option<Response<'_>> {
    let mut parts = response.strip_prefix(b"\0")?.splitn(2, |byte| *byte == 0);
    Some(Response::AmqPlain { login: parts.next()?, password: parts.next()? })
}

#[cfg(test)]
mod tests {
    use leveret_auth::{HASHING_SHA256, hash_password};
    use leveret_model::{Command, Identity, Model, Permit, PutUser};

    use super::*;

    fn topology() -> Topology {
        let mut model = Model::new();
        let guest = PutUser {
            name: "guest".into(),
            password_hash: Some(hash_password(b"secret", [1, 2, 3, 4]).into()),
            hashing_algorithm: HASHING_SHA256.into(),
            tags: Vec::new(),
        };
        let _ = model.submit(Permit::system(), Command::PutUser(guest)).expect("is taken");
        model.topology().clone()
    }

    #[test]
    fn both_mechanisms_check_the_password() {
        let (passwords, topology) = (Passwords::new(LoopbackUsers::default()), topology());
        for mechanism in ["PLAIN", "AMQPLAIN"] {
            let check = |response: &[u8]| passwords.check(&topology, mechanism, response, true);
            assert_eq!(check(b"\0guest\0secret"), Ok(Identity::of_model("guest")));
            for wrong in [&b"\0guest\0Secret"[..], b"\0guest\0", b"\0nobody\0secret", b"guest", b""] {
                assert!(check(wrong).is_err(), "{mechanism} {wrong:?}");
            }
        }
        assert!(passwords.check(&topology, "ANONYMOUS", b"\0guest\0secret", true).is_err());
    }

    #[test]
    fn a_loopback_user_comes_from_this_machine_only() {
        let (passwords, topology) = (Passwords::new(LoopbackUsers::new(vec!["guest".to_owned()])), topology());
        let from = |loopback| passwords.check(&topology, "PLAIN", b"\0guest\0secret", loopback);
        assert!(from(true).is_ok());
        assert!(from(false).expect_err("refused").contains("localhost"));
    }
}
