//! Closing many connections at a time, and ending one without a word.

use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json};
use crate::connections::{ask, connection};
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
    if let Some(vhost) = vhost.filter(|vhost| call.topology().vhost(vhost).is_none()) {
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

/// POST of `name`, the name of a connection or the one that its client gave it: ends each connection that is called so as if its
/// network had failed. Responds with their number in `killed`.
pub(crate) async fn kill(call: Call) -> HandlerResult {
    let body = call.object()?;
    let name = fields::text(&body, "name")?;
    let broker = call.api.broker();
    let mut meant: Vec<_> = broker.client(name).into_iter().collect();
    if meant.is_empty() {
        let views = ask(&call.api, &broker.clients()).await;
        let called = views.into_iter().filter(|view| connection(&call.api, view)["user_provided_name"] == name);
        meant.extend(called.map(|view| view.client));
    }
    let killed = meant.iter().filter(|client| broker.kill(client.id)).inspect(|client| {
        tracing::warn!("connection {} of user '{}' is killed, as eval asked for", client.name, client.user);
    });
    json(json!({"killed": killed.count()}))
}
