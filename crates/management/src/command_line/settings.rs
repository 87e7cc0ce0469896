//! Settings that commands change until the node stops: a start uses its configuration.

use serde_json::json;

use crate::call::{Call, HandlerResult, json, no_content};
use crate::error::Error;

/// GET.
pub(crate) async fn show(call: Call) -> HandlerResult {
    json(json!({
        "channel_max": call.api.broker().channel_max(),
        "loopback_users": call.api.node().loopback_users().names(),
    }))
}

/// PUT of settings to change. They apply to new connections and logins.
pub(crate) async fn change(call: Call) -> HandlerResult {
    let body = call.object()?;
    let wrong = |key: &str, expected: &str| Error::BadRequest(format!("{key}: expected {expected}"));
    let channel_max = body.get("channel_max").map(|value| {
        let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
        number.ok_or_else(|| wrong("channel_max", "a number from 0 to 65535"))
    });
    let users = body.get("loopback_users").map(|value| {
        let names =
            value.as_array().and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
        names.ok_or_else(|| wrong("loopback_users", "a list of names"))
    });
    let (channel_max, users): (Option<u16>, Option<Vec<String>>) = (channel_max.transpose()?, users.transpose()?);
    if let Some(channel_max) = channel_max {
        // 0 means the protocol's limit only.
        call.api.broker().set_channel_max(if channel_max == 0 { u16::MAX } else { channel_max });
        tracing::info!("channel_max set to {channel_max}");
    }
    if let Some(users) = users {
        tracing::info!("loopback_users set to {}", json!(users));
        call.api.node().loopback_users().set(users);
    }
    no_content()
}
