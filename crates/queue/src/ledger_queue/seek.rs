//! Consumers that go through the queue by themselves, in the order of the messages' numbers.
//!
//! A browsing consumer (AMQP 1.0, 3.5.3, distribution-mode copy) is shown every message once, from the head on, if it is ready when the
//! consumer reaches it; browsing doesn't change the queue. A consumer with a filter takes the messages that its filter lets through,
//! wherever they are, and leaves the others. It looks again at messages that come back, and at nothing else twice.

use leveret_selector::{Budget, Verdict};

use crate::Nanos;
use crate::answers::{QueueState, TurnEnd};
use crate::consumer::{Consumer, ConsumerMode};
use crate::consumer_id::ConsumerId;
use crate::counts::Count;
use crate::effects::{Effects, Taken};
use crate::ledger_queue::LedgerQueue;
use crate::ledger_queue::ready::Numbers;
use crate::seeker::Seeker;

/// The work of a turn on filters, in steps of [`Budget`]: some tenths of a millisecond.
const STEPS_PER_TURN: u64 = 10_000;

/// Messages, or runs of them, that a turn looks at.
const LOOKS_PER_TURN: u32 = 4096;

/// The find of a turn at a consumer's position.
enum Found {
    /// Messages that it gets.
    Wanted(Taken),
    /// Messages that it doesn't want, or that are expired.
    Passed(u64),
    /// They have to be read first.
    NotLoaded(u64),
    /// Nothing is ahead, or the work of this turn is done.
    Nothing,
}

impl LedgerQueue {
    pub(super) fn ready_numbers(&self) -> Numbers<'_> {
        self.ready.numbers(&self.ledger)
    }

    /// Number of messages that are available to this consumer, none while another one is the single active consumer. Of those ahead of
    /// a consumer with a filter, nobody knows how many it wants: all that are ready count if any are.
    pub(super) fn available_to(&self, consumer: &Consumer) -> u64 {
        let claimed = consumer.claims.as_ref().map_or(0, |claims| claims.len());
        match &consumer.seeker {
            _ if !consumer.activity.is_served() => 0,
            None => self.ready.messages() + claimed,
            Some(seeker) if consumer.options.mode == ConsumerMode::Copy && seeker.filter.is_none() => {
                self.ready_numbers().count(seeker.next())
            }
            Some(seeker) => {
                let is_any = self.ready_numbers().next(seeker.looks_from(self.consumers.came_back())).is_some();
                claimed + if is_any { self.ready.messages() } else { 0 }
            }
        }
    }

    pub(super) fn schedule_seekers(&mut self, effects: &mut Effects) {
        if self.consumers.any_seekers() && self.state == QueueState::Running {
            let ready = self.ready.numbers(&self.ledger);
            self.consumers.schedule_seekers(|from| ready.next(from).is_some(), effects);
        }
    }

    /// A turn of a consumer that browses or has a filter.
    pub(super) fn seek(
        &mut self,
        id: ConsumerId,
        messages: u32,
        bytes: u64,
        now: Nanos,
        out: &mut Vec<Taken>,
        effects: &mut Effects,
    ) -> TurnEnd {
        let Some(consumer) = self.consumers.find(id) else { return TurnEnd::Done };
        let Some(mut seeker) = consumer.seeker.take() else { return TurnEnd::Done };
        let takes = consumer.options.mode == ConsumerMode::Move;
        let automatic = consumer.options.automatic_ack;
        let most = messages.min(consumer.credit());
        let (mut left, mut bytes_left) = (most, bytes);
        let mut budget = Budget::new(STEPS_PER_TURN);
        for _ in 0..LOOKS_PER_TURN {
            if left == 0 || bytes_left == 0 {
                break;
            }
            let mut taken = match self.find_next(&mut seeker, takes, left, now, &mut budget) {
                Found::Wanted(taken) => taken,
                Found::Passed(number) => {
                    seeker.looked_at(number, 1);
                    continue;
                }
                Found::NotLoaded(number) => {
                    seeker.reads.wait(number);
                    effects.rare_mut().own_reads.push((id, number));
                    break;
                }
                Found::Nothing => break,
            };
            let size = taken.clip(bytes_left);
            left -= taken.count;
            bytes_left = taken.left_of(bytes_left, size);
            seeker.looked_at(taken.first, u64::from(taken.count));
            if takes {
                self.count_out(&taken, if automatic { Count::DeliverNoAck } else { Count::Deliver }, now);
                self.clock.no_longer_awaited(taken.first, taken.first);
                self.ready.leave_ahead(taken.first, size);
                self.ready.tidy(&self.ledger);
                self.handed_out(&taken, size, automatic, effects);
            }
            out.push(taken);
        }
        let from = seeker.looks_from(self.consumers.came_back());
        let more = seeker.reads.is_able() && self.ready_numbers().next(from).is_some();
        let count = most - left;
        let Some(consumer) = self.consumers.find(id) else { return TurnEnd::Done };
        consumer.seeker = Some(seeker);
        if takes && !automatic {
            consumer.unacknowledged += count;
        }
        consumer.handed(count);
        let goes_on = more && consumer.is_eligible();
        if !goes_on {
            consumer.end_turn_alone(now);
        }
        self.consumers.refresh(id);
        if takes && count > 0 {
            if self.ready.messages() == 0 {
                self.emptied = now;
            }
            // Messages that were reserved for others are gone.
            self.schedule(effects);
        }
        if goes_on {
            return TurnEnd::More;
        }
        self.finish_drains(effects);
        TurnEnd::Done
    }

    /// The next messages that a consumer wants, or passes.
    fn find_next(&self, seeker: &mut Seeker, takes: bool, most: u32, now: Nanos, budget: &mut Budget) -> Found {
        let numbers = self.ready_numbers();
        let is_ready = |number| self.ledger.is_live(number) && numbers.has(number);
        let comeback = seeker.next_comeback(self.consumers.came_back(), is_ready);
        let Some(number) = comeback.or_else(|| numbers.next(seeker.next())) else { return Found::Nothing };
        let most = if takes || seeker.filter.is_some() { 1 } else { most };
        let Some(taken) = self.show(number, u64::from(most), seeker) else { return Found::NotLoaded(number) };
        if takes && self.not_over(&taken, now) == 0 {
            return Found::Passed(number);
        }
        let Some(filter) = &seeker.filter else { return Found::Wanted(taken) };
        match filter.evaluate(&taken.batch, taken.index as usize, self.clock.wall_ms(now), budget) {
            Verdict::Match => Found::Wanted(taken),
            Verdict::NoMatch => Found::Passed(number),
            Verdict::OutOfBudget => Found::Nothing,
        }
    }

    /// A run of ready messages from `number` on, from the queue's memory or from messages read for this consumer.
    fn show(&self, number: u64, most: u64, seeker: &Seeker) -> Option<Taken> {
        let (batch, index, room, durable) = match self.contents.find(number) {
            Some((first, held)) => {
                (&held.batch, held.index + (number - first) as u32, held.end(first) - number, held.durable)
            }
            None => {
                let (first, batch) = seeker.reads.find(number)?;
                (batch, (number - first) as u32, first + batch.len() as u64 - number, true)
            }
        };
        let head = self.ready_numbers().head_at(number);
        let (count, redelivered, attempts) = self.ready.alike(head, room.min(most), &self.attempts);
        let (batch, index, count) = match self.with_annotations(number, count, batch, index) {
            Ok(batch) => (batch, 0, 1),
            Err(count) => (batch.clone(), index, count),
        };
        Some(Taken { batch, index, count: count as u32, first: number, redelivered, attempts, durable })
    }
}
