//! The parts of a queue that outlive its process, beside its live messages.

use crate::annotations::Annotations;
use crate::attempts::Attempts;
use crate::consumer_id::ConsumerId;
use crate::dead_letter::Dying;
use crate::ledger::Ledger;
use crate::priorities::Priorities;
use crate::repeats::RecoveredRepeats;
use crate::set_aside::{Delayed, Parked};
use crate::shared::References;
use crate::stream_state::StreamState;
use crate::timing::Expiry;

/// The state that a queue keeps beside its live messages. Most of it is empty in most queues.
#[derive(Debug, Default)]
pub struct Parts {
    /// Expiry times of its messages.
    pub expiry: Expiry,
    /// The messages that are stored in the shared log.
    pub references: References,
    /// How often its messages were delivered, and how often that failed.
    pub attempts: Attempts,
    /// The parked ones among them.
    pub parked: Parked,
    /// The delayed ones among them.
    pub delayed: Delayed,
    /// The annotations that consumers added to them.
    pub annotations: Annotations,
    /// The dying ones among them: dead letters that no queue takes.
    pub dying: Dying,
    /// Their priorities.
    pub priorities: Priorities,
    /// Earlier messages, which those that are sent again are compared with.
    pub repeats: RecoveredRepeats,
    /// The state that only a stream has.
    pub stream: StreamState,
    /// Messages of a replicated queue with lower numbers may have been delivered.
    pub delivered_below: u64,
    /// The single active consumer of a replicated queue.
    pub active: Option<ConsumerId>,
}

impl Parts {
    /// Forgets what is known of messages that aren't in the ledger. Earlier messages are those that may have left, a stream trims its
    /// index when it begins, and times of messages that have left do nothing.
    pub(super) fn keep_live(&mut self, ledger: &Ledger) {
        let Self {
            references,
            attempts,
            parked,
            delayed,
            annotations,
            dying,
            priorities,
            expiry: _,
            repeats: _,
            stream: _,
            delivered_below: _,
            active: _,
        } = self;
        let is_live = |number| ledger.is_live(number);
        references.keep_live(ledger);
        attempts.keep(is_live);
        parked.keep(is_live);
        annotations.keep(is_live);
        dying.keep(is_live);
        // A message that was delayed before it was parked, or died, isn't delayed any more.
        let is_elsewhere = |number| parked.contains(number) || dying.contains(number);
        delayed.keep(|number| is_live(number) && !is_elsewhere(number));
        priorities.keep(is_live);
    }
}
