//! The log and its level.

use std::io;

use leveret_config::LogLevel;
use leveret_node::{Log, Tail};
use serde_json::json;

use crate::call::{Call, HandlerResult, json, no_content};
use crate::error::Error;
use crate::fields;

fn log(call: &Call) -> Result<&Log, Error> {
    call.api.log().ok_or_else(|| Error::Unavailable("another program keeps this node's log".to_owned()))
}

/// PUT of `level`, valid until the node stops: a start uses its configuration.
pub(crate) async fn change(call: Call) -> HandlerResult {
    let body = call.object()?;
    let name = fields::text(&body, "level")?;
    let Some(level) = LogLevel::named(name) else {
        return Err(Error::BadRequest(format!(
            "level {name} is not supported. Try one of debug, info, warning, error, none"
        )));
    };
    log(&call)?.set_level(level);
    tracing::info!("Log level set to {name}");
    json(json!({"level": name}))
}

/// POST: rotates files according to their settings, or reopens them.
pub(crate) async fn rotate(call: Call) -> HandlerResult {
    let log = log(&call)?.clone();
    on_a_thread(move || {
        log.rotate();
        Ok(())
    })
    .await?;
    no_content()
}

/// GET of the last lines (`lines`), or of those from a position on (`position`, in bytes).
pub(crate) async fn tail(call: Call) -> HandlerResult {
    let number = |key: &str| -> Result<Option<u64>, Error> {
        let wrong = |text: &String| Error::BadRequest(format!("{key} must be a number, got '{text}'"));
        call.query.get(key).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    };
    let (position, lines) = (number("position")?, number("lines")?.unwrap_or(50));
    let log = log(&call)?.clone();
    let locations = log.locations().join(", ");
    let read = on_a_thread(move || match position {
        Some(position) => log.tail_from(position),
        None => log.tail(usize::try_from(lines).unwrap_or(usize::MAX)),
    });
    match read.await? {
        Some(Tail { lines, position }) => json(json!({"lines": lines, "position": position})),
        None => Err(Error::BadRequest(format!("the log goes to {locations} and to no file: set log.file"))),
    }
}

/// Runs blocking file access on a thread.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).and_then(|done| done);
    done.map_err(|reason| Error::Unavailable(format!("cannot read the log: {reason}")))
}
