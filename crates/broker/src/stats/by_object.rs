//! Counts of a channel by exchange and by queue, as RabbitMQ's metrics have them.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_model::{Queue, QueueId};
use rustc_hash::FxHashMap;

use super::{STATS, Stat};

/// Most exchanges of a channel, and most queues, that are counted by name; further ones are only in the channel's sums.
const OBJECTS_MAX: usize = 1_000;

/// Counts of a channel by exchange and by queue.
#[derive(Debug, Clone, Default)]
pub struct StatsByObject {
    /// Mostly one: found by comparing names.
    exchanges: Vec<(Arc<str>, [u64; STATS])>,
    /// The exchange that was counted last.
    last: usize,
    queues: FxHashMap<QueueId, (Arc<str>, [u64; STATS])>,
    /// Publishes that aren't confirmed, by place of their exchange, in order.
    unconfirmed: VecDeque<(usize, u64)>,
}

impl StatsByObject {
    /// The counts by exchange.
    pub fn exchanges(&self) -> impl Iterator<Item = (&Arc<str>, &[u64; STATS])> {
        self.exchanges.iter().map(|(name, counts)| (name, counts))
    }

    /// The counts by queue.
    pub fn queues(&self) -> impl Iterator<Item = (&Arc<str>, &[u64; STATS])> {
        self.queues.values().map(|(name, counts)| (name, counts))
    }

    pub(crate) fn queue(&mut self, queue: &Queue, stat: Stat, count: u64) {
        if self.queues.len() >= OBJECTS_MAX && !self.queues.contains_key(&queue.id) {
            return;
        }
        let (_, counts) = self.queues.entry(queue.id).or_insert_with(|| (queue.name.clone(), [0; STATS]));
        counts[stat as usize] += count;
    }

    pub(crate) fn exchange(&mut self, exchange: &[u8], stat: Stat, count: u64) {
        if let Some(at) = self.place(exchange) {
            self.exchanges[at].1[stat as usize] += count;
        }
    }

    pub(crate) fn published(&mut self, exchange: &[u8], count: u64, confirms: bool) {
        self.exchange(exchange, Stat::Publish, count);
        if confirms {
            // Exchanges without a place have one behind all others.
            let at = self.place(exchange).unwrap_or(OBJECTS_MAX);
            match self.unconfirmed.back_mut() {
                Some((last, waiting)) if *last == at => *waiting += count,
                _ => self.unconfirmed.push_back((at, count)),
            }
        }
    }

    pub(crate) fn confirmed(&mut self, mut count: u64) {
        while count > 0
            && let Some((at, waiting)) = self.unconfirmed.front_mut()
        {
            let taken = count.min(*waiting);
            if let Some((_, counts)) = self.exchanges.get_mut(*at) {
                counts[Stat::Confirm as usize] += taken;
            }
            *waiting -= taken;
            count -= taken;
            if *waiting == 0 {
                self.unconfirmed.pop_front();
            }
        }
    }

    fn place(&mut self, exchange: &[u8]) -> Option<usize> {
        if self.exchanges.get(self.last).is_some_and(|(name, _)| name.as_bytes() == exchange) {
            return Some(self.last);
        }
        let known = self.exchanges.iter().position(|(name, _)| name.as_bytes() == exchange);
        let at = match known {
            Some(at) => at,
            None if self.exchanges.len() >= OBJECTS_MAX => return None,
            None => {
                self.exchanges.push((String::from_utf8_lossy(exchange).into(), [0; STATS]));
                self.exchanges.len() - 1
            }
        };
        self.last = at;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &StatsByObject, exchange: &str) -> [u64; 2] {
        let found = counts.exchanges().find(|(name, _)| ***name == *exchange);
        found.map_or([0; 2], |(_, counts)| [counts[Stat::Publish as usize], counts[Stat::Confirm as usize]])
    }

    #[test]
    fn confirms_are_those_of_the_oldest_publishes() {
        let mut counts = StatsByObject::default();
        counts.published(b"a", 3, true);
        counts.published(b"b", 2, true);
        counts.published(b"a", 1, true);
        counts.confirmed(4);
        assert_eq!((of(&counts, "a"), of(&counts, "b")), ([4, 3], [2, 1]));
        counts.confirmed(2);
        assert_eq!((of(&counts, "a"), of(&counts, "b")), ([4, 4], [2, 2]));
        counts.confirmed(5);
        assert_eq!(of(&counts, "a"), [4, 4]);
    }

    #[test]
    fn a_channel_with_very_many_exchanges_keeps_a_bounded_number() {
        let mut counts = StatsByObject::default();
        for at in 0..OBJECTS_MAX + 5 {
            counts.published(at.to_string().as_bytes(), 1, true);
        }
        assert_eq!(counts.exchanges().count(), OBJECTS_MAX);
        counts.confirmed(OBJECTS_MAX as u64 + 5);
        assert_eq!(of(&counts, "999"), [1, 1]);
        assert!(counts.unconfirmed.is_empty());
    }
}
