//! Responses on the local socket between `stop_app` and `start_app`, while there is no node.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use leveret_node::START_APP;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::cluster::ClusterChange;

/// Time for a response to be sent before the runtime that sends it is stopped.
const ANSWER_TIME: Duration = Duration::from_millis(20);

/// A process without a node.
#[derive(Debug)]
pub struct Stopped {
    /// The node's name.
    pub name: String,
    /// Its data directory.
    pub data_directory: PathBuf,
    /// The RabbitMQ version that it is compatible with.
    pub rabbitmq_version: String,
    /// The error of the last `start_app`, if it failed.
    pub start_error: Option<String>,
    /// The change of its cluster that it is asked for.
    pub change: PendingChange,
}

/// A change of the node's cluster that is asked for while there is no node: it starts for that.
#[derive(Clone, Debug, Default)]
pub struct PendingChange(Arc<Mutex<Option<ClusterChange>>>);

impl PendingChange {
    /// Takes the change, if one was asked for.
    #[must_use]
    pub fn take(&self) -> Option<ClusterChange> {
        self.0.lock().take()
    }
}

struct Door {
    stopped: Stopped,
    start_error: Mutex<Option<String>>,
    asks: Sender<&'static str>,
}

/// The routes that need no node; all others respond that there is none. `asks` receives [`START_APP`], or the
/// requester's name if the process is to end.
pub fn stopped(stopped: Stopped, asks: Sender<&'static str>) -> Router {
    let start_error = Mutex::new(stopped.start_error.clone());
    let door = Arc::new(Door { stopped, start_error, asks });
    Router::new()
        .route("/local/node", get(show))
        .route("/local/app/start", post(start))
        .route("/local/app/stop", post(|| async { StatusCode::NO_CONTENT }))
        .route("/local/stop", post(stop))
        .route("/api/cluster/join", put(join))
        .route("/api/cluster/reset", put(reset))
        .route("/api/cluster/change", get(change))
        .fallback(refuse)
        .with_state(door)
}

async fn show(State(door): State<Arc<Door>>) -> Response {
    let stopped = &door.stopped;
    let directory = stopped.data_directory.canonicalize().unwrap_or_else(|_| stopped.data_directory.clone());
    let body = json!({
        "name": stopped.name,
        "running": false,
        "start_error": *door.start_error.lock(),
        "pid": std::process::id(),
        "data_directory": directory,
        "rabbitmq_version": stopped.rabbitmq_version,
        "leveret_version": env!("CARGO_PKG_VERSION"),
        "listeners": [],
    });
    Json(body).into_response()
}

async fn start(State(door): State<Arc<Door>>) -> StatusCode {
    *door.start_error.lock() = None;
    ask(&door, START_APP)
}

async fn join(State(door): State<Arc<Door>>, Json(body): Json<Map<String, Value>>) -> Response {
    match ClusterChange::join(&body) {
        Ok(change) => begin(&door, change),
        Err(reason) => {
            (StatusCode::BAD_REQUEST, Json(json!({"error": "bad_request", "reason": reason}))).into_response()
        }
    }
}

async fn reset(State(door): State<Arc<Door>>, Json(body): Json<Map<String, Value>>) -> Response {
    begin(&door, ClusterChange::reset(&body))
}

/// The node starts, and carries the change out.
fn begin(door: &Door, change: ClusterChange) -> Response {
    *door.stopped.change.0.lock() = Some(change);
    *door.start_error.lock() = None;
    ask(door, START_APP);
    StatusCode::ACCEPTED.into_response()
}

async fn change(State(door): State<Arc<Door>>) -> Response {
    let failed = door.start_error.lock().clone().map(|reason| json!({"state": "failed", "reason": reason}));
    Json(failed.unwrap_or_else(|| json!({"state": "running"}))).into_response()
}

async fn stop(State(door): State<Arc<Door>>) -> StatusCode {
    ask(&door, "rabbitmqctl")
}

fn ask(door: &Door, what: &'static str) -> StatusCode {
    let asks = door.asks.clone();
    tokio::spawn(async move {
        tokio::time::sleep(ANSWER_TIME).await;
        // Fails only if another request was sent as well.
        let _ = asks.send(what);
    });
    StatusCode::NO_CONTENT
}

async fn refuse() -> Response {
    let reason = "the 'rabbit' app isn't running. Start it with 'rabbitmqctl start_app'";
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"error": "not_running", "reason": reason}))).into_response()
}
