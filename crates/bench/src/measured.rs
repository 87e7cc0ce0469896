//! Shared state and measurements of the two sides of a round.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::BenchError;
use crate::latencies::Counters;
use crate::settings::Settings;
use crate::tally::{Order, Tally};

/// Most bytes in one write.
pub(crate) const WRITE_MAX: usize = 64 << 10;
/// Time without messages, after everything was published, after which a queue that drops by design counts as empty.
const DROPPED_AFTER: Duration = Duration::from_millis(500);
/// Interval at which consumers that share a queue check whether the others have received the rest.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Interval of the same check for consumers with a queue of their own, of which there may be many.
const LOOK_ALONE_EVERY: Duration = Duration::from_millis(200);

/// The state of one connection in a round.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionPart<'r> {
    pub(crate) settings: &'r Settings,
    /// The queue that it publishes to or consumes from.
    pub(crate) queue: &'r str,
    /// Number of the publisher or consumer.
    pub(crate) number: u32,
    pub(crate) tally: &'r Tally,
    pub(crate) start: Instant,
}

impl<'r> ConnectionPart<'r> {
    /// Nanoseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Time at which a message of this publisher was sent.
    pub(crate) fn sent_at(&self, message: u64) -> &'r AtomicU64 {
        self.tally.sent_at(self.number, message)
    }

    /// Records how long these messages waited until they were confirmed, which is `now`.
    pub(crate) fn confirmed(&self, messages: impl IntoIterator<Item = u64>, now: u64, latency: &mut Histogram<u64>) {
        for message in messages {
            let sent = self.sent_at(message).load(Ordering::Relaxed);
            latency.saturating_record(now.saturating_sub(sent));
        }
    }

    /// Number of messages of this publisher in all: those `sent` once its time is over.
    pub(crate) fn count(&self, sent: u64, now: u64) -> u64 {
        let is_over = self.settings.stop_after.is_some_and(|end| u128::from(now) >= end.as_nanos());
        if is_over { sent } else { self.settings.messages_each }
    }

    /// Interval at which a consumer must stop waiting for its socket, because the awaited messages may go to others.
    /// `None` for never.
    pub(crate) fn look_every(&self) -> Option<Duration> {
        let is_alone = self.settings.consumers == self.settings.queues;
        let settings = self.settings;
        let must = settings.consumers > 1 || settings.max_length.is_some() || settings.stop_after.is_some();
        must.then_some(if is_alone { LOOK_ALONE_EVERY } else { LOOK_EVERY })
    }
}

/// Messages received by a consumer.
pub(crate) struct Intake<'r> {
    part: ConnectionPart<'r>,
    order: Order,
    pub(crate) latency: Histogram<u64>,
    /// The latencies for the watcher of the round.
    recent: Option<&'r Counters>,
    /// Time of the last message, in nanoseconds since the start.
    last: u64,
}

impl<'r> Intake<'r> {
    pub(crate) fn new(part: ConnectionPart<'r>) -> Self {
        let order = part.tally.order(part.settings, part.number);
        let recent = part.tally.latencies_of(part.number);
        Self { part, order, latency: histogram(), recent, last: part.now() }
    }

    /// Counts the sequence number of a message, `None` if its body was changed.
    #[inline]
    pub(crate) fn take(&mut self, sequence: Option<u64>, now: u64) {
        self.last = now;
        if let Some(sent) = self.part.tally.receive(&mut self.order, sequence) {
            let latency = now.saturating_sub(sent);
            self.latency.saturating_record(latency);
            if let Some(recent) = self.recent {
                recent.record(latency);
            }
        }
    }

    /// Whether nothing has arrived for so long that missing messages must have been dropped.
    pub(crate) fn is_over(&self) -> bool {
        self.part.tally.may_be_over() && self.silence() >= DROPPED_AFTER
    }

    /// Time since the last message.
    pub(crate) fn silence(&self) -> Duration {
        Duration::from_nanos(self.part.now().saturating_sub(self.last))
    }

    /// The result, once nothing more is due.
    ///
    /// # Errors
    /// Messages were lost, duplicated, reordered or changed.
    pub(crate) fn finish(self, cpu: Duration) -> Result<Consumed, BenchError> {
        match self.part.tally.verdict() {
            Some(fault) => Err(BenchError::Void(fault)),
            None => Ok(Consumed { elapsed: Duration::from_nanos(self.last), cpu, latency: self.latency }),
        }
    }
}

/// Measurements of a publisher.
pub(crate) struct Published {
    /// From the start until the last confirm, or the last write without confirms.
    pub(crate) elapsed: Duration,
    /// CPU time of the thread.
    pub(crate) cpu: Duration,
    /// Nanoseconds from encoding, or from the due time, to the confirm.
    pub(crate) confirm_latency: Histogram<u64>,
}

/// Measurements of a consumer.
pub(crate) struct Consumed {
    /// From the start until the last message.
    pub(crate) elapsed: Duration,
    /// CPU time of the thread.
    pub(crate) cpu: Duration,
    /// Nanoseconds from encoding at the publisher, or from the due time, to decoding here.
    pub(crate) latency: Histogram<u64>,
}

/// A histogram of nanoseconds with three significant digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are legal")
}

/// The error for a silent broker that owes confirms to a publisher, which says more than that it was silent.
pub(crate) fn unconfirmed(error: BenchError, sent: u64, confirmed: u64) -> BenchError {
    match error {
        BenchError::Silent { broker, seconds, .. } => {
            let due = match sent - confirmed {
                0 => "credit for a publisher".into(),
                open => format!("{open} confirms of the {sent} messages that one publisher had sent"),
            };
            BenchError::Silent { broker, due, seconds }
        }
        error => error,
    }
}
