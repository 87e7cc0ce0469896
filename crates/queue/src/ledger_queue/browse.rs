//! Browsing consumers (AMQP 1.0, 3.5.3, distribution-mode copy): each is shown every message once, from the head on, if it is
//! ready when the consumer reaches it. Browsing doesn't change the queue.

use crate::Nanos;
use crate::answers::{QueueState, TurnEnd};
use crate::browser::Browser;
use crate::consumer::Consumer;
use crate::consumer_id::ConsumerId;
use crate::effects::{Effects, Taken};
use crate::ledger_queue::LedgerQueue;
use crate::ledger_queue::ready::Numbers;

impl LedgerQueue {
    pub(super) fn ready_numbers(&self) -> Numbers<'_> {
        self.ready.numbers(&self.ledger)
    }

    /// Number of messages that are available to this consumer: none while another one is the single active consumer.
    pub(super) fn available_to(&self, consumer: &Consumer) -> u64 {
        match &consumer.browser {
            None if !consumer.activity.is_served() => 0,
            None => self.ready.messages() + consumer.claims.as_ref().map_or(0, |claims| claims.len()),
            Some(browser) => self.ready_numbers().count(browser.next()),
        }
    }

    pub(super) fn schedule_browsers(&mut self, effects: &mut Effects) {
        if self.consumers.any_browsers() && self.state == QueueState::Running {
            let ready = self.ready.numbers(&self.ledger);
            self.consumers.schedule_browsers(|from| ready.next(from).is_some(), effects);
        }
    }

    /// A turn of a browsing consumer: messages that it is shown stay in the queue.
    pub(super) fn browse(
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
            let Some(number) = self.ready_numbers().next(browser.next()) else { break };
            let Some(mut taken) = self.show(number, u64::from(left), &browser) else {
                browser.reads.wait(number);
                effects.rare_mut().own_reads.push((id, number));
                break;
            };
            let size = taken.clip(bytes_left);
            left -= taken.count;
            bytes_left = taken.left_of(bytes_left, size);
            browser.advance(number + u64::from(taken.count));
            out.push(taken);
        }
        let more = browser.reads.is_able() && self.ready_numbers().next(browser.next()).is_some();
        let Some(consumer) = self.consumers.find(id) else { return TurnEnd::Done };
        consumer.browser = Some(browser);
        consumer.handed(most - left);
        let goes_on = more && consumer.is_eligible();
        if !goes_on {
            consumer.end_turn_alone(now);
        }
        self.consumers.refresh(id);
        if goes_on {
            return TurnEnd::More;
        }
        self.finish_drains(effects);
        TurnEnd::Done
    }

    /// A run of ready messages from `number` on, from the queue's memory or from messages read for this consumer.
    fn show(&self, number: u64, most: u64, browser: &Browser) -> Option<Taken> {
        let (batch, index, room, durable) = match self.contents.find(number) {
            Some((first, held)) => {
                (&held.batch, held.index + (number - first) as u32, held.end(first) - number, held.durable)
            }
            None => {
                let (first, batch) = browser.reads.find(number)?;
                (batch, (number - first) as u32, first + batch.len() as u64 - number, true)
            }
        };
        let head = self.ready_numbers().head_at(number);
        let (count, redelivered, attempts) = self.ready.alike(head, room.min(most), &self.attempts);
        Some(Taken { batch: batch.clone(), index, count: count as u32, first: number, redelivered, attempts, durable })
    }
}
