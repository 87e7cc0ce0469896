//! Ready messages with priorities against a plain list.

use proptest::prelude::*;

use super::*;
use crate::ledger::Departure;
use crate::priorities::PriorityLevels;

/// A ready message, as a list knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    number: u64,
    priority: u8,
    /// Its turn among those that came back, or came due.
    returned: Option<u64>,
    /// It was delayed, came due, and wasn't handed out since.
    is_due: bool,
}

struct Naive {
    levels: PriorityLevels,
    ready: Vec<Known>,
    held: Vec<Known>,
    delayed: Vec<Known>,
    turn: u64,
    /// Messages that come back go to their old places.
    in_place: bool,
}

impl Naive {
    /// The numbers in the order of their delivery.
    fn order(&self) -> Vec<u64> {
        let mut ready = self.ready.clone();
        ready.sort_by_key(|known| match known.returned.filter(|_| self.is_first(known)) {
            Some(turn) => (0, 0, turn),
            None => (1, u64::from(self.levels.max - known.priority), known.number),
        });
        ready.iter().map(|known| known.number).collect()
    }

    /// Whether it is delivered before those that never came back.
    fn is_first(&self, known: &Known) -> bool {
        known.returned.is_some() && (known.is_due || !self.in_place)
    }

    fn remove(&mut self, number: u64) -> Known {
        let at = self.ready.iter().position(|known| known.number == number).expect("it is ready");
        self.ready.remove(at)
    }
}

struct Rig {
    ledger: Ledger,
    ready: ReadyMessages,
    naive: Naive,
}

impl Rig {
    fn depart(&mut self, first: u64, last: u64) {
        self.ledger.settle(first, last, last - first + 1, Departure::Settled);
        self.ready.depart(first, last);
    }

    fn publish(&mut self, count: u64, priority: u8) {
        let first = self.ledger.next();
        self.ledger.accept(first, count, count);
        self.ready.grow(count, count);
        for number in first..first + count {
            self.ready.prioritize(number, priority);
            let priority = priority.min(self.naive.levels.max);
            self.naive.ready.push(Known { number, priority, returned: None, is_due: false });
        }
    }

    /// Publishes a message that is delayed.
    fn delay(&mut self, priority: u8) {
        self.publish(1, priority);
        let known = self.naive.ready.pop().expect("just published");
        self.ready.set_aside(known.number, 1);
        self.ready.tidy(&self.ledger);
        self.naive.delayed.push(known);
    }

    fn come_due(&mut self, at: usize) {
        if self.naive.delayed.is_empty() {
            return;
        }
        let at = at % self.naive.delayed.len();
        let known = self.naive.delayed.remove(at);
        self.ready.come_due(&Run { first: known.number, last: known.number, bytes: 1, durable: true });
        self.naive.ready.push(Known { returned: Some(self.naive.turn), is_due: true, ..known });
        self.naive.turn += 1;
    }

    /// Hands out at most `count` messages from the head, run by run.
    fn take(&mut self, count: u64) {
        let mut left = count;
        while left > 0
            && let Some(head) = self.ready.numbers(&self.ledger).head()
        {
            let (count, ..) = self.ready.alike(head, left, &Attempts::default());
            let last = head.number + count - 1;
            let expected: Vec<u64> = self.naive.order().into_iter().take(count as usize).collect();
            assert_eq!(expected, (head.number..=last).collect::<Vec<_>>());
            self.ready.leave(head.number, last, count);
            self.ready.hand_out(count, count);
            for number in head.number..=last {
                let known = self.naive.remove(number);
                assert_eq!(head.came_back, self.naive.is_first(&known));
                self.naive.held.push(known);
            }
            left -= count;
            self.ready.tidy(&self.ledger);
            // Numbers that were set aside before it would be looked at for each message.
            let first = self.ready.numbers(&self.ledger).next_default(0).unwrap_or(self.ledger.next());
            assert!(
                self.ready.cursor() == first || self.ready.lanes.as_ref().is_some_and(|lanes| lanes.aside().is_empty())
            );
        }
    }

    /// Hands out a message that may be behind others.
    fn take_ahead(&mut self, at: usize) {
        let order = self.naive.order();
        if !order.is_empty() {
            let number = order[at % order.len()];
            self.ready.leave_ahead(number, 1);
            self.ready.hand_out(1, 1);
            self.ready.tidy(&self.ledger);
            let known = self.naive.remove(number);
            self.naive.held.push(Known { is_due: false, ..known });
        }
    }

    fn give_back(&mut self, at: usize) {
        if self.naive.held.is_empty() {
            return;
        }
        let at = at % self.naive.held.len();
        let known = self.naive.held.remove(at);
        let run = Run { first: known.number, last: known.number, bytes: 1, durable: true };
        self.ready.put_back(&run, &self.ledger, |_| {});
        self.ready.hand_back(1, 1);
        self.naive.ready.push(Known { returned: Some(self.naive.turn), is_due: false, ..known });
        self.naive.turn += 1;
    }

    fn acknowledge(&mut self, at: usize) {
        if !self.naive.held.is_empty() {
            let at = at % self.naive.held.len();
            let number = self.naive.held.remove(at).number;
            self.ready.hand_back(1, 1);
            self.depart(number, number);
        }
    }

    /// Drops a ready message that may be behind others.
    fn drop_inside(&mut self, at: usize) {
        let order = self.naive.order();
        if !order.is_empty() {
            let number = order[at % order.len()];
            self.ready.leave_inside(number, 1);
            self.naive.remove(number);
            self.depart(number, number);
        }
    }

    fn purge(&mut self, staying: usize) {
        let order = self.naive.order();
        let staying = staying.min(order.len());
        let mut gone = Vec::new();
        let length = Length { messages: staying as u64, bytes: staying as u64 };
        self.ready.purge(length, &self.ledger, |first, last| gone.push((first, last)));
        for (first, last) in &gone {
            self.depart(*first, *last);
        }
        let mut gone: Vec<u64> = gone.iter().flat_map(|(first, last)| *first..=*last).collect();
        gone.sort_unstable();
        let mut expected = order[staying..].to_vec();
        expected.sort_unstable();
        assert_eq!(gone, expected);
        self.naive.ready.retain(|known| !gone.contains(&known.number));
    }

    fn check(&self, from: u64) {
        let order = self.naive.order();
        let numbers = self.ready.numbers(&self.ledger);
        let walked: Vec<u64> = std::iter::successors(numbers.first(), |number| numbers.behind(*number)).collect();
        assert_eq!(walked, order);
        assert_eq!(self.ready.messages(), order.len() as u64);
        for (at, number) in order.iter().enumerate() {
            assert_eq!(numbers.nth(at as u64), Some(*number));
            let known = self.naive.ready.iter().find(|known| known.number == *number).unwrap();
            assert_eq!(numbers.head_at(*number).came_back, self.naive.is_first(known));
        }
        assert_eq!(numbers.nth(order.len() as u64), None);
        assert_eq!(numbers.next(from), order.iter().copied().filter(|number| *number >= from).min());
        assert_eq!(numbers.count(from), order.iter().filter(|number| **number >= from).count() as u64);
        let within = |number: &&u64| (from..from + 4).contains(*number);
        assert_eq!(numbers.any_of(from, from + 3), order.iter().any(|number| within(&number)));
        for number in (0..self.ledger.next()).filter(|number| self.ledger.is_live(*number)) {
            assert_eq!(numbers.has(number), order.contains(&number));
        }
    }
}

proptest! {
    #[test]
    fn priorities_and_returns_are_in_order(
        in_place: bool,
        levels in prop::sample::select(vec![PriorityLevels::QUORUM, PriorityLevels::classic(5), PriorityLevels::classic(255)]),
        steps in prop::collection::vec((0..12u8, 0..60usize, 0..9usize), 1..80),
    ) {
        const PRIORITIES: [u8; 9] = [4, 4, 4, 0, 9, 31, 255, 5, 4];
        let ledger = Ledger::starting_at(1);
        let priorities = Some((levels, BTreeMap::new()));
        let mut ready = ReadyMessages::new(&ledger, 0, priorities, (std::iter::empty(), Length::default()));
        if in_place {
            ready.keep_places();
        }
        let naive = Naive { levels, ready: vec![], held: vec![], delayed: vec![], turn: 0, in_place };
        let mut rig = Rig { ledger, ready, naive };
        for (kind, at, few) in steps {
            match kind {
                0 | 1 => rig.publish(1 + at as u64 % 5, PRIORITIES[few]),
                2 => rig.take(few as u64),
                3 | 4 => rig.give_back(at),
                5 => rig.acknowledge(at),
                6 => rig.drop_inside(at),
                7 => rig.delay(PRIORITIES[few]),
                8 => rig.come_due(at),
                9 | 10 => rig.take_ahead(at),
                _ => rig.purge(few % 4),
            }
            rig.check(at as u64);
        }
    }
}
