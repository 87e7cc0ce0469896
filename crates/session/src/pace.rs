//! The part of a connection that the pacing of queues holds back, see [`leveret_queue::PublishSlot`].

use leveret_broker::time::{Nanos, SECOND};
use leveret_model::QueueId;
use leveret_queue::{PublishSlot, SmoothRate};

/// Time after the last slot that a publisher waited for until listings show it as free again.
const SHOWN: Nanos = 100_000_000;

/// Shortest time over which a publisher's own rate is measured.
const OWN_WINDOW: Nanos = 10_000_000;
/// A publisher may be ahead of its own slots by this time.
const OWN_BURST: Nanos = 2_000_000;
/// Messages that go to several queues lose at most this part of their rate, 1 in 8; others half of it.
const SEVERAL_LOSE: u64 = 8;
/// A new publisher has this part, 1 in 4, of the rate of all.
const NEW_SHARE: u64 = 4;

/// The pacing of one connection's publishes.
#[derive(Debug)]
pub struct Pace {
    /// Input is read again at this time; 0 if nothing holds it back.
    read_again: Nanos,
    /// Time of the first slot that a confirm or a grant waits for.
    wake: Option<Nanos>,
    /// The last slot that a publisher had to wait for.
    last: Nanos,
    /// The queue that gave it.
    by: Option<QueueId>,
    burst: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { read_again: 0, wake: None, last: 0, by: None, burst: usize::MAX }
    }
}

impl Pace {
    /// Notes the slot of a message that was published, which a queue gave. Without credit, a client that doesn't wait for confirms either is
    /// slowed down by reading its input later.
    pub fn published(&mut self, slot: PublishSlot, by: Option<QueueId>, waits_for_confirms: bool, now: Nanos) {
        self.burst = if slot.at == 0 { usize::MAX } else { slot.burst as usize };
        if slot.is_after(now) {
            self.granted(slot, by, now);
            self.wake_at(slot.at);
            self.read_again = self.read_again.max(slot.read_again(waits_for_confirms, now));
        }
    }

    /// Notes the slot of a message that was sent with credit, which a queue gave.
    pub fn granted(&mut self, slot: PublishSlot, by: Option<QueueId>, now: Nanos) {
        if slot.is_after(now) && slot.at >= self.last {
            (self.last, self.by) = (slot.at, by);
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

    /// Number of messages that are published together at most: a paced publisher's slots come in such bursts.
    #[inline]
    pub fn burst(&self) -> usize {
        self.burst
    }

    /// Whether listings show that a publisher is paced.
    pub fn is_shown(&self) -> bool {
        self.last != 0
    }

    /// The queue whose slot a publisher waited for last, while listings show that it is paced.
    pub fn shown_by(&self) -> Option<QueueId> {
        self.by.filter(|_| self.is_shown())
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
            (self.last, self.by, self.burst) = (0, None, usize::MAX);
        }
    }

    /// The time of the next turn.
    pub fn next_turn(&self) -> Option<Nanos> {
        let read_again = Some(self.read_again).filter(|at| *at != 0);
        let hidden = Some(self.last + SHOWN).filter(|_| self.last != 0);
        [read_again, self.wake, hidden].into_iter().flatten().min()
    }
}

/// The rate of one channel or link that publishes: while its queue is paced, it keeps at least half of what it had.
#[derive(Debug, Clone, Default)]
pub struct OwnRate {
    /// Begin of the measurement, and the messages since.
    began: Nanos,
    count: u64,
    /// Its rate while it wasn't paced.
    rate: SmoothRate,
    /// Its last slot.
    last: Nanos,
}

impl OwnRate {
    /// The slot of `count` messages that were just published to so many queues: the latest of theirs, or an earlier one. Other
    /// queues have to wait for the slowest one, so a message that goes to several is held back less.
    pub fn slot(&mut self, slot: PublishSlot, queues: usize, count: u32, now: Nanos) -> PublishSlot {
        if slot.at == 0 {
            self.measure(count, now);
            return slot;
        }
        // One that came while the others were paced already begins with a part of their rate.
        let had = match self.rate.per_second() {
            0 => slot.per_second / NEW_SHARE,
            known => known,
        };
        let kept = if queues > 1 { had - had / SEVERAL_LOSE } else { had / 2 };
        let own = self.last.max(now.saturating_sub(OWN_BURST)) + u64::from(count) * SECOND / kept.max(1);
        // Its queue's slot: time in which it sent more than it keeps isn't held against it.
        self.last = own.min(slot.at);
        PublishSlot { at: self.last, ..slot }
    }

    fn measure(&mut self, count: u32, now: Nanos) {
        if self.began == 0 {
            self.began = now;
        }
        self.count += u64::from(count);
        let elapsed = now.saturating_sub(self.began);
        if elapsed < OWN_WINDOW {
            return;
        }
        if self.rate.per_second() == 0 || elapsed > 10 * OWN_WINDOW {
            self.rate = SmoothRate::default();
        }
        self.rate.note(self.count, elapsed);
        (self.began, self.count) = (now, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn publishers_without_confirms_are_read_later_than_others() {
        let slot = PublishSlot { at: 103 * MS, burst: 10, per_second: 1000 };
        let mut pace = Pace::default();
        pace.published(slot, None, false, 100 * MS);
        assert!(pace.holds_input() && pace.is_shown());
        assert_eq!(pace.next_turn(), Some(103 * MS));
        pace.pass(103 * MS);
        assert!(!pace.holds_input());
        pace.published(PublishSlot { at: 150 * MS, burst: 10, per_second: 1000 }, None, false, 103 * MS);
        assert_eq!(pace.next_turn(), Some(108 * MS), "at most five milliseconds");

        let mut pace = Pace::default();
        pace.published(slot, None, true, 100 * MS);
        assert!(!pace.holds_input(), "its confirms come later");
        assert_eq!(pace.next_turn(), Some(103 * MS));
        pace.published(PublishSlot { at: 122 * MS, burst: 10, per_second: 1000 }, None, true, 100 * MS);
        assert!(pace.holds_input(), "it has too many unconfirmed");
        assert_eq!(pace.next_turn(), Some(102 * MS));
    }

    #[test]
    fn a_publisher_keeps_half_of_the_rate_that_it_had() {
        let mut own = OwnRate::default();
        let late = |now| PublishSlot { at: now + 50 * MS, burst: 10, per_second: 1000 };
        assert_eq!(own.slot(late(0), 1, 1, 0).at, 8 * MS, "its rate is unknown: half of a quarter of the queue's");
        let mut own = OwnRate::default();
        for ms in 1..=100 {
            assert_eq!(own.slot(PublishSlot::default(), 1, 10, ms * MS), PublishSlot::default());
        }
        let now = 100 * MS;
        let first = own.slot(late(now), 1, 10, now).at;
        assert!(first <= now, "the first ones are those that it might have sent before");
        let second = own.slot(late(now), 1, 100, now).at - first;
        assert!((19 * MS..=21 * MS).contains(&second), "5,000 in a second: {second}");
        let mut of_several = own.clone();
        let first = of_several.slot(late(now), 2, 10, now).at;
        let second = of_several.slot(late(now), 2, 87, now).at - first;
        assert!((9 * MS..=11 * MS).contains(&second), "8,750 in a second: {second}");
        for ms in 100..60_000 {
            own.slot(PublishSlot { at: ms * MS + 1, ..late(0) }, 1, 10, ms * MS);
        }
        let now = 60_000 * MS;
        assert!(own.slot(late(now), 1, 10, now).at <= now + 12 * MS, "time at more than half isn't held against it");
        let soon = PublishSlot { at: now + MS, burst: 10, per_second: 1000 };
        assert_eq!(own.slot(soon, 1, 100, now), soon);
    }

    #[test]
    fn listings_show_it_until_some_time_after_the_last_slot() {
        let mut pace = Pace::default();
        pace.granted(PublishSlot { at: 103 * MS, burst: 10, per_second: 1000 }, Some(QueueId(1)), 100 * MS);
        pace.granted(PublishSlot { at: 102 * MS, burst: 10, per_second: 1000 }, Some(QueueId(2)), 100 * MS);
        pace.wake_at(102 * MS);
        assert_eq!(pace.next_turn(), Some(102 * MS));
        pace.pass(150 * MS);
        assert!(pace.is_shown());
        assert_eq!(pace.shown_by(), Some(QueueId(1)), "its slot is the latest");
        assert_eq!(pace.next_turn(), Some(203 * MS));
        pace.pass(203 * MS);
        assert!(!pace.is_shown());
        assert_eq!((pace.shown_by(), pace.next_turn()), (None, None));
    }
}
