//! Operations of a queue that are part of a group, including moves of its dead letters.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leveret_log::{SettleReason, Wait};
use leveret_message::{BatchPart, Reason};
use leveret_model::Overflow;
use leveret_queue::{DeadRun, DeadTurn, Deliveries, Departure, Place, Placement, Queue, QueueState, Run, joined};

use super::{QueueHandle, Waiting};
use crate::deferred::Refused;
use crate::group::Group;
use crate::planted::{Bug, is_planted};
use crate::records::{durable_ranges, reason_of};
use crate::settlement::Settlement;
use crate::streams::Record;
use crate::ticket::Ticket;
use crate::time::Nanos;

/// The result of publishing messages as part of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedIn {
    /// Number of accepted messages, counted from the first one.
    pub accepted: u32,
    /// The queue has to be applied when this is reached, which isn't before the group is durable; nothing if the messages are
    /// in the queue already.
    pub ticket: Ticket,
}

impl QueueHandle {
    /// Offers messages as part of a group. Persistent ones become part of the queue when the group is durable; volatile ones at
    /// once, or behind pending messages.
    pub(crate) fn publish_in(
        self: &Arc<Self>,
        group: &mut Group,
        part: BatchPart<'_>,
        persistent: bool,
        now: Nanos,
    ) -> PublishedIn {
        // To a queue that is being deleted they came before the deletion.
        let gone = PublishedIn { accepted: part.count, ticket: Ticket::default() };
        let published = self.offer_untapped_in(group, part, persistent, now).unwrap_or(gone);
        self.taps.put(&self.info, part.first(published.accepted), now);
        self.dead_letter_refused(part.behind(published.accepted));
        published
    }

    /// As [`QueueHandle::publish_in`], but refused messages aren't dead-lettered: they stay where they are. `None` if the queue is
    /// being deleted.
    pub(crate) fn offer_in(
        self: &Arc<Self>,
        group: &mut Group,
        part: BatchPart<'_>,
        persistent: bool,
        now: Nanos,
    ) -> Option<PublishedIn> {
        let offered = self.offer_untapped_in(group, part, persistent, now);
        self.taps.put(&self.info, part.first(offered.map_or(0, |offered| offered.accepted)), now);
        offered
    }

    fn offer_untapped_in(
        self: &Arc<Self>,
        group: &mut Group,
        part: BatchPart<'_>,
        persistent: bool,
        now: Nanos,
    ) -> Option<PublishedIn> {
        if self.is_stream() {
            return self.offer_chunk_in(group, part, now);
        }
        let none = PublishedIn { accepted: 0, ticket: Ticket::default() };
        let held = crate::held_messages::held(&self.info, part);
        let offered = part;
        let part = held.as_ref().map_or(part, |held| BatchPart::whole(&held.batch));
        let compared = held.as_ref().and_then(|held| held.compared.as_deref());
        let published = self.with(|queue, effects| {
            if let Some(compared) = compared {
                return self.offer_once_in(queue, group, (part.batch, compared), persistent, now, effects);
            }
            let Some(ledger) = queue.ledger_mut() else { return Some(none) };
            let submission = ledger.submit(part, now)?;
            if submission.accepted == 0 {
                return Some(none);
            }
            let placement = if (persistent || self.is_always_persistent()) && self.is_durable() {
                let (log, first, part) = (self.log_id, submission.first, part.first(submission.accepted));
                let record = Record::Messages { log, first, part, instead: None };
                self.last_record.set(group.append(&self.stream, record).place());
                Placement::In(group.place())
            } else {
                Placement::Volatile
            };
            ledger.submitted(submission, part, placement, now, effects);
            ledger.arrived(submission.accepted, now);
            Some(PublishedIn { accepted: submission.accepted, ticket: self.pending_ticket(queue) })
        });
        let published = published.unwrap_or(Some(none));
        match self.successor() {
            Some(successor) if published.is_none() => successor.offer_untapped_in(group, offered, persistent, now),
            // The group is one of the store's, and the queue isn't in it any more: whoever made it makes another one.
            None if published.is_none() && self.spread_to().is_some() => {
                group.break_off();
                Some(none)
            }
            _ => published,
        }
    }

    /// Carries out a consumer's decision on messages. Returns the ticket to wait for; `None` if nothing was logged.
    pub(crate) fn decide(
        self: &Arc<Self>,
        deliveries: Deliveries<'_>,
        how: Settlement,
        wait: Wait,
        now: Nanos,
    ) -> Option<Ticket> {
        match how {
            Settlement::Acknowledge => self.settle(deliveries, Departure::Settled, wait, now),
            Settlement::Reject { failed } => self.dismiss(deliveries, failed, wait, now),
            Settlement::Requeue { failed } => {
                self.requeue(deliveries, failed, now);
                None
            }
        }
    }

    /// Removes messages for good as part of a group: at once here, and after a restart if the group was durable. Nothing is
    /// dead-lettered: moves of dead letters are groups of their own.
    pub(crate) fn settle_in(
        self: &Arc<Self>,
        group: &mut Group,
        deliveries: Deliveries<'_>,
        outcome: Departure,
        now: Nanos,
    ) {
        self.with(|queue, effects| {
            queue.settle(deliveries, outcome, now, effects);
            if outcome == Departure::Dropped {
                self.count_dropped(Reason::Rejected, deliveries.runs);
            }
            self.log_settles_in(queue, group, deliveries.runs, reason_of(outcome));
        });
    }

    pub(super) fn log_settles_in(&self, queue: &mut Queue, group: &mut Group, runs: &[Run], reason: SettleReason) {
        let ranges = durable_ranges(runs);
        // The messages of a queue that was converted, or given other members, went back first.
        if !ranges.is_empty() && self.successor().is_none() && self.spread_to().is_none() {
            let ticket = group.append(&self.stream, Record::Settle { log: self.log_id, reason, ranges: &ranges });
            self.last_record.set(ticket.place());
            for run in joined(runs).filter(|run| run.durable) {
                queue
                    .references_mut()
                    .release(run.first, run.last, |first, last| group.release(&self.shared, first, last));
            }
        }
    }

    /// Messages that the length limit refused go to the dead-letter exchange, if the overflow behaviour demands it.
    pub(super) fn dead_letter_refused(self: &Arc<Self>, part: BatchPart<'_>) {
        let BatchPart { batch, index, count } = part;
        let effective = self.effective.load();
        let options = effective.options(&self.info);
        if count > 0 && options.overflow == Overflow::RejectPublishDlx && options.dead_letter.is_some() {
            self.deferred.refuse(Refused { queue: self.clone(), batch: batch.clone(), index, count });
        }
    }

    /// See [`leveret_queue::LedgerQueue::dead_turn`].
    pub(crate) fn dead_turn(self: &Arc<Self>) -> DeadTurn {
        // Messages that die from here on request another turn.
        self.is_deferred.store(false, Ordering::Release);
        self.with_ledger(|queue, effects| queue.dead_turn(effects)).unwrap_or(DeadTurn::Nothing)
    }

    /// See [`leveret_queue::LedgerQueue::dead_turn_is`].
    pub(crate) fn dead_turn_is(self: &Arc<Self>, runs: &[DeadRun]) {
        self.with_ledger(|queue, _| queue.dead_turn_is(runs));
    }

    /// The messages of the last turn stay here until further messages die, because a target queue has failed. Answers that wait
    /// for the move fail.
    pub(crate) fn dead_stay(self: &Arc<Self>) {
        self.with_ledger(|queue, _| queue.dead_stay());
        self.fail_moves();
    }

    /// Whether its dead letters wait until queues take them.
    pub(crate) fn keeps_dead_letters(&self) -> bool {
        self.effective.load().options(&self.info).keeps_dead_letters()
    }

    /// No queue takes the messages of the last turn now: they are tried again later. Answers that wait for the move wait for the
    /// record of that instead. Returns whether these are the first since one was moved.
    pub(crate) fn dead_blocked(self: &Arc<Self>, now: Nanos) -> bool {
        let is_first = self.with_ledger(|queue, effects| queue.dead_blocked(now, effects)).unwrap_or(false);
        self.answer_moves();
        is_first
    }

    /// Dead letters left without a move: answers that waited for it wait for the last record of the queue instead.
    pub(super) fn answer_moves(&self) {
        let left = self.inner.lock().ledger().map_or(0, |ledger| ledger.dead_letters().1);
        self.moved_in(self.last_record.get(), self.moves.through(left));
    }

    /// Number of these messages that its limits allow at the moment: none if it has stopped, all if it is gone.
    pub(crate) fn has_room_for(&self, part: BatchPart<'_>) -> u32 {
        self.look(|queue| match queue.state() {
            // A stream has no limit that refuses messages.
            QueueState::Running => queue.ledger().map_or(part.count, |ledger| ledger.has_room_for(part)),
            QueueState::Failed(_) => 0,
            QueueState::Deleted => part.count,
        })
    }

    /// The messages of the last turn were moved as part of a group, except `dropped`, which were routed nowhere.
    pub(crate) fn moved(self: &Arc<Self>, group: &mut Group, dropped: u64) {
        self.with(|queue, effects| {
            let Some(ledger) = queue.ledger_mut() else { return };
            let (runs, through) = (ledger.moved(dropped, effects), ledger.dead_letters().1);
            let logged = if is_planted(Bug::RepeatLetters) { &[][..] } else { &runs };
            self.log_settles_in(queue, group, logged, SettleReason::DeadLettered);
            group.moves(self, self.moves.through(through));
        });
    }

    /// The group of a move is written up to `place`; `waiting` are the answers for which it was the last move.
    pub(crate) fn moved_in(&self, place: Place, waiting: Vec<Waiting>) {
        let place = self.moves.written(place);
        waiting.into_iter().for_each(|waiting| waiting.moved(place, &*self.stream));
    }

    /// Number of messages in flight to the dead-letter exchange.
    pub(crate) fn moving(&self) -> u64 {
        self.inner.lock().ledger().map_or(0, |ledger| ledger.dead_letters().0)
    }
}
