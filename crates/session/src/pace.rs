//! What the pacing of queues holds back of a connection, see [`leveret_queue::Slot`].

use leveret_broker::time::Nanos;
use leveret_queue::Slot;

/// Time after the last slot that a publisher waited for until listings show it as free again.
const SHOWN: Nanos = 100_000_000;

/// The pacing of one connection's publishes.
#[derive(Debug, Default)]
pub struct Pace {
    /// Input is read again at this time; 0 if nothing holds it back.
    read_again: Nanos,
    /// Time of the first slot that a confirm or a grant waits for.
    wake: Option<Nanos>,
    /// The last slot that a publisher had to wait for.
    last: Nanos,
}

impl Pace {
    /// Notes the slot of a message that was published. Without credit, a client that doesn't wait for confirms either is
    /// slowed down by reading its input later.
    pub fn published(&mut self, slot: Slot, waits_for_confirms: bool, now: Nanos) {
        if slot.is_after(now) {
            self.granted(slot, now);
            self.read_again = self.read_again.max(slot.read_again(waits_for_confirms, now));
        }
    }

    /// Notes the slot of a message that was sent with credit.
    pub fn granted(&mut self, slot: Slot, now: Nanos) {
        if slot.is_after(now) {
            self.last = self.last.max(slot.at);
            self.wake_at(slot.at);
        }
    }

    /// A confirm or a grant waits for this time.
    pub fn wake_at(&mut self, at: Nanos) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Whether input isn't read at the moment.
    pub fn holds_input(&self) -> bool {
        self.read_again != 0
    }

    /// Whether listings show that a publisher is paced.
    pub fn is_shown(&self) -> bool {
        self.last != 0
    }

    /// Time passes: what was due is done in this turn, or asks for its time again.
    pub fn pass(&mut self, now: Nanos) {
        if self.read_again <= now {
            self.read_again = 0;
        }
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
        }
        if self.last + SHOWN <= now {
            self.last = 0;
        }
    }

    /// The time of the next turn.
    pub fn next_turn(&self) -> Option<Nanos> {
        let read_again = Some(self.read_again).filter(|at| *at != 0);
        let hidden = Some(self.last + SHOWN).filter(|_| self.last != 0);
        [read_again, self.wake, hidden].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn publishers_without_confirms_are_read_later_and_others_are_not() {
        let slot = Slot { at: 103 * MS, burst: 10 };
        let mut pace = Pace::default();
        pace.published(slot, false, 100 * MS);
        assert!(pace.holds_input() && pace.is_shown());
        assert_eq!(pace.next_turn(), Some(103 * MS));
        pace.pass(103 * MS);
        assert!(!pace.holds_input());
        pace.published(Slot { at: 150 * MS, burst: 10 }, false, 103 * MS);
        assert_eq!(pace.next_turn(), Some(108 * MS), "at most five milliseconds");

        let mut pace = Pace::default();
        pace.published(slot, true, 100 * MS);
        assert!(!pace.holds_input(), "its confirms come later");
        assert_eq!(pace.next_turn(), Some(103 * MS));
        pace.published(Slot { at: 122 * MS, burst: 10 }, true, 100 * MS);
        assert!(pace.holds_input(), "it has too many unconfirmed");
        assert_eq!(pace.next_turn(), Some(102 * MS));
    }

    #[test]
    fn listings_show_it_until_some_time_after_the_last_slot() {
        let mut pace = Pace::default();
        pace.granted(Slot { at: 103 * MS, burst: 10 }, 100 * MS);
        pace.pass(150 * MS);
        assert!(pace.is_shown());
        assert_eq!(pace.next_turn(), Some(203 * MS));
        pace.pass(203 * MS);
        assert!(!pace.is_shown());
        assert_eq!(pace.next_turn(), None);
    }
}
