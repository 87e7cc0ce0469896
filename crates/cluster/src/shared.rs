//! The parts of a replica that its storage, machine and links share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;

use leveret_log::{EntryError, EntryLog, PlacementId};

use crate::flushes::NodeLog;
use crate::network::Host;
use crate::placement::PlacementState;
use crate::types::{LogEntry, LogId, ReplicaId};

/// The parts of a replica that storage and machine share.
pub(crate) struct Shared<H> {
    pub placement: PlacementId,
    pub replica: ReplicaId,
    pub node: NodeLog,
    pub host: H,
    /// The entries that are applied.
    pub state: RefCell<PlacementState>,
    /// The placement's clock: it never goes back.
    clock: Cell<u64>,
    /// The last entry that each other replica has acknowledged to this leader, with its term.
    acknowledged: RefCell<BTreeMap<ReplicaId, (u64, Option<LogId>)>>,
    /// Whether the engine runs. While it starts, it asks for a state of which it only needs the name.
    pub is_running: Cell<bool>,
    /// Whether a state of another replica is being completed.
    pub is_completing: Cell<bool>,
    stopped: RefCell<Option<String>>,
}

impl<H: Host> Shared<H> {
    pub(crate) fn new(
        (placement, replica): (PlacementId, ReplicaId),
        node: NodeLog,
        host: H,
        (state, clock): (PlacementState, u64),
    ) -> Shared<H> {
        Shared {
            placement,
            replica,
            node,
            host,
            state: RefCell::new(state),
            clock: Cell::new(clock),
            acknowledged: RefCell::default(),
            is_running: Cell::new(false),
            is_completing: Cell::new(false),
            stopped: RefCell::default(),
        }
    }

    /// The text with which the placement stopped.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.stopped.borrow().clone()
    }

    /// Term of the replica's vote.
    pub(crate) fn term(&self) -> u64 {
        self.node.with(|log| log.vote(self.placement)).map_or(0, |vote| vote.term)
    }

    /// The last entry that another replica has acknowledged in this term.
    pub(crate) fn acknowledged(&self, replica: ReplicaId, term: u64) -> Option<LogId> {
        let acknowledged = self.acknowledged.borrow();
        acknowledged.get(&replica).filter(|(then, _)| *then == term).and_then(|(_, last)| *last)
    }

    /// Notes that another replica has acknowledged this entry, and all before it.
    pub(crate) fn acknowledge(&self, replica: ReplicaId, term: u64, last: Option<LogId>) {
        let last = last.max(self.acknowledged(replica, term));
        self.acknowledged.borrow_mut().insert(replica, (term, last));
    }

    /// Notes a clock of the placement that was seen.
    pub(crate) fn note_clock(&self, clock: u64) {
        self.clock.set(self.clock.get().max(clock));
    }

    /// Stops the placement with this text, once.
    pub(crate) fn stop(&self, reason: &str) -> io::Error {
        let text = match reason.starts_with("placement ") {
            true => reason.to_owned(),
            false => format!("placement {} stops: {reason}", self.placement),
        };
        if self.stopped.borrow().is_none() {
            *self.stopped.borrow_mut() = Some(text.clone());
            self.host.stopped(self.placement, &text);
        }
        io::Error::other(text)
    }

    /// Stops the placement if its records didn't become durable.
    pub(crate) fn stop_unless(&self, flushed: io::Result<()>) -> io::Result<()> {
        flushed.map_err(|error| self.stop(&error.to_string()))
    }

    /// Calls the log; what it refuses stops the placement.
    pub(crate) fn log<T>(&self, call: impl FnOnce(&mut EntryLog) -> Result<T, EntryError>) -> io::Result<T> {
        if let Some(text) = &*self.stopped.borrow() {
            return Err(io::Error::other(text.clone()));
        }
        self.node.with(call).map_err(|error| self.stop(&error.to_string()))
    }

    /// Fills in what only the replica knows that made an entry. Nobody led in term 0, whose entry each member makes by itself: it is the
    /// same on all of them.
    pub(crate) fn complete(&self, mut entry: LogEntry) -> LogEntry {
        if entry.led_by == 0 && entry.id.leader_id.term > 0 {
            entry.led_by = self.replica;
            entry.clock = self.clock.get().max(self.host.wall_clock());
            entry.committed = self.state.borrow().applied.map_or(0, |(_, index)| index + 1);
        }
        self.note_clock(entry.clock);
        if planted!(LetTermFall) && entry.id.index % 16 == 7 {
            let before = self.node.with(|log| log.term(self.placement, entry.id.index - 1));
            entry.id.leader_id.term -= u64::from(before == Some(entry.id.leader_id.term));
        }
        entry
    }
}
