//! Messages that leave or come back: settle, requeue, purge.

use std::sync::Arc;

use leveret_message::Added;

use crate::answers::QueueState;
use crate::consumer_id::ConsumerId;
use crate::counts::Count;
use crate::dispatch::Deliveries;
use crate::effects::Effects;
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;
use crate::planted::{Bug, is_planted};
use crate::records::{Run, joined, push_attempts, push_run};

/// A return of messages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Return<'a> {
    /// Whether their delivery failed.
    pub failed: bool,
    /// The time of the next delivery that the consumer asks for, in milliseconds since the Unix epoch.
    pub until_ms: Option<u64>,
    /// The token by which they can be fetched before that.
    pub token: Option<&'a str>,
}

impl LedgerQueue {
    /// Removes messages for good: acknowledged, or rejected without requeue. The caller has to log durable runs under the same
    /// lock.
    pub fn settle(&mut self, deliveries: Deliveries<'_>, outcome: Departure, now: Nanos, effects: &mut Effects) {
        self.settle_some(deliveries, outcome, now, effects);
        self.schedule(effects);
    }

    /// Like [`LedgerQueue::settle`], for acknowledged messages of many consumers: schedules consumers only once.
    pub fn acknowledge(&mut self, settled: &[(Option<ConsumerId>, Vec<Run>)], now: Nanos, effects: &mut Effects) {
        for (id, runs) in settled {
            self.settle_some(Deliveries::of(*id, runs), Departure::Settled, now, effects);
        }
        self.schedule(effects);
    }

    fn settle_some(&mut self, deliveries: Deliveries<'_>, outcome: Departure, now: Nanos, effects: &mut Effects) {
        if outcome == Departure::Settled {
            self.count(Count::Ack, deliveries.runs.iter().map(Run::count).sum(), now);
        }
        let mut count = 0;
        let times = if is_planted(Bug::SettleTwice) { 2 } else { 1 };
        for run in joined(deliveries.runs) {
            count += run.count();
            let lost = if is_planted(Bug::DriftBytes) { 1 } else { 0 };
            self.depart(run.first, run.last, run.bytes.saturating_sub(lost), outcome);
            self.ready.hand_back(run.count() * times, run.bytes);
            if !run.durable {
                self.release(run.first, run.last);
            }
        }
        self.credit_back(deliveries.consumer, count, now, effects);
    }

    #[inline]
    pub(super) fn credit_back(&mut self, id: Option<ConsumerId>, count: u64, now: Nanos, effects: &mut Effects) {
        if let Some(id) = id {
            self.consumers.update(id, |consumer| {
                if consumer.credit() == 0 {
                    consumer.changed = now;
                }
                let more = if is_planted(Bug::WidenWindow) { 1 } else { 0 };
                consumer.unacknowledged = consumer.unacknowledged.saturating_sub(count as u32 + more);
            });
            self.elect(now, effects);
        }
    }

    /// Removes messages from the ledger, and everything known about each.
    pub(super) fn depart(&mut self, first: u64, last: u64, bytes: u64, outcome: Departure) {
        self.ledger.settle(first, last, bytes, outcome);
        self.forget(first, last);
        self.clock.forget(first, last);
    }

    /// Forgets counts, annotations and priorities of messages that left the log.
    #[inline]
    pub(super) fn forget(&mut self, first: u64, last: u64) {
        if self.rules.priorities.is_some() || !(self.attempts.is_empty() && self.spared.is_empty()) {
            self.forget_details(first, last);
        }
    }

    #[inline(never)]
    fn forget_details(&mut self, first: u64, last: u64) {
        self.attempts.forget(first, last);
        self.spared.remove_range(first, last);
        self.annotations.forget(first, last);
        self.ready.depart(first, last);
    }

    /// Puts messages back into their places, flagged redelivered. `failed` counts this delivery of them as failed.
    pub fn requeue(&mut self, deliveries: Deliveries<'_>, failed: bool, now: Nanos, effects: &mut Effects) {
        self.put_back(deliveries, &Return { failed, ..Return::default() }, now, effects);
        self.schedule(effects);
        self.drop_excess(effects);
    }

    /// As [`LedgerQueue::requeue`], with annotations, which may delay the messages: see [`crate::Queue::modify`].
    pub fn modify(
        &mut self,
        deliveries: Deliveries<'_>,
        failed: bool,
        added: &Arc<Added>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        self.annotate(deliveries.runs, added, effects);
        let until_ms = added.delivery_ms().filter(|_| self.rules.delays);
        let token = added.deferral_token().ok().flatten();
        self.put_back(deliveries, &Return { failed, until_ms, token }, now, effects);
        self.schedule(effects);
        self.drop_excess(effects);
    }

    /// Removes consumers and requeues the messages they hold, as [`LedgerQueue::requeue`] does. None of them gets these again.
    pub fn leave(
        &mut self,
        consumers: &[ConsumerId],
        held: &[(Option<ConsumerId>, Vec<Run>)],
        failed: bool,
        now: Nanos,
        effects: &mut Effects,
    ) -> usize {
        for id in consumers {
            self.release_claims(*id);
            self.consumers.remove(*id);
        }
        self.elect(now, effects);
        self.end_pacing();
        if !consumers.is_empty() {
            self.changed = now;
            self.used(now);
        }
        for (id, runs) in held {
            self.put_back(Deliveries::of(*id, runs), &Return { failed, ..Return::default() }, now, effects);
        }
        self.schedule(effects);
        self.drop_excess(effects);
        self.consumers.len()
    }

    pub(super) fn put_back(
        &mut self,
        deliveries: Deliveries<'_>,
        returned: &Return<'_>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        let failed = returned.failed;
        let mut count = 0;
        let mut back = Vec::new();
        for run in deliveries.runs {
            count += run.count();
            if failed && self.options.delivery_limit.is_some() {
                let (stays, over) = self.over_limit(run);
                over.iter().for_each(|run| self.end_attempts(run, effects));
                back.extend(stays);
            } else {
                back.push(*run);
            }
        }
        let back = self.delay_some(back, returned, now, effects);
        for run in &back {
            let (attempts, logs) = (&mut self.attempts, self.rules.logs_attempts && run.durable);
            let counts = self.rules.priorities.is_some();
            let consumers = &mut self.consumers;
            self.ready.put_back(run, &self.ledger, |number| {
                consumers.note_comeback(number);
                match logs {
                    true => {
                        let rare = effects.rare_mut();
                        let runs = if failed { &mut rare.attempts } else { &mut rare.returns };
                        push_attempts(runs, number, attempts.come_back(number, failed));
                    }
                    false if counts => _ = attempts.come_back(number, failed),
                    false if failed => attempts.fail(number),
                    false => {}
                }
            });
            self.ready.hand_back(run.count(), run.bytes);
        }
        self.consumers.wake_filtering();
        for run in &back {
            self.expire_returned(run, effects);
        }
        self.credit_back(deliveries.consumer, count, now, effects);
    }

    /// Removes all delayed messages, and all ready ones except those on their way to a consumer. Returns how many, and the runs to be logged; one of
    /// the runs has the bytes of all.
    pub fn purge(&mut self, now: Nanos, effects: &mut Effects) -> (u64, Vec<Run>) {
        if self.state == QueueState::Deleted {
            // Its messages were deleted with it.
            return (0, Vec::new());
        }
        let staying = self.on_their_way_in_memory();
        let stay = staying.messages;
        let purged = self.ready.messages() - stay;
        let bytes = self.ready.length().bytes.saturating_sub(staying.bytes);
        let mut runs: Vec<Run> = Vec::new();
        self.ready.purge(staying, &self.ledger, |first, last| {
            push_run(&mut runs, Run { first, last, bytes: 0, durable: true });
        });
        // A replay of the log only knows durable messages, so the run with the bytes has to contain one.
        let (volatile, counts) = self.volatile_among(&runs);
        let has_durable = |(run, volatile): (&Run, &u64)| run.count() > *volatile;
        let with_bytes = runs.iter().zip(&counts).position(has_durable).unwrap_or(0);
        if let Some(run) = runs.get_mut(with_bytes) {
            run.bytes = bytes;
        }
        if stay == 0 {
            self.contents.spilled_from = None;
        }
        for run in &runs {
            self.depart(run.first, run.last, run.bytes, Departure::Purged);
            self.release(run.first, run.last);
        }
        if let Some(run) = runs.get_mut(with_bytes) {
            run.bytes = run.bytes.saturating_sub(volatile);
        }
        let mut purged = purged + self.delayed.len();
        let delayed = self.delayed.remove(0..=u64::MAX);
        self.none_deferred(&delayed);
        self.depart_all(&delayed, Departure::Purged);
        runs.extend(delayed);
        if stay == 0 {
            self.emptied = now;
        }
        self.schedule(effects);
        if !self.durable {
            runs.clear();
        }
        if self.keeps_dead_letters() {
            let dying = self.dead.purge();
            for run in dying {
                purged += run.count();
                self.forget(run.first, run.last);
                runs.push(run);
            }
        }
        (purged, runs)
    }

    /// Body bytes of the volatile live messages among these, and their number in each run.
    fn volatile_among(&self, runs: &[Run]) -> (u64, Vec<u64>) {
        let (mut bytes, mut counts) = (0, vec![0; runs.len()]);
        for (first, held) in self.contents.volatile() {
            for at in 0..held.count {
                let number = first + u64::from(at);
                let place = runs.partition_point(|run| run.last < number);
                if runs.get(place).is_some_and(|run| run.first <= number) && self.ledger.is_live(number) {
                    counts[place] += 1;
                    bytes += u64::from(held.batch.body_length((held.index + at) as usize));
                }
            }
        }
        (bytes, counts)
    }
}
