//! Traffic counters of a queue, and rates derived from marks that are set when something is counted.

use leveret_metrics::Rates;

use crate::nanos::Nanos;

const COUNTS: usize = 8;
/// The marked values: all counts, followed by two lengths.
const MARKED: usize = COUNTS + 2;

/// One count; the names are those of `message_stats` in the HTTP API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Messages that were published, including refused ones.
    Publish,
    /// Handed to consumers that acknowledge.
    Deliver,
    /// Handed to consumers that don't.
    DeliverNoAck,
    /// Fetched, to be acknowledged.
    Get,
    /// Fetched, not to be acknowledged.
    GetNoAck,
    /// Fetches that found nothing.
    GetEmpty,
    /// Handed out again.
    Redeliver,
    /// Acknowledged.
    Ack,
}

impl Count {
    /// All of them.
    pub const ALL: [Count; COUNTS] = [
        Count::Publish,
        Count::Deliver,
        Count::DeliverNoAck,
        Count::Get,
        Count::GetNoAck,
        Count::GetEmpty,
        Count::Redeliver,
        Count::Ack,
    ];

    /// Its name in `message_stats`.
    pub fn name(self) -> &'static str {
        match self {
            Count::Publish => "publish",
            Count::Deliver => "deliver",
            Count::DeliverNoAck => "deliver_no_ack",
            Count::Get => "get",
            Count::GetNoAck => "get_no_ack",
            Count::GetEmpty => "get_empty",
            Count::Redeliver => "redeliver",
            Count::Ack => "ack",
        }
    }
}

/// The counters of a queue.
#[derive(Debug, Clone, Default)]
pub struct QueueCounts {
    counts: [u64; COUNTS],
    lengths: [u64; 2],
    /// Present from the first count on: an idle queue has none.
    rates: Option<Box<Rates<MARKED>>>,
    used: Nanos,
}

impl QueueCounts {
    /// Counts `count` more, before the numbers of ready and unacknowledged messages, which are `lengths` so far, change by it.
    pub(crate) fn add(&mut self, what: Count, count: u64, lengths: [u64; 2], now: Nanos) {
        if count == 0 {
            return;
        }
        self.lengths = lengths;
        let marked = self.marked();
        self.rates.get_or_insert_with(|| Box::new(Rates::new(now, marked))).mark(now, || marked);
        self.counts[what as usize] += count;
        self.used = now;
    }

    /// A copy, with the current lengths.
    pub(crate) fn with_lengths(&self, lengths: [u64; 2]) -> Self {
        Self { lengths, ..self.clone() }
    }

    /// The total of one count.
    pub fn total(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }

    /// Whether anything was counted yet.
    pub fn any(&self) -> bool {
        self.rates.is_some()
    }

    /// Number of deliveries of any kind.
    pub fn handed_out(&self) -> u64 {
        [Count::Deliver, Count::DeliverNoAck, Count::Get, Count::GetNoAck].map(|count| self.total(count)).iter().sum()
    }

    /// Time of the last count; 0 means never.
    pub fn used(&self) -> Nanos {
        self.used
    }

    /// Rates per second.
    pub fn rates(&self, now: Nanos) -> QueueRates {
        let rates = self.rates.as_ref().map_or([0.0; MARKED], |rates| rates.per_second(now, &self.marked()));
        QueueRates { rates }
    }

    fn marked(&self) -> [u64; MARKED] {
        let mut all = [0; MARKED];
        all[..COUNTS].copy_from_slice(&self.counts);
        all[COUNTS..].copy_from_slice(&self.lengths);
        all
    }
}

/// Rates of everything that a queue counts.
#[derive(Debug, Clone, Copy)]
pub struct QueueRates {
    rates: [f64; MARKED],
}

impl QueueRates {
    /// The rate of one count.
    pub fn of(&self, count: Count) -> f64 {
        self.rates[count as usize]
    }

    /// The rate at which the number of ready messages changes.
    pub fn ready(&self) -> f64 {
        self.rates[COUNTS]
    }

    /// The rate at which the number of unacknowledged messages changes.
    pub fn unacknowledged(&self) -> f64 {
        self.rates[COUNTS + 1]
    }
}
