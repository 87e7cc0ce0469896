//! The records of the log, as queues and the metadata mean them. The control records of queues are [`leveret_queue::Control`].

use leveret_log::{LiveState, LogId, Position, SettleRange, SettleReason};
use leveret_queue::{Checkpoint, Departure, Run, joined};
use smallvec::SmallVec;

/// In the metadata log: a model command.
pub const CONTROL_MODEL_COMMAND: u8 = 1;

/// The ranges of durable messages in these runs, as logged.
pub(crate) fn durable_ranges(runs: &[Run]) -> SmallVec<[SettleRange; 16]> {
    let durable = joined(runs).filter(|run| run.durable);
    durable.map(|run| SettleRange { first: run.first, last: run.last, bytes: run.bytes }).collect()
}

/// The reason that is recorded for an outcome.
pub(crate) fn reason_of(outcome: Departure) -> SettleReason {
    match outcome {
        Departure::Settled => SettleReason::Acknowledged,
        Departure::Dropped => SettleReason::Rejected,
        Departure::Purged => SettleReason::Purged,
        Departure::Expired => SettleReason::Expired,
        Departure::DeadLettered => SettleReason::DeadLettered,
    }
}

/// The outcome for which a reason was recorded.
pub(crate) fn departure_of(reason: SettleReason) -> Departure {
    match reason {
        SettleReason::Acknowledged => Departure::Settled,
        SettleReason::Dropped | SettleReason::Rejected => Departure::Dropped,
        SettleReason::Purged => Departure::Purged,
        SettleReason::Expired => Departure::Expired,
        SettleReason::DeadLettered => Departure::DeadLettered,
    }
}

/// A queue's checkpoint as the log takes it. The log isn't needed any more up to `position`.
pub(crate) fn live_state_of(log: LogId, position: Position, checkpoint: Checkpoint) -> LiveState {
    let Checkpoint { next, live, bytes, elsewhere, state } = checkpoint;
    LiveState { log, next, position, live, bytes, elsewhere, state }
}

/// A queue's checkpoint as the log gives it back.
pub(crate) fn checkpoint_of(state: LiveState) -> Checkpoint {
    let LiveState { log: _, position: _, next, live, bytes, elsewhere, state } = state;
    Checkpoint { next, live, bytes, elsewhere, state }
}
