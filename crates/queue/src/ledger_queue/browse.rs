//! Consumers that only look (AMQP 1.0, 3.5.3, distribution-mode copy): each sees every message that is ready
//! when it comes to it, once, from the head on. Nothing in the queue changes by that.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_message::Batch;

use crate::Nanos;
use crate::consumer::Consumer;
use crate::consumer_id::ConsumerId;
use crate::contents::MemoryBudget;
use crate::effects::{Effects, Taken};
use crate::ledger::Ledger;
use crate::ledger_queue::dispatch::clip;
use crate::ledger_queue::{ClassicQueue, QueueState, TurnEnd};
use crate::number_set::NumberSet;

/// How far a consumer has looked.
#[derive(Debug, Default)]
pub(crate) struct Browser {
    /// Everything below was shown to it, or not ready when it passed.
    pub next: u64,
    /// Messages read from disk for it alone, with the number of the first of each batch; ascending.
    loaded: VecDeque<Loaded>,
    /// A read for it is under way, from this number on.
    reading: Option<u64>,
}

#[derive(Debug)]
struct Loaded {
    first: u64,
    batch: Arc<Batch>,
    budget: Arc<MemoryBudget>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.budget.give_back(self.batch.memory() as u64);
    }
}

impl Browser {
    /// False while it waits for a read.
    pub(crate) fn is_able(&self) -> bool {
        self.reading.is_none()
    }

    /// The batch that was read for it and holds `number`.
    fn find(&self, number: u64) -> Option<(u64, &Arc<Batch>)> {
        let at = self.loaded.partition_point(|loaded| loaded.first <= number).checked_sub(1)?;
        let loaded = &self.loaded[at];
        (number - loaded.first < loaded.batch.len() as u64).then_some((loaded.first, &loaded.batch))
    }

    /// It has looked at everything below `next`.
    fn advance(&mut self, next: u64) {
        self.next = next;
        while self.loaded.pop_front_if(|loaded| loaded.first + loaded.batch.len() as u64 <= next).is_some() {}
    }
}

impl Consumer {
    pub(crate) fn end_browse(&mut self, now: Nanos) {
        if std::mem::take(&mut self.scheduled) {
            self.changed = now;
        }
    }
}

/// Which messages are ready: those that came back, and those that were never handed out.
#[derive(Clone, Copy)]
pub(crate) struct Ready<'a> {
    pub ledger: &'a Ledger,
    pub returned: &'a NumberSet,
    pub cursor: u64,
}

impl Ready<'_> {
    /// The first one at or after `from`.
    pub(crate) fn next(self, from: u64) -> Option<u64> {
        if from < self.cursor
            && let Some(number) = self.returned.next(from)
        {
            return Some(number);
        }
        self.ledger.live_run(from.max(self.cursor)).map(|(first, _)| first)
    }

    /// How many there are from `from` on.
    fn count(self, from: u64) -> u64 {
        self.returned.count_from(from) + self.ledger.live_count(from.max(self.cursor))
    }
}

impl ClassicQueue {
    pub(crate) fn ready_numbers(&self) -> Ready<'_> {
        Ready { ledger: &self.ledger, returned: &self.returned, cursor: self.cursor }
    }

    /// How many messages are there for this consumer.
    pub(crate) fn available_to(&self, consumer: &Consumer) -> u64 {
        match &consumer.browser {
            None => self.ready.messages,
            Some(browser) => self.ready_numbers().count(browser.next),
        }
    }

    pub(crate) fn schedule_browsers(&mut self, effects: &mut Effects) {
        if self.consumers.any_browsers() && self.state == QueueState::Running {
            let ready = Ready { ledger: &self.ledger, returned: &self.returned, cursor: self.cursor };
            self.consumers.schedule_browsers(|from| ready.next(from).is_some(), effects);
        }
    }

    /// A turn of a consumer that only looks: what it sees stays where it is.
    pub(crate) fn browse(
        &mut self,
        id: ConsumerId,
        messages: u32,
        bytes: u64,
        now: Nanos,
        out: &mut Vec<Taken>,
        effects: &mut Effects,
    ) -> TurnEnd {
        let Some(mut browser) = self.consumers.find(id).and_then(|consumer| consumer.browser.take()) else {
            return TurnEnd::Done;
        };
        let credit = self.consumers.find(id).map_or(0, |consumer| consumer.credit());
        let most = messages.min(credit);
        let mut left = most;
        let mut bytes_left = bytes;
        while left > 0 && bytes_left > 0 {
            let Some(number) = self.ready_numbers().next(browser.next) else { break };
            let Some(mut taken) = self.show(number, u64::from(left), &browser) else {
                browser.reading = Some(number);
                effects.browse_reads.push((id, number));
                break;
            };
            let size = clip(&mut taken, bytes_left);
            left -= taken.count;
            bytes_left =
                if taken.ends_in_file() { 0 } else { bytes_left.saturating_sub(size + 64 * u64::from(taken.count)) };
            browser.advance(number + u64::from(taken.count));
            out.push(taken);
        }
        let more = browser.is_able() && self.ready_numbers().next(browser.next).is_some();
        let Some(consumer) = self.consumers.find(id) else { return TurnEnd::Done };
        consumer.browser = Some(browser);
        consumer.handed(most - left);
        let goes_on = more && consumer.is_eligible();
        if !goes_on {
            consumer.end_browse(now);
        }
        self.consumers.refresh(id);
        if goes_on {
            return TurnEnd::More;
        }
        self.finish_drains(effects);
        TurnEnd::Done
    }

    /// A run of ready messages from `number` on, from the queue's memory or what was read for this consumer.
    fn show(&self, number: u64, most: u64, browser: &Browser) -> Option<Taken> {
        let (batch, index, room, durable) = match self.contents.find(number) {
            Some((first, held)) => {
                (&held.batch, held.index + (number - first) as u32, held.end(first) - number, held.durable)
            }
            None => {
                let (first, batch) = browser.find(number)?;
                (batch, (number - first) as u32, first + batch.len() as u64 - number, true)
            }
        };
        let last = (number >= self.cursor).then(|| self.ledger.live_run(number).map_or(number, |(_, last)| last));
        let (count, redelivered, failures) = self.alike(number, last, room.min(most));
        Some(Taken { batch: batch.clone(), index, count: count as u32, first: number, redelivered, failures, durable })
    }

    /// A read asked for by [`Effects::browse_reads`] is done: stored messages in ascending order, each run with
    /// consecutive numbers.
    pub fn browse_loaded(&mut self, id: ConsumerId, runs: Vec<(u64, Arc<Batch>)>, now: Nanos, effects: &mut Effects) {
        let budget = self.contents.budget().clone();
        let Some(consumer) = self.consumers.find(id) else { return };
        let Some(browser) = &mut consumer.browser else { return };
        let Some(from) = browser.reading.take() else { return };
        consumer.changed = now;
        if let Some((first, _)) = runs.first() {
            // A message that came back meanwhile may stand before what was read earlier, which is read again then.
            browser.loaded.retain(|loaded| loaded.first + (loaded.batch.len() as u64) <= *first);
        }
        for (first, batch) in runs {
            budget.take(batch.memory() as u64);
            browser.loaded.push_back(Loaded { first, batch, budget: budget.clone() });
        }
        let found = browser.find(from).is_some();
        self.consumers.refresh(id);
        if !found && self.ready_numbers().next(from) == Some(from) && self.contents.find(from).is_none() {
            self.fail(format!("message {from} is not in its message store"), effects);
            return;
        }
        self.schedule(effects);
    }
}
