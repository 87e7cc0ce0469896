//! Annotations that consumers add to messages: each message with some is handed out, and dies, alone, as a copy that has them.

use std::sync::Arc;

use leveret_message::{Added, Batch, BatchBuilder, Reason};

use crate::dead_letter::{DeadRun, DeadTurn};
use crate::effects::Effects;
use crate::ledger_queue::LedgerQueue;
use crate::records::Run;

impl LedgerQueue {
    /// Adds annotations to messages that a consumer holds, if this type of queue does that. They are part of the messages from their
    /// next delivery on.
    pub fn annotate(&mut self, runs: &[Run], added: &Arc<Added>, effects: &mut Effects) {
        if !self.rules.logs_attempts {
            return;
        }
        let numbers = runs.iter().flat_map(|run| run.first..=run.last);
        for number in numbers.filter(|number| self.ledger.is_live(*number)) {
            effects.rare_mut().annotated.push(self.annotations.add(number, added));
        }
    }

    /// The first of `count` messages from `number` on with the annotations that it has, in a batch of its own; or how many come
    /// before one that has some.
    pub(super) fn with_annotations(
        &self,
        number: u64,
        count: u64,
        batch: &Batch,
        index: u32,
    ) -> Result<Arc<Batch>, u64> {
        if let Some(added) = self.annotations.of(number) {
            let mut builder = BatchBuilder::default();
            builder.push_annotated(&batch.message(index as usize), added);
            return Ok(Arc::new(builder.finish()));
        }
        Err(self.annotations.next(number).map_or(count, |next| count.min(next - number)))
    }

    /// Gives dead letters the annotations and the counts of failed deliveries that they have.
    pub(super) fn annotate_dead(&self, turn: DeadTurn) -> DeadTurn {
        let DeadTurn::Move(mut runs) = turn else { return turn };
        // Whether the last delivery failed by the death itself: a rejection isn't counted before, unlike the failure at the limit.
        let failed_last = |reason, number| u32::from(reason == Reason::Rejected && !self.spared.contains(number));
        if self.annotations.is_empty() && self.attempts.is_empty() && self.spared.is_empty() {
            runs.iter_mut().for_each(|run| run.failures = failed_last(run.reason, run.first));
            return DeadTurn::Move(runs);
        }
        let mut parts = Vec::new();
        for mut run in runs {
            while run.count > 0 {
                let failures_of = |number| self.attempts.of(number).failed + failed_last(run.reason, number);
                let failures = failures_of(run.first);
                let alike = (run.first..).take(run.count as usize);
                let alike = alike.take_while(|number| failures_of(*number) == failures).count() as u64;
                let found = self.with_annotations(run.first, alike, &run.batch, run.index);
                let (batch, index, count) = match found {
                    Ok(batch) => (batch, 0, 1),
                    Err(count) => (run.batch.clone(), run.index, count as u32),
                };
                parts.push(DeadRun { batch, index, count, failures, ..run.clone() });
                (run.first, run.index, run.count) =
                    (run.first + u64::from(count), run.index + count, run.count - count);
            }
        }
        DeadTurn::Move(parts)
    }
}
