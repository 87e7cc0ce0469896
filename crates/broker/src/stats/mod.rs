//! Counters of a channel or session.

mod by_object;

use leveret_metrics::Rates;
use leveret_model::Queue;

pub use self::by_object::StatsByObject;

use crate::time::Nanos;

/// One count; the names are those of `message_stats` in the HTTP API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stat {
    /// Messages published.
    Publish,
    /// Of these, messages confirmed.
    Confirm,
    /// Mandatory messages that were returned.
    ReturnUnroutable,
    /// Messages that no queue matched.
    DropUnroutable,
    /// Messages delivered, to be acknowledged.
    Deliver,
    /// Messages delivered, not to be acknowledged.
    DeliverNoAck,
    /// Messages fetched, to be acknowledged.
    Get,
    /// Messages fetched, not to be acknowledged.
    GetNoAck,
    /// Fetches that found nothing.
    GetEmpty,
    /// Messages delivered again.
    Redeliver,
    /// Messages acknowledged.
    Ack,
}

/// Number of counts.
pub const STATS: usize = 11;

impl Stat {
    /// All counts.
    pub const ALL: [Stat; STATS] = [
        Stat::Publish,
        Stat::Confirm,
        Stat::ReturnUnroutable,
        Stat::DropUnroutable,
        Stat::Deliver,
        Stat::DeliverNoAck,
        Stat::Get,
        Stat::GetNoAck,
        Stat::GetEmpty,
        Stat::Redeliver,
        Stat::Ack,
    ];

    /// Its name in `message_stats`.
    pub fn name(self) -> &'static str {
        match self {
            Stat::Publish => "publish",
            Stat::Confirm => "confirm",
            Stat::ReturnUnroutable => "return_unroutable",
            Stat::DropUnroutable => "drop_unroutable",
            Stat::Deliver => "deliver",
            Stat::DeliverNoAck => "deliver_no_ack",
            Stat::Get => "get",
            Stat::GetNoAck => "get_no_ack",
            Stat::GetEmpty => "get_empty",
            Stat::Redeliver => "redeliver",
            Stat::Ack => "ack",
        }
    }
}

/// Counts with their rates.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    counts: [u64; STATS],
    /// Present from the first count on: an idle channel has none.
    rates: Option<Box<Rates<STATS>>>,
    used: Nanos,
    /// The same by exchange and queue, from the first such count on.
    by_object: Option<Box<StatsByObject>>,
}

impl Stats {
    /// Counts `count` more.
    pub fn count(&mut self, stat: Stat, count: u64, now: Nanos) {
        if count == 0 {
            return;
        }
        let counts = self.counts;
        self.rates.get_or_insert_with(|| Box::new(Rates::new(now, counts))).mark(now, || counts);
        self.counts[stat as usize] += count;
        self.used = now;
    }

    /// Counts `count` more, of messages of this queue.
    pub fn count_of_queue(&mut self, queue: &Queue, stat: Stat, count: u64, now: Nanos) {
        if count > 0 {
            self.by_object.get_or_insert_default().queue(queue, stat, count);
        }
        self.count(stat, count, now);
    }

    /// Counts messages published to this exchange; with `confirms` those that will be confirmed.
    pub fn published_to(&mut self, exchange: &[u8], count: u64, confirms: bool, now: Nanos) {
        self.by_object.get_or_insert_default().published(exchange, count, confirms);
        self.count(Stat::Publish, count, now);
    }

    /// Counts messages of those published to this exchange that no queue matched.
    pub fn unroutable_of(&mut self, exchange: &[u8], stat: Stat, count: u64, now: Nanos) {
        self.by_object.get_or_insert_default().exchange(exchange, stat, count);
        self.count(stat, count, now);
    }

    /// Counts confirms, those of the oldest publishes first.
    pub fn confirmed(&mut self, count: u64, now: Nanos) {
        if let Some(by_object) = &mut self.by_object {
            by_object.confirmed(count);
        }
        self.count(Stat::Confirm, count, now);
    }

    /// The counts of each exchange and queue; `None` if there are none.
    pub fn by_object(&self) -> Option<&StatsByObject> {
        self.by_object.as_deref()
    }

    /// The total of one count.
    pub fn total(&self, stat: Stat) -> u64 {
        self.counts[stat as usize]
    }

    /// Each count with its total and its rate per second.
    pub fn shown(&self, now: Nanos) -> impl Iterator<Item = (Stat, u64, f64)> + use<> {
        let counts = self.counts;
        let rates = self.rates.as_ref().map_or([0.0; STATS], |rates| rates.per_second(now, &counts));
        Stat::ALL.into_iter().map(move |stat| (stat, counts[stat as usize], rates[stat as usize]))
    }

    /// Time of the last count; 0 means never.
    pub fn used(&self) -> Nanos {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stat_has_a_place_and_a_name_of_its_own() {
        let mut stats = Stats::default();
        for (at, stat) in Stat::ALL.into_iter().enumerate() {
            assert_eq!(stat as usize, at);
            stats.count(stat, at as u64 + 1, 5);
        }
        let shown: Vec<_> = stats.shown(5).map(|(stat, count, _)| (stat.name(), count)).collect();
        assert_eq!(shown[0], ("publish", 1));
        assert_eq!(shown[10], ("ack", 11));
        assert_eq!(stats.used(), 5);
    }
}
