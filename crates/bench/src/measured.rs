//! What the two sides of a round share and measure.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::BenchError;
use crate::latencies::Counters;
use crate::settings::Settings;
use crate::tally::{Order, Tally};

/// Bytes written at once at most.
pub(crate) const WRITE_MAX: usize = 64 << 10;
/// A queue that drops by design is empty if nothing comes for this long after everything was published.
const DROPPED_AFTER: Duration = Duration::from_millis(500);
/// So often consumers that share a queue look whether the others have had the rest.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So often those look that have a queue of their own, where there are many.
const LOOK_ALONE_EVERY: Duration = Duration::from_millis(200);

/// What one connection of a round works with.
#[derive(Clone, Copy)]
pub(crate) struct Part<'r> {
    pub(crate) settings: &'r Settings,
    /// The queue that it publishes to or consumes from.
    pub(crate) queue: &'r str,
    /// Which publisher it is, or which consumer.
    pub(crate) number: u32,
    pub(crate) tally: &'r Tally,
    pub(crate) start: Instant,
}

impl<'r> Part<'r> {
    /// Nanoseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// When a message of this publisher was sent.
    pub(crate) fn sent_at(&self, message: u64) -> &'r AtomicU64 {
        self.tally.sent_at(self.number, message)
    }

    /// How many messages this publisher sends in all: no more than the `sent` once its time is over.
    pub(crate) fn count(&self, sent: u64, now: u64) -> u64 {
        let is_over = self.settings.stop_after.is_some_and(|end| u128::from(now) >= end.as_nanos());
        if is_over { sent } else { self.settings.messages_each }
    }

    /// How often a consumer must look up from its socket: what it waits for may not come there. `None` for never.
    pub(crate) fn look_every(&self) -> Option<Duration> {
        let is_alone = self.settings.consumers == self.settings.queues;
        let settings = self.settings;
        let must = settings.consumers > 1 || settings.max_length.is_some() || settings.stop_after.is_some();
        must.then_some(if is_alone { LOOK_ALONE_EVERY } else { LOOK_EVERY })
    }
}

/// What a consumer has had.
pub(crate) struct Intake<'r> {
    part: Part<'r>,
    order: Order,
    pub(crate) latency: Histogram<u64>,
    /// The same, for whoever watches the round.
    recent: Option<&'r Counters>,
    /// When something came last, in nanoseconds since the start.
    last: u64,
}

impl<'r> Intake<'r> {
    pub(crate) fn new(part: Part<'r>) -> Self {
        let order = part.tally.order(part.settings, part.number);
        let recent = part.tally.latencies_of(part.number);
        Self { part, order, latency: histogram(), recent, last: part.now() }
    }

    /// Takes the sequence number of a message, `None` if its body was not as sent.
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

    /// Nothing has come for so long, so that what is missing was dropped.
    pub(crate) fn is_over(&self) -> bool {
        self.part.tally.may_be_over() && self.silence() >= DROPPED_AFTER
    }

    /// How long nothing has come.
    pub(crate) fn silence(&self) -> Duration {
        Duration::from_nanos(self.part.now().saturating_sub(self.last))
    }

    /// What it came to, once nothing more is due.
    ///
    /// # Errors
    /// Something was lost, duplicated, reordered or changed.
    pub(crate) fn finish(self, cpu: Duration) -> Result<Consumed, BenchError> {
        match self.part.tally.verdict() {
            Some(fault) => Err(BenchError::Void(fault)),
            None => Ok(Consumed { elapsed: Duration::from_nanos(self.last), cpu, latency: self.latency }),
        }
    }
}

/// What a publisher measured.
pub(crate) struct Published {
    /// From the start until the last confirm, or the last write without confirms.
    pub(crate) elapsed: Duration,
    /// CPU time of the thread.
    pub(crate) cpu: Duration,
    /// Nanoseconds from encoding, or from when it was due, to confirm.
    pub(crate) confirm_latency: Histogram<u64>,
}

/// What a consumer measured.
pub(crate) struct Consumed {
    /// From the start until the last message.
    pub(crate) elapsed: Duration,
    /// CPU time of the thread.
    pub(crate) cpu: Duration,
    /// Nanoseconds from encoding at the publisher, or from when it was due, to decoding here.
    pub(crate) latency: Histogram<u64>,
}

/// Nanoseconds with three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are legal")
}

/// A broker that is silent owes confirms to a publisher: which says more than that it was silent.
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
