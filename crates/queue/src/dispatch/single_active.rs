//! Single active consumer: one consumer of a queue gets its messages, and the others wait for its end.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::consumer_id::ConsumerId;
use crate::pending::{Awaited, Watermarks};
use crate::planted::{Bug, is_planted};

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
    /// The consumer that the records of a replicated queue name; `None` in other queues, whose records don't.
    named: Option<Named>,
}

/// The active consumer by the records of a replicated queue. A consumer is served only once all replicas know it, so that another leader
/// doesn't serve a second one beside it.
#[derive(Debug)]
struct Named {
    id: Option<ConsumerId>,
    /// Whether that one isn't registered here and may be served elsewhere: nobody else becomes active.
    is_awaited: bool,
    next: Option<NextNamed>,
}

/// The next one, until its record is reached.
#[derive(Debug)]
struct NextNamed {
    id: Option<ConsumerId>,
    /// The place of its record; `None` until that is appended.
    place: Option<Awaited>,
}

impl SingleActive {
    pub(crate) fn new(replaces: bool) -> Self {
        Self { replaces, ..Self::default() }
    }

    /// From now on records name the active consumer, and so far they name this one. If it isn't here, it is waited for.
    pub(crate) fn name(&mut self, id: Option<ConsumerId>) {
        let is_awaited = id.is_some() && !is_planted(Bug::ElectAtOnce);
        self.named = Some(Named { id, is_awaited, next: None });
    }

    /// The consumer that a record has to name. It isn't active before.
    pub(crate) fn to_be_named(&self) -> Option<Option<ConsumerId>> {
        let next = self.named.as_ref()?.next.as_ref()?;
        next.place.is_none().then_some(next.id)
    }

    /// The record was appended.
    pub(crate) fn naming(&mut self, place: Awaited) {
        if let Some(next) = self.named.as_mut().and_then(|named| named.next.as_mut()) {
            next.place = Some(place);
        }
    }

    /// Records were reached. Returns whether one of them named another consumer, which is active now.
    pub(crate) fn apply(&mut self, reached: Watermarks) -> Changes {
        let mut changes = Changes::new();
        let Some(named) = &mut self.named else { return changes };
        let is_reached = |next: &mut NextNamed| next.place.as_ref().is_some_and(|place| place.is_reached(reached));
        if let Some(next) = named.next.take_if(is_reached) {
            named.id = next.id;
            changes.extend(self.active.map(|active| (active.id, self.activity_of_active())));
        }
        changes
    }

    /// The consumer that is waited for.
    pub(crate) fn awaited(&self) -> Option<ConsumerId> {
        self.named.as_ref().filter(|named| named.is_awaited)?.id
    }

    /// The link to a consumer's node has ended, and the consumer is about to be removed. If it is active it may still be served there, and is
    /// waited for from now on.
    pub(crate) fn lose(&mut self, id: ConsumerId) {
        let is_active = self.active.is_some_and(|active| active.id == id);
        if let Some(named) = self.named.as_mut().filter(|named| is_active && named.next.is_none()) {
            named.is_awaited = !is_planted(Bug::ElectAtOnce);
            self.remove(id);
        }
    }

    /// The consumer that is waited for is gone. Returns whether it was.
    pub(crate) fn stop_awaiting(&mut self, id: ConsumerId) -> bool {
        let is_it = self.awaited() == Some(id);
        if let Some(named) = self.named.as_mut().filter(|_| is_it) {
            named.is_awaited = false;
        }
        is_it
    }

    /// The part of the consumer that was elected.
    fn activity_of_active(&self) -> Activity {
        match &self.named {
            Some(Named { next: Some(_), .. }) => Activity::Waiting,
            _ if self.is_quiescing => Activity::Quiescing,
            _ => Activity::Active,
        }
    }

    /// If the consumer that was waited for has come, it is the active one. Returns whether consumers may be elected.
    fn find_awaited(&mut self, changes: &mut Changes) -> bool {
        let Some(id) = self.awaited() else { return true };
        let Some(candidate) = self.candidates.get(&id).copied() else { return false };
        if self.stop_awaiting(id) && self.waiting.remove(&candidate) {
            self.active = Some(candidate);
            changes.push((id, Activity::Active));
        }
        true
    }

    /// Has a record name the consumer that was elected, unless the last one does.
    fn name_active(&mut self) {
        let id = self.active.map(|active| active.id);
        if let Some(named) = &mut self.named
            && named.next.as_ref().map_or(named.id, |next| next.id) != id
        {
            named.next = Some(NextNamed { id, place: None });
        }
    }

    /// The same rules without consumers.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.replaces)
    }

    /// Adds a consumer with its registration number, which waits until it is elected.
    pub(crate) fn add(&mut self, id: ConsumerId, priority: i32, registered: u64) {
        let candidate = Candidate { priority: Reverse(priority), registered, id };
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
        if !self.find_awaited(&mut changes) {
            return changes;
        }
        if let Some(active) = self.active {
            let is_outranked =
                self.replaces && self.waiting.first().is_some_and(|first| first.priority < active.priority);
            let quiesces = is_outranked && holds(active.id);
            if quiesces || !is_outranked {
                if std::mem::replace(&mut self.is_quiescing, quiesces) != quiesces {
                    changes.push((active.id, self.activity_of_active()));
                }
                return changes;
            }
            self.waiting.insert(active);
            self.is_quiescing = false;
            changes.push((active.id, Activity::Waiting));
        }
        self.active = self.waiting.pop_first();
        self.name_active();
        changes.extend(self.active.map(|next| (next.id, self.activity_of_active())));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pending::Place;

    const NOTHING_HELD: fn(ConsumerId) -> bool = |_| false;

    fn changes<const N: usize>(of: [(u64, Activity); N]) -> Vec<(ConsumerId, Activity)> {
        of.into_iter().map(|(id, activity)| (ConsumerId(id), activity)).collect()
    }

    #[test]
    fn succession_is_by_priority_and_then_by_registration() {
        let mut single = SingleActive::new(false);
        for (registered, (id, priority)) in (1..).zip([(9, 0), (4, 0), (3, 5), (2, 5)]) {
            single.add(ConsumerId(id), priority, registered);
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
            single.add(ConsumerId(id), priority, id);
            single.elect(NOTHING_HELD);
        }
        single.remove(ConsumerId(3));
        assert_eq!(single.elect(NOTHING_HELD).to_vec(), changes([(1, Activity::Active)]));
    }

    #[test]
    fn a_consumer_that_is_set_aside_returns_in_its_order() {
        let mut single = SingleActive::new(true);
        for (id, priority) in [(1, 0), (2, 0)] {
            single.add(ConsumerId(id), priority, id);
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
        single.add(ConsumerId(1), 0, 1);
        single.elect(NOTHING_HELD);
        single.add(ConsumerId(2), 1, 2);
        assert_eq!(single.elect(|_| true).to_vec(), changes([(1, Activity::Quiescing)]));
        assert!(single.elect(|_| true).is_empty());
        single.remove(ConsumerId(2));
        assert_eq!(single.elect(|_| true).to_vec(), changes([(1, Activity::Active)]));
    }

    fn reached(place: u64) -> Watermarks {
        Watermarks::synced(Place::new(place))
    }

    fn naming(single: &mut SingleActive, place: u64) {
        single.naming(Awaited::At(Place::new(place)));
    }

    #[test]
    fn a_consumer_is_served_once_records_name_it() {
        let mut single = SingleActive::new(true);
        single.name(None);
        single.add(ConsumerId(1), 0, 1);
        assert_eq!(single.elect(NOTHING_HELD).to_vec(), changes([(1, Activity::Waiting)]));
        assert_eq!(single.to_be_named(), Some(Some(ConsumerId(1))));
        naming(&mut single, 5);
        assert_eq!(single.to_be_named(), None);
        assert!(single.apply(reached(4)).is_empty());
        assert_eq!(single.apply(reached(5)).to_vec(), changes([(1, Activity::Active)]));
        single.remove(ConsumerId(1));
        assert!(single.elect(NOTHING_HELD).is_empty());
        assert_eq!(single.to_be_named(), Some(None), "nobody is waited for by another leader");
    }

    #[test]
    fn a_successor_that_leaves_before_its_record_isnt_waited_for() {
        let mut single = SingleActive::new(true);
        single.name(None);
        single.add(ConsumerId(1), 0, 1);
        single.elect(NOTHING_HELD);
        naming(&mut single, 5);
        single.lose(ConsumerId(1));
        single.remove(ConsumerId(1));
        single.add(ConsumerId(2), 0, 2);
        single.elect(NOTHING_HELD);
        assert_eq!(single.to_be_named(), Some(Some(ConsumerId(2))));
        assert!(single.apply(reached(5)).is_empty(), "its record isn't reached");
        naming(&mut single, 6);
        assert_eq!(single.apply(reached(6)).to_vec(), changes([(2, Activity::Active)]));
    }

    #[test]
    fn the_consumer_that_records_name_is_waited_for() {
        let mut single = SingleActive::new(true);
        single.name(Some(ConsumerId(7)));
        single.add(ConsumerId(1), 0, 1);
        assert!(single.elect(NOTHING_HELD).is_empty());
        assert_eq!(single.awaited(), Some(ConsumerId(7)));
        single.add(ConsumerId(7), 0, 7);
        assert_eq!(single.elect(NOTHING_HELD).to_vec(), changes([(7, Activity::Active)]));
        assert_eq!((single.awaited(), single.to_be_named()), (None, None));
        single.lose(ConsumerId(7));
        assert!(single.elect(NOTHING_HELD).is_empty(), "what it had comes back");
        single.remove(ConsumerId(7));
        assert!(single.elect(NOTHING_HELD).is_empty());
        assert!(!single.stop_awaiting(ConsumerId(1)) && single.stop_awaiting(ConsumerId(7)));
        assert_eq!(single.elect(NOTHING_HELD).to_vec(), changes([(1, Activity::Waiting)]));
        assert_eq!(single.to_be_named(), Some(Some(ConsumerId(1))));
    }
}
