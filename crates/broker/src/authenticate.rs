//! The identity of a connection, as decided by an authenticator.

use core::net::IpAddr;
use std::borrow::Cow;
use std::sync::Arc;

use leveret_model::{GrantAnswer, GrantQuestion, Identity, Topology};

use crate::asked::{AnswerPlace, Later, NowOrLater, later_or};
use crate::peer::Peer;
use crate::settings::Settings;

/// The mechanism of clients that present a certificate (RFC 4422, appendix A).
const EXTERNAL: &str = "EXTERNAL";

/// The outcome of a login: the identity, or the reason of a refusal for the log. The client only learns that it was refused.
pub type LoginOutcome = Result<Identity, String>;

/// The outcome of a renewal: the identity that the new secret gives.
pub type RenewalOutcome = Result<Identity, NotRenewed>;

/// The reason why a new secret isn't taken, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRenewed {
    /// A backend refused it: it has ended, or is another user's.
    Refused(String),
    /// It is none.
    Failed(String),
}

impl NotRenewed {
    /// The text for the client, in RabbitMQ's words.
    pub fn text(&self) -> &'static str {
        match self {
            NotRenewed::Refused(_) => "New secret was refused by one of the backends",
            NotRenewed::Failed(_) => "Secret update failed",
        }
    }

    /// The reason, for the log.
    pub fn reason(&self) -> &str {
        match self {
            NotRenewed::Refused(reason) | NotRenewed::Failed(reason) => reason,
        }
    }
}

/// Where a login comes from, as far as backends are told of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoginOrigin<'a> {
    /// The client's address.
    pub address: Option<IpAddr>,
    /// Whether the client is on this machine.
    pub is_loopback: bool,
    /// Whether it is a request over HTTP, which has backends of its own.
    pub is_http: bool,
    /// The client's own id, in a protocol that has one.
    pub client_id: Option<&'a str>,
    /// The vhost, in a protocol that names it with the login.
    pub vhost: Option<&'a str>,
}

impl LoginOrigin<'static> {
    /// This machine: commands.
    pub const HERE: Self = Self { address: None, is_loopback: true, is_http: false, client_id: None, vhost: None };
}

/// Checks credentials, and answers what identities may do. Implemented by the node over the `auth` crate. No call blocks: a backend
/// that has to be asked answers later.
pub trait Authenticate: Send + Sync {
    /// Checks credentials.
    ///
    /// For every mechanism `response` has PLAIN's form (RFC 4616); AMQPLAIN's table is converted to it.
    fn authenticate(
        &self,
        topology: &Topology,
        mechanism: &str,
        response: &[u8],
        origin: LoginOrigin<'_>,
    ) -> NowOrLater<LoginOutcome>;

    /// The identity that the peer's certificate names; the certificate is verified already.
    fn recognise(&self, topology: &Topology, name: &str, origin: LoginOrigin<'_>) -> NowOrLater<LoginOutcome>;

    /// Asks the backend of an identity whose grants are asked for.
    fn ask(&self, _topology: &Topology, _who: &Identity, _question: &GrantQuestion) -> NowOrLater<GrantAnswer> {
        NowOrLater::Now(GrantAnswer::Failed)
    }

    /// The identity of a client that has a new secret. Where secrets don't end, any is taken.
    fn renew(&self, _topology: &Topology, who: &Identity, _secret: &[u8]) -> NowOrLater<RenewalOutcome> {
        NowOrLater::Now(Ok(who.clone()))
    }

    /// Whether users of the model can log in.
    fn has_users(&self) -> bool {
        true
    }

    /// Forgets the answers of backends that are kept for a while. Returns whether any are kept.
    fn clear_cache(&self) -> bool {
        false
    }
}

/// Both ends of a login whose outcome comes later. A backend that is gone refuses it.
pub fn later_login() -> (AnswerPlace<LoginOutcome>, Later<LoginOutcome>) {
    later_or(|| Err("the backend that was asked is gone".to_owned()))
}

/// Both ends of a renewal whose outcome comes later. A backend that is gone refuses it.
pub fn later_renewal() -> (AnswerPlace<RenewalOutcome>, Later<RenewalOutcome>) {
    later_or(|| Err(NotRenewed::Refused("the backend that was asked is gone".to_owned())))
}

/// Both ends of a grant that is answered later. A backend that is gone has failed.
pub fn later_grant() -> (AnswerPlace<GrantAnswer>, Later<GrantAnswer>) {
    later_or(GrantAnswer::default)
}

/// Admits anybody under the name that is claimed, without looking at passwords.
#[cfg(feature = "testing")]
#[derive(Debug, Clone, Copy)]
pub struct Anybody;

#[cfg(feature = "testing")]
impl Authenticate for Anybody {
    fn authenticate(&self, _: &Topology, _: &str, response: &[u8], _: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        NowOrLater::Now(claimed(response).map(Identity::of_model).ok_or_else(|| "no name is claimed".to_owned()))
    }

    fn recognise(&self, _: &Topology, name: &str, _: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        NowOrLater::Now(Ok(Identity::of_model(name)))
    }
}

/// The mechanisms that this peer may use to log in, in their order.
pub fn offered<'a>(settings: &'a Settings, peer: &Peer) -> Vec<&'a str> {
    let shows_certificate = peer.certificate().is_some();
    let names = settings.auth_mechanisms.iter().map(String::as_str);
    names.filter(|name| *name != EXTERNAL || shows_certificate).collect()
}

/// A login by an offered mechanism.
pub(crate) struct LoginAttempt<'a> {
    proof: Proof<'a>,
    origin: LoginOrigin<'a>,
}

enum Proof<'a> {
    /// The peer's certificate is verified, and names this user.
    Certificate(Cow<'a, str>),
    /// A mechanism with the response to it, in PLAIN's form.
    Response(Cow<'a, str>, Cow<'a, [u8]>),
}

impl<'a> LoginAttempt<'a> {
    /// The login of a peer. The addresses are the peer's.
    ///
    /// # Errors
    /// The reason of a refusal.
    pub(crate) fn new(
        settings: &Settings,
        peer: &'a Peer,
        mechanism: &'a str,
        response: Cow<'a, [u8]>,
        origin: LoginOrigin<'a>,
    ) -> Result<Self, String> {
        let origin =
            LoginOrigin { address: Some(peer.address.ip().to_canonical()), is_loopback: peer.is_loopback(), ..origin };
        let proof = if mechanism == EXTERNAL {
            // The response is ignored, as in RabbitMQ: the certificate decides on the identity.
            Proof::Certificate(name_in_certificate(peer)?.into())
        } else {
            let plain = anonymous(settings, mechanism, response);
            let (mechanism, response) =
                plain.ok_or("anonymous logins are disabled: set anonymous_login_user to allow them")?;
            Proof::Response(mechanism.into(), response)
        };
        Ok(Self { proof, origin })
    }

    /// A login by PLAIN.
    pub(crate) fn plain(response: Vec<u8>, origin: LoginOrigin<'a>) -> Self {
        Self { proof: Proof::Response("PLAIN".into(), response.into()), origin }
    }

    /// The user who it claims to be.
    pub(crate) fn claimed(&self) -> Option<&str> {
        match &self.proof {
            Proof::Certificate(name) => Some(name),
            Proof::Response(_, response) => claimed(response),
        }
    }

    /// Has it checked.
    pub(crate) fn check(&self, authenticator: &dyn Authenticate, topology: &Topology) -> NowOrLater<LoginOutcome> {
        match &self.proof {
            Proof::Certificate(name) => authenticator.recognise(topology, name, self.origin),
            Proof::Response(mechanism, response) => {
                authenticator.authenticate(topology, mechanism, response, self.origin)
            }
        }
    }

    /// The function that has it checked later.
    pub(crate) fn later(
        self,
        authenticator: Arc<dyn Authenticate>,
    ) -> impl FnOnce(&Topology) -> NowOrLater<LoginOutcome> + Send + 'static {
        let proof = match self.proof {
            Proof::Certificate(name) => Proof::Certificate(name.into_owned().into()),
            Proof::Response(mechanism, response) => {
                Proof::Response(mechanism.into_owned().into(), response.into_owned().into())
            }
        };
        let LoginOrigin { address, is_loopback, is_http, client_id, vhost } = self.origin;
        let (client_id, vhost) = (client_id.map(str::to_owned), vhost.map(str::to_owned));
        move |topology| {
            let (client_id, vhost) = (client_id.as_deref(), vhost.as_deref());
            let origin = LoginOrigin { address, is_loopback, is_http, client_id, vhost };
            LoginAttempt { proof, origin }.check(&*authenticator, topology)
        }
    }
}

fn name_in_certificate(peer: &Peer) -> Result<&str, String> {
    let certificate = peer.certificate().ok_or("connection peer presented no TLS (x.509) certificate")?;
    certificate.user.as_deref().ok_or_else(|| {
        let subject = &certificate.subject;
        format!("no name found where ssl_cert_login_from says in the certificate of '{subject}'")
    })
}

/// The user name of a login attempt, from a response in PLAIN's form (RFC 4616).
pub fn claimed(response: &[u8]) -> Option<&str> {
    std::str::from_utf8(response.split(|byte| *byte == 0).nth(1)?).ok()
}

/// The equivalent PLAIN response and the mechanism that checks it: an anonymous client has the configured user's password,
/// which is checked like any other. `None` if anonymous logins aren't allowed.
fn anonymous<'a>(settings: &Settings, mechanism: &'a str, response: Cow<'a, [u8]>) -> Option<(&'a str, Cow<'a, [u8]>)> {
    if mechanism != "ANONYMOUS" {
        return Some((mechanism, response));
    }
    let (user, password) = settings.anonymous_login.as_ref()?;
    Some(("PLAIN", [b"\0", user.as_bytes(), b"\0", password.as_bytes()].concat().into()))
}
