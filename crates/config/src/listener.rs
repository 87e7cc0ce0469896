//! Where to listen.

use crate::http::HttpLimits;

/// Address and port to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// An address of this machine; `None` for all of them.
    pub host: Option<String>,
    /// A port; 0 for any free one.
    pub port: u16,
}

/// The listener of an HTTP server, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// An address of this machine; `None` for all of them.
    pub ip: Option<String>,
    /// A port; 0 for any free one.
    pub port: u16,
    /// Timeouts and limits of its connections.
    pub limits: HttpLimits,
}

impl Endpoint {
    /// The endpoint on this port at all addresses of this machine.
    pub(crate) fn on(port: u16) -> Self {
        Self { ip: None, port, limits: HttpLimits::default() }
    }
}
