//! Consecutive messages of a queue that wait until the same time.

/// Consecutive messages that are delayed until the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayRun {
    /// First number, inclusive.
    pub first: u64,
    /// Last number, inclusive.
    pub last: u64,
    /// When they are ready again, in milliseconds since the Unix epoch.
    pub due_ms: u64,
    /// Sum of the body lengths in bytes.
    pub bytes: u64,
}

/// Bytes of an encoded run: both numbers, the time, the body bytes.
const RUN_BYTES: usize = 32;

impl DelayRun {
    /// The payload of a record with these runs.
    pub fn encode(runs: &[Self]) -> Vec<u8> {
        runs.iter().flat_map(|run| [run.first, run.last, run.due_ms, run.bytes]).flat_map(u64::to_le_bytes).collect()
    }

    /// The runs of a record's payload. `None` if its length isn't that of whole runs.
    pub fn decode(payload: &[u8]) -> Option<Vec<Self>> {
        let (runs, rest) = payload.as_chunks::<RUN_BYTES>();
        let runs = runs.iter().map(|run| {
            let number = |at: usize| u64::from_le_bytes(*run[at..].first_chunk().expect("a run is long enough"));
            Self { first: number(0), last: number(8), due_ms: number(16), bytes: number(24) }
        });
        rest.is_empty().then(|| runs.collect())
    }
}
