//! The route of a path, and who may call it.

use leveret_model::Topology;

use crate::error::Error;
use crate::identity::Requester;
use crate::route::{Access, Method, Route};

/// The routes of a path, one for each of its methods, with the values of their parameters.
///
/// # Errors
/// There is none, or the path can't be decoded.
pub(crate) fn matching(
    routes: impl Iterator<Item = &'static Route>,
    path: &str,
) -> Result<Vec<(&'static Route, Vec<String>)>, Error> {
    // Clients append a slash to the paths of lists, which RabbitMQ ignores.
    let path = path.strip_suffix('/').unwrap_or(path);
    let matching = routes.filter_map(|route| Some(route.matches(path)?.map(|words| (route, words))));
    let mut found = matching.collect::<Result<Vec<_>, _>>()?;
    // Without this, `/api/users/without-permissions` could be taken for a user.
    let best = found.iter().map(|(route, _)| route.rank()).max().ok_or(Error::NotFound)?;
    found.retain(|(route, _)| route.rank() == best);
    Ok(found)
}

/// Checks whether this user may call the route with these parameters.
///
/// # Errors
/// The user may not. A vhost that the user can't see doesn't exist for it.
pub(crate) fn check(route: &Route, words: &[String], identity: &Requester, topology: &Topology) -> Result<(), Error> {
    let unless = |allowed: bool, text: &str| if allowed { Ok(()) } else { Err(Error::Forbidden(text.to_owned())) };
    const NOT_AUTHORISED: &str = "User not authorised to access object";
    let itself = || route.parameter("user", words) == Some(identity.name());
    match route.access {
        Access::Public | Access::Management => {}
        Access::Monitor => unless(identity.monitors(), "Not monitor user")?,
        Access::Administrator => unless(identity.is_administrator(), "Not administrator user")?,
        Access::Policymaker => unless(identity.makes_policies(), NOT_AUTHORISED)?,
        Access::UserOrMonitor => unless(itself() || identity.monitors(), NOT_AUTHORISED)?,
        Access::UserOrAdministrator => unless(itself() || identity.is_administrator(), NOT_AUTHORISED)?,
        Access::Vhost | Access::VhostOrMonitor => {}
    }
    let Some(vhost) = route.parameter("vhost", words) else { return Ok(()) };
    let sees = match route.access {
        Access::Vhost => identity.sees(topology, vhost),
        Access::VhostOrMonitor => identity.sees(topology, vhost) || identity.monitors(),
        _ => return Ok(()),
    };
    match sees && topology.vhost(vhost).is_some() {
        true => Ok(()),
        // RabbitMQ's text if an object would be created in it.
        false if route.method == Method::Put => Err(Error::Missing("vhost_not_found".to_owned())),
        false => Err(Error::NotFound),
    }
}
