//! A classic or quorum queue, with the calls that a stream lacks.

use std::ops::Deref;
use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::Added;
use leveret_model::{Refused, RefusedKind};
use leveret_queue::{ConsumerId, Deliveries, GetOutcome, Link, Run, SetAside};

use super::queue_ref::{QueueRef, pass};
use super::removal::{Removal, Removed};
use crate::asked::{Later, NowOrLater};
use crate::planted::{Bug, is_planted};
use crate::remote::CallKind;
use crate::settlement::Settlement;
use crate::ticket::Ticket;
use crate::time::Nanos;

/// A queue whose messages leave when they are settled, cheap to clone. Only [`QueueRef::as_ledger`] gives it.
#[derive(Clone)]
pub struct LedgerQueueRef(QueueRef);

impl Deref for LedgerQueueRef {
    type Target = QueueRef;

    #[inline]
    fn deref(&self) -> &QueueRef {
        &self.0
    }
}

impl QueueRef {
    /// The queue as one whose messages leave it; `None` if it is a stream.
    pub fn as_ledger(&self) -> Option<LedgerQueueRef> {
        (!self.is_stream()).then(|| LedgerQueueRef(self.clone()))
    }

    /// The queue as one that messages are got from.
    ///
    /// # Errors
    /// It is a stream, or one that doesn't allow it.
    pub fn check_get(&self) -> Result<LedgerQueueRef, Refused> {
        self.info().check_get()?;
        Ok(LedgerQueueRef(self.clone()))
    }

    /// The queue as one that is purged.
    ///
    /// # Errors
    /// It is a stream.
    pub fn check_purge(&self) -> Result<LedgerQueueRef, Refused> {
        self.info().check_purge()?;
        Ok(LedgerQueueRef(self.clone()))
    }
}

impl LedgerQueueRef {
    /// The queue that it was converted to, or itself.
    pub fn newest(&self) -> Self {
        // A conversion makes no stream.
        Self(self.0.newest())
    }

    /// Takes one message that isn't on its way to a consumer. With [`GetOutcome::Wait`], `link` gets
    /// [`Loaded`](leveret_queue::Signal::Loaded) with `key` when it should ask again. An asker that doesn't want its answer any
    /// more calls [`LedgerQueueRef::give_back`].
    pub fn get(&self, automatic_ack: bool, link: &Arc<dyn Link>, key: u64, now: Nanos) -> NowOrLater<GetOutcome> {
        if let Some(placed) = self.0.as_placed() {
            return placed.get(automatic_ack, link, key, now);
        }
        pass!(self.0, queue => match queue.answers_late() {
            false => NowOrLater::Now(queue.get_tapped(automatic_ack, link, key, now)),
            true => {
                let link = link.clone();
                queue.answer_late(move |queue| queue.get_tapped(automatic_ack, &link, key, now))
            }
        }, away => away.get(automatic_ack))
    }

    /// Returns the message of a get whose asker is gone to its place, when the answer comes. One that the queue hands out
    /// acknowledged has left it.
    pub fn give_back(&self, answer: Later<GetOutcome>, automatic_ack: bool, now: Nanos) {
        let queue = self.0.clone();
        answer.then(move |outcome| {
            if let GetOutcome::Message(taken, _) = outcome
                && !automatic_ack
                && !is_planted(Bug::KeepAnswer)
            {
                let unwanted = Settlement::Requeue { failed: false };
                queue.settle(Deliveries::of(None, &[taken.run()]), unwanted, Wait::Lazy, now);
            }
        });
    }

    /// Claims deferred messages for a consumer, see [`leveret_queue::LedgerQueue::claim`].
    pub fn claim(&self, id: ConsumerId, tokens: &[Box<str>]) {
        pass!(self.0, queue => queue.claim(id, tokens), away => {
            away.call(|| CallKind::Claim { id, tokens: tokens.to_vec() });
        });
    }

    /// Adds annotations to messages that a consumer holds, see [`leveret_queue::LedgerQueue::annotate`].
    pub fn annotate(&self, runs: &[Run], added: &Arc<Added>) {
        pass!(self.0, queue => queue.annotate(runs, added), away => {
            away.call(|| CallKind::Annotate { runs: runs.to_vec(), added: added.clone() });
        });
    }

    /// Removes all ready messages.
    pub fn purge(&self, now: Nanos) -> NowOrLater<Removed> {
        self.remove(Removal::Purge, now)
    }

    /// Deletes those of the messages with these numbers that were set aside in this way.
    pub fn drop_set_aside(&self, which: SetAside, first: u64, last: u64, now: Nanos) -> NowOrLater<Removed> {
        self.remove(Removal::SetAside { which, first, last }, now)
    }

    fn remove(&self, what: Removal, now: Nanos) -> NowOrLater<Removed> {
        if let Some(placed) = self.0.as_placed() {
            return placed.remove(what, now);
        }
        pass!(
            self.0,
            queue => queue.asked(|| None, move |queue| Some(what.carry_out(queue, now))),
            away => away.removed(what.question()).map(|count| Some((count?, Ticket::default())))
        )
    }

    /// The refusal for a client whose removal of messages wasn't carried out, as far as this node knows.
    pub fn not_removed(&self) -> Refused {
        let info = self.0.info();
        match self.0.check_runs() {
            Err(text) => Refused::new(RefusedKind::InternalError, text),
            Ok(()) => Refused::no_queue(&info.vhost, &info.name),
        }
    }
}
