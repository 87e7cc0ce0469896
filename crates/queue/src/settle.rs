//! Messages that leave or come back: settle, requeue, purge.

use crate::Nanos;
use crate::classic::ClassicQueue;
use crate::consumer::ConsumerId;
use crate::counts::Count;
use crate::effects::{Effects, Run, push_run};
use crate::ledger::Outcome;
use crate::limits::Length;

impl ClassicQueue {
    /// Messages leave for good: acknowledged, or rejected without requeue. Durable runs are to be
    /// logged by the caller, under the same lock.
    pub fn settle(
        &mut self,
        id: Option<ConsumerId>,
        runs: &[Run],
        outcome: Outcome,
        now: Nanos,
        effects: &mut Effects,
    ) {
        if outcome == Outcome::Settled {
            self.count(Count::Ack, runs.iter().map(Run::count).sum(), now);
        }
        let mut count = 0;
        for run in runs {
            count += run.count();
            self.depart(run.first, run.last, run.bytes, outcome);
            self.unacknowledged.bytes = self.unacknowledged.bytes.saturating_sub(run.bytes);
            if !run.durable {
                self.release(run.first, run.last);
            }
        }
        self.unacknowledged.messages = self.unacknowledged.messages.saturating_sub(count);
        self.credit_back(id, count, now, effects);
    }

    pub(crate) fn credit_back(&mut self, id: Option<ConsumerId>, count: u64, now: Nanos, effects: &mut Effects) {
        if let Some(id) = id
            && let Some(consumer) = self.consumers.find(id)
        {
            if consumer.credit() == 0 {
                consumer.changed = now;
            }
            consumer.unacknowledged = consumer.unacknowledged.saturating_sub(count as u32);
            self.consumers.enter_ring(id);
        }
        self.schedule(effects);
    }

    /// Takes messages out of the ledger, with what is known of each.
    pub(crate) fn depart(&mut self, first: u64, last: u64, bytes: u64, outcome: Outcome) {
        self.ledger.settle(first, last, bytes, outcome);
        self.failures.forget(first, last);
        if let Some(expiry) = &mut self.clockwork.expiry {
            expiry.forget(first, last);
        }
    }

    /// Messages go back to their place, flagged redelivered. `failed` counts this delivery of them as failed.
    pub fn requeue(&mut self, id: Option<ConsumerId>, runs: &[Run], failed: bool, now: Nanos, effects: &mut Effects) {
        let mut count = 0;
        for run in runs {
            count += run.count();
            for number in run.first..=run.last {
                if self.ledger.is_live(number) {
                    self.returned.insert(number);
                    self.ready.messages += 1;
                    if failed {
                        self.failures.add(number);
                    }
                }
            }
            self.ready.bytes += run.bytes;
            self.unacknowledged.bytes = self.unacknowledged.bytes.saturating_sub(run.bytes);
        }
        self.unacknowledged.messages = self.unacknowledged.messages.saturating_sub(count);
        for run in runs {
            self.expire_returned(run, effects);
        }
        self.drop_excess(effects);
        self.credit_back(id, count, now, effects);
    }

    /// Removes all ready messages; returns how many and the runs to be logged, the first of which has the bytes of all.
    pub fn purge(&mut self, now: Nanos, effects: &mut Effects) -> (u64, Vec<Run>) {
        let purged = self.ready.messages;
        let mut runs: Vec<Run> = Vec::new();
        for number in std::mem::take(&mut self.returned) {
            push_run(&mut runs, Run { first: number, last: number, bytes: 0, durable: true });
        }
        while let Some((first, last)) = self.ledger.live_run(self.cursor) {
            push_run(&mut runs, Run { first, last, bytes: 0, durable: true });
            self.cursor = last + 1;
        }
        if let Some(first) = runs.first_mut() {
            first.bytes = self.ready.bytes;
        }
        // A replay of the log knows of the durable ones only.
        let volatile = self.volatile_bytes(&runs);
        self.contents.spilled_from = None;
        for run in &runs {
            self.depart(run.first, run.last, run.bytes, Outcome::Purged);
            self.release(run.first, run.last);
        }
        if let Some(first) = runs.first_mut() {
            first.bytes -= volatile;
        }
        self.ready = Length::default();
        self.emptied = now;
        self.finish_drains(effects);
        if !self.durable {
            runs.clear();
        }
        (purged, runs)
    }

    /// Body bytes of the volatile live messages among these.
    fn volatile_bytes(&self, runs: &[Run]) -> u64 {
        let is_among = |number: u64| {
            let at = runs.partition_point(|run| run.last < number);
            runs.get(at).is_some_and(|run| run.first <= number) && self.ledger.is_live(number)
        };
        let mut bytes = 0;
        for (first, held) in self.contents.volatile() {
            for at in (0..held.count).filter(|at| is_among(first + u64::from(*at))) {
                bytes += u64::from(held.batch.body_length((held.index + at) as usize));
            }
        }
        bytes
    }
}
