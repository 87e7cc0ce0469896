//! Kinds of control records, which the log has beside messages and settles.

use leveret_log::{SettleRange, SettleReason};
use leveret_queue::{Departure, KeptOffset, Run, joined};
use smallvec::SmallVec;

/// In a queue's log: the numbers that were handed out before a clean stop. A little-endian number; all lower numbers may have
/// been delivered.
pub const CONTROL_DELIVERED_BELOW: u8 = 1;

/// In a queue's log: how often messages were delivered, and how often that failed. Runs as in
/// [`leveret_queue::AttemptRun::encode`].
pub const CONTROL_ATTEMPTS: u8 = 2;

/// In a queue's log: messages that were parked, as [`encode_parked`] writes them.
pub const CONTROL_PARKED: u8 = 3;

/// In a queue's log: messages that came back and wait for a time. Runs as in [`leveret_queue::DelayRun::encode`].
pub const CONTROL_DELAYED: u8 = 4;

/// In a queue's log: annotations that consumers added to messages. Each as [`leveret_queue::Annotated::encode`] writes it.
pub const CONTROL_ANNOTATED: u8 = 5;

/// In a queue's log: dead letters that no queue takes. Runs as in [`leveret_queue::DyingRun::encode`].
pub const CONTROL_DYING: u8 = 6;

/// In a stream's log: offsets of consumers that the stream keeps. Each as [`leveret_queue::KeptOffset::encode`] writes it.
pub const CONTROL_OFFSETS: u8 = 7;

/// The payload of a record of kept offsets.
pub(crate) fn encode_offsets(offsets: &[KeptOffset]) -> Vec<u8> {
    let mut payload = Vec::new();
    offsets.iter().for_each(|kept| kept.encode(&mut payload));
    payload
}

/// Bytes of a run of parked messages: first number, last number, body bytes of all.
const PARKED_RUN_BYTES: usize = 24;

/// The payload of a record about parked messages.
pub(crate) fn encode_parked(runs: &[Run]) -> Vec<u8> {
    runs.iter().flat_map(|run| [run.first, run.last, run.bytes]).flat_map(u64::to_le_bytes).collect()
}

/// The runs of a record about parked messages. `None` if its length isn't that of whole runs.
pub(crate) fn decode_parked(payload: &[u8]) -> Option<Vec<Run>> {
    let (runs, rest) = payload.as_chunks::<PARKED_RUN_BYTES>();
    let runs = runs.iter().map(|run| {
        let number = |at: usize| u64::from_le_bytes(*run[at..].first_chunk().expect("a run is long enough"));
        Run { first: number(0), last: number(8), bytes: number(16), durable: true }
    });
    rest.is_empty().then(|| runs.collect())
}

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

/// In the metadata log: a model command.
pub const CONTROL_MODEL_COMMAND: u8 = 1;
