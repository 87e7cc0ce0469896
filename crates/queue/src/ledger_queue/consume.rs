//! Calls that add, remove and update consumers.

use crate::answers::NoConsumer;
use crate::consumer_id::ConsumerId;
use crate::dispatch::{ConsumerOptions, CreditState, Deliveries, Flow, Unsent};
use crate::effects::Effects;
use crate::ledger_queue::LedgerQueue;
use crate::ledger_queue::settle::Return;
use crate::nanos::Nanos;
use crate::records::{Run, push_sized};

/// A consumer as an earlier machine of a replicated queue had it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Earlier {
    /// The number of messages that it has, of those that are [held](LedgerQueue::hold).
    pub holds: u32,
    /// Its registration number there.
    pub registered: Option<u64>,
}

impl LedgerQueue {
    /// Adds a consumer.
    pub fn add(
        &mut self,
        id: ConsumerId,
        options: ConsumerOptions,
        now: Nanos,
        effects: &mut Effects,
    ) -> Result<(), NoConsumer> {
        self.add_again(id, options, Earlier::default(), now, effects)
    }

    /// Adds a consumer that an earlier machine of the queue had.
    ///
    /// # Errors
    /// As [`crate::Queue::add`].
    pub fn add_again(
        &mut self,
        id: ConsumerId,
        options: ConsumerOptions,
        earlier: Earlier,
        now: Nanos,
        effects: &mut Effects,
    ) -> Result<(), NoConsumer> {
        if self.is_closed {
            return Err(NoConsumer::Gone);
        }
        let exclusive = options.exclusive && self.rules.has_exclusive_consumers;
        let keeps_others = self.consumers.len() > 0 || self.consumers.has_single_active();
        if self.consumers.exclusive().is_some() || (exclusive && keeps_others) {
            return Err(NoConsumer::Exclusive);
        }
        self.changed = now;
        // So that the first messages needn't wait for it.
        self.raise_mark(self.ready.handed_out_below().max(self.ledger.low()), effects);
        self.consumers.add(id, options, (exclusive, earlier.registered), now);
        if earlier.holds > 0 {
            self.consumers.update(id, |consumer| consumer.unacknowledged = earlier.holds);
        }
        self.elect(now, effects);
        self.schedule(effects);
        Ok(())
    }

    /// Consumers of an earlier machine of the queue have these messages, and will be added with them. Returns those that were ready, and aren't
    /// any more. For a machine that has just begun.
    pub fn hold(&mut self, runs: &[Run]) -> Vec<Run> {
        let mut held = Vec::new();
        for run in runs {
            let bytes = run.bytes / run.count();
            let live: Vec<_> = self.ledger.live_runs(run.first, run.last).collect();
            for number in live.into_iter().flat_map(|(first, last)| first..=last) {
                if self.ready.has(number) {
                    self.ready.leave_ahead(number, bytes);
                    self.ready.hand_out(1, bytes);
                    push_sized(&mut held, Run { first: number, last: number, bytes, durable: true });
                }
            }
        }
        self.ready.tidy(&self.ledger);
        held
    }

    /// Removes a consumer; its unacknowledged messages stay with its channel.
    pub fn cancel(&mut self, id: ConsumerId, now: Nanos, effects: &mut Effects) -> Option<usize> {
        self.release_claims(id);
        let was_there = self.consumers.remove(id);
        self.end_pacing();
        self.changed = now;
        self.used(now);
        self.elect(now, effects);
        self.schedule(effects);
        // Messages that its credit covered count against the limit from now on.
        self.drop_excess(effects);
        was_there.then(|| self.consumers.len())
    }

    /// Changes the flow of a consumer: room, window, credit, or whether it is overdue. Returns its link's state if its credit has changed.
    pub fn flow(&mut self, id: ConsumerId, flow: Flow, now: Nanos, effects: &mut Effects) -> Option<CreditState> {
        let (known, open) = match flow {
            Flow::Credit { delivery_count, link_credit, drain } => {
                return self.grant(id, (delivery_count, link_credit), drain, now, effects);
            }
            Flow::Overdue(overdue) => {
                self.set_overdue(id, overdue, now, effects);
                return None;
            }
            Flow::Room(room) => (&mut self.consumers.find(id)?.room, room),
            Flow::Window(open) => (&mut self.consumers.find(id)?.window, open),
        };
        if std::mem::replace(known, open) != open {
            self.consumers.find(id)?.changed = now;
        }
        self.room_changed(id, open, now, effects);
        None
    }

    /// Takes messages back from a consumer, which is overdue from now on, and requeues them: its successor gets them before newer
    /// ones. With `unsent`, the last of them weren't sent on its link.
    pub fn take_back(
        &mut self,
        id: ConsumerId,
        runs: &[Run],
        unsent: Option<Unsent>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        if let Some(unsent) = unsent {
            self.consumers.update(id, |consumer| consumer.not_sent(unsent));
        }
        self.mark_overdue(id, true, now);
        self.put_back(Deliveries::of(Some(id), runs), &Return::default(), now, effects);
        self.elect(now, effects);
        self.schedule(effects);
        self.drop_excess(effects);
    }

    fn set_overdue(&mut self, id: ConsumerId, overdue: bool, now: Nanos, effects: &mut Effects) {
        if self.mark_overdue(id, overdue, now) {
            self.elect(now, effects);
            self.schedule(effects);
        }
    }

    /// Notes whether a consumer is overdue. False if nothing has changed.
    fn mark_overdue(&mut self, id: ConsumerId, overdue: bool, now: Nanos) -> bool {
        let Some(consumer) = self.consumers.find(id) else { return false };
        if std::mem::replace(&mut consumer.overdue, overdue) == overdue {
            return false;
        }
        consumer.changed = now;
        self.consumers.set_aside(id, overdue);
        self.note_room(id, !overdue, now);
        true
    }

    fn room_changed(&mut self, id: ConsumerId, room: bool, now: Nanos, effects: &mut Effects) {
        self.note_room(id, room, now);
        self.schedule(effects);
    }

    fn note_room(&mut self, id: ConsumerId, room: bool, now: Nanos) {
        if room {
            self.consumers.refresh(id);
        } else {
            self.consumers.end_turn(id, 0, self.ready.messages(), false, now);
        }
    }
}
