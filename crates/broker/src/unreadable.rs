//! Messages of streams that can't be read, since their publisher's sub-batches are damaged: counted and logged.

use std::sync::atomic::{AtomicU64, Ordering};

use leveret_message::Absent;
use leveret_model::Queue;

use crate::log_lines::category;
use crate::time::Nanos;

/// Time between two lines.
const LINES_NS: Nanos = 1_000_000_000;

/// The count of these messages, of all streams.
#[derive(Debug, Default)]
pub struct Unreadable {
    messages: AtomicU64,
    /// Monotonic time before which no further line is logged, in nanoseconds.
    silent_until: AtomicU64,
}

impl Unreadable {
    /// Number of messages that were skipped since the start, for each reader that came to them.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Counts messages of a stream, each run with its first offset, and logs where they are: at most one line a second.
    pub(crate) fn note(&self, stream: &Queue, skipped: &[(u64, Absent)], now: Nanos) {
        let Some((offset, Absent { count, reason, .. })) = skipped.first() else { return };
        let messages: u64 = skipped.iter().map(|(_, absent)| u64::from(absent.count)).sum();
        self.messages.fetch_add(messages, Ordering::Relaxed);
        if now >= self.silent_until.load(Ordering::Relaxed) {
            self.silent_until.store(now + LINES_NS, Ordering::Relaxed);
            tracing::warn!(
                target: category::QUEUE, vhost = %stream.vhost, queue = %stream.name,
                "{messages} messages of a stream can't be read and are skipped, as their publisher's sub-batches are damaged. The first \
                 are {count} from offset {offset} on: {reason}"
            );
        }
    }
}
