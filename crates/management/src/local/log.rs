//! What is logged.

use leveret_config::LogLevel;
use serde_json::json;

use crate::call::{Answer, Call, json};
use crate::error::Error;
use crate::fields;

/// PUT of `level`, which holds until the node stops: what a start begins with stands in its configuration.
pub(crate) async fn change(call: Call) -> Answer {
    let body = call.object()?;
    let name = fields::text(&body, "level")?;
    let Some(level) = LogLevel::named(name) else {
        return Err(Error::BadRequest(format!(
            "level {name} is not supported. Try one of debug, info, warning, error, none"
        )));
    };
    if !call.api.change_log_level(level) {
        return Err(Error::Unavailable("this node's log is kept by somebody else".to_owned()));
    }
    tracing::info!("Log level set to {name}");
    json(json!({"level": name}))
}
