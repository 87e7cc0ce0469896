//! `/api/nodes/:node/maintenance`: maintenance mode, in which a node that is about to be stopped or upgraded
//! disconnects its clients. Administrators may change it; monitors may read it.

use serde_json::json;

use crate::call::{Call, HandlerResult, json};
use crate::error::Error;

/// GET: whether the node is in maintenance.
pub(crate) async fn show(call: Call) -> HandlerResult {
    state(&call)
}

/// PUT: suspends listeners and closes client connections. No effect if the node is in maintenance.
pub(crate) async fn drain(call: Call) -> HandlerResult {
    check_name(&call)?;
    call.api.node().drain().await;
    state(&call)
}

/// DELETE: resumes listeners. No effect if the node isn't in maintenance.
pub(crate) async fn revive(call: Call) -> HandlerResult {
    check_name(&call)?;
    let revived = call.api.node().revive();
    revived.map_err(|error| Error::Unavailable(format!("cannot resume the listeners: {error}")))?;
    state(&call)
}

fn check_name(call: &Call) -> Result<(), Error> {
    if call.word(0) == call.api.name() { Ok(()) } else { Err(Error::NotFound) }
}

fn state(call: &Call) -> HandlerResult {
    check_name(call)?;
    let broker = call.api.broker();
    json(json!({
        "node": call.api.name(),
        "being_drained": broker.is_in_maintenance(),
        "connections": broker.connection_count(),
    }))
}
