//! Handing messages out: the next messages, and the share of a consumer's turn.

use crate::answers::TurnEnd;
use crate::consumer_id::ConsumerId;
use crate::counts::Count;
use crate::dispatch::Portion;
use crate::effects::{Effects, Taken};
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;
use crate::records::{Run, push_run};

/// The result of [`LedgerQueue::ready_run`].
pub(crate) enum ReadyRun {
    /// Messages, and the time when they were submitted.
    Found(Taken, Nanos),
    /// The next one is on disk.
    NotLoaded(u64),
    /// The next one isn't below the mark.
    Unmarked(u64),
    /// Nothing is ready.
    None,
}

impl LedgerQueue {
    /// Removes numbers from the ready ones; they are consecutive and either all returned or all new.
    pub(super) fn leave_ready(&mut self, first: u64, last: u64, bytes: u64) {
        self.clock.no_longer_awaited(first, last);
        self.ready.leave(first, last, bytes);
        self.ready.tidy(&self.ledger);
    }

    /// Removes a number from the ready ones that may be behind others.
    pub(super) fn leave_ready_inside(&mut self, number: u64, bytes: u64) {
        self.clock.no_longer_awaited(number, number);
        self.ready.leave_inside(number, bytes);
    }

    /// Body bytes of a message that is in memory, and whether it is durable.
    pub(super) fn held_bytes(&self, number: u64) -> Option<(u64, bool)> {
        let (first, held) = self.contents.find(number)?;
        let index = u64::from(held.index) + number - first;
        Some((u64::from(held.batch.body_length(index as usize)), held.durable))
    }

    /// Body bytes of a message that is in memory.
    pub(super) fn body_bytes(&self, number: u64) -> Option<u64> {
        self.held_bytes(number).map(|(bytes, _)| bytes)
    }

    /// Frees memory after `first..=last` left the ready messages: durable entries without a ready message are removed (their
    /// bodies are on disk), volatile ones once they are settled.
    pub(super) fn release(&mut self, first: u64, last: u64) {
        let mut at = first;
        while at <= last {
            let Some((start, held)) = self.contents.find(at) else {
                let Some(next) = self.contents.next_held(at) else { return };
                at = next;
                continue;
            };
            let end = held.end(start);
            let durable = held.durable;
            if durable {
                if !self.ready_numbers().any_of(start, end - 1) {
                    self.contents.remove(start);
                }
            } else {
                let ledger = &self.ledger;
                self.contents.settled(at, last.min(end - 1), |number| ledger.is_live(number));
            }
            at = end;
        }
    }

    /// A run of at most `most` ready messages that are contiguous in memory.
    pub(super) fn ready_run(&self, most: u64) -> ReadyRun {
        let Some(head) = self.ready_numbers().head() else { return ReadyRun::None };
        let number = head.number;
        let most = self.below_mark(number, most);
        if most == 0 {
            return ReadyRun::Unmarked(number);
        }
        let Some((start, held)) = self.contents.find(number) else { return ReadyRun::NotLoaded(number) };
        let (count, redelivered, attempts) = self.ready.alike(head, most.min(held.end(start) - number), &self.attempts);
        let index = held.index + (number - start) as u32;
        let (batch, index, count) = match self.with_annotations(number, count, &held.batch, index) {
            Ok(batch) => (batch, 0, 1),
            Err(count) => (held.batch.clone(), index, count),
        };
        ReadyRun::Found(
            Taken { batch, index, count: count as u32, first: number, redelivered, attempts, durable: held.durable },
            held.submitted,
        )
    }

    /// Hands out messages to a scheduled consumer: at most this, and at most its fair share.
    pub fn take(
        &mut self,
        id: ConsumerId,
        most: Portion,
        now: Nanos,
        out: &mut Vec<Taken>,
        effects: &mut Effects,
    ) -> TurnEnd {
        let Some(consumer) = self.consumers.find(id) else { return TurnEnd::Done };
        if !consumer.scheduled {
            return TurnEnd::Done;
        }
        if consumer.claims.is_some() {
            return self.fetch(id, most, now, out, effects);
        }
        if consumer.seeker.is_some() {
            return self.seek(id, most, now, out, effects);
        }
        let automatic = consumer.options.automatic_ack;
        let at_first = consumer.promise.min(u64::from(most.messages)).min(u64::from(consumer.credit()));
        let mut left = at_first;
        let mut bytes_left = most.bytes;
        let mut blocked = false;
        while left > 0 && bytes_left > 0 {
            self.expire_head(now, effects);
            let (mut taken, submitted) = match self.ready_run(left) {
                ReadyRun::Found(taken, submitted) => (taken, submitted),
                ReadyRun::None => break,
                ReadyRun::NotLoaded(number) => {
                    self.read_ready(number, effects);
                    self.reads.block(now);
                    blocked = true;
                    break;
                }
                ReadyRun::Unmarked(number) => {
                    self.raise_mark(number, effects);
                    blocked = true;
                    break;
                }
            };
            taken.count = self.not_over(&taken, now).max(1);
            let size = taken.clip(bytes_left);
            left -= u64::from(taken.count);
            bytes_left = taken.left_of(bytes_left, size);
            let what = if automatic { Count::DeliverNoAck } else { Count::Deliver };
            self.count_out(&taken, what, now);
            self.hand_out(&taken, size, automatic, effects);
            let consumer = self.consumers.find(id).expect("found above");
            if !automatic {
                consumer.unacknowledged += taken.count;
            }
            consumer.handed(taken.count);
            consumer.record_latency(now.saturating_sub(submitted), u64::from(taken.count));
            out.push(taken);
        }
        if self.ready.messages() == 0 {
            self.emptied = now;
        }
        self.pace_taken(at_first - left, now);
        self.read_ahead(effects);
        let more = self.ready.messages() > 0 && !blocked;
        let stays = self.consumers.end_turn(id, at_first - left, self.ready.messages(), more, now);
        if !stays || self.consumers.has_priorities() {
            self.schedule(effects);
        }
        if stays { TurnEnd::More } else { TurnEnd::Done }
    }

    /// Counts messages that are about to be handed out.
    pub(super) fn count_out(&mut self, taken: &Taken, what: Count, now: Nanos) {
        let count = u64::from(taken.count);
        self.count(what, count, now);
        if taken.redelivered {
            self.count(Count::Redeliver, count, now);
        }
    }

    /// Accounts for messages that a consumer or a get takes from the ready ones.
    pub(super) fn hand_out(&mut self, taken: &Taken, size: u64, automatic: bool, effects: &mut Effects) {
        self.leave_ready(taken.first, taken.first + u64::from(taken.count) - 1, size);
        self.handed_out(taken, size, automatic, effects);
    }

    /// As [`LedgerQueue::hand_out`], for messages that have left the ready ones.
    pub(super) fn handed_out(&mut self, taken: &Taken, size: u64, automatic: bool, effects: &mut Effects) {
        let last = taken.first + u64::from(taken.count) - 1;
        self.raise_mark(last + 1, effects);
        if automatic {
            self.depart(taken.first, last, size, Departure::Settled);
            if taken.durable {
                push_run(&mut effects.settled, Run { first: taken.first, last, bytes: size, durable: true });
            }
            self.release(taken.first, last);
        } else {
            self.ready.hand_out(u64::from(taken.count), size);
            if taken.durable {
                self.release(taken.first, last);
            }
        }
    }
}
