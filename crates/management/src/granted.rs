//! The common part of permissions and topic permissions.

use std::sync::Arc;

use leveret_model::Topology;
use serde_json::Value;

use crate::call::{Call, HandlerResult};
use crate::error::Error;
use crate::list;

/// Permissions of a user in a vhost.
pub(crate) trait Granted: Sized + 'static {
    fn user(&self) -> &str;

    fn vhost(&self) -> &str;

    /// The permissions in lists and exports.
    fn view(&self) -> Value;

    /// All permissions of this kind.
    fn of(topology: &Topology) -> impl Iterator<Item = &Arc<Self>>;
}

/// GET: all of them.
pub(crate) async fn all<G: Granted>(call: Call) -> HandlerResult {
    listed::<G>(&call, |_| true)
}

/// GET: the permissions in one vhost.
pub(crate) async fn of_vhost<G: Granted>(call: Call) -> HandlerResult {
    call.api.topology().vhost(call.word(0)).ok_or(Error::NotFound)?;
    listed::<G>(&call, |granted| granted.vhost() == call.word(0))
}

/// GET: the permissions of one user.
pub(crate) async fn of_user<G: Granted>(call: Call) -> HandlerResult {
    call.api.topology().user(call.word(0)).ok_or(Error::NotFound)?;
    listed::<G>(&call, |granted| granted.user() == call.word(0))
}

/// The permissions that satisfy `wanted`.
pub(crate) fn listed<G: Granted>(call: &Call, wanted: impl Fn(&G) -> bool) -> HandlerResult {
    let topology = call.api.topology();
    let found = G::of(&topology).filter(|granted| wanted(granted));
    list::values(&call.query, found.map(|granted| granted.view()).collect())
}

/// Checks that user and vhost exist.
///
/// # Errors
/// One doesn't; RabbitMQ's text.
pub(crate) fn check(topology: &Topology, user: &str, vhost: &str) -> Result<(), Error> {
    match topology.user(user).is_some() && topology.vhost(vhost).is_some() {
        true => Ok(()),
        false => Err(Error::MissingReference("vhost_or_user_not_found")),
    }
}
