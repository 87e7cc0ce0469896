//! Delayed messages: they come back from a consumer, or their publisher asked for a later delivery, and wait in the queue until a time.
//! Then they are delivered before all others, whatever their priority, in the order in which they came due.
//!
//! As in RabbitMQ 4.3 they count in length limits and purges, and in no other length. One whose time to live is over leaves when it
//! comes due.

use leveret_message::{Batch, BatchBuilder, BatchPart, Reason};

use crate::effects::Effects;
use crate::ledger::Ledger;
use crate::ledger_queue::LedgerQueue;
use crate::ledger_queue::settle::Return;
use crate::nanos::Nanos;
use crate::pending::Pending;
use crate::planted::{Bug, is_planted};
use crate::records::{DelayRun, Run, push_attempts, push_sized};
use crate::set_aside::{Delayed, push_delayed};

/// Delays the live messages of a delayed exchange that recovery found without a time: they were due, and hadn't left yet.
pub(super) fn delay_others(ledger: &Ledger, delayed: &mut Delayed) {
    let mut others: Vec<(u64, u64)> = Vec::new();
    let known: Vec<u64> = delayed.iter().map(|(number, _)| number).collect();
    let mut known = known.into_iter().peekable();
    let mut next = 0;
    while let Some((first, last)) = ledger.live_run(next) {
        for number in first..=last {
            while known.next_if(|other| *other < number).is_some() {}
            if known.peek() != Some(&number) {
                match others.last_mut() {
                    Some((_, last)) if *last + 1 == number => *last = number,
                    _ => others.push((number, number)),
                }
            }
        }
        next = last + 1;
    }
    let count: u64 = others.iter().map(|(first, last)| last - first + 1).sum();
    let bytes_of_each = ledger.bytes().saturating_sub(delayed.bytes()) / count.max(1);
    for (first, last) in others {
        let bytes = bytes_of_each * (last - first + 1);
        delayed.add(&DelayRun { first, last, due_ms: 1, bytes });
    }
}

impl LedgerQueue {
    /// Delays those of these returned messages that have to wait. Returns the others.
    pub(super) fn delay_some(
        &mut self,
        back: Vec<Run>,
        returned: &Return<'_>,
        now: Nanos,
        effects: &mut Effects,
    ) -> Vec<Run> {
        if self.options.delayed_retry.is_none() && returned.until_ms.is_none() {
            return back;
        }
        let now_ms = self.clock.wall_ms(now);
        let asked_ms = returned.until_ms.filter(|until_ms| *until_ms > now_ms);
        let (mut at_once, mut later) = (Vec::new(), Vec::new());
        for one in back.iter().flat_map(|run| run.singly()) {
            let due_ms = asked_ms.or_else(|| self.retry_ms(one.first, returned.failed, now_ms));
            match due_ms.filter(|_| one.durable && self.ledger.is_live(one.first)) {
                Some(due_ms) => push_delayed(&mut later, &one, due_ms),
                None => push_sized(&mut at_once, one),
            }
        }
        let token = returned.token.filter(|_| asked_ms.is_some());
        later.into_iter().for_each(|run| self.delay(run, returned.failed, token, effects));
        at_once
    }

    /// The new messages whose publisher asked for a delivery after they were submitted, by place among these, and until when.
    pub(super) fn delays_of(&self, part: BatchPart<'_>, submitted: Nanos) -> Vec<(u32, u64)> {
        let BatchPart { batch, index, count } = part;
        if !self.rules.delays || !batch.any_delivery_time() {
            return Vec::new();
        }
        let now_ms = self.clock.wall_ms(submitted);
        let waits = |due_ms: &u64| self.rules.releases || *due_ms > now_ms;
        let due_ms = |at: u32| batch.delivery_ms((index + at) as usize).filter(waits);
        (0..count).filter_map(|at| Some((at, due_ms(at)?))).collect()
    }

    /// Delays those of these new messages that have to wait. Returns the others in batches without them, by the number of the first,
    /// because delayed messages aren't held in memory; `None` if none is delayed.
    ///
    /// Their records say until when, so nothing else is logged.
    pub(super) fn delay_new(&mut self, pending: &Pending) -> Option<Vec<(u64, Batch)>> {
        let Pending { first, ref batch, index, count, ref delayed, .. } = *pending;
        if delayed.is_empty() {
            return None;
        }
        let (mut others, mut builder) = (Vec::new(), BatchBuilder::default());
        let mut delayed = delayed.iter().peekable();
        for (number, at) in (first..).zip(0..count) {
            let Some(&(_, due_ms)) = delayed.next_if(|(place, _)| *place == at) else {
                builder.push_copy(&batch.message((index + at) as usize));
                continue;
            };
            if !builder.is_empty() {
                others.push((number - builder.len() as u64, builder.finish()));
            }
            let bytes = u64::from(batch.body_length((index + at) as usize));
            self.delayed.add(&DelayRun { first: number, last: number, due_ms, bytes });
            self.ready.set_aside(number, bytes);
        }
        if !builder.is_empty() {
            others.push((first + u64::from(count) - builder.len() as u64, builder.finish()));
        }
        self.ready.tidy(&self.ledger);
        Some(others)
    }

    /// The time until which the queue delays a message that comes back.
    fn retry_ms(&self, number: u64, failed: bool, now_ms: u64) -> Option<u64> {
        let failures = self.attempts.of(number).failed + u32::from(failed);
        let delay_ms = self.options.delayed_retry?.delay_ms(failed, failures)?;
        Some(now_ms.saturating_add(delay_ms))
    }

    fn delay(&mut self, run: DelayRun, failed: bool, token: Option<&str>, effects: &mut Effects) {
        let runs = if failed { &mut effects.rare_mut().attempts } else { &mut effects.rare_mut().returns };
        for number in run.first..=run.last {
            push_attempts(runs, number, self.attempts.come_back(number, failed));
        }
        self.ready.hand_back(run.last - run.first + 1, run.bytes);
        self.delayed.add(&run);
        token.into_iter().for_each(|token| (run.first..=run.last).for_each(|number| self.deferred.add(number, token)));
        if !is_planted(Bug::LoseTimers) {
            effects.rare_mut().delayed.push(run);
        }
    }

    /// Makes messages that came due ready, at most `most`; those of a delayed exchange leave for it. Returns how many there were.
    pub(super) fn come_due(&mut self, now_ms: u64, most: u64, effects: &mut Effects) -> u64 {
        let mut count = 0;
        while count < most
            && let Some(run) = self.delayed.pop_due(now_ms)
        {
            count += 1;
            self.not_deferred(run.first);
            if self.ledger.is_live(run.first) {
                self.ready.come_due(&run);
                if self.rules.releases {
                    self.leave_ready_inside(run.first, run.bytes);
                    self.die(run, Reason::Expired, effects);
                    continue;
                }
                self.consumers.note_comeback(run.first);
                self.expire_returned(&run, effects);
            }
        }
        if count > 0 {
            self.consumers.wake_filtering();
        }
        count
    }
}
