//! Closing many connections at a time.

use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::fields;

/// POST of `reason` and optionally `vhost`, `user` and `limit`: responds with the number of connections in `closed`.
pub(crate) async fn close(call: Call) -> HandlerResult {
    let body = call.object()?;
    let reason = fields::text(&body, "reason")?;
    let named = |key: &str| match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => fields::text(&body, key).map(Some),
    };
    let (vhost, user) = (named("vhost")?, named("user")?);
    if let Some(vhost) = vhost.filter(|vhost| call.staged().vhost(vhost).is_none()) {
        return Err(Error::Missing(format!("no_such_vhost {vhost}")));
    }
    let limit = body.get("limit").map(fields::count).transpose()?.unwrap_or(u64::MAX);
    let broker = call.api.broker();
    let is_meant = |name: &str, wanted: Option<&str>| wanted.is_none_or(|wanted| wanted == name);
    let mut closed = 0;
    for client in broker.clients().iter() {
        let meant = is_meant(&client.vhost, vhost) && is_meant(&client.user, user);
        if closed < limit && meant && broker.close(client.id, reason) {
            closed += 1;
        }
    }
    json(json!({"closed": closed}))
}
