//! A queue that is converted: another handle takes over its messages and its log, see [`leveret_queue::LedgerQueue::convert`].

use std::sync::Arc;

use leveret_model::{Durability, EarlierPriorities, EffectiveQueue, Queue as QueueInfo, QueueType, Refused};
use leveret_queue::{Effects, NotConverted};

use super::{LocalQueue, QueueHandle, QueueRef};
use crate::services::Services;
use crate::ticket::Ticket;
use crate::time::Nanos;

/// The queue that another one is to become.
pub(crate) struct Successor {
    pub(crate) info: Arc<QueueInfo>,
    pub(crate) effective: EffectiveQueue,
    /// The record of the conversion, if the queue survives a restart.
    pub(crate) record: Option<Vec<u8>>,
}

/// The reason why a queue wasn't converted.
pub(crate) enum Unconverted {
    /// The model refused it.
    Refused(Refused),
    /// Its messages don't fit, or not now.
    NotConverted(NotConverted),
    /// Its messages are only in memory, and those of the other queue would have to be on disk.
    OnlyInMemory,
}

impl From<NotConverted> for Unconverted {
    fn from(reason: NotConverted) -> Self {
        Self::NotConverted(reason)
    }
}

impl QueueHandle {
    /// Converts the queue to what `prepare` returns for the priorities that its messages have so far, unless that is nothing. `log`
    /// appends the record of it under the lock; without `log`, everything is only checked. From then on this handle forwards publishes, and
    /// everything else that somebody may ask who found it by the queue's name, to the new one; a consumer or a get asks the
    /// [newest](QueueRef::newest) one itself, since settlements go where deliveries came from. Its consumers are notified by [`QueueHandle::retire`].
    pub(crate) fn convert(
        self: &Arc<Self>,
        services: &Services,
        now: Nanos,
        prepare: impl FnOnce(EarlierPriorities) -> Result<Option<Successor>, Refused>,
        log: Option<impl FnOnce(Option<&[u8]>) -> Ticket>,
    ) -> Result<Option<(QueueRef, Ticket)>, Unconverted> {
        self.apply();
        let mut effects = Effects::default();
        let (successor, ticket) = {
            let mut queue = self.inner.lock();
            let levels = queue.ledger().map(|ledger| (ledger.next_number(), ledger.priority_levels()));
            let (below, (default, max)) = levels.unwrap_or_default();
            let earlier = EarlierPriorities { below, default, max };
            let prepared = prepare(earlier).map_err(Unconverted::Refused)?;
            let Some(Successor { info, effective, record }) = prepared else { return Ok(None) };
            let options = effective.options(&info).clone();
            let ledger = queue.ledger_mut().filter(|_| options.queue_type != QueueType::Stream);
            let ledger = ledger.ok_or(NotConverted::Stream)?;
            ledger.check_conversion(&options)?;
            let durability = info.durability(services.durability);
            if !self.is_durable() && durability != Durability::Memory && ledger.gauges().messages() > 0 {
                return Err(Unconverted::OnlyInMemory);
            }
            let Some(log) = log else { return Ok(None) };
            let ticket = log(record.as_deref());
            let is_logged = durability != Durability::Memory || self.is_durable();
            let surroundings = Self::surroundings(services);
            let (machine, attempts) = ledger.convert(options, is_logged, surroundings, now, &mut effects);
            let successor = Self::with_machine(
                info,
                effective,
                machine.into(),
                services,
                (self.stream.clone(), self.store.clone()),
            );
            successor.last_record.set(self.last_record.get());
            successor.log_attempts(&attempts);
            let mut watchers = self.watchers.lock();
            assert!(self.successor.set(successor.clone()).is_ok(), "a queue is converted once");
            *successor.watchers.lock() = std::mem::take(&mut watchers);
            drop(watchers);
            self.place.write(&queue.gauges());
            (successor, ticket)
        };
        effects.fire();
        successor.with_ledger(|queue, effects| queue.converted(effects));
        Ok(Some((QueueRef::from(successor), ticket)))
    }

    /// The handle that took over its messages, if it was converted.
    pub(crate) fn successor(&self) -> Option<&LocalQueue> {
        self.successor.get()
    }

    /// Its conversion is durable: notifies consumers, and frees its memory.
    pub(crate) fn retire(self: &Arc<Self>) {
        self.with(|queue, effects| queue.delete(effects));
        self.place.vacate();
        self.deferred.forget(self);
        self.reads.dead_letters_left();
    }
}
