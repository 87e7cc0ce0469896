//! The deliveries in one direction of a session, by their dense ids.

use std::collections::VecDeque;

use leveret_amqp10::Serial;

/// The reason why a range of deliveries can't be settled or change its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// This id wasn't used yet, or is older than any open delivery can be.
    Unknown(Serial),
    /// This delivery was settled before.
    Settled(Serial),
}

/// One delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot<T> {
    /// The client's handle of its link.
    pub(crate) handle: u32,
    pub(crate) more: T,
    open: bool,
}

/// Open deliveries: a window of slots after the last id up to which all are settled.
#[derive(Debug)]
pub(crate) struct Window<T> {
    /// The id of the first slot.
    base: Serial,
    slots: VecDeque<Slot<T>>,
    open: usize,
}

impl<T: Copy> Window<T> {
    pub(crate) fn new(first: Serial) -> Self {
        Self { base: first, slots: VecDeque::new(), open: 0 }
    }

    /// The id of the next delivery.
    pub(crate) fn next(&self) -> Serial {
        self.base.add(self.slots.len() as u32)
    }

    /// Number of open deliveries.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Adds the next delivery.
    pub(crate) fn push(&mut self, handle: u32, more: T, settled: bool) -> Serial {
        let number = self.next();
        if settled && self.slots.is_empty() {
            self.base = self.base.next();
        } else {
            self.slots.push_back(Slot { handle, more, open: !settled });
            self.open += usize::from(!settled);
        }
        number
    }

    /// Whether all of `first ..= last` are open.
    pub(crate) fn check(&self, first: Serial, last: Serial) -> Result<(), Refusal> {
        let next = self.next();
        for number in [first, last] {
            if number.distance_from(next) >= 0 {
                return Err(Refusal::Unknown(number));
            }
            if number.distance_from(self.base) < 0 {
                return Err(Refusal::Settled(number));
            }
        }
        let mut number = first;
        while number != last.next() {
            if !self.slots[number.since(self.base) as usize].open {
                return Err(Refusal::Settled(number));
            }
            number = number.next();
        }
        Ok(())
    }

    /// The delivery, if it is open.
    pub(crate) fn slot(&self, number: Serial) -> Option<&Slot<T>> {
        self.slots.get(number.since(self.base) as usize).filter(|slot| slot.open)
    }

    /// Settles the open ones of `first ..= last`, and passes them to `each`.
    pub(crate) fn settle(&mut self, first: Serial, last: Serial, mut each: impl FnMut(&Slot<T>)) {
        let mut number = first;
        while number != last.next() {
            if let Some(slot) = self.slots.get_mut(number.since(self.base) as usize)
                && slot.open
            {
                slot.open = false;
                self.open -= 1;
                each(slot);
            }
            number = number.next();
        }
        self.trim();
    }

    /// Removes the deliveries of a link that is gone.
    pub(crate) fn drop_link(&mut self, handle: u32) {
        for slot in &mut self.slots {
            if slot.open && slot.handle == handle {
                slot.open = false;
                self.open -= 1;
            }
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.slots.front().is_some_and(|slot| !slot.open) {
            self.slots.pop_front();
            self.base = self.base.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Refusal, Window};
    use leveret_amqp10::Serial;

    #[test]
    fn each_delivery_is_settled_once_across_the_wrap() {
        let first = Serial(u32::MAX - 1);
        let mut window = Window::new(first);
        for number in 0..4 {
            assert_eq!(window.push(7, number, false), first.add(number));
        }
        assert_eq!(window.check(first, first.add(4)), Err(Refusal::Unknown(Serial(2))));
        assert_eq!(window.check(first, first.add(3)), Ok(()));
        let mut settled = Vec::new();
        window.settle(first.add(1), first.add(2), |slot| settled.push(slot.more));
        assert_eq!((settled, window.open()), (vec![1, 2], 2));
        assert_eq!(window.check(first, first.add(1)), Err(Refusal::Settled(first.add(1))));
        window.settle(first, first, |_| {});
        assert_eq!(window.check(first, first), Err(Refusal::Settled(first)));
        assert!(window.slot(first.add(3)).is_some());
        window.drop_link(7);
        assert_eq!((window.open(), window.next()), (0, Serial(2)));
    }

    #[test]
    fn deliveries_sent_settled_are_never_open() {
        let mut window = Window::new(Serial(0));
        window.push(0, (), true);
        window.push(0, (), false);
        window.push(0, (), true);
        assert_eq!(window.check(Serial(0), Serial(0)), Err(Refusal::Settled(Serial(0))));
        assert_eq!(window.check(Serial(1), Serial(1)), Ok(()));
        assert_eq!(window.check(Serial(1), Serial(2)), Err(Refusal::Settled(Serial(2))));
    }
}
