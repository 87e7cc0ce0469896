//! Consecutive messages of a queue that were delivered equally often.

/// The counts of one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Number of times that it came back from a consumer.
    pub acquired: u32,
    /// How many of these counted as failed: the delivery-count of AMQP 1.0 (3.2.1).
    pub failed: u32,
}

/// Consecutive messages with equal counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptRun {
    /// First number, inclusive.
    pub first: u64,
    /// Last number, inclusive.
    pub last: u64,
    /// The counts of each.
    pub counts: AttemptCounts,
}

/// Bytes of an encoded run: both numbers, then both counts.
const RUN_BYTES: usize = 24;

impl AttemptRun {
    /// The payload of a record with these runs.
    pub fn encode(runs: &[Self]) -> Vec<u8> {
        let mut out = Vec::with_capacity(runs.len() * RUN_BYTES);
        for run in runs {
            out.extend_from_slice(&run.first.to_le_bytes());
            out.extend_from_slice(&run.last.to_le_bytes());
            out.extend_from_slice(&run.counts.acquired.to_le_bytes());
            out.extend_from_slice(&run.counts.failed.to_le_bytes());
        }
        out
    }

    /// The runs of a record's payload. `None` if its length isn't that of whole runs.
    pub fn decode(payload: &[u8]) -> Option<Vec<Self>> {
        let (runs, rest) = payload.as_chunks::<RUN_BYTES>();
        let number = |run: &[u8; RUN_BYTES], at: usize| {
            u64::from_le_bytes(*run[at..].first_chunk().expect("a run is long enough"))
        };
        let count = |run: &[u8; RUN_BYTES], at: usize| {
            u32::from_le_bytes(*run[at..].first_chunk().expect("a run is long enough"))
        };
        let runs = runs.iter().map(|run| Self {
            first: number(run, 0),
            last: number(run, 8),
            counts: AttemptCounts { acquired: count(run, 16), failed: count(run, 20) },
        });
        rest.is_empty().then(|| runs.collect())
    }
}

/// Appends the counts of a message, or lengthens the last run.
pub(crate) fn push_attempts(runs: &mut Vec<AttemptRun>, number: u64, counts: AttemptCounts) {
    match runs.last_mut() {
        Some(last) if last.last + 1 == number && last.counts == counts => last.last = number,
        _ => runs.push(AttemptRun { first: number, last: number, counts }),
    }
}
