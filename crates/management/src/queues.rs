//! `/api/queues`.

mod change;
mod list;
mod view;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::Value;

pub(crate) use change::{declare, delete, durable, object, purge};
pub(crate) use list::{list, list_of_vhost};

use crate::api::Api;
use crate::error::Error;
use crate::identity::Identity;

/// One queue, with its consumers.
pub(crate) async fn show(
    identity: Identity,
    State(api): State<Api>,
    Path((vhost, name)): Path<(String, String)>,
) -> Result<Json<Value>, Error> {
    let snapshot = api.broker().registry.snapshot_full();
    identity.check_sees(&snapshot.topology, &vhost)?;
    let queue = snapshot.queue(&vhost, &name).ok_or(Error::NotFound)?;
    Ok(Json(view::detailed(&api, queue)))
}
