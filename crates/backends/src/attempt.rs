//! A login as backends are asked for it, and what it proves.

use std::net::IpAddr;
use std::sync::Arc;

use leveret_broker::authenticate::LoginOrigin;
use leveret_model::{Scopes, Topology};

/// A login.
#[derive(Clone)]
pub(crate) struct Attempt {
    /// The users of the node, as they were when it began.
    pub(crate) topology: Topology,
    /// The mechanism, for texts.
    pub(crate) mechanism: String,
    /// The user's name, as the client claims it.
    pub(crate) name: String,
    /// The password or token; `None` for a name of a verified certificate.
    pub(crate) secret: Option<Vec<u8>>,
    pub(crate) origin: ClientOrigin,
}

/// [`LoginOrigin`], owned.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientOrigin {
    pub(crate) address: Option<IpAddr>,
    pub(crate) is_loopback: bool,
    pub(crate) client_id: Option<Arc<str>>,
    pub(crate) vhost: Option<Arc<str>>,
}

impl From<LoginOrigin<'_>> for ClientOrigin {
    fn from(origin: LoginOrigin<'_>) -> Self {
        Self {
            address: origin.address,
            is_loopback: origin.is_loopback,
            client_id: origin.client_id.map(Arc::from),
            vhost: origin.vhost.map(Arc::from),
        }
    }
}

/// The outcome of a login at one backend: a name, tags, and how it grants.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    pub(crate) name: Arc<str>,
    pub(crate) tags: Vec<Arc<str>>,
    pub(crate) grants: ProvenGrants,
    /// The wall time at which it ends, in milliseconds since the Unix epoch.
    pub(crate) ends_ms: Option<u64>,
}

/// How a backend grants.
#[derive(Clone, Debug)]
pub(crate) enum ProvenGrants {
    /// By the permissions of the user in the model.
    Model,
    /// By scopes.
    Scopes(Scopes),
    /// It is asked each time.
    Asked,
    /// Everything.
    All,
}
