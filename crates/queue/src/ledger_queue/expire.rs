//! Messages and queues whose time is over.
//!
//! Messages leave when the home core comes to the queue ([`ClassicQueue::run_timers`]), and no
//! consumer is given one that is over. What a consumer has doesn't expire; it does when it comes back. Neither does a
//! message for which a consumer waited when it was published: only its way to the disk and to the consumer's turn keeps them
//! apart.

use leveret_message::Reason;

use crate::Nanos;
use crate::answers::QueueState;
use crate::effects::{Effects, Run, Taken, push_run};
use crate::expiry::Due;
use crate::ledger::Outcome;
use crate::ledger_queue::ClassicQueue;

impl ClassicQueue {
    /// Notes a use of the queue, other than by a consumer.
    pub fn used(&mut self, now: Nanos) {
        self.clock.used(now);
    }

    /// The next deadline, if it is sooner than the one announced before.
    pub fn announce_deadline(&mut self) -> Option<Nanos> {
        if !self.clock.has_deadlines() || self.state != QueueState::Running {
            return None;
        }
        self.clock.announce(self.consumers.len() > 0)
    }

    /// When the queue expires if it isn't used until then.
    pub(super) fn unused_at(&self) -> Option<Nanos> {
        self.clock.unused_at().filter(|_| self.consumers.len() == 0)
    }

    /// Messages that may not wait leave.
    pub(super) fn expire_momentary(&mut self, effects: &mut Effects) {
        if !self.clock.any_momentary() {
            return;
        }
        for (first, last) in self.clock.take_momentary() {
            self.expire_range(first, last, u64::MAX, effects);
        }
        self.finish_drains(effects);
    }

    /// When no consumer is left that could take a message, none is on its way any more: those leave whose time was over
    /// meanwhile.
    pub(super) fn expire_unawaited(&mut self, effects: &mut Effects) {
        if !self.clock.any_awaited() || self.consumers.open_credit() > 0 {
            return;
        }
        for number in self.clock.take_awaited().iter() {
            if self.clock.take_overdue(number) && self.is_ready(number) {
                self.expire(number, None, effects);
            }
        }
    }

    /// Does what is due, for at most `most` messages; what is left is announced again. True when nobody used the
    /// queue for the time of its `x-expires`: it is to be deleted.
    pub fn run_timers(&mut self, now: Nanos, most: u64, effects: &mut Effects) -> bool {
        self.clock.forget_announced();
        if self.state != QueueState::Running {
            return false;
        }
        let now_ms = self.clock.wall_ms(now);
        let mut left = most;
        while left > 0 {
            match self.clock.pop_due(now_ms) {
                None => break,
                Some(Due::One(number, bytes)) => {
                    self.time_is_over(number, Some(bytes), effects);
                    left -= 1;
                }
                Some(Due::Range(first, last)) => left -= self.expire_range(first, last, left, effects),
            }
        }
        self.clock.tidy();
        if left < most {
            if self.ready.messages() == 0 {
                self.emptied = now;
            }
            self.schedule(effects);
        }
        self.unused_at().is_some_and(|at| at <= now)
    }

    /// The time of `first..=last` is over. At most `most` are looked at now, the rest is due again; returns how many.
    fn expire_range(&mut self, first: u64, last: u64, most: u64, effects: &mut Effects) -> u64 {
        let mut done = 0;
        let mut at = first;
        while let Some((from, to)) = self.ledger.live_run(at).filter(|run| run.0 <= last) {
            if done >= most {
                self.clock.push_back(from, last);
                break;
            }
            let to = to.min(last).min(from + (most - done - 1).min(u64::from(u32::MAX)));
            let mut number = from;
            while number <= to {
                self.time_is_over(number, None, effects);
                number += 1;
            }
            done += to - from + 1;
            at = to + 1;
        }
        done
    }

    /// One message's time is over: it leaves if it is ready, and is marked if a consumer has it.
    fn time_is_over(&mut self, number: u64, bytes: Option<u32>, effects: &mut Effects) {
        if !self.ledger.is_live(number) {
            return;
        }
        if !self.is_ready(number) || self.clock.is_awaited(number) {
            self.clock.overdue(number);
            return;
        }
        self.expire(number, bytes, effects);
    }

    /// A ready message leaves, since its time is over. What is on disk only isn't read for that: without its size the
    /// average of all counts.
    fn expire(&mut self, number: u64, bytes: Option<u32>, effects: &mut Effects) {
        let (bytes, durable) = match (self.held_bytes(number), bytes) {
            (Some((bytes, durable)), _) => (bytes, durable),
            (None, Some(bytes)) => (u64::from(bytes), true),
            (None, None) => (self.ready.average_bytes(), true),
        };
        self.leave_ready_inside(number, bytes);
        let run = Run { first: number, last: number, bytes, durable };
        if self.has_dead_letters() {
            self.die(run, Reason::Expired, effects);
        } else {
            self.depart(number, number, bytes, Outcome::Expired);
            self.release(number, number);
            push_run(&mut effects.expired, run);
        }
        if self.ready.messages() == 0 {
            self.contents.spilled_from = None;
        }
    }

    /// Lets go what is over at the head of the queue, as far as it is in memory: nobody is given it.
    pub(super) fn expire_head(&mut self, now: Nanos, effects: &mut Effects) {
        if !self.clock.has_times() {
            return;
        }
        let now_ms = self.clock.wall_ms(now);
        while let Some(number) = self.ready_numbers().first() {
            let Some((first, held)) = self.contents.find(number) else { return };
            let index = held.index as usize + (number - first) as usize;
            if !self.clock.is_over(&held.batch, index, number, now_ms) {
                return;
            }
            self.expire(number, None, effects);
        }
    }

    /// How many of these messages are not over, from the first on.
    pub(super) fn not_over(&self, taken: &Taken, now: Nanos) -> u32 {
        if !self.clock.has_times() {
            return taken.count;
        }
        let now_ms = self.clock.wall_ms(now);
        let is_over = |at: u32| {
            self.clock.is_over(&taken.batch, (taken.index + at) as usize, taken.first + u64::from(at), now_ms)
        };
        (0..taken.count).take_while(|at| !is_over(*at)).count() as u32
    }

    fn is_ready(&self, number: u64) -> bool {
        self.ledger.is_live(number) && self.ready_numbers().has(number)
    }

    /// Of messages that came back, those leave whose time was over meanwhile.
    pub(super) fn expire_returned(&mut self, run: &Run, effects: &mut Effects) {
        if !self.clock.has_times() {
            return;
        }
        let overdue: Vec<u64> = (run.first..=run.last).filter(|number| self.clock.take_overdue(*number)).collect();
        let average = u32::try_from(run.bytes / run.count()).unwrap_or(u32::MAX);
        for number in overdue {
            if self.ready.returned().contains(number) {
                self.expire(number, Some(average), effects);
            }
        }
    }
}
