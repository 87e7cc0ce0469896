//! Consumers that go through the queue by themselves, in the order of the messages' numbers.
//!
//! A browsing consumer (AMQP 1.0, 3.5.3, distribution-mode copy) is shown every message once, from the head on, if it is ready when the
//! consumer reaches it; browsing doesn't change the queue. A consumer with a filter takes the messages that its filter lets through,
//! wherever they are, and leaves the others. It looks again at messages that come back, and at nothing else twice.

use std::sync::Arc;

use leveret_message::Batch;
use leveret_selector::{Budget, Verdict};

use crate::answers::{QueueState, TurnEnd};
use crate::consumer_id::ConsumerId;
use crate::counts::Count;
use crate::dispatch::{Consumer, ConsumerMode, Portion, Seeker};
use crate::effects::{Effects, Taken};
use crate::ledger_queue::LedgerQueue;
use crate::ledger_queue::ready::{Head, Numbers};
use crate::nanos::Nanos;
use crate::planted::{Bug, is_planted};
use crate::reads::OwnReads;

/// The work of a turn on filters, in steps of [`Budget`]: less than a tenth of a millisecond.
const STEPS_PER_TURN: u64 = 2_000;

/// Messages, or runs of them, that a turn looks at.
const LOOKS_PER_TURN: u32 = 1024;

/// The find of a turn at a consumer's position.
enum Found {
    /// Messages that it gets.
    Wanted(Taken),
    /// Messages that it doesn't want, or that are expired.
    Passed(u64),
    /// They have to be read first.
    NotLoaded(u64),
    /// It isn't below the mark.
    Unmarked(u64),
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
        most: Portion,
        now: Nanos,
        out: &mut Vec<Taken>,
        effects: &mut Effects,
    ) -> TurnEnd {
        let Some(consumer) = self.consumers.find(id) else { return TurnEnd::Done };
        let Some(mut seeker) = consumer.seeker.take() else { return TurnEnd::Done };
        let takes = consumer.options.mode == ConsumerMode::Move;
        let automatic = consumer.options.automatic_ack;
        let count = most.messages.min(consumer.credit());
        let (mut left, mut bytes_left) = (count, most.bytes);
        let mut budget = Budget::new(STEPS_PER_TURN);
        let (mut run, mut looks, mut is_unmarked) = (None, LOOKS_PER_TURN, false);
        while looks > 0 && left > 0 && bytes_left > 0 {
            looks -= 1;
            self.pass_unwanted(&mut seeker, &mut run, now, &mut looks, &mut budget);
            let mut taken = match self.find_next(&mut seeker, &mut run, takes, left, now, &mut budget) {
                Found::Wanted(taken) => taken,
                Found::Passed(number) => {
                    seeker.looked_at(number, 1);
                    continue;
                }
                Found::Unmarked(number) => {
                    self.raise_mark(number, effects);
                    is_unmarked = true;
                    break;
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
        let more = seeker.reads.is_able() && !is_unmarked && self.ready_numbers().next(from).is_some();
        let count = count - left;
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

    /// Passes messages that a filter doesn't let through, batch by batch, up to the first one that it may let through.
    fn pass_unwanted(
        &self,
        seeker: &mut Seeker,
        run: &mut Option<Head>,
        now: Nanos,
        looks: &mut u32,
        budget: &mut Budget,
    ) {
        let Some(filter) = seeker.filter.clone() else { return };
        // One that came back behind it is next.
        if seeker.looks_from(self.consumers.came_back()) != seeker.next() {
            return;
        }
        let Some(head) = next_head(self.ready_numbers(), seeker.next(), run).filter(|head| !head.came_back) else {
            return;
        };
        let now_ms = self.clock.wall_ms(now);
        let mut number = head.number;
        'run: while number <= head.last {
            let Some(stored) = self.stored(number, &seeker.reads, true) else { break };
            let count = stored.room.min(head.last - number + 1);
            for index in stored.index as usize..stored.index as usize + count as usize {
                if *looks == 0 || filter.evaluate(stored.batch, index, now_ms, budget) != Some(Verdict::NoMatch) {
                    break 'run;
                }
                *looks -= 1;
                number += 1;
            }
        }
        if number > head.number {
            seeker.looked_at(head.number, number - head.number);
        }
    }

    /// The next messages that a consumer wants, or passes. `run` is for the next call of the same turn.
    fn find_next(
        &self,
        seeker: &mut Seeker,
        run: &mut Option<Head>,
        takes: bool,
        most: u32,
        now: Nanos,
        budget: &mut Budget,
    ) -> Found {
        let numbers = self.ready_numbers();
        let is_ready = |number| self.ledger.is_live(number) && numbers.has(number);
        let comeback = seeker.next_comeback(self.consumers.came_back(), is_ready);
        let head = match comeback {
            Some(number) => Some(numbers.head_at(number)),
            None => next_head(numbers, seeker.next(), run),
        };
        let Some(head) = head else { return Found::Nothing };
        let number = head.number;
        let Some(stored) = self.stored(number, &seeker.reads, seeker.filter.is_some()) else {
            return Found::NotLoaded(number);
        };
        if let Some(filter) = seeker.filter.as_ref().filter(|_| !is_planted(Bug::IgnoreFilter)) {
            match filter.evaluate(stored.batch, stored.index as usize, self.clock.wall_ms(now), budget) {
                Some(Verdict::Match) => {}
                Some(Verdict::NoMatch) => return Found::Passed(number),
                Some(Verdict::OutOfBudget) => return Found::Nothing,
                None => return Found::NotLoaded(number),
            }
        }
        let most = if takes || seeker.filter.is_some() { 1 } else { most };
        let taken = self.show(head, u64::from(most), &stored);
        if takes && self.not_over(&taken, now) == 0 {
            return Found::Passed(number);
        }
        if takes && self.below_mark(number, 1) == 0 {
            return Found::Unmarked(number);
        }
        Found::Wanted(taken)
    }

    /// The message of this number, in the queue's memory or among those read for a consumer of its own. A filter also needs its
    /// fields.
    pub(super) fn stored<'a>(&'a self, number: u64, reads: &'a OwnReads, for_filter: bool) -> Option<Stored<'a>> {
        let is_enough =
            |held: &Stored<'_>| !for_filter || held.batch.message(held.index as usize).view_fields().is_some();
        let read = || reads.find(number).map(|(first, batch)| Stored::read(batch, (number - first) as u32));
        self.held(number).filter(is_enough).or_else(read)
    }

    /// The message of this number, in the queue's memory.
    pub(super) fn held(&self, number: u64) -> Option<Stored<'_>> {
        let (first, held) = self.contents.find(number)?;
        let index = held.index + (number - first) as u32;
        Some(Stored { batch: &held.batch, index, room: held.end(first) - number, durable: held.durable })
    }

    /// At most `most` messages from a ready one on.
    pub(super) fn show(&self, head: Head, most: u64, stored: &Stored<'_>) -> Taken {
        let Stored { batch, index, room, durable } = *stored;
        let (count, redelivered, attempts) = self.ready.alike(head, room.min(most), &self.attempts);
        let (batch, index, count) = match self.with_annotations(head.number, count, batch, index) {
            Ok(batch) => (batch, 0, 1),
            Err(count) => (batch.clone(), index, count),
        };
        Taken { batch, index, count: count as u32, first: head.number, redelivered, attempts, durable }
    }
}

/// A message as it is held.
pub(super) struct Stored<'a> {
    pub(super) batch: &'a Arc<Batch>,
    pub(super) index: u32,
    /// The messages from it to the end of the batch.
    room: u64,
    durable: bool,
}

impl<'a> Stored<'a> {
    /// One that was read from disk.
    pub(super) fn read(batch: &'a Arc<Batch>, index: u32) -> Self {
        Self { batch, index, room: batch.len() as u64 - u64::from(index), durable: true }
    }
}

/// The first message from `from` on. A search costs more than a look, so that the run that one found is kept in `run`: whatever a
/// consumer takes is behind its position.
fn next_head(numbers: Numbers<'_>, from: u64, run: &mut Option<Head>) -> Option<Head> {
    if let Some(head) = run.filter(|head| (head.number..=head.last).contains(&from)) {
        return Some(Head { number: from, ..head });
    }
    let head = numbers.head_at(numbers.next(from)?);
    *run = Some(head).filter(|head| !head.came_back);
    Some(head)
}
