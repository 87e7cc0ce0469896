//! A sequence of consumers from which any of them is removed in constant time.

use rustc_hash::FxHashMap;

use crate::consumer_id::ConsumerId;

/// A doubly linked list over a map. A queue has up to tens of thousands of consumers, and each may leave at any time.
#[derive(Debug, Default)]
pub(crate) struct Order {
    neighbours: FxHashMap<ConsumerId, Neighbours>,
    first: Option<ConsumerId>,
    last: Option<ConsumerId>,
}

#[derive(Debug, Clone, Copy)]
struct Neighbours {
    before: Option<ConsumerId>,
    after: Option<ConsumerId>,
}

impl Order {
    pub(crate) fn len(&self) -> usize {
        self.neighbours.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn first(&self) -> Option<ConsumerId> {
        self.first
    }

    pub(crate) fn last(&self) -> Option<ConsumerId> {
        self.last
    }

    /// Appends a consumer that isn't in it.
    pub(crate) fn push_back(&mut self, id: ConsumerId) {
        let before = self.last.replace(id);
        let replaced = self.neighbours.insert(id, Neighbours { before, after: None });
        debug_assert!(replaced.is_none(), "a consumer stands in an order once");
        match before {
            Some(before) => self.at(before).after = Some(id),
            None => self.first = Some(id),
        }
    }

    /// Inserts a consumer that isn't in it: behind the last ones that are to stay ahead of it, of which at most so many are passed.
    pub(crate) fn insert_behind(&mut self, id: ConsumerId, stays_ahead: impl Fn(ConsumerId) -> bool, pass_max: usize) {
        let mut after = None;
        let mut before = self.last;
        for _ in 0..pass_max {
            let Some(passed) = before.filter(|passed| !stays_ahead(*passed)) else { break };
            (after, before) = (Some(passed), self.at(passed).before);
        }
        let Some(next) = after else { return self.push_back(id) };
        let replaced = self.neighbours.insert(id, Neighbours { before, after });
        debug_assert!(replaced.is_none(), "a consumer stands in an order once");
        self.at(next).before = Some(id);
        match before {
            Some(before) => self.at(before).after = Some(id),
            None => self.first = Some(id),
        }
    }

    /// Removes a consumer, if present.
    pub(crate) fn remove(&mut self, id: ConsumerId) {
        let Some(Neighbours { before, after }) = self.neighbours.remove(&id) else { return };
        match before {
            Some(before) => self.at(before).after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => self.at(after).before = before,
            None => self.last = before,
        }
    }

    /// Moves a consumer to the end, or appends it.
    pub(crate) fn move_to_back(&mut self, id: ConsumerId) {
        if self.last != Some(id) {
            self.remove(id);
            self.push_back(id);
        }
    }

    fn at(&mut self, id: ConsumerId) -> &mut Neighbours {
        self.neighbours.get_mut(&id).expect("a neighbour is there")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_order_is_a_list(steps in prop::collection::vec((0..3u8, 0..12u64), 1..200)) {
            let (mut order, mut plain) = (Order::default(), Vec::<ConsumerId>::new());
            for (step, id) in steps {
                let id = ConsumerId(id);
                let was_there = plain.contains(&id);
                plain.retain(|other| *other != id);
                match step {
                    0 if !was_there => { order.push_back(id); plain.push(id); }
                    0 | 1 => { order.move_to_back(id); plain.push(id); }
                    _ => order.remove(id),
                }
                prop_assert_eq!(order.len(), plain.len());
                prop_assert_eq!(order.is_empty(), plain.is_empty());
                prop_assert_eq!((order.first(), order.last()), (plain.first().copied(), plain.last().copied()));
            }
            let mut left = Vec::new();
            while let Some(id) = order.first() {
                left.push(id);
                order.remove(id);
            }
            prop_assert_eq!(left, plain);
        }
    }
}
