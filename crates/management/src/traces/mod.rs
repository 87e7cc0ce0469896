//! `/api/traces` and `/api/trace-files`: traces of messages in files, as RabbitMQ's tracing plugin has them.

mod files;
mod record;
mod running;

use std::io::{self, Read};
use std::sync::Arc;

use leveret_broker::authenticate::LoginOrigin;
use leveret_model::{Action, authorize};
use serde_json::{Map, Value, json};

use self::files::{TraceFiles, is_name};
use crate::api::Api;
use crate::call::{Call, HandlerResult, json, no_content, put as created};
use crate::error::Error;
use crate::fields;
use crate::missing_answers;
use crate::running_traces::{Format, Trace, TraceRequest};
use crate::stream;

/// The plugin's words when a trace doesn't start. The reason is in the log.
const NOT_STARTED: &str = "Something went wrong trying to start the trace - check the logs.";

/// GET: all traces.
pub(crate) async fn all(call: Call) -> HandlerResult {
    list(&call, None)
}

/// GET: the traces of a vhost.
pub(crate) async fn of_vhost(call: Call) -> HandlerResult {
    list(&call, Some(call.word(0)))
}

/// GET: the traces of this node.
pub(crate) async fn of_node(call: Call) -> HandlerResult {
    here(&call)?;
    list(&call, None)
}

/// GET: the traces of a vhost on this node.
pub(crate) async fn of_node_and_vhost(call: Call) -> HandlerResult {
    here(&call)?;
    list(&call, Some(call.word(1)))
}

fn list(call: &Call, vhost: Option<&str>) -> HandlerResult {
    let traces = call.api.traces().all().into_iter();
    let traces = traces.filter(|trace| vhost.is_none_or(|vhost| trace.asked.vhost == vhost));
    json(traces.map(|trace| view(&call.api, &trace)).collect())
}

/// GET: a trace.
pub(crate) async fn one(call: Call) -> HandlerResult {
    show(&call, 0)
}

/// GET: a trace on this node.
pub(crate) async fn one_of_node(call: Call) -> HandlerResult {
    here(&call)?;
    show(&call, 1)
}

fn show(call: &Call, at: usize) -> HandlerResult {
    json(view(&call.api, &*find(call, at)?))
}

fn find(call: &Call, at: usize) -> Result<Arc<Trace>, Error> {
    call.api.traces().find(call.word(at), call.word(at + 1)).ok_or(Error::NotFound)
}

/// PUT: starts a trace.
pub(crate) async fn put(call: Call) -> HandlerResult {
    start(&call, 0).await
}

/// PUT: starts a trace on this node.
pub(crate) async fn put_on_node(call: Call) -> HandlerResult {
    here(&call)?;
    start(&call, 1).await
}

async fn start(call: &Call, at: usize) -> HandlerResult {
    let (vhost, name, body) = (call.word(at), call.word(at + 1), call.object()?);
    fields::require(&body, &["format", "pattern"])?;
    if call.api.topology().vhost(vhost).is_none() {
        return Err(Error::NotFound);
    }
    if !is_name(name) {
        return Err(Error::BadRequest("invalid trace name".to_owned()));
    }
    let asked = asked(vhost, name, &body)?;
    let files = files(&call.api);
    let opened = match check(&call.api, &asked, &body).await {
        Ok(()) => {
            let name = asked.name.clone();
            on_a_thread(move || files.open(&name)).await.map_err(|reason| reason.to_string())
        }
        Err(reason) => Err(reason),
    };
    let opened = opened.map_err(|reason| {
        tracing::warn!("trace '{name}' in vhost '{vhost}' isn't started: {reason}");
        Error::BadRequest(NOT_STARTED.to_owned())
    })?;
    running::start(&call.api, asked, opened).await?;
    created(true)
}

/// The trace that the body asks for.
fn asked(vhost: &str, name: &str, body: &Map<String, Value>) -> Result<TraceRequest, Error> {
    let bad = |text: &str| Error::BadRequest(text.to_owned());
    let max_payload_bytes = match body.get("max_payload_bytes") {
        None => None,
        Some(bytes) => Some(bytes.as_u64().ok_or_else(|| bad("max_payload_bytes not integer"))?),
    };
    let format =
        fields::text(body, "format").ok().and_then(|name| Format::ALL.into_iter().find(|of| of.name() == name));
    let username = fields::text_or(body, "tracer_connection_username", "")?;
    Ok(TraceRequest {
        vhost: vhost.to_owned(),
        name: name.to_owned(),
        format: format.ok_or_else(|| bad("format not json or text"))?,
        pattern: fields::text(body, "pattern")?.to_owned(),
        max_payload_bytes,
        username: Some(username).filter(|name| !name.is_empty()).map(str::to_owned),
    })
}

/// Whether a trace may be started. A trace needs no connection, but if it names a user, that user has to be able to log in and to
/// enter the vhost.
async fn check(api: &Api, asked: &TraceRequest, body: &Map<String, Value>) -> Result<(), String> {
    api.traces().has_room_for(&asked.name)?;
    if asked.pattern.len() > 255 {
        return Err(format!("a pattern of {} bytes is longer than 255", asked.pattern.len()));
    }
    let Some(username) = &asked.username else { return Ok(()) };
    let password = body.get("tracer_connection_password").and_then(Value::as_str).unwrap_or_default();
    let response = [&b"\0"[..], username.as_bytes(), b"\0", password.as_bytes()].concat();
    let topology = api.topology();
    let checked = api.broker().authenticator.authenticate(&topology, "PLAIN", &response, LoginOrigin::HERE);
    let who = api.answer(checked).await.map_err(|_| "the node stops")??;
    let enters = || authorize(&topology, &who, &asked.vhost, Action::Enter).map(drop).map_err(|refused| refused.text);
    match enters() {
        Err(_) if missing_answers::ask_of(api, &who).await => enters(),
        outcome => outcome,
    }
}

/// DELETE: stops a trace; its file stays.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    running::stop(&*find(&call, 0)?).await;
    no_content()
}

/// DELETE: stops a trace on this node.
pub(crate) async fn delete_on_node(call: Call) -> HandlerResult {
    here(&call)?;
    running::stop(&*find(&call, 1)?).await;
    no_content()
}

/// GET: the files of traces.
pub(crate) async fn all_files(call: Call) -> HandlerResult {
    let files = files(&call.api);
    let found = on_a_thread(move || files.list()).await.map_err(unreadable)?;
    json(found.into_iter().map(|(name, size)| json!({"name": name, "size": size})).collect())
}

/// GET: the files of traces of this node.
pub(crate) async fn files_of_node(call: Call) -> HandlerResult {
    here(&call)?;
    all_files(call).await
}

/// GET: a file.
pub(crate) async fn file(call: Call) -> HandlerResult {
    read(&call, 0).await
}

/// GET: a file of this node.
pub(crate) async fn file_of_node(call: Call) -> HandlerResult {
    here(&call)?;
    read(&call, 1).await
}

async fn read(call: &Call, at: usize) -> HandlerResult {
    let (files, name) = (files(&call.api), call.word(at).to_owned());
    let file = on_a_thread(move || files.read(&name)).await.map_err(unreadable)?.ok_or(Error::NotFound)?;
    let mut file = file.take(files::FILE_BYTES_MAX);
    Ok(stream::text("text/plain; charset=utf-8", move |piece| {
        // A file that can't be read any more ends the response.
        let _ = file.by_ref().take(32 << 10).read_to_end(piece);
    }))
}

/// DELETE: deletes a file.
pub(crate) async fn delete_file(call: Call) -> HandlerResult {
    remove(&call, 0).await
}

/// DELETE: deletes a file of this node.
pub(crate) async fn delete_file_of_node(call: Call) -> HandlerResult {
    here(&call)?;
    remove(&call, 1).await
}

async fn remove(call: &Call, at: usize) -> HandlerResult {
    let (files, name) = (files(&call.api), call.word(at).to_owned());
    match on_a_thread(move || files.delete(&name)).await.map_err(unreadable)? {
        true => no_content(),
        false => Err(Error::NotFound),
    }
}

fn files(api: &Api) -> TraceFiles {
    TraceFiles::new(api.trace_directory())
}

/// Checks that the first word of the path names this node.
fn here(call: &Call) -> Result<(), Error> {
    match call.word(0) == call.api.name() {
        true => Ok(()),
        false => Err(Error::BadRequest("Node is not a cluster member".to_owned())),
    }
}

fn view(api: &Api, trace: &Trace) -> Value {
    let asked = &trace.asked;
    let mut shown = json!({
        "vhost": asked.vhost,
        "name": asked.name,
        "format": asked.format.name(),
        "pattern": asked.pattern,
        "queue": {
            "name": trace.queue, "vhost": asked.vhost, "node": api.name(), "type": "classic", "state": "running",
            "durable": false, "auto_delete": false, "exclusive": true, "arguments": {"x-queue-type": "classic"},
        },
    });
    if let Some(bytes) = asked.max_payload_bytes {
        shown["max_payload_bytes"] = json!(bytes);
    }
    if let Some(username) = &asked.username {
        shown["tracer_connection_username"] = json!(username);
    }
    shown
}

/// Runs blocking file access on a thread.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other).and_then(|done| done)
}

fn unreadable(reason: io::Error) -> Error {
    Error::Unavailable(format!("cannot access the trace files: {reason}"))
}
