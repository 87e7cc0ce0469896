//! Settlements that came in one read, until they are handed to their queues together.

use std::sync::Arc;

use leveret_amqp10::{DeliveryState, Serial};
use leveret_message::Added;
use leveret_queue::{ConsumerId, Run, push_sized};
use rustc_hash::FxHashMap;

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::settlement::Settlement;

/// Deliveries of one link with the same settlement, collected until the read's frames are used up.
pub(crate) struct LinkSettlement {
    pub queue: QueueRef,
    pub consumer: ConsumerId,
    pub settlement: Settlement,
    /// Annotations that messages get that go back.
    pub added: Option<Arc<Added>>,
    pub runs: Vec<Run>,
    /// The deliveries for which the client waits for our answer.
    pub asked: Asked,
}

/// Deliveries of one link that the client didn't settle itself. Our answer settles them when their settlement is
/// durable.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub channel: u16,
    pub handle: u32,
    /// First and last of each run.
    pub ids: Vec<(Serial, Serial)>,
    /// The state that the answer repeats.
    pub state: DeliveryState<'static>,
}

impl Asked {
    /// Whether they belong to this link.
    pub(crate) fn is_of(&self, channel: u16, handle: u32) -> bool {
        self.channel == channel && self.handle == handle
    }

    /// Whether both belong to the same link and have the same answer.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.is_of(other.channel, other.handle) && self.state == other.state
    }

    /// Adds the other's deliveries.
    pub(crate) fn extend(&mut self, other: Self) {
        for (first, last) in other.ids {
            match self.ids.last_mut().filter(|(_, before)| before.next() == first) {
                Some((_, before)) => *before = last,
                None => self.ids.push((first, last)),
            }
        }
    }

    /// Requeues the deliveries in place.
    pub(crate) fn release(&mut self) {
        self.state = DeliveryState::Released;
    }

    /// Removes all deliveries.
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
    }
}

/// Settlements, ordered by the first one of each consumer.
#[derive(Default)]
pub(crate) struct Settlements {
    all: Vec<LinkSettlement>,
    /// Index of the last settlement of each consumer.
    last: FxHashMap<ConsumerId, usize>,
}

impl Settlements {
    pub(super) fn add(&mut self, added: LinkSettlement) {
        let LinkSettlement { consumer, settlement, .. } = added;
        let last = match self.all.last() {
            Some(last) if last.consumer == consumer => Some(self.all.len() - 1),
            _ => self.last.get(&consumer).copied(),
        };
        if let Some(same) = last.map(|at| &mut self.all[at])
            && same.settlement == settlement
            && same.added.is_none()
            && added.added.is_none()
            && same.asked.state == added.asked.state
        {
            added.runs.into_iter().for_each(|run| push_sized(&mut same.runs, run));
            same.asked.extend(added.asked);
            return;
        }
        self.last.insert(consumer, self.all.len());
        self.all.push(added);
    }

    pub(super) fn take(&mut self) -> Vec<LinkSettlement> {
        self.last.clear();
        std::mem::take(&mut self.all)
    }
}
