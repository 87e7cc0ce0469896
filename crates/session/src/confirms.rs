//! Publisher confirms: each publish of a channel is answered once, when what it waits for has been reached.
//!
//! Positions of one channel never go back, since there is one commit stream and a publish that touches
//! no log stands behind its predecessors; so one queue of runs is enough.

use std::collections::VecDeque;

use leveret_broker::awaited::{Awaited, Reached};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    last: u64,
    awaited: Awaited,
    accepted: bool,
}

/// One answer: `basic.ack` or `basic.nack` (specification of the confirm extension).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirm {
    /// Sequence number of the publish, counted from 1 after `confirm.select`.
    pub sequence: u64,
    /// It answers for all unanswered ones before it, too.
    pub multiple: bool,
    /// Ack or nack.
    pub accepted: bool,
}

/// The unanswered publishes of one channel.
#[derive(Debug, Default)]
pub struct Confirms {
    published: u64,
    answered: u64,
    runs: VecDeque<Run>,
}

impl Confirms {
    /// Enters `count` publishes that share their fate.
    pub fn publish(&mut self, count: u64, awaited: Awaited, accepted: bool) {
        if count == 0 {
            return;
        }
        self.published += count;
        let awaited = awaited.behind(self.runs.back().map_or(Awaited::default(), |run| run.awaited));
        match self.runs.back_mut() {
            Some(run) if run.awaited == awaited && run.accepted == accepted => run.last = self.published,
            _ => self.runs.push_back(Run { last: self.published, awaited, accepted }),
        }
    }

    /// How many wait.
    pub fn unanswered(&self) -> u64 {
        self.published - self.answered
    }

    /// The next answer that is due.
    pub fn next(&mut self, reached: Reached) -> Option<Confirm> {
        let first = self.runs.front().copied().filter(|run| run.awaited.is_reached(reached))?;
        let mut last = first.last;
        self.runs.pop_front();
        let joins = |run: &mut Run| run.awaited.is_reached(reached) && run.accepted == first.accepted;
        while let Some(run) = self.runs.pop_front_if(joins) {
            last = run.last;
        }
        let multiple = last - self.answered > 1;
        self.answered = last;
        Some(Confirm { sequence: last, multiple, accepted: first.accepted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(durable: u64) -> Reached {
        Reached { written: durable, durable }
    }

    #[test]
    fn what_has_to_be_written_only_waits_for_what_came_before_it() {
        let mut confirms = Confirms::default();
        let os = |position| Awaited { position, written: true };
        confirms.publish(1, os(3), true);
        confirms.publish(1, Awaited::default(), true);
        confirms.publish(1, Awaited::durable(4), true);
        confirms.publish(1, os(5), true);
        let ack = |sequence, multiple| Some(Confirm { sequence, multiple, accepted: true });
        assert_eq!(confirms.next(Reached { written: 5, durable: 2 }), ack(2, true));
        assert_eq!(confirms.next(Reached { written: 5, durable: 3 }), None, "one before it has to be durable");
        assert_eq!(confirms.next(Reached { written: 5, durable: 4 }), ack(4, true));
    }

    #[test]
    fn nothing_is_confirmed_before_it_is_durable() {
        let mut confirms = Confirms::default();
        confirms.publish(3, Awaited::durable(10), true);
        confirms.publish(1, Awaited::durable(0), true);
        assert_eq!(confirms.next(at(9)), None, "one without a position stands behind its predecessors");
        assert_eq!(confirms.next(at(10)), Some(Confirm { sequence: 4, multiple: true, accepted: true }));
        assert_eq!(confirms.next(at(10)), None);
        assert_eq!(confirms.unanswered(), 0);
    }

    #[test]
    fn what_waits_for_another_position_than_those_before_it_waits_for_that_and_for_them() {
        let mut confirms = Confirms::default();
        confirms.publish(1, Awaited { position: 243, written: true }, true);
        // Volatile, behind a message that isn't durable.
        confirms.publish(1, Awaited::durable(232), true);
        assert_eq!(confirms.next(Reached { written: 240, durable: 234 }), None);
        let both = Confirm { sequence: 2, multiple: true, accepted: true };
        assert_eq!(confirms.next(Reached { written: 243, durable: 234 }), Some(both), "243 needn't be durable");
    }

    #[test]
    fn refused_ones_are_answered_apart() {
        let mut confirms = Confirms::default();
        confirms.publish(2, Awaited::durable(5), true);
        confirms.publish(1, Awaited::durable(5), false);
        confirms.publish(1, Awaited::durable(6), true);
        assert_eq!(confirms.next(at(6)), Some(Confirm { sequence: 2, multiple: true, accepted: true }));
        assert_eq!(confirms.next(at(6)), Some(Confirm { sequence: 3, multiple: false, accepted: false }));
        assert_eq!(confirms.next(at(6)), Some(Confirm { sequence: 4, multiple: false, accepted: true }));
        assert_eq!(confirms.next(at(6)), None);
    }

    #[test]
    fn what_becomes_durable_together_is_answered_together() {
        let mut confirms = Confirms::default();
        for position in 1..=100 {
            confirms.publish(1, Awaited::durable(position), true);
        }
        assert_eq!(confirms.next(at(40)), Some(Confirm { sequence: 40, multiple: true, accepted: true }));
        assert_eq!(confirms.unanswered(), 60);
    }
}
