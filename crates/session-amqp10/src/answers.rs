//! Answers to unsettled dispositions: we settle a delivery once the disposition's effect is on disk.

use std::collections::VecDeque;

use leveret_amqp10::{DeliveryState, Serial};
use rustc_hash::FxHashMap;

use leveret_broker::streams::waits::InOrder;
use leveret_broker::ticket::Awaited;
use leveret_broker::wait_for::{Reached, WaitEnd, WaitFor};

/// Delivery-ids of one link that are answered together.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The position that the answer waits for.
    pub wait: WaitFor,
    pub channel: u16,
    pub handle: u32,
    pub first: Serial,
    pub last: Serial,
    pub state: DeliveryState<'static>,
}

/// The answers of one connection that wait.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Answers that wait for positions of the commit streams.
    placed: InOrder<Answer>,
    /// Answers of each link that wait for dead letters of its queue to be moved, and apart from them those that wait for other decisions to be
    /// carried out by another node. Both are in the order in which they are made, so only the first of them can be due and has to be checked.
    moving: FxHashMap<(u16, u32, bool), VecDeque<Answer>>,
    /// Answers that wait for dead letters of several queues or consumers that a transaction rejected, in the order of
    /// the discharges, in which they are answered.
    discharged: InOrder<Answer>,
}

impl Answers {
    pub(crate) fn push(&mut self, answer: Answer) {
        if !answer.wait.is_moving() {
            self.placed.push(answer.wait.clone(), answer);
        } else if answer.wait.is_of_many() {
            self.discharged.push(answer.wait.clone(), answer);
        } else {
            let is_rejected = matches!(answer.state, DeliveryState::Rejected { .. });
            self.moving.entry((answer.channel, answer.handle, is_rejected)).or_default().push_back(answer);
        }
    }

    /// Whether none waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.discharged.is_empty() && self.moving.is_empty()
    }

    /// The positions that the next answers wait for. A move that isn't written yet has none; it notifies the
    /// connection.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Awaited> {
        let moving = self.moving.values().filter_map(|answers| answers.front()?.wait.first_awaited());
        self.placed.awaited().chain(self.discharged.awaited()).chain(moving)
    }

    /// Takes out the answers that are due; adjacent ones are merged. A settlement whose log left isn't answered: its link ends, since
    /// its queue is gone.
    pub(crate) fn take_due(&mut self, reached: &impl Reached) -> Vec<Answer> {
        let mut due: Vec<Answer> = Vec::new();
        let answered = |(answer, end): (Answer, WaitEnd)| end.is_reached().then_some(answer);
        due.extend(std::iter::from_fn(|| self.placed.pop(reached)).filter_map(answered));
        due.extend(std::iter::from_fn(|| self.discharged.pop(reached)).filter_map(answered));
        self.moving.retain(|_, answers| {
            while let Some(end) = answers.front().and_then(|answer| answer.wait.end(reached)) {
                due.extend(answers.pop_front().filter(|_| end.is_reached()));
            }
            !answers.is_empty()
        });
        // All ids of a session that can be open together lie within half of the number space.
        due.sort_by(|a, b| a.channel.cmp(&b.channel).then(a.first.distance_from(b.first).cmp(&0)));
        due.dedup_by(|next, last| {
            let joins = last.channel == next.channel && last.last.next() == next.first && last.state == next.state;
            if joins {
                last.last = next.last;
            }
            joins
        });
        due
    }

    /// Number of answers that are checked when a link or session ends.
    pub(crate) fn len(&self) -> usize {
        self.placed.len() + self.discharged.len()
    }

    /// Drops the answers of a link that has ended: its deliveries belong to other consumers now.
    pub(crate) fn forget_link(&mut self, channel: u16, handle: u32) {
        [true, false].into_iter().for_each(|is_rejected| _ = self.moving.remove(&(channel, handle, is_rejected)));
        self.retain(|answer| answer.channel != channel || answer.handle != handle);
    }

    /// Drops the answers of a session that has ended, with all its links.
    pub(crate) fn forget_session(&mut self, channel: u16) {
        self.moving.retain(|(other, ..), _| *other != channel);
        self.retain(|answer| answer.channel != channel);
    }

    fn retain(&mut self, stays: impl Fn(&Answer) -> bool) {
        self.placed.retain(&stays);
        self.discharged.retain(&stays);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leveret_queue::{GroupPlace, Place, Watermarks};

    use super::*;
    use leveret_broker::ticket::{StreamId, Ticket};

    fn at(number: u64) -> WaitFor {
        Ticket::new(StreamId::LOCAL, Place::new(number)).into()
    }

    fn moved(group: Arc<GroupPlace>) -> WaitFor {
        WaitFor::moved(StreamId::LOCAL, group)
    }

    fn durable(number: u64) -> impl Reached {
        move |_| Some(Watermarks::synced(Place::new(number)))
    }

    /// The first position that an answer waits for.
    fn next(answers: &Answers) -> Option<u64> {
        answers.awaited().map(|awaited| awaited.place().number()).min()
    }

    fn answer(wait: WaitFor, handle: u32, first: u32, last: u32) -> Answer {
        Answer { wait, channel: 0, handle, first: Serial(first), last: Serial(last), state: DeliveryState::Accepted }
    }

    fn ranges(due: &[Answer]) -> Vec<(u32, u32)> {
        due.iter().map(|answer| (answer.first.0, answer.last.0)).collect()
    }

    #[test]
    fn a_move_delays_no_other_answers() {
        let group = Arc::new(GroupPlace::default());
        let mut answers = Answers::default();
        answers.push(answer(moved(group.clone()), 0, 0, 0));
        answers.push(answer(at(3), 0, 1, 2));
        answers.push(answer(at(3), 1, 3, 3));
        assert_eq!(next(&answers), Some(3));
        assert_eq!(ranges(&answers.take_due(&durable(2))), []);
        assert_eq!(ranges(&answers.take_due(&durable(3))), [(1, 3)]);
        group.close(Place::new(4));
        assert_eq!(next(&answers), Some(4));
        assert_eq!(ranges(&answers.take_due(&durable(3))), []);
        assert_eq!(ranges(&answers.take_due(&durable(4))), [(0, 0)]);
    }

    #[test]
    fn only_the_first_move_of_each_link_is_checked() {
        let groups: Vec<Arc<GroupPlace>> = (0..3).map(|_| Arc::default()).collect();
        let mut answers = Answers::default();
        for (id, group) in groups.iter().enumerate() {
            answers.push(answer(moved(group.clone()), id as u32 / 2, id as u32, id as u32));
        }
        // A queue never closes its groups in this order, but the test shows that only the first one is checked.
        groups[1].close(Place::new(1));
        assert_eq!((next(&answers), answers.take_due(&durable(1)).len()), (None, 0));
        groups[2].close(Place::new(2));
        assert_eq!(ranges(&answers.take_due(&durable(2))), [(2, 2)], "another link is another queue");
        groups[0].close(Place::new(1));
        assert_eq!(ranges(&answers.take_due(&durable(1))), [(0, 1)]);
        assert!(answers.moving.is_empty());
    }

    #[test]
    fn a_transaction_of_several_queues_holds_up_no_link() {
        let groups: Vec<Arc<GroupPlace>> = (0..3).map(|_| Arc::default()).collect();
        let both = WaitFor::all(groups[..2].iter().cloned().map(moved));
        let mut answers = Answers::default();
        answers.push(answer(both.clone(), 0, 0, 0));
        answers.push(answer(both, 1, 1, 1));
        answers.push(answer(moved(groups[2].clone()), 0, 2, 2));
        groups[0].close(Place::new(1));
        groups[2].close(Place::new(2));
        assert_eq!(ranges(&answers.take_due(&durable(2))), [(2, 2)]);
        groups[1].close(Place::new(3));
        answers.forget_link(0, 1);
        assert_eq!(next(&answers), Some(3));
        assert_eq!(ranges(&answers.take_due(&durable(3))), [(0, 0)]);
    }

    #[test]
    fn a_link_that_ends_drops_its_answers() {
        let mut answers = Answers::default();
        answers.push(answer(at(1), 0, u32::MAX, u32::MAX));
        answers.push(answer(at(1), 1, 0, 0));
        answers.push(answer(moved(Arc::default()), 1, 1, 1));
        answers.forget_link(0, 1);
        assert_eq!(ranges(&answers.take_due(&durable(1))), [(u32::MAX, u32::MAX)]);
        assert!(answers.moving.is_empty());
    }
}
