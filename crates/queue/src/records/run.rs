//! Consecutive messages that leave a queue, or come back to it, together.

/// A run of consecutive numbers that leave the queue together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First number, inclusive.
    pub first: u64,
    /// Last number, inclusive.
    pub last: u64,
    /// Sum of the body lengths in bytes.
    pub bytes: u64,
    /// Whether the messages are in the log, so that their departure has to be logged.
    pub durable: bool,
}

impl Run {
    /// The number of messages.
    pub fn count(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Whether its messages are as large as those of another run, if all in each have one size.
    pub(crate) fn has_size_of(&self, other: &Run) -> bool {
        self.bytes * other.count() == other.bytes * self.count()
    }

    /// Its messages one by one. If it was not built by [`push_sized`], only the size of all is known, and each has about the
    /// average.
    pub(crate) fn singly(self) -> impl Iterator<Item = Run> {
        let (mut left, mut bytes) = (self.count(), self.bytes);
        (self.first..=self.last).map(move |number| {
            let size = bytes / left;
            bytes -= size;
            left -= 1;
            Run { first: number, last: number, bytes: size, ..self }
        })
    }
}

/// Appends a run, or lengthens the last one: the size of each message isn't known any more then. For messages that leave.
pub fn push_run(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.last + 1 == run.first && last.durable == run.durable => {
            last.last = run.last;
            last.bytes += run.bytes;
        }
        _ => runs.push(run),
    }
}

/// Appends a run, or lengthens the last one if its messages have the same size, so that the size of each stays known. For messages
/// that come back: they leave the queue one by one later, each with its own size.
pub fn push_sized(runs: &mut Vec<Run>, run: Run) {
    match runs.last() {
        Some(last) if !last.has_size_of(&run) => runs.push(run),
        _ => push_run(runs, run),
    }
}

/// Joins runs that follow each other, whatever the sizes of their messages.
pub fn joined(runs: &[Run]) -> impl Iterator<Item = Run> {
    let mut runs = runs.iter().peekable();
    std::iter::from_fn(move || {
        let mut run = *runs.next()?;
        while let Some(next) = runs.next_if(|next| next.first == run.last + 1 && next.durable == run.durable) {
            (run.last, run.bytes) = (next.last, run.bytes + next.bytes);
        }
        Some(run)
    })
}

/// Bytes of a run in a record: first number, last number, body bytes of all.
const RUN_BYTES: usize = 24;

/// The payload of a record of parked messages.
pub(crate) fn encode_runs(runs: &[Run]) -> Vec<u8> {
    runs.iter().flat_map(|run| [run.first, run.last, run.bytes]).flat_map(u64::to_le_bytes).collect()
}

/// The runs of a record of parked messages. `None` if its length isn't that of whole runs.
pub(crate) fn decode_runs(payload: &[u8]) -> Option<Vec<Run>> {
    let (runs, rest) = payload.as_chunks::<RUN_BYTES>();
    let runs = runs.iter().map(|run| {
        let number = |at: usize| u64::from_le_bytes(*run[at..].first_chunk().expect("a run is long enough"));
        Run { first: number(0), last: number(8), bytes: number(16), durable: true }
    });
    rest.is_empty().then(|| runs.collect())
}
