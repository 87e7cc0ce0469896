//! Single active consumer: one consumer of a queue gets its messages, and the others wait for its end.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::consumer_id::ConsumerId;

/// A consumer's part in its queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Activity {
    /// The queue has no single active consumer, and serves all consumers.
    #[default]
    Shared,
    /// It is the single active consumer.
    Active,
    /// It is the single active consumer and gets no more messages: a consumer of a higher priority replaces it once its
    /// deliveries are settled.
    Quiescing,
    /// It waits until it becomes the single active consumer.
    Waiting,
}

impl Activity {
    /// Whether its client counts as active: [`Activity::Quiescing`] lasts only until the replacement.
    pub fn is_active(self) -> bool {
        self != Self::Waiting
    }

    /// Whether it gets messages.
    pub fn is_served(self) -> bool {
        matches!(self, Self::Shared | Self::Active)
    }
}

/// Consumers whose activity changes.
pub(crate) type Changes = SmallVec<[(ConsumerId, Activity); 2]>;

/// A consumer in the order of succession: the highest priority first, then the longest registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    priority: Reverse<i32>,
    registered: u64,
    id: ConsumerId,
}

/// The active consumer of a queue, and its successors.
#[derive(Debug, Default)]
pub(crate) struct SingleActive {
    /// Whether a consumer of a higher priority replaces the active one. Otherwise priorities only order the successors.
    replaces: bool,
    candidates: FxHashMap<ConsumerId, Candidate>,
    active: Option<Candidate>,
    is_quiescing: bool,
    /// The consumer that was active until it was set aside, if that isn't known yet.
    retired: Option<Candidate>,
    waiting: BTreeSet<Candidate>,
    registered: u64,
}

impl SingleActive {
    pub(crate) fn new(replaces: bool) -> Self {
        Self { replaces, ..Self::default() }
    }

    /// The same rules without consumers.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.replaces)
    }

    /// Adds a consumer, which waits until it is elected.
    pub(crate) fn add(&mut self, id: ConsumerId, priority: i32) {
        self.registered += 1;
        let candidate = Candidate { priority: Reverse(priority), registered: self.registered, id };
        self.candidates.insert(id, candidate);
        self.waiting.insert(candidate);
    }

    pub(crate) fn remove(&mut self, id: ConsumerId) {
        let Some(candidate) = self.candidates.remove(&id) else { return };
        self.waiting.remove(&candidate);
        if self.active == Some(candidate) {
            self.active = None;
            self.is_quiescing = false;
        }
    }

    /// A consumer can't be the active one, until it can again.
    pub(crate) fn set_aside(&mut self, id: ConsumerId, aside: bool) {
        let Some(candidate) = self.candidates.get(&id).copied() else { return };
        if !aside {
            if self.active != Some(candidate) {
                self.waiting.insert(candidate);
            }
            return;
        }
        self.waiting.remove(&candidate);
        if self.active == Some(candidate) {
            self.retired = self.active.take();
            self.is_quiescing = false;
        }
    }

    /// Elects the active consumer after consumers came or left, or deliveries were settled. `holds` tells whether a consumer has
    /// deliveries that aren't settled.
    pub(crate) fn elect(&mut self, holds: impl FnOnce(ConsumerId) -> bool) -> Changes {
        let mut changes = Changes::new();
        changes.extend(self.retired.take().map(|retired| (retired.id, Activity::Waiting)));
        if let Some(active) = self.active {
            let is_outranked =
                self.replaces && self.waiting.first().is_some_and(|first| first.priority < active.priority);
            let quiesces = is_outranked && holds(active.id);
            if quiesces || !is_outranked {
                if std::mem::replace(&mut self.is_quiescing, quiesces) != quiesces {
                    changes.push((active.id, if quiesces { Activity::Quiescing } else { Activity::Active }));
                }
                return changes;
            }
            self.waiting.insert(active);
            self.is_quiescing = false;
            changes.push((active.id, Activity::Waiting));
        }
        self.active = self.waiting.pop_first();
        changes.extend(self.active.map(|next| (next.id, Activity::Active)));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING_HELD: fn(ConsumerId) -> bool = |_| false;

    fn changes<const N: usize>(of: [(u64, Activity); N]) -> Vec<(ConsumerId, Activity)> {
        of.into_iter().map(|(id, activity)| (ConsumerId(id), activity)).collect()
    }

    #[test]
    fn succession_is_by_priority_and_then_by_registration() {
        let mut single = SingleActive::new(false);
        for (id, priority) in [(9, 0), (4, 0), (3, 5), (2, 5)] {
            single.add(ConsumerId(id), priority);
            single.elect(NOTHING_HELD);
        }
        for next in [3, 2, 4] {
            let active = single.active.expect("one is active").id;
            single.remove(active);
            assert_eq!(single.elect(NOTHING_HELD).to_vec(), changes([(next, Activity::Active)]));
        }
    }

    #[test]
    fn a_replaced_consumer_keeps_its_place_among_equals() {
        let mut single = SingleActive::new(true);
        for (id, priority) in [(1, 0), (2, 0), (3, 1)] {
            single.add(ConsumerId(id), priority);
            single.elect(NOTHING_HELD);
        }
        single.remove(ConsumerId(3));
        assert_eq!(single.elect(NOTHING_HELD).to_vec(), changes([(1, Activity::Active)]));
    }

    #[test]
    fn a_consumer_that_is_set_aside_returns_in_its_order() {
        let mut single = SingleActive::new(true);
        for (id, priority) in [(1, 0), (2, 0)] {
            single.add(ConsumerId(id), priority);
            single.elect(NOTHING_HELD);
        }
        single.set_aside(ConsumerId(1), true);
        assert_eq!(single.elect(|_| true).to_vec(), changes([(1, Activity::Waiting), (2, Activity::Active)]));
        single.set_aside(ConsumerId(1), false);
        assert!(single.elect(|_| true).is_empty(), "it waits like any other");
        single.set_aside(ConsumerId(2), true);
        assert_eq!(single.elect(|_| true).to_vec(), changes([(2, Activity::Waiting), (1, Activity::Active)]));
        single.set_aside(ConsumerId(1), true);
        assert_eq!(single.elect(|_| true).to_vec(), changes([(1, Activity::Waiting)]));
        single.remove(ConsumerId(2));
        single.set_aside(ConsumerId(1), false);
        assert_eq!(single.elect(|_| true).to_vec(), changes([(1, Activity::Active)]));
    }

    #[test]
    fn a_consumer_that_quiesced_is_served_again_if_its_rival_leaves() {
        let mut single = SingleActive::new(true);
        single.add(ConsumerId(1), 0);
        single.elect(NOTHING_HELD);
        single.add(ConsumerId(2), 1);
        assert_eq!(single.elect(|_| true).to_vec(), changes([(1, Activity::Quiescing)]));
        assert!(single.elect(|_| true).is_empty());
        single.remove(ConsumerId(2));
        assert_eq!(single.elect(|_| true).to_vec(), changes([(1, Activity::Active)]));
    }
}
