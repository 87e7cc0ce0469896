//! Retention: the oldest messages leave while a stream has more bytes than it may, and when they are older than they may become.
//! It needs no publisher: age is looked at by a timer.

use leveret_model::QueueOptions;

use crate::answers::QueueState;
use crate::effects::Effects;
use crate::ledger::Departure;
use crate::nanos::Nanos;
use crate::planted::{Bug, is_planted};
use crate::records::{Run, push_run};
use crate::stream::StreamQueue;
use crate::stream_state::StretchSize;

/// The limits of a stream.
#[derive(Debug, Default)]
pub(super) struct Retention {
    max_bytes: Option<u64>,
    max_age_ms: Option<u64>,
    size: StretchSize,
}

impl Retention {
    pub(super) fn new(options: &QueueOptions) -> Self {
        let (max_bytes, max_age_ms) = (options.max_length_bytes, options.max_age_ms);
        Self { max_bytes, max_age_ms, size: StretchSize::of(max_bytes, max_age_ms) }
    }

    /// The sizes of new stretches.
    pub(super) fn size(&self) -> StretchSize {
        self.size
    }
}

impl StreamQueue {
    /// Removes the oldest messages that are beyond a limit. The newest stretch stays whatever its bytes are.
    pub(super) fn retain(&mut self, now: Nanos, effects: &mut Effects) {
        let oldest_ms = self.retention.max_age_ms.map(|age| self.wall_ms(now).saturating_sub(age));
        let before = self.ledger.low();
        let mut drops_more = is_planted(Bug::DropTooMuch);
        loop {
            let is_large = self.retention.max_bytes.is_some_and(|most| self.ledger.bytes() > most);
            let is_old = self.kept.index.first_ends_ms().zip(oldest_ms).is_some_and(|(ends, oldest)| ends < oldest);
            let outcome = match (is_large && self.kept.index.len() > 1, is_old) {
                (true, _) => Departure::Dropped,
                (false, true) => Departure::Expired,
                (false, false) if self.ledger.low() > before && std::mem::take(&mut drops_more) => Departure::Dropped,
                (false, false) => break,
            };
            let Some(dropped) = self.kept.index.pop(self.ledger.next()) else { break };
            let (first, last) = (dropped.first, dropped.end - 1);
            self.ledger.settle(first, last, dropped.bytes, outcome);
            let run = Run { first, last, bytes: dropped.bytes, durable: true };
            let rare = effects.rare_mut();
            push_run(if outcome == Departure::Expired { &mut rare.expired } else { &mut rare.drops }, run);
        }
        if self.ledger.low() != before {
            self.tail.free_below(self.ledger.low());
            if self.ledger.is_empty() {
                self.published = now;
            }
        }
    }

    /// Takes over other limits, because policies changed.
    pub fn configure(&mut self, options: &QueueOptions, now: Nanos, effects: &mut Effects) {
        self.retention = Retention::new(options);
        if self.state == QueueState::Running {
            self.retain(now, effects);
        }
    }

    /// When the oldest messages are too old, in milliseconds since the Unix epoch.
    pub(super) fn retention_due_ms(&self) -> Option<u64> {
        Some(self.kept.index.first_ends_ms()?.saturating_add(self.retention.max_age_ms?).saturating_add(1))
    }
}
