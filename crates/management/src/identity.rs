use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leveret_broker::authenticate::LoginOrigin;
use leveret_broker::category::USER;
use leveret_model::{Action, Identity, Permit, Refused, Topology, User, authorize, authorize_local};

use crate::account::Account;
use crate::api::Api;
use crate::error::Error;
use crate::page_sessions::PageSession;
use crate::session_token::SessionToken;

/// Tags that give access to the API.
const MANAGEMENT_TAGS: [&str; 4] = ["management", "policymaker", "monitoring", "administrator"];

/// The name of clients of the local socket in the log and in responses; RabbitMQ's name for its tools.
const LOCAL: &str = "rmq-cli";

/// The cookie of a session.
pub(crate) const SESSION_COOKIE: &str = "leveret_session";

/// The header of the page's own requests. A form of another page can't send it.
pub(crate) const OWN_REQUEST: &str = "x-leveret-request";

/// The authenticated requester: a user with one of these tags and the right password, or a client of the local
/// socket.
#[derive(Clone)]
pub(crate) struct Requester {
    account: Account,
    /// Whether it is a client of the local socket and no user, whatever its name.
    is_local: bool,
    /// The session of the page, if it is one.
    session: Option<PageSession>,
}

impl Requester {
    pub(crate) fn name(&self) -> &str {
        &self.account.user.name
    }

    /// The identity.
    pub(crate) fn who(&self) -> &Identity {
        &self.account.who
    }

    /// The name, shared.
    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.account.user.name
    }

    pub(crate) fn tags(&self) -> &[Arc<str>] {
        &self.account.user.tags
    }

    /// Whether the user has the tag `monitoring` or a higher one.
    pub(crate) fn monitors(&self) -> bool {
        self.account.user.has_tag("monitoring") || self.is_administrator()
    }

    /// Whether the user is an administrator.
    pub(crate) fn is_administrator(&self) -> bool {
        self.account.user.has_tag("administrator")
    }

    /// Whether the user may set policies and parameters.
    pub(crate) fn makes_policies(&self) -> bool {
        self.account.user.has_tag("policymaker") || self.is_administrator()
    }

    /// Whether the user can see objects in `vhost`: it has permissions there, or administers the node.
    pub(crate) fn sees(&self, topology: &Topology, vhost: &str) -> bool {
        // If a backend has to answer first, the question is noted, and the request is answered anew later.
        self.is_administrator() || authorize(topology, self.who(), vhost, Action::Enter).is_ok()
    }

    /// The vhosts visible to the user.
    pub(crate) fn vhosts<'a>(&'a self, topology: &'a Topology) -> impl Iterator<Item = &'a Arc<str>> {
        topology.vhosts().filter(|vhost| self.sees(topology, vhost))
    }

    /// The permit for administrators.
    ///
    /// # Errors
    /// The user isn't one.
    pub(crate) fn administers(&self, topology: &Topology) -> Result<Permit, Error> {
        self.permit(topology, "", Action::Administer).map_err(|_| Error::Forbidden("Not administrator user".to_owned()))
    }
}

impl Requester {
    /// A client of the node's local socket, which may do everything.
    pub(crate) fn local_administrator() -> Self {
        let account = Account::without_login(LOCAL, vec!["administrator".into()]);
        Requester { account, is_local: true, session: None }
    }

    /// An identity that another member of the cluster has authenticated.
    ///
    /// # Errors
    /// It is a user who is gone, it has ended, or it has no tag that gives access.
    pub(crate) fn vouched_for(api: &Api, who: Identity) -> Result<Self, Error> {
        let topology = api.topology();
        let account = Account::of(&topology, who).and_then(|account| account.renewed(&topology, wall_ms(api)));
        let account = account.ok_or(Error::WrongPassword)?;
        check_tags(&account.user)?;
        Ok(Requester { account, is_local: false, session: None })
    }

    /// Whether it is a client of the local socket rather than a user.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// The permit for an action in a vhost.
    ///
    /// # Errors
    /// The action isn't permitted.
    pub(crate) fn permit(&self, topology: &Topology, vhost: &str, action: Action<'_>) -> Result<Permit, Refused> {
        match self.is_local {
            true => authorize_local(topology, vhost, action),
            false => authorize(topology, self.who(), vhost, action),
        }
    }

    /// The requester of a route without authentication.
    pub(crate) fn nobody() -> Self {
        Requester { account: Account::without_login("", Vec::new()), is_local: false, session: None }
    }

    /// Authenticates a request by its headers and the peer's address. An `Authorization` header wins over the cookie of a session.
    ///
    /// # Errors
    /// There are no credentials, the password is wrong, the session has ended, or the user has no tag that gives access. A session
    /// changes something only if the request has the header that no form of another page can send.
    pub(crate) async fn of(
        api: &Api,
        headers: &HeaderMap,
        peer: Option<SocketAddr>,
        only_reads: bool,
    ) -> Result<Self, Error> {
        let has_tried = headers.contains_key(header::AUTHORIZATION);
        if !has_tried && let Some(token) = session_of(headers) {
            return Self::of_session(api, &token, only_reads || headers.contains_key(OWN_REQUEST)).await;
        }
        if let Some(token) = bearer_of(headers) {
            let account = log_in(api, b"", token.as_bytes(), peer).await?;
            return Ok(Requester { account, is_local: false, session: None });
        }
        if api.rules().disable_basic_auth {
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
        let account = log_in(api, &decoded[..colon], &decoded[colon + 1..], peer).await?;
        Ok(Requester { account, is_local: false, session: None })
    }

    async fn of_session(api: &Api, token: &SessionToken, may_change: bool) -> Result<Self, Error> {
        let no_session = || match api.rules().disable_basic_auth {
            true => Error::BasicAuthIsOff("no credentials"),
            false => Error::Unauthenticated,
        };
        let (session, account) = api.open_session(token).await.ok_or_else(no_session)?;
        check_tags(&account.user)?;
        if !may_change {
            let reason = format!("a session changes something only by requests with the header {OWN_REQUEST}: 1");
            return Err(Error::Of(StatusCode::FORBIDDEN, "forbidden", reason));
        }
        Ok(Requester { account, is_local: false, session: Some(session) })
    }

    /// The requester as of now, for a response that goes on.
    ///
    /// # Errors
    /// The session has ended, or the user is gone, has another password or no tag that gives access.
    pub(crate) async fn renewed(&self, api: &Api) -> Result<Self, Error> {
        if self.is_local {
            return Ok(self.clone());
        }
        let ended = || Error::Forbidden("the session has ended: log in again".to_owned());
        if let Some(session) = &self.session
            && !api.is_session_open(session).await
        {
            return Err(ended());
        }
        let account = self.account.renewed(&api.topology(), wall_ms(api)).ok_or_else(ended)?;
        check_tags(&account.user)?;
        Ok(Requester { account, ..self.clone() })
    }
}

fn wall_ms(api: &Api) -> u64 {
    api.node().clock().now().wall_ms
}

fn check_tags(user: &User) -> Result<(), Error> {
    match MANAGEMENT_TAGS.iter().any(|tag| user.has_tag(tag)) {
        true => Ok(()),
        false => Err(Error::Forbidden("Not management user".to_owned())),
    }
}

/// The token of a request (RFC 6750, 2.1).
fn bearer_of(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// The token of a session in a request's cookies.
pub(crate) fn session_of(headers: &HeaderMap) -> Option<SessionToken> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(name, _)| *name == SESSION_COOKIE).map(|(_, token)| SessionToken::of(token))
}

/// Logs a user in with a password.
///
/// # Errors
/// The password is wrong, or the user has no tag that gives access.
pub(crate) async fn log_in(
    api: &Api,
    claimed: &[u8],
    password: &[u8],
    peer: Option<SocketAddr>,
) -> Result<Account, Error> {
    if claimed.contains(&0) || password.contains(&0) {
        return Err(Error::WrongPassword);
    }
    let response = [&[0], claimed, &[0], password].concat();
    let address = peer.map(|peer| peer.ip().to_canonical());
    let is_loopback = address.is_some_and(|address| address.is_loopback());
    let origin = LoginOrigin { address, is_loopback, is_http: true, ..LoginOrigin::default() };
    let outcome = api.answer(api.broker().log_in_with(response, origin)).await?;
    api.logins().count(outcome.is_ok());
    let who = outcome.map_err(|reason| {
        let claimed = String::from_utf8_lossy(claimed);
        tracing::warn!(target: USER, "User '{claimed}' failed to authenticate over HTTP: {reason}");
        Error::WrongPassword
    })?;
    // At a higher level, a dashboard would fill the log.
    tracing::debug!(target: USER, "User '{}' authenticated successfully over HTTP", who.name());
    let account = Account::of(&api.topology(), who).ok_or(Error::WrongPassword)?;
    check_tags(&account.user)?;
    Ok(account)
}
