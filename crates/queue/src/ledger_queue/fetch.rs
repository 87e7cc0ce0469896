//! Deferred messages that are fetched by their tokens, before their time: a consumer claims them, and gets them before all others as it
//! has credit.
//!
//! Until it has them, or they are due, it gets no other message: its credit is for those that it asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_message::Batch;

use crate::answers::{QueueState, TurnEnd};
use crate::consumer_id::ConsumerId;
use crate::counts::Count;
use crate::dispatch::{ConsumerMode, Portion};
use crate::effects::{Effects, Taken};
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;
use crate::records::{Run, push_run};
use crate::set_aside::{Claims, push_delayed};

/// A time of delivery that is always past: a message that was fetched isn't delayed after a restart.
const LONG_PAST_MS: u64 = 1;

/// Most messages that a consumer has claimed at a time: claiming them, and giving them back, is the work of one turn.
const CLAIMS_MAX: usize = 2000;

impl LedgerQueue {
    /// Claims the deferred messages with these tokens for a consumer. Unknown tokens, and those that another one has claimed, have
    /// no effect.
    pub fn claim(&mut self, id: ConsumerId, tokens: &[Box<str>], effects: &mut Effects) {
        let Some(consumer) = self.consumers.look(id) else { return };
        if self.deferred.is_empty() || consumer.options.mode != ConsumerMode::Move || self.state != QueueState::Running
        {
            return;
        }
        let mut most = CLAIMS_MAX.saturating_sub(consumer.claims.as_ref().map_or(0, |claims| claims.len() as usize));
        let mut found = BTreeSet::new();
        for token in tokens {
            let mut claimed = self.deferred.claim(token, id, most);
            most -= claimed.len();
            found.append(&mut claimed);
        }
        if !found.is_empty() {
            self.consumers.claim(id, found);
            self.schedule(effects);
        }
    }

    /// Ends the claims of a consumer that is about to leave: others can fetch the messages.
    pub(super) fn release_claims(&mut self, id: ConsumerId) {
        if self.deferred.is_empty() {
            return;
        }
        for number in self.consumers.end_claims(id) {
            if let Some(token) = self.annotations.of(number).and_then(|added| added.deferral_token().ok()?) {
                self.deferred.add(number, token);
            }
        }
    }

    /// Removes a message that isn't delayed any more from the deferred ones, and from the claims of its consumer.
    pub(super) fn not_deferred(&mut self, number: u64) {
        if !self.deferred.is_empty()
            && let Some(token) = self.annotations.of(number).and_then(|added| added.deferral_token().ok()?)
            && let Some(claimer) = self.deferred.remove(number, token)
        {
            self.consumers.unclaim(claimer, number);
        }
    }

    /// The same for several messages.
    pub(super) fn none_deferred(&mut self, runs: &[Run]) {
        if !self.deferred.is_empty() {
            runs.iter().flat_map(|run| run.first..=run.last).for_each(|number| self.not_deferred(number));
        }
    }

    /// A turn of a consumer with claims.
    pub(super) fn fetch(
        &mut self,
        id: ConsumerId,
        most: Portion,
        now: Nanos,
        out: &mut Vec<Taken>,
        effects: &mut Effects,
    ) -> TurnEnd {
        let Some(consumer) = self.consumers.find(id) else { return TurnEnd::Done };
        let Some(mut claims) = consumer.claims.take() else { return TurnEnd::Done };
        let automatic = consumer.options.automatic_ack;
        let count = most.messages.min(consumer.credit());
        let (mut left, mut bytes_left) = (count, most.bytes);
        while left > 0
            && bytes_left > 0
            && let Some(number) = claims.first()
        {
            let stored = self.stored(number, &claims.reads, false);
            let Some((batch, index)) = stored.map(|stored| (stored.batch.clone(), stored.index)) else {
                claims.reads.wait(number);
                effects.rare_mut().own_reads.push((id, number));
                break;
            };
            claims.remove(number);
            let Some(taken) = self.fetch_one(number, (&batch, index), now, effects) else { continue };
            let size = u64::from(taken.batch.body_length(taken.index as usize));
            left -= 1;
            bytes_left = taken.left_of(bytes_left, size);
            self.count_out(&taken, if automatic { Count::DeliverNoAck } else { Count::Deliver }, now);
            self.hand_out_fetched(&taken, size, automatic, effects);
            out.push(taken);
        }
        self.end_fetch(id, (*claims, automatic), count - left, now, effects)
    }

    /// Accounts for the messages of a turn.
    fn end_fetch(
        &mut self,
        id: ConsumerId,
        (claims, automatic): (Claims, bool),
        count: u32,
        now: Nanos,
        effects: &mut Effects,
    ) -> TurnEnd {
        let Some(consumer) = self.consumers.find(id) else { return TurnEnd::Done };
        if !automatic {
            consumer.unacknowledged += count;
        }
        consumer.handed(count);
        consumer.claims = claims.first().map(|_| Box::new(claims));
        let goes_on = consumer.can_fetch();
        if !goes_on {
            consumer.end_turn_alone(now);
        }
        self.consumers.refresh(id);
        if goes_on {
            return TurnEnd::More;
        }
        self.schedule(effects);
        TurnEnd::Done
    }

    /// Takes a message out of the delayed ones; `None` if its time to live is over, and it leaves.
    fn fetch_one(
        &mut self,
        number: u64,
        (batch, index): (&Arc<Batch>, u32),
        now: Nanos,
        effects: &mut Effects,
    ) -> Option<Taken> {
        self.not_deferred(number);
        let run = self.delayed.remove(number..=number).pop()?;
        let is_over = self.clock.has_times()
            && (self.clock.take_overdue(number)
                || self.clock.is_over(batch, index as usize, number, self.clock.wall_ms(now)));
        if is_over {
            self.ready.come_due(&run);
            self.expire(number, u32::try_from(run.bytes).ok(), effects);
            return None;
        }
        let (batch, index) = match self.with_annotations(number, 1, batch, index) {
            Ok(annotated) => (annotated, 0),
            Err(_) => (batch.clone(), index),
        };
        let attempts = self.attempts.of(number);
        Some(Taken { batch, index, count: 1, first: number, redelivered: true, attempts, durable: true })
    }

    fn hand_out_fetched(&mut self, taken: &Taken, size: u64, automatic: bool, effects: &mut Effects) {
        let run = Run { first: taken.first, last: taken.first, bytes: size, durable: true };
        if automatic {
            self.depart(run.first, run.last, size, Departure::Settled);
            push_run(&mut effects.settled, run);
        } else {
            self.ready.hand_out(1, size);
            push_delayed(&mut effects.rare_mut().delayed, &run, LONG_PAST_MS);
        }
        self.release(run.first, run.last);
    }
}
