//! Reading messages back that are on disk only.

use std::sync::Arc;

use leveret_message::Batch;

use crate::Nanos;
use crate::contents::READ_AHEAD_BYTES;
use crate::effects::{Effects, Signal};
use crate::ledger_queue::{ClassicQueue, QueueState};

impl ClassicQueue {
    pub(crate) fn read_ahead(&mut self, effects: &mut Effects) {
        if let Some(from) = self.contents.spilled_from
            && self.reading.is_none()
            && self.contents.bytes() < READ_AHEAD_BYTES
            && self.ready.messages > 0
        {
            self.request_read(from.max(self.cursor), effects);
        }
    }

    pub(crate) fn request_read(&mut self, number: u64, effects: &mut Effects) {
        if self.reading.is_none() {
            self.reading = Some(number);
            effects.read = Some(number);
        }
    }

    /// A read asked for by [`Effects::read`] is done: stored messages in ascending order, each run with
    /// consecutive numbers. Those that left meanwhile are dropped.
    pub fn loaded(&mut self, runs: Vec<(u64, Arc<Batch>)>, now: Nanos, effects: &mut Effects) {
        let Some(from) = self.reading.take() else { return };
        if self.state != QueueState::Running {
            return;
        }
        let mut reached = None;
        for (first, batch) in runs {
            let count = batch.len() as u64;
            reached = Some(first + count);
            self.insert_ready(first, &batch, count, now);
        }
        let waited = self.disk_wait.take();
        if self.next_ready() == Some(from) && self.contents.find(from).is_none() {
            self.fail(format!("message {from} is not in its message store"), effects);
            return;
        }
        if let (Some(reached), Some(spilled)) = (reached, self.contents.spilled_from)
            && reached > spilled
        {
            self.contents.spilled_from = self.ledger.live_run(reached).map(|_| reached);
        }
        if waited.is_some() {
            self.changed = now;
        }
        for (link, key) in self.get_waiters.drain(..) {
            effects.signals.push((link, Signal::Loaded(key)));
        }
        self.schedule(effects);
        self.drop_excess(effects);
    }

    /// Inserts the ready ones among loaded messages, in runs.
    fn insert_ready(&mut self, first: u64, batch: &Arc<Batch>, count: u64, now: Nanos) {
        let mut run: Option<u64> = None;
        for number in first..=first + count {
            let wanted = number < first + count
                && self.ledger.is_live(number)
                && (number >= self.cursor || self.returned.contains(number))
                && self.contents.find(number).is_none();
            match (wanted, run) {
                (true, None) => run = Some(number),
                (false, Some(start)) => {
                    let index = (start - first) as u32;
                    self.contents.insert(start, batch.clone(), index, (number - start) as u32, true, now);
                    run = None;
                }
                _ => {}
            }
        }
    }
}
