//! Answers to unsettled dispositions: a delivery is settled by us once its effect is on disk.

use std::collections::VecDeque;

use leveret_amqp10::{DeliveryState, Serial};
use leveret_log::Position;
use rustc_hash::FxHashMap;

use leveret_broker::ticket::Ticket;

/// Delivery-ids of one link that are answered together.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// What it waits for.
    pub ticket: Ticket,
    pub channel: u16,
    pub handle: u32,
    pub first: Serial,
    pub last: Serial,
    pub state: DeliveryState<'static>,
}

/// See the module; of one connection.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Those that wait for positions, which go up but for those that wait for none.
    placed: VecDeque<Answer>,
    /// Those of each link that wait for dead letters of its queue, which are moved in the order in which they died: the
    /// first is due before the others, so nobody looks at those.
    moving: FxHashMap<(u16, u32), VecDeque<Answer>>,
    /// Those that wait for dead letters of several queues or consumers, which a transaction rejected: in the order of
    /// the discharges, as those are answered.
    discharged: VecDeque<Answer>,
}

impl Answers {
    pub(crate) fn push(&mut self, answer: Answer) {
        if answer.ticket.position().is_some() {
            self.placed.push_back(answer);
        } else if answer.ticket.is_of_many() {
            self.discharged.push_back(answer);
        } else {
            self.moving.entry((answer.channel, answer.handle)).or_default().push_back(answer);
        }
    }

    /// What the next one waits for. A move that isn't written yet has no position; the connection is told of it.
    pub(crate) fn next_position(&self) -> Option<Position> {
        let queues = [&self.placed, &self.discharged].into_iter().chain(self.moving.values());
        queues.filter_map(|answers| answers.front()?.ticket.position()).min()
    }

    /// Takes out what is due at `durable`, side by side what lies side by side.
    pub(crate) fn take_due(&mut self, durable: Position) -> Vec<Answer> {
        let mut due: Vec<Answer> = Vec::new();
        let mut take = |answers: &mut VecDeque<Answer>| {
            while let Some(answer) = answers.pop_front_if(|answer| answer.ticket.is_durable(durable)) {
                due.push(answer);
            }
        };
        take(&mut self.placed);
        take(&mut self.discharged);
        self.moving.retain(|_, answers| {
            take(answers);
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

    /// How many are looked at when a link or session is over.
    pub(crate) fn len(&self) -> usize {
        self.placed.len() + self.discharged.len()
    }

    /// A link is over: its deliveries are somebody else's, and nothing is said of them.
    pub(crate) fn forget_link(&mut self, channel: u16, handle: u32) {
        self.moving.remove(&(channel, handle));
        self.retain(|answer| answer.channel != channel || answer.handle != handle);
    }

    /// A session is over, and all its links with it.
    pub(crate) fn forget_session(&mut self, channel: u16) {
        self.moving.retain(|(other, _), _| *other != channel);
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

    use leveret_queue::GroupPosition;

    use super::*;

    fn answer(ticket: Ticket, handle: u32, first: u32, last: u32) -> Answer {
        Answer { ticket, channel: 0, handle, first: Serial(first), last: Serial(last), state: DeliveryState::Accepted }
    }

    fn ranges(due: &[Answer]) -> Vec<(u32, u32)> {
        due.iter().map(|answer| (answer.first.0, answer.last.0)).collect()
    }

    #[test]
    fn a_move_holds_nobody_else_back() {
        let group = Arc::new(GroupPosition::default());
        let mut answers = Answers::default();
        answers.push(answer(Ticket::moved(group.clone()), 0, 0, 0));
        answers.push(answer(Ticket::at(3), 0, 1, 2));
        answers.push(answer(Ticket::at(3), 1, 3, 3));
        assert_eq!(answers.next_position(), Some(3));
        assert_eq!(ranges(&answers.take_due(2)), []);
        assert_eq!(ranges(&answers.take_due(3)), [(1, 3)]);
        group.close(4);
        assert_eq!(answers.next_position(), Some(4));
        assert_eq!(ranges(&answers.take_due(3)), []);
        assert_eq!(ranges(&answers.take_due(4)), [(0, 0)]);
    }

    #[test]
    fn of_each_link_only_the_first_move_is_looked_at() {
        let groups: Vec<Arc<GroupPosition>> = (0..3).map(|_| Arc::default()).collect();
        let mut answers = Answers::default();
        for (id, group) in groups.iter().enumerate() {
            answers.push(answer(Ticket::moved(group.clone()), id as u32 / 2, id as u32, id as u32));
        }
        // As its own queue never closes them: behind the first nobody looks.
        groups[1].close(1);
        assert_eq!((answers.next_position(), answers.take_due(1).len()), (None, 0));
        groups[2].close(2);
        assert_eq!(ranges(&answers.take_due(2)), [(2, 2)], "another link is another queue");
        groups[0].close(1);
        assert_eq!(ranges(&answers.take_due(1)), [(0, 1)]);
        assert!(answers.moving.is_empty());
    }

    #[test]
    fn a_transaction_of_several_queues_holds_up_no_link() {
        let groups: Vec<Arc<GroupPosition>> = (0..3).map(|_| Arc::default()).collect();
        let both = Ticket::all(groups[..2].iter().cloned().map(Ticket::moved));
        let mut answers = Answers::default();
        answers.push(answer(both.clone(), 0, 0, 0));
        answers.push(answer(both, 1, 1, 1));
        answers.push(answer(Ticket::moved(groups[2].clone()), 0, 2, 2));
        groups[0].close(1);
        groups[2].close(2);
        assert_eq!(ranges(&answers.take_due(2)), [(2, 2)]);
        groups[1].close(3);
        answers.forget_link(0, 1);
        assert_eq!(answers.next_position(), Some(3));
        assert_eq!(ranges(&answers.take_due(3)), [(0, 0)]);
    }

    #[test]
    fn a_link_takes_its_answers_with_it() {
        let mut answers = Answers::default();
        answers.push(answer(Ticket::at(1), 0, u32::MAX, u32::MAX));
        answers.push(answer(Ticket::at(1), 1, 0, 0));
        answers.push(answer(Ticket::moved(Arc::default()), 1, 1, 1));
        answers.forget_link(0, 1);
        assert_eq!(ranges(&answers.take_due(1)), [(u32::MAX, u32::MAX)]);
        assert!(answers.moving.is_empty());
    }
}
