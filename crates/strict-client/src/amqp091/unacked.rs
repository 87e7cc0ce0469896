//! Unsettled deliveries of a channel.

use std::collections::VecDeque;

/// Tags are dense, so the unsettled ones are within a window of slots above `settled_to`; a slot refers to its
/// consumer.
#[derive(Debug, Default)]
pub(crate) struct Unacked {
    settled_to: u64,
    slots: VecDeque<Slot>,
    open: usize,
}

/// The holder of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// It is settled, or was sent as settled.
    Settled,
    /// A consumer, by its index.
    Consumer(u32),
    /// A `basic.get`.
    Get,
}

impl Unacked {
    /// The tag that the next delivery must have.
    pub(crate) fn next_tag(&self) -> u64 {
        self.settled_to + self.slots.len() as u64 + 1
    }

    /// Adds the next delivery.
    pub(crate) fn deliver(&mut self, slot: Slot) {
        if slot == Slot::Settled && self.slots.is_empty() {
            self.settled_to += 1;
        } else {
            self.slots.push_back(slot);
            self.open += usize::from(slot != Slot::Settled);
        }
    }

    /// Number of unsettled deliveries.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Settles `tag`, or all up to it (all for 0), and passes the holders to `each`. A tag that isn't unsettled is
    /// ignored here: the server reports it.
    pub(crate) fn settle(&mut self, tag: u64, multiple: bool, mut each: impl FnMut(Slot)) {
        let last = self.next_tag() - 1;
        let to = if tag == 0 && multiple { last } else { tag };
        if to <= self.settled_to || to > last {
            return;
        }
        let index = (to - self.settled_to - 1) as usize;
        if multiple {
            for slot in self.slots.drain(..=index) {
                if slot != Slot::Settled {
                    self.open -= 1;
                    each(slot);
                }
            }
            self.settled_to = to;
        } else {
            let slot = std::mem::replace(&mut self.slots[index], Slot::Settled);
            if slot != Slot::Settled {
                self.open -= 1;
                each(slot);
            }
        }
        while self.slots.front() == Some(&Slot::Settled) {
            self.slots.pop_front();
            self.settled_to += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Slot, Unacked};

    #[test]
    fn tags_are_settled_one_by_one_and_up_to() {
        let mut unacked = Unacked::default();
        unacked.deliver(Slot::Settled);
        assert_eq!(unacked.next_tag(), 2);
        for consumer in [7, 8, 9] {
            unacked.deliver(Slot::Consumer(consumer));
        }
        unacked.deliver(Slot::Settled);
        unacked.deliver(Slot::Get);
        let mut holders = Vec::new();
        unacked.settle(3, false, |slot| holders.push(slot));
        unacked.settle(3, false, |slot| holders.push(slot));
        unacked.settle(99, true, |slot| holders.push(slot));
        assert_eq!((holders.as_slice(), unacked.open()), ([Slot::Consumer(8)].as_slice(), 3));
        unacked.settle(4, true, |slot| holders.push(slot));
        assert_eq!(holders[1..], [Slot::Consumer(7), Slot::Consumer(9)]);
        unacked.settle(0, true, |slot| holders.push(slot));
        assert_eq!((holders[3], unacked.open(), unacked.next_tag()), (Slot::Get, 0, 7));
    }
}
