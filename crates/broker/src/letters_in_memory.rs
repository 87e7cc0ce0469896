//! Large dead letters, which are in memory as a whole until they are moved.

use std::sync::{Arc, Weak};

use leveret_message::Batch;

use crate::settings::WHOLE_BODIES_BYTES_MAX;

/// Bytes from which on a dead letter is large.
const LARGE_BYTES: u64 = 256 << 10;

/// Dead letters that were read, with their bytes.
#[derive(Default)]
pub(crate) struct LettersInMemory(Vec<(Weak<Batch>, u64)>);

impl LettersInMemory {
    /// Whether no more may be read now.
    pub(crate) fn are_full(&mut self) -> bool {
        self.0.retain(|(batch, _)| batch.strong_count() > 0);
        self.0.iter().map(|(_, bytes)| bytes).sum::<u64>() >= WHOLE_BODIES_BYTES_MAX
    }

    /// Notes dead letters that were read.
    pub(crate) fn note(&mut self, runs: &[(u64, Arc<Batch>)]) {
        for (_, batch) in runs {
            let bytes = batch.body_bytes(0, batch.len());
            if bytes >= LARGE_BYTES {
                self.0.push((Arc::downgrade(batch), bytes));
            }
        }
    }
}
