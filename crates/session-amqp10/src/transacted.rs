//! Deliveries that a client settled in a transaction, until its discharge.

use leveret_queue::{ConsumerId, Run, push_sized};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::settlements::Asked;
use leveret_broker::settlement::Settlement;

/// Deliveries of one link with the same settlement and the same answer.
pub(crate) struct Settled<Q> {
    pub queue: Q,
    pub consumer: ConsumerId,
    pub runs: Vec<Run>,
    pub settlement: Settlement,
    /// The deliveries for which the client waits for our answer, which is sent with the discharge.
    pub asked: Asked,
}

/// The deliveries settled in one transaction. Deliveries with the same settlement are one entry, however many
/// dispositions they take: each entry becomes a step of the commit.
pub(crate) struct Transacted<Q> {
    settled: Vec<Settled<Q>>,
    /// Indexes of each consumer's entries: at most as many as there are outcomes.
    places: FxHashMap<ConsumerId, SmallVec<[usize; 2]>>,
    /// Total number of deliveries.
    count: u64,
}

impl<Q> Default for Transacted<Q> {
    fn default() -> Self {
        Self { settled: Vec::new(), places: FxHashMap::default(), count: 0 }
    }
}

impl<Q> Transacted<Q> {
    pub(crate) fn add(&mut self, settled: Settled<Q>) {
        self.count += settled.runs.iter().map(Run::count).sum::<u64>();
        let places = self.places.entry(settled.consumer).or_default();
        let same = |at: &&usize| {
            let other = &self.settled[**at];
            other.settlement == settled.settlement && other.asked.is_like(&settled.asked)
        };
        if let Some(at) = places.iter().find(same) {
            let other = &mut self.settled[*at];
            settled.runs.into_iter().for_each(|run| push_sized(&mut other.runs, run));
            other.asked.extend(settled.asked);
        } else {
            places.push(self.settled.len());
            self.settled.push(settled);
        }
    }

    /// Number of deliveries.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Drops the answers of a receiver's link that has ended.
    pub(crate) fn forget_link(&mut self, channel: u16, handle: u32) {
        let settled = self.settled.iter_mut().filter(|settled| settled.asked.is_of(channel, handle));
        settled.for_each(|settled| settled.asked.clear());
    }

    /// The entries, ordered by the first settlement of each.
    pub(crate) fn into_settled(self) -> Vec<Settled<Q>> {
        self.settled
    }
}

#[cfg(test)]
mod tests {
    use leveret_amqp10::{DeliveryState, Serial};

    use super::*;

    fn settled(consumer: u64, number: u64, settlement: Settlement, state: DeliveryState<'static>) -> Settled<()> {
        let id = Serial(number as u32);
        Settled {
            queue: (),
            consumer: ConsumerId(consumer),
            runs: vec![Run { first: number, last: number, bytes: 1, durable: true }],
            settlement,
            asked: Asked { channel: 0, handle: consumer as u32, ids: vec![(id, id)], state },
        }
    }

    #[test]
    fn deliveries_with_the_same_settlement_are_one_entry() {
        let mut transacted = Transacted::default();
        for number in 0..100 {
            transacted.add(settled(
                0,
                number,
                Settlement::Reject { failed: true },
                DeliveryState::Rejected { error: None },
            ));
            transacted.add(settled(1, number, Settlement::Acknowledge, DeliveryState::Accepted));
        }
        transacted.add(settled(0, 200, Settlement::Acknowledge, DeliveryState::Accepted));
        assert_eq!(transacted.count(), 201);
        let all = transacted.into_settled();
        let shape = all.iter().map(|one| (one.consumer.0, one.settlement, one.runs.len(), one.asked.ids.clone()));
        let range = vec![(Serial(0), Serial(99))];
        assert_eq!(
            shape.collect::<Vec<_>>(),
            [
                (0, Settlement::Reject { failed: true }, 1, range.clone()),
                (1, Settlement::Acknowledge, 1, range),
                (0, Settlement::Acknowledge, 1, vec![(Serial(200), Serial(200))]),
            ]
        );
    }

    #[test]
    fn each_answer_is_an_entry_of_its_own() {
        let mut transacted = Transacted::default();
        let modified =
            DeliveryState::Modified { delivery_failed: true, undeliverable_here: true, message_annotations: None };
        for number in 0..4 {
            let state = if number < 2 { DeliveryState::Rejected { error: None } } else { modified };
            transacted.add(settled(0, number, Settlement::Reject { failed: true }, state));
        }
        transacted.forget_link(0, 1);
        assert_eq!(transacted.into_settled().iter().map(|one| one.asked.ids.len()).collect::<Vec<_>>(), [1, 1]);
    }
}
