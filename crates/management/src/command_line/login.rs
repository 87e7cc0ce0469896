//! Verification of a password.

use leveret_broker::authenticate::LoginOrigin;
use serde_json::json;

use crate::call::{Call, HandlerResult, json};
use crate::fields;

/// POST of `user` and `password`: `authenticated` tells whether a client could log in with them from this machine.
pub(crate) async fn check(call: Call) -> HandlerResult {
    let body = call.object()?;
    let (user, password) = (fields::text(&body, "user")?, fields::text(&body, "password")?);
    // A zero byte would end the name.
    let authenticated = !user.contains('\0') && !password.contains('\0') && {
        let response = ["", user, password].join("\0");
        let authenticator = &call.api.broker().authenticator;
        let checked = authenticator.authenticate(&call.api.topology(), "PLAIN", response.as_bytes(), LoginOrigin::HERE);
        call.api.answer(checked).await?.is_ok()
    };
    json(json!({"authenticated": authenticated}))
}

/// DELETE: answers that are kept are forgotten. `cleared` tells whether any are kept.
pub(crate) async fn clear_cache(call: Call) -> HandlerResult {
    json(json!({"cleared": call.api.broker().authenticator.clear_cache()}))
}
