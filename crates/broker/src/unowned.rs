//! Logs whose owner the metadata doesn't name.
//!
//! The metadata doesn't show that their owners were deleted. So such a log stays, with all messages, until an operator deletes it:
//! every checkpoint has its state as the start found it.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_log::{LiveState, LogId, Position, Report};
use leveret_model::QueueId;
use leveret_queue::References;
use parking_lot::Mutex;

use crate::records::live_state_of;
use crate::recovery::Recovered;
use crate::streams::{LocalStream, Store as _};

/// The logs of a stream without an owner.
#[derive(Default)]
pub(crate) struct Unowned {
    logs: Mutex<BTreeMap<LogId, UnownedState>>,
}

struct UnownedState {
    messages: u64,
    state: LiveState,
}

/// A log without an owner, as it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnownedLog {
    /// Its id, which was that of its queue.
    pub log: u64,
    /// Its messages.
    pub messages: u64,
    /// Sum of their body bytes.
    pub bytes: u64,
}

impl Unowned {
    /// Forgets the logs that no queue owns any more, and keeps those of which that isn't sure. `refer` takes the messages of the shared log that
    /// each of them needs.
    ///
    /// A log is left alone unless the metadata, which is whole at a start, says that it had an owner (`has_given`) and that this was deleted.
    /// A body file is left alone if anything is damaged, since a message that wasn't replayed may refer to it.
    pub(crate) fn begin(
        logs: &[Arc<LocalStream>],
        states: &mut [Recovered],
        reports: &[Report],
        has_given: impl Fn(LogId) -> bool,
        refer: impl Fn(&References),
    ) -> Self {
        let this = Self::default();
        for ((log, state), report) in logs.iter().zip(states).zip(reports) {
            let (deleted, kept): (Vec<LogId>, Vec<LogId>) =
                state.orphans().into_iter().partition(|log| has_given(*log));
            deleted.into_iter().for_each(|orphan| log.forget(orphan));
            this.keep(kept.into_iter(), state, report.position, &refer);
        }
        this
    }

    /// Takes these logs out of what a start recovered. `position` is that of the last record.
    fn keep(
        &self,
        logs: impl Iterator<Item = LogId>,
        recovered: &mut Recovered,
        position: Position,
        refer: impl Fn(&References),
    ) {
        for log in logs {
            let mut replica = recovered.take(QueueId(log.0), &[], false);
            refer(&replica.parts.references);
            let messages = replica.ledger.len();
            let state = live_state_of(log, position, replica.checkpoint());
            tracing::error!(
                log = log.0,
                messages,
                "no queue in the metadata owns this log; it is kept until it is deleted"
            );
            self.logs.lock().insert(log, UnownedState { messages, state });
        }
    }

    /// The state of a log for a checkpoint, if it is one of these.
    pub(crate) fn live_state(&self, log: LogId) -> Option<LiveState> {
        self.logs.lock().get(&log).map(|kept| kept.state.clone())
    }

    /// All of them, in order.
    pub(crate) fn list(&self) -> Vec<UnownedLog> {
        let logs = self.logs.lock();
        let row = |(log, kept): (&LogId, &UnownedState)| UnownedLog {
            log: log.0,
            messages: kept.messages,
            bytes: kept.state.bytes,
        };
        logs.iter().map(row).collect()
    }

    /// Stops keeping a log. Returns whether it was one of these.
    pub(crate) fn remove(&self, log: LogId) -> bool {
        self.logs.lock().remove(&log).is_some()
    }
}
