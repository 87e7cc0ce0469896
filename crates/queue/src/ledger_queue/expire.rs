//! Expiry of messages and queues.
//!
//! Messages leave when the home core runs the queue's timers ([`LedgerQueue::run_timers`]), and no consumer is given an
//! expired one. A delivered message doesn't expire before it comes back. A message for which a consumer waited when it was
//! published doesn't expire either: it is only held up by its way to the disk and to the consumer's turn.

use leveret_message::Reason;

use crate::answers::QueueState;
use crate::deadlines::Deadlines;
use crate::effects::{Effects, Taken};
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::limits::Excess;
use crate::nanos::Nanos;
use crate::records::{Run, push_run};
use crate::timing::Due;

impl LedgerQueue {
    /// Notes a use of the queue, other than by a consumer.
    pub fn used(&mut self, now: Nanos) {
        self.clock.used(now);
    }

    /// The next deadlines, as far as they are sooner than those announced before.
    pub fn announce_deadlines(&mut self) -> Deadlines {
        if self.state != QueueState::Running {
            return Deadlines::NONE;
        }
        let pacing = self.pacing.as_mut().and_then(|pacing| pacing.announce());
        let retry = self.dead.announce();
        let at_once = self.excess.announce().then_some(0);
        let others = Deadlines::of([pacing, retry, at_once], []);
        if !self.clock.has_deadlines() && self.delayed.is_empty() {
            return others;
        }
        others.and(self.clock.announce(self.consumers.len() > 0, self.delayed.next_ms()))
    }

    /// The time when the queue expires if it isn't used until then.
    pub(super) fn unused_at(&self) -> Option<Nanos> {
        self.clock.unused_at().filter(|_| self.consumers.len() == 0)
    }

    /// Removes messages that were due on arrival (a time to live of 0).
    pub(super) fn expire_momentary(&mut self, effects: &mut Effects) {
        if !self.clock.any_momentary() {
            return;
        }
        for (first, last) in self.clock.take_momentary() {
            self.expire_range(first, last, u64::MAX, effects);
        }
        self.finish_drains(effects);
    }

    /// Once no consumer is left that could take a message, no message is on its way any more: those that have expired meanwhile
    /// leave.
    pub(super) fn expire_unawaited(&mut self, effects: &mut Effects) {
        if !self.clock.any_awaited() || self.consumers.open_credit() > 0 {
            return;
        }
        for number in self.clock.take_awaited().iter() {
            let bytes = self.clock.bytes_of(number);
            if self.clock.take_overdue(number) && self.is_ready(number) {
                self.expire(number, bytes, effects);
            }
        }
    }

    /// Runs due timers for at most `most` messages; the rest is announced again. Returns true if the queue wasn't used for the
    /// time of its `x-expires`: it has to be deleted.
    pub fn run_timers(&mut self, now: Nanos, most: u64, effects: &mut Effects) -> bool {
        self.clock.forget_announced();
        if self.state != QueueState::Running {
            return false;
        }
        if let Some(pacing) = &mut self.pacing {
            pacing.due(now);
        }
        effects.dead_letters |= self.dead.retry(now);
        let now_ms = self.clock.wall_ms(now);
        let mut left = most - self.come_due(now_ms, most, effects);
        while left > 0 {
            match self.clock.pop_due(now_ms) {
                None => break,
                Some(Due::One(number, bytes)) => {
                    self.time_is_over(number, bytes, effects);
                    left -= 1;
                }
                Some(Due::Range(first, last)) => left -= self.expire_range(first, last, left, effects),
            }
        }
        self.clock.tidy();
        if left < most || self.excess != Excess::None {
            if self.ready.messages() == 0 {
                self.emptied = now;
            }
            self.schedule(effects);
            self.drop_excess(effects);
        }
        self.unused_at().is_some_and(|at| at <= now)
    }

    /// Expires `first..=last`. Looks at no more than `most` of them, the rest becomes due again; returns how many.
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

    /// Expires one message: it leaves if it is ready, and is marked if a consumer has it.
    fn time_is_over(&mut self, number: u64, bytes: Option<u32>, effects: &mut Effects) {
        if !self.ledger.is_live(number) {
            return;
        }
        if !self.is_ready(number) || self.clock.is_awaited(number) {
            self.clock.overdue(number, bytes);
            return;
        }
        self.expire(number, bytes, effects);
    }

    /// Removes an expired message that is ready. A message that is only on disk isn't read for that: without its size, which is
    /// known if it has a time of its own, the average size counts.
    pub(super) fn expire(&mut self, number: u64, bytes: Option<u32>, effects: &mut Effects) {
        let known = || bytes.or_else(|| self.clock.bytes_of(number));
        let (bytes, durable) = match self.held_bytes(number).ok_or_else(known) {
            Ok(held) => held,
            Err(Some(bytes)) => (u64::from(bytes), true),
            Err(None) => (self.ready.average_bytes(), true),
        };
        self.leave_ready_inside(number, bytes);
        let run = Run { first: number, last: number, bytes, durable };
        if self.has_dead_letters() {
            self.die(run, Reason::Expired, effects);
        } else {
            self.depart(number, number, bytes, Departure::Expired);
            self.release(number, number);
            push_run(&mut effects.rare_mut().expired, run);
        }
        if self.ready.messages() == 0 {
            self.contents.spilled_from = None;
        }
    }

    /// Removes expired messages at the head of the queue, as far as they are in memory, so that no consumer gets them.
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

    /// Number of these messages before the first expired one.
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

    /// Removes returned messages that have expired meanwhile.
    pub(super) fn expire_returned(&mut self, run: &Run, effects: &mut Effects) {
        if !self.clock.has_times() {
            return;
        }
        let overdue: Vec<u64> = (run.first..=run.last).filter(|number| self.clock.take_overdue(*number)).collect();
        let average = u32::try_from(run.bytes / run.count()).unwrap_or(u32::MAX);
        for number in overdue {
            if self.is_ready(number) {
                self.expire(number, Some(average), effects);
            }
        }
    }
}
