//! Who a connection is, as somebody else decides it.

use std::borrow::Cow;

use leveret_model::Topology;

use crate::settings::Settings;

/// Checks credentials. Implemented by the node over the `auth` crate; must not block.
pub trait Authenticate: Send + Sync {
    /// The user's name.
    ///
    /// For every mechanism `response` has PLAIN's form (RFC 4616); AMQPLAIN's table is turned into it.
    ///
    /// # Errors
    /// Why not, for the log; the client is told no more than that it was refused.
    fn authenticate(
        &self,
        topology: &Topology,
        mechanism: &str,
        response: &[u8],
        peer_is_loopback: bool,
    ) -> Result<String, String>;
}

/// What a client would say that logged in by PLAIN, and by which mechanism that is checked: whoever is anonymous has the
/// configured user's password, which is checked like any other. None if nobody may be anonymous.
pub(crate) fn anonymous<'a>(
    settings: &Settings,
    mechanism: &'a str,
    response: Cow<'a, [u8]>,
) -> Option<(&'a str, Cow<'a, [u8]>)> {
    if mechanism != "ANONYMOUS" {
        return Some((mechanism, response));
    }
    let (user, password) = settings.anonymous_login.as_ref()?;
    Some(("PLAIN", [b"\0", user.as_bytes(), b"\0", password.as_bytes()].concat().into()))
}
