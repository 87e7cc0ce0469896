//! The messages that clients of a cluster's members hold of a placement's queues, as the members said it to a new leader.
//!
//! The leader's machines don't hand these messages out. When a member registers its consumers, each part goes over to the consumer that has
//! it; what is left after a while goes back to its queue.

use std::collections::BTreeMap;

use leveret_model::{MemberNumber, QueueId};
use leveret_queue::{HeldSet, Run};
use parking_lot::Mutex;

use crate::claims::Claims;

/// The messages that the clients of a member hold, by queue.
pub type HeldOfMember = Vec<(QueueId, Claims)>;

/// The messages that members reported and no consumer has taken over yet.
#[derive(Default)]
pub(crate) struct HeldReports(Mutex<BTreeMap<(QueueId, MemberNumber), HeldSet>>);

impl HeldReports {
    /// A member reported these of a queue.
    pub(crate) fn put(&self, queue: QueueId, member: MemberNumber, runs: Vec<Run>) {
        if !runs.is_empty() {
            self.0.lock().entry((queue, member)).or_default().add(runs);
        }
    }

    /// A consumer of the member comes with these messages. Returns those of them that were reported and are still there.
    pub(crate) fn take(&self, queue: QueueId, member: MemberNumber, runs: &[Run]) -> Vec<Run> {
        let mut reports = self.0.lock();
        let Some(held) = reports.get_mut(&(queue, member)) else { return Vec::new() };
        let taken = held.remove(runs);
        if held.is_empty() {
            reports.remove(&(queue, member));
        }
        taken
    }

    /// Takes what is left of members for which `is_over`.
    pub(crate) fn take_left(&self, is_over: impl Fn(MemberNumber) -> bool) -> Vec<(QueueId, Vec<Run>)> {
        let mut reports = self.0.lock();
        let over: Vec<_> = reports.keys().copied().filter(|(_, member)| is_over(*member)).collect();
        let left = over.into_iter().filter_map(|key| Some((key.0, reports.remove(&key)?.take_all())));
        left.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueId = QueueId(7);
    const ONE: MemberNumber = MemberNumber(1);
    const TWO: MemberNumber = MemberNumber(2);

    fn run(first: u64, last: u64) -> Run {
        Run { first, last, bytes: 10 * (last - first + 1), durable: true }
    }

    fn numbers(runs: &[Run]) -> Vec<(u64, u64)> {
        runs.iter().map(|run| (run.first, run.last)).collect()
    }

    #[test]
    fn a_message_is_taken_over_once_and_by_its_member() {
        let reports = HeldReports::default();
        reports.put(QUEUE, ONE, vec![run(1, 9)]);
        assert_eq!(numbers(&reports.take(QUEUE, TWO, &[run(1, 9)])), []);
        assert_eq!(numbers(&reports.take(QUEUE, ONE, &[run(3, 4)])), [(3, 4)]);
        assert_eq!(numbers(&reports.take(QUEUE, ONE, &[run(1, 5)])), [(1, 2), (5, 5)]);
        let left = reports.take_left(|member| member == ONE);
        assert_eq!(
            left.iter().map(|(queue, runs)| (*queue, numbers(runs))).collect::<Vec<_>>(),
            [(QUEUE, vec![(6, 9)])]
        );
        assert!(reports.take_left(|_| true).is_empty());
    }
}
