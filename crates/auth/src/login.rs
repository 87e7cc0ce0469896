use std::fmt;
use std::sync::Arc;

use leveret_model::{Identity, Refused, RefusedKind, Topology};

use crate::Response;
use crate::password::verify;

/// A failed login: the error for the peer, and the reason for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{refused}")]
pub struct LoginRefused {
    /// The error for the peer: the same text for every reason, as in RabbitMQ.
    pub refused: Refused,
    /// The user and the reason, for the log.
    pub detail: String,
}

impl LoginRefused {
    fn new(mechanism: &str, detail: fmt::Arguments<'_>) -> Self {
        Self {
            refused: Refused::new(
                RefusedKind::AccessRefused,
                format!(
                    "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
                ),
            ),
            detail: format!("{mechanism} login refused: {detail}"),
        }
    }
}

/// Authenticates a peer as a user of the model. `loopback_users` may only connect from this machine.
///
/// # Errors
/// The response is malformed, the user unknown or without a password, the password wrong, or the peer isn't on this
/// machine although the user must be.
pub fn authenticate(
    topology: &Topology,
    response: Response<'_>,
    peer_is_loopback: bool,
    loopback_users: &[String],
) -> Result<Identity, LoginRefused> {
    let mechanism = response.mechanism();
    let Some((name, password)) = response.parse() else {
        return Err(LoginRefused::new(mechanism, format_args!("malformed response")));
    };
    let user = topology.user(name);
    if !verify(user.map(|user| &**user), password) {
        return Err(LoginRefused::new(mechanism, format_args!("user '{}' - invalid credentials", name.escape_debug())));
    }
    let user = user.expect("nobody's password was verified");
    from_where_it_may(&user.name, mechanism, peer_is_loopback, loopback_users)
}

/// Authenticates a peer by the name in its verified certificate. `mechanism` is used in texts.
///
/// # Errors
/// The user is unknown, or the peer isn't on this machine although the user must be.
pub fn recognise(
    topology: &Topology,
    mechanism: &str,
    name: &str,
    peer_is_loopback: bool,
    loopback_users: &[String],
) -> Result<Identity, LoginRefused> {
    let user = topology.user(name).ok_or_else(|| {
        LoginRefused::new(mechanism, format_args!("user '{}' - invalid credentials", name.escape_debug()))
    })?;
    from_where_it_may(&user.name, mechanism, peer_is_loopback, loopback_users)
}

fn from_where_it_may(
    name: &Arc<str>,
    mechanism: &str,
    peer_is_loopback: bool,
    loopback_users: &[String],
) -> Result<Identity, LoginRefused> {
    if !peer_is_loopback && loopback_users.iter().any(|only_here| **only_here == **name) {
        let detail = format_args!("user '{name}' can only connect via localhost (setting loopback_users)");
        return Err(LoginRefused::new(mechanism, detail));
    }
    Ok(Identity::of_model(name.clone()))
}

#[cfg(test)]
mod tests {
    use leveret_model::{Command, Model, Permit, PutUser};

    use super::*;
    use crate::{HASHING_SHA256, hash_password};

    fn topology() -> Topology {
        let mut model = Model::new();
        let guest = PutUser {
            name: "guest".into(),
            password_hash: Some(hash_password(b"guest", [1, 2, 3, 4]).into()),
            hashing_algorithm: HASHING_SHA256.into(),
            tags: Vec::new(),
        };
        let _ = model.submit(Permit::system(), Command::PutUser(guest)).unwrap();
        model.topology().clone()
    }

    const TEXT: &str =
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.";

    #[test]
    fn the_right_password_names_the_user() {
        let topology = topology();
        let amqplain = Response::AmqPlain { login: b"guest", password: b"guest" };
        for response in [Response::Plain(b"\0guest\0guest"), amqplain] {
            assert_eq!(authenticate(&topology, response, true, &[]), Ok(Identity::of_model("guest")));
        }
    }

    #[test]
    fn every_failure_has_the_same_text_and_its_own_detail() {
        let topology = topology();
        for (response, detail) in [
            (&b"\0guest\0none"[..], "invalid credentials"),
            (b"\0nobody\0guest", "invalid credentials"),
            (b"\0guest\0", "invalid credentials"),
            (b"guest", "malformed"),
        ] {
            let error = authenticate(&topology, Response::Plain(response), true, &[]).unwrap_err();
            assert_eq!(error.refused.reply_text(), TEXT);
            assert!(error.detail.contains(detail), "{}", error.detail);
        }
    }

    #[test]
    fn loopback_users_come_from_this_machine_only() {
        let topology = topology();
        let only_here = ["guest".to_owned()];
        let response = Response::Plain(b"\0guest\0guest");
        assert!(authenticate(&topology, response, true, &only_here).is_ok());
        let error = authenticate(&topology, response, false, &only_here).unwrap_err();
        assert_eq!(error.refused.reply_text(), TEXT);
        assert!(error.detail.contains("localhost"));
        assert!(authenticate(&topology, response, false, &[]).is_ok());
    }

    #[test]
    fn a_certificate_names_a_user_allowed_from_its_address() {
        let topology = topology();
        let from = |name, loopback| recognise(&topology, "EXTERNAL", name, loopback, &["guest".to_owned()]);
        assert_eq!(from("guest", true), Ok(Identity::of_model("guest")));
        for (name, loopback, detail) in [("nobody", true, "invalid credentials"), ("guest", false, "localhost")] {
            let error = from(name, loopback).unwrap_err();
            assert_eq!(error.refused.reply_text(), TEXT.replace("PLAIN", "EXTERNAL"));
            assert!(error.detail.contains(detail), "{}", error.detail);
        }
    }
}
