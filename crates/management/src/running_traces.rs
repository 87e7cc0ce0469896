//! The traces that run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use leveret_model::ConnectionId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Most traces that run at a time.
const TRACES_MAX: usize = 32;

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// A line of JSON for each message.
    Json,
}

impl Format {
    pub(crate) const ALL: [Self; 2] = [Self::Json, Self::Text];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// A trace as an administrator asked for it.
#[derive(Debug, Clone)]
pub(crate) struct TraceRequest {
    pub(crate) vhost: String,
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) pattern: String,
    pub(crate) max_payload_bytes: Option<u64>,
    pub(crate) username: Option<String>,
}

/// A trace that runs.
pub(crate) struct Trace {
    pub(crate) asked: TraceRequest,
    /// The name of its queue.
    pub(crate) queue: String,
    /// The owner of the queue, which no connection is.
    pub(crate) owner: ConnectionId,
    pub(crate) is_stopping: AtomicBool,
    pub(crate) stop: Notify,
    pub(crate) task: Mutex<Option<JoinHandle<()>>>,
}

/// The traces that run, by vhost and name.
#[derive(Default)]
pub(crate) struct Traces {
    running: Mutex<BTreeMap<(String, String), Arc<Trace>>>,
}

impl Traces {
    pub(crate) fn all(&self) -> Vec<Arc<Trace>> {
        self.running.lock().values().cloned().collect()
    }

    pub(crate) fn find(&self, vhost: &str, name: &str) -> Option<Arc<Trace>> {
        self.running.lock().get(&(vhost.to_owned(), name.to_owned())).cloned()
    }

    /// Whether a trace can be started: not if one has its file, or if there are too many.
    pub(crate) fn has_room_for(&self, name: &str) -> Result<(), String> {
        let running = self.running.lock();
        if running.keys().any(|(_, other)| other == name) {
            return Err(format!("a trace named '{name}' runs already"));
        }
        match running.len() < TRACES_MAX {
            true => Ok(()),
            false => Err(format!("{TRACES_MAX} traces run already; delete some")),
        }
    }

    pub(crate) fn insert(&self, trace: Arc<Trace>) {
        let key = (trace.asked.vhost.clone(), trace.asked.name.clone());
        self.running.lock().insert(key, trace);
    }

    pub(crate) fn remove(&self, asked: &TraceRequest) {
        self.running.lock().remove(&(asked.vhost.clone(), asked.name.clone()));
    }

    pub(crate) fn has_any_in(&self, vhost: &str) -> bool {
        self.running.lock().keys().any(|(other, _)| other == vhost)
    }
}
