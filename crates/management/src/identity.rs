use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leveret_broker::category::USER;
use leveret_model::{Action, Permit, Refused, Topology, User, authorize, authorize_local};

use crate::api::Api;
use crate::error::Error;

/// Tags that let a user into the API, each with all that follow.
const MANAGEMENT_TAGS: [&str; 4] = ["management", "policymaker", "monitoring", "administrator"];

/// What the log and answers call whoever comes through the local socket; RabbitMQ's name for its tools.
const LOCAL: &str = "rmq-cli";

/// Who asks: a user with a tag that lets it in, whose password was right, or somebody whom the operating system let in.
pub(crate) struct Identity {
    user: Arc<User>,
    /// It is no user, whatever its name: it came through the local socket.
    is_local: bool,
}

impl Identity {
    pub(crate) fn name(&self) -> &str {
        &self.user.name
    }

    pub(crate) fn tags(&self) -> &[Arc<str>] {
        &self.user.tags
    }

    /// Whether the user has the tag of monitors, or more.
    pub(crate) fn monitors(&self) -> bool {
        self.user.has_tag("monitoring") || self.is_administrator()
    }

    /// Whether the user may do what only administrators may.
    pub(crate) fn is_administrator(&self) -> bool {
        self.user.has_tag("administrator")
    }

    /// Whether the user may set policies and parameters.
    pub(crate) fn makes_policies(&self) -> bool {
        self.user.has_tag("policymaker") || self.is_administrator()
    }

    /// Whether the user sees what is in `vhost`: it has permissions there, or administers the node.
    pub(crate) fn sees(&self, topology: &Topology, vhost: &str) -> bool {
        self.is_administrator() || topology.permission(self.name(), vhost).is_some()
    }

    /// The vhosts whose objects the user sees.
    pub(crate) fn vhosts<'a>(&'a self, topology: &'a Topology) -> impl Iterator<Item = &'a Arc<str>> {
        topology.vhosts().filter(|vhost| self.sees(topology, vhost))
    }

    /// The permit for what only administrators may do.
    ///
    /// # Errors
    /// The user is none.
    pub(crate) fn administers(&self, topology: &Topology) -> Result<Permit, Error> {
        self.permit(topology, "", Action::Administer).map_err(|_| Error::Forbidden("Not administrator user".to_owned()))
    }
}

impl Identity {
    /// Who comes through the node's local socket, and may do everything.
    pub(crate) fn local_administrator() -> Self {
        let tags = vec!["administrator".into()];
        let user = User { name: LOCAL.into(), password_hash: None, hashing_algorithm: "".into(), tags };
        Identity { user: Arc::new(user), is_local: true }
    }

    /// Whether this is somebody without a user of their own.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// The permit for an action in a vhost.
    ///
    /// # Errors
    /// It may not be done.
    pub(crate) fn permit(&self, topology: &Topology, vhost: &str, action: Action<'_>) -> Result<Permit, Refused> {
        match self.is_local {
            true => authorize_local(topology, vhost, action),
            false => authorize(topology, self.name(), vhost, action),
        }
    }

    /// Who calls a route that asks for no password.
    pub(crate) fn nobody() -> Self {
        let user = User { name: "".into(), password_hash: None, hashing_algorithm: "".into(), tags: Vec::new() };
        Identity { user: Arc::new(user), is_local: false }
    }

    /// Who sent these headers from this address.
    ///
    /// # Errors
    /// They don't say who, the password is wrong, or that user has no tag that lets it in.
    pub(crate) fn of(api: &Api, headers: &HeaderMap, peer: Option<SocketAddr>) -> Result<Self, Error> {
        if api.rules().disable_basic_auth {
            let has_tried = headers.contains_key(header::AUTHORIZATION);
            return Err(Error::BasicAuthIsOff(if has_tried { "basic auth disabled" } else { "no credentials" }));
        }
        let header = headers.get(header::AUTHORIZATION).ok_or(Error::Unauthenticated)?;
        let encoded = header.to_str().ok().and_then(|text| {
            let (scheme, encoded) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("basic").then_some(encoded.trim())
        });
        let malformed = || Error::BadRequest("the Authorization header is no basic authentication".to_owned());
        let decoded = STANDARD.decode(encoded.ok_or_else(malformed)?).map_err(|_| malformed())?;
        let colon = decoded.iter().position(|byte| *byte == b':').ok_or_else(malformed)?;
        let (claimed, password) = (&decoded[..colon], &decoded[colon + 1..]);
        if decoded.contains(&0) {
            return Err(Error::WrongPassword);
        }
        let response = [&[0], claimed, &[0], password].concat();
        let loopback = peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
        let topology = api.topology();
        let name = api.broker().authenticator.authenticate(&topology, "PLAIN", &response, loopback);
        api.logins().count(name.is_ok());
        let name = name.map_err(|reason| {
            let claimed = String::from_utf8_lossy(claimed);
            tracing::warn!(target: USER, "User '{claimed}' failed to authenticate over HTTP: {reason}");
            Error::WrongPassword
        })?;
        // A dashboard would fill the log with it.
        tracing::debug!(target: USER, "User '{name}' authenticated successfully over HTTP");
        let user = topology.user(&name).cloned().ok_or(Error::WrongPassword)?;
        if !MANAGEMENT_TAGS.iter().any(|tag| user.has_tag(tag)) {
            return Err(Error::Forbidden("Not management user".to_owned()));
        }
        Ok(Identity { user, is_local: false })
    }
}
