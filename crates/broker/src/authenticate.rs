//! The identity of a connection, as decided by an authenticator.

use std::borrow::Cow;

use leveret_model::Topology;

use crate::peer::Peer;
use crate::settings::Settings;

/// The mechanism of clients that present a certificate (RFC 4422, appendix A).
const EXTERNAL: &str = "EXTERNAL";

/// Checks credentials. Implemented by the node over the `auth` crate; must not block.
pub trait Authenticate: Send + Sync {
    /// Checks credentials, and returns the user's name.
    ///
    /// For every mechanism `response` has PLAIN's form (RFC 4616); AMQPLAIN's table is converted to it.
    ///
    /// # Errors
    /// The reason, for the log; the client only learns that it was refused.
    fn authenticate(
        &self,
        topology: &Topology,
        mechanism: &str,
        response: &[u8],
        peer_is_loopback: bool,
    ) -> Result<String, String>;

    /// Returns the name of the user that the peer's certificate names; the certificate is verified already.
    ///
    /// # Errors
    /// As [`Authenticate::authenticate`].
    fn recognise(&self, topology: &Topology, name: &str, peer_is_loopback: bool) -> Result<String, String>;
}

/// Admits anybody under the name that is claimed, without looking at passwords.
#[cfg(feature = "testing")]
#[derive(Debug, Clone, Copy)]
pub struct Anybody;

#[cfg(feature = "testing")]
impl Authenticate for Anybody {
    fn authenticate(&self, _: &Topology, _: &str, response: &[u8], _: bool) -> Result<String, String> {
        let name = response.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        String::from_utf8(name.to_vec()).map_err(|error| error.to_string())
    }

    fn recognise(&self, _: &Topology, name: &str, _: bool) -> Result<String, String> {
        Ok(name.to_owned())
    }
}

/// The mechanisms that this peer may use to log in, in their order.
pub fn offered<'a>(settings: &'a Settings, peer: &Peer) -> Vec<&'a str> {
    let shows_certificate = peer.certificate().is_some();
    let names = settings.auth_mechanisms.iter().map(String::as_str);
    names.filter(|name| *name != EXTERNAL || shows_certificate).collect()
}

/// Logs in by an offered mechanism, and returns the user's name.
pub(crate) fn log_in(
    authenticator: &dyn Authenticate,
    topology: &Topology,
    settings: &Settings,
    peer: &Peer,
    mechanism: &str,
    response: Cow<'_, [u8]>,
) -> Result<String, String> {
    if mechanism == EXTERNAL {
        // The response is ignored, as in RabbitMQ: the certificate decides on the identity.
        let certificate = peer.certificate().ok_or("connection peer presented no TLS (x.509) certificate")?;
        let name = certificate.user.as_deref().ok_or_else(|| {
            let subject = &certificate.subject;
            format!("no name found where ssl_cert_login_from says in the certificate of '{subject}'")
        })?;
        return authenticator.recognise(topology, name, peer.is_loopback());
    }
    let (mechanism, response) = anonymous(settings, mechanism, response)
        .ok_or("anonymous logins are disabled: set anonymous_login_user to allow them")?;
    authenticator.authenticate(topology, mechanism, &response, peer.is_loopback())
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
