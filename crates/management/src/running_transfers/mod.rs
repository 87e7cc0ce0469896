//! Moves and copies of a queue's messages to other queues, at the request of an operator, while clients use both.
//!
//! A transfer goes step by step through the messages that the queue had at its begin, in the order of their numbers. Each step of a
//! move within one log is atomic on disk. Transfers are kept in a file of the data directory, or in the metadata of a cluster: a node that
//! starts, or that leads the queue from then on, goes on where the last step is known to be done. What keeps a step from being made, such as a target at its length limit, makes the transfer wait.

mod file;
pub(crate) mod parameter;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use file::write;
use leveret_broker::transfer::TransferTarget;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Most transfers that run at a time.
const RUNNING_MAX: usize = 16;
/// Ended ones that are remembered; the oldest are forgotten first.
pub(crate) const ENDED_MAX: usize = 100;

/// The state of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TransferState {
    Running,
    /// For the reason that stands beside it, to be tried again.
    Waiting,
    Done,
    Cancelled,
    /// For the reason that stands beside it, for good.
    Stopped,
}

impl TransferState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Stopped => "stopped",
        }
    }

    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Stopped)
    }
}

/// A transfer as it was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TransferRequest {
    pub(crate) vhost: String,
    pub(crate) queue: String,
    /// The identity of the queue: another one of this name has other messages.
    pub(crate) queue_id: u64,
    #[serde(with = "file::KeptTarget")]
    pub(crate) target: TransferTarget,
    pub(crate) copy: bool,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Number of messages at its begin.
    pub(crate) total: u64,
    pub(crate) user: String,
    /// In milliseconds since 1970, as all times.
    pub(crate) began: u64,
}

impl TransferRequest {
    pub(crate) fn what(&self) -> &'static str {
        if self.copy { "copy" } else { "move" }
    }
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TransferProgress {
    pub(crate) state: TransferState,
    /// Number of messages moved or copied.
    pub(crate) done: u64,
    /// The number that the next step begins at.
    pub(crate) next: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<u64>,
}

/// A move or a copy.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) id: u64,
    pub(crate) asked: TransferRequest,
    pub(crate) progress: Mutex<TransferProgress>,
    /// Notified when it is to end.
    pub(crate) cancel: Notify,
}

impl Transfer {
    pub(crate) fn is_over(&self) -> bool {
        self.progress.lock().state.is_over()
    }

    pub(crate) fn view(&self) -> Value {
        let (asked, progress) = (&self.asked, self.progress.lock().clone());
        let mut view = json!({
            "id": self.id, "vhost": asked.vhost, "queue": asked.queue, "copy": asked.copy, "first": asked.first, "last": asked.last,
            "total": asked.total, "done": progress.done, "state": progress.state, "user": asked.user, "began": asked.began,
        });
        match &asked.target {
            TransferTarget::Queue(name) => view["to"] = json!(name),
            TransferTarget::Exchange { name, routing_key } => {
                (view["exchange"], view["routing_key"]) = (json!(name), json!(routing_key));
            }
        }
        for (key, value) in [("reason", progress.reason.map(Value::from)), ("ended", progress.ended.map(Value::from))] {
            if let Some(value) = value {
                view[key] = value;
            }
        }
        view
    }
}

/// All transfers that run or are remembered.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    kept: Mutex<Kept>,
    /// Held while the file is written.
    pub(crate) writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Kept {
    last_id: u64,
    by_id: BTreeMap<u64, Arc<Transfer>>,
}

impl Transfers {
    pub(crate) fn all(&self) -> Vec<Arc<Transfer>> {
        self.kept.lock().by_id.values().cloned().collect()
    }

    pub(crate) fn find(&self, id: u64) -> Option<Arc<Transfer>> {
        self.kept.lock().by_id.get(&id).cloned()
    }

    /// Adds one, with this id or the next one.
    ///
    /// # Errors
    /// Too many run.
    pub(crate) fn add(
        &self,
        own_id: Option<u64>,
        asked: TransferRequest,
        progress: TransferProgress,
    ) -> Result<Arc<Transfer>, String> {
        let mut kept = self.kept.lock();
        let over: Vec<u64> = kept.by_id.values().filter(|one| one.is_over()).map(|one| one.id).collect();
        if kept.by_id.len() - over.len() >= RUNNING_MAX {
            return Err(format!("{RUNNING_MAX} transfers run already; wait for one, or cancel some"));
        }
        over.iter().take((over.len() + 1).saturating_sub(ENDED_MAX)).for_each(|id| _ = kept.by_id.remove(id));
        kept.last_id += 1;
        let id = own_id.unwrap_or(kept.last_id);
        Ok(kept.insert(id, asked, progress))
    }

    /// Takes over one that another member has kept, unless it runs here.
    pub(crate) fn take_over(&self, transfer: &Transfer) -> Option<Arc<Transfer>> {
        let mut kept = self.kept.lock();
        if kept.by_id.contains_key(&transfer.id) {
            return None;
        }
        let progress = transfer.progress.lock().clone();
        Some(kept.insert(transfer.id, transfer.asked.clone(), progress))
    }

    pub(crate) fn forget(&self, id: u64) {
        self.kept.lock().by_id.remove(&id);
    }
}

impl Kept {
    fn insert(&mut self, id: u64, asked: TransferRequest, progress: TransferProgress) -> Arc<Transfer> {
        let transfer = Arc::new(Transfer { id, asked, progress: Mutex::new(progress), cancel: Notify::new() });
        self.by_id.insert(id, transfer.clone());
        transfer
    }
}
