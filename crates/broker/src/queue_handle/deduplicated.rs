//! Publishing to a queue that drops what is sent again.
//!
//! A duplicate counts as accepted, and is confirmed when everything that the queue was offered before is safe: so is the message that
//! it is a duplicate of. Messages are compared and noted under the lock under which the record is appended.

use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::{Batch, BatchPart};
use leveret_model::Durability;
use leveret_queue::{Effects, Offered, Placement, PublishSlot, Queue};

use super::{Audience, PublishedIn, QueueHandle};
use crate::group::Group;
use crate::held_messages::Fresh;
use crate::planted::{Bug, is_planted};
use crate::publish_origin;
use crate::published::PublishedHere;
use crate::streams::Record;
use crate::ticket::Awaited;
use crate::time::Nanos;

impl QueueHandle {
    fn count_duplicates(&self, fresh: &Fresh) {
        if fresh.count() < fresh.offered() {
            self.place.metrics().count_duplicates(u64::from(fresh.offered() - fresh.count()));
        }
    }

    /// As [`QueueHandle::publish`], for messages that were offered in one batch, and are in another one with that by which they are compared.
    #[cold]
    pub(super) fn publish_once(
        self: &Arc<Self>,
        offered: BatchPart<'_>,
        (batch, compared): (&Arc<Batch>, &[Option<Offered>]),
        persistent: bool,
        audience: Audience,
        now: Nanos,
    ) -> PublishedHere {
        publish_origin::leaves_out_known();
        let count = compared.len() as u32;
        let is_persistent = persistent || self.is_always_persistent();
        let published = self.with(|queue, effects| {
            let fresh = Fresh::of(queue.ledger_mut()?, batch, compared);
            self.count_duplicates(&fresh);
            let Some(submission) = queue.ledger_mut()?.submit(BatchPart::of(&fresh.batch, 0, fresh.count()), now)
            else {
                let awaited = Awaited::durable(*self.closed_at.lock());
                let gone = PublishedHere { accepted: fresh.offered(), awaited, is_gone: true, ..PublishedHere::none() };
                return Some(gone);
            };
            let (first, taken) = (submission.first, submission.accepted);
            let part = BatchPart::of(&fresh.batch, 0, taken);
            let written = self.durability == Durability::Os && !queue.awaits_group();
            if taken > 0 {
                let is_logged = self.is_durable() && (is_persistent || self.spills(queue, part));
                let wait = if written { Wait::Written } else { Wait::Confirm };
                let record = Record::Messages { log: self.log_id, first, part, instead: None };
                let place = is_logged.then(|| {
                    let place = self.stream.append(record, wait).place();
                    self.last_record.set(place);
                    place
                });
                let placement = place.map_or(Placement::Volatile, Placement::At);
                let ledger = queue.ledger_mut()?;
                ledger.submitted(submission, part, placement, now, effects);
                ledger.note_offered(first, fresh.compared(taken), is_logged);
            }
            let ticket = self.pending_ticket(queue);
            let is_early = written || taken == 0 && is_planted(Bug::ConfirmRepeatEarly);
            let awaited = if is_early { Awaited::written(ticket) } else { Awaited::durable(ticket) };
            let ledger = queue.ledger_mut()?;
            let is_behind = ledger.is_behind();
            ledger.arrived(taken, now);
            let slot = match audience {
                Audience::Alone | Audience::Several(_) => ledger.slot(taken, now),
                Audience::Unpaced(_) => PublishSlot::default(),
            };
            Some(PublishedHere { accepted: fresh.accepted(taken), awaited, is_behind, is_gone: false, slot })
        });
        let published = published.flatten().unwrap_or_else(PublishedHere::none);
        if published.is_gone
            && let Some(successor) = self.successor()
        {
            return successor.publish(offered, persistent, audience, now);
        }
        self.dead_letter_refused(BatchPart::of(batch, 0, count).behind(published.accepted));
        published
    }

    /// As [`QueueHandle::offer_in`], for all messages of a batch with that by which they are compared.
    pub(super) fn offer_once_in(
        &self,
        queue: &mut Queue,
        group: &mut Group,
        (batch, compared): (&Arc<Batch>, &[Option<Offered>]),
        persistent: bool,
        now: Nanos,
        effects: &mut Effects,
    ) -> Option<PublishedIn> {
        let fresh = Fresh::of(queue.ledger_mut()?, batch, compared);
        self.count_duplicates(&fresh);
        let submission = queue.ledger_mut()?.submit(BatchPart::of(&fresh.batch, 0, fresh.count()), now)?;
        let (first, taken) = (submission.first, submission.accepted);
        let part = BatchPart::of(&fresh.batch, 0, taken);
        if taken > 0 {
            let is_logged = (persistent || self.is_always_persistent()) && self.is_durable();
            let placement = match is_logged {
                true => {
                    let record = Record::Messages { log: self.log_id, first, part, instead: None };
                    self.last_record.set(group.append(&self.stream, record).place());
                    Placement::In(group.place())
                }
                false => Placement::Volatile,
            };
            let ledger = queue.ledger_mut()?;
            ledger.submitted(submission, part, placement, now, effects);
            ledger.note_offered(first, fresh.compared(taken), is_logged);
            ledger.arrived(taken, now);
        }
        Some(PublishedIn { accepted: fresh.accepted(taken), ticket: self.pending_ticket(queue) })
    }
}
