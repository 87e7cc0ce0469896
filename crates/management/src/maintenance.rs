//! `/api/nodes/:node/maintenance`: a node that is about to be stopped or upgraded lets its clients go first. For
//! administrators; monitors may look.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::api::Api;
use crate::error::Error;
use crate::identity::Identity;

/// GET: whether the node is in maintenance.
pub(crate) async fn show(
    identity: Identity,
    State(api): State<Api>,
    Path(node): Path<String>,
) -> Result<Json<Value>, Error> {
    if !identity.monitors() {
        return Err(Error::Forbidden("Not monitor user".to_owned()));
    }
    state(&api, &node)
}

/// PUT: listeners are suspended, client connections closed. A node that is in maintenance stays so.
pub(crate) async fn drain(
    identity: Identity,
    State(api): State<Api>,
    Path(node): Path<String>,
) -> Result<Json<Value>, Error> {
    identity.administers(&api.topology())?;
    check_name(&api, &node)?;
    api.node().drain().await;
    state(&api, &node)
}

/// DELETE: listeners are resumed. A node that isn't in maintenance stays as it is.
pub(crate) async fn revive(
    identity: Identity,
    State(api): State<Api>,
    Path(node): Path<String>,
) -> Result<Json<Value>, Error> {
    identity.administers(&api.topology())?;
    check_name(&api, &node)?;
    api.node().revive().map_err(|error| Error::Unavailable(format!("cannot resume the listeners: {error}")))?;
    state(&api, &node)
}

fn check_name(api: &Api, node: &str) -> Result<(), Error> {
    if node == api.name() { Ok(()) } else { Err(Error::NotFound) }
}

fn state(api: &Api, node: &str) -> Result<Json<Value>, Error> {
    check_name(api, node)?;
    let broker = api.broker();
    Ok(Json(json!({
        "node": api.name(),
        "being_drained": broker.is_in_maintenance(),
        "connections": broker.connection_count(),
    })))
}
