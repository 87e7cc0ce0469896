//! Publisher confirms: each publish of a channel is answered once, when its position is durable.
//!
//! Positions of one channel never go back, since there is one commit stream and a publish that touches
//! no log stands behind its predecessors; so one queue of runs is enough.

use std::collections::VecDeque;

use leveret_log::Position;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    last: u64,
    position: Position,
    accepted: bool,
}

/// One answer: `basic.ack` or `basic.nack` (specification of the confirm extension).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Confirm {
    /// Sequence number of the publish, counted from 1 after `confirm.select`.
    pub(crate) sequence: u64,
    /// It answers for all unanswered ones before it, too.
    pub(crate) multiple: bool,
    /// Ack or nack.
    pub(crate) accepted: bool,
}

/// The unanswered publishes of one channel.
#[derive(Debug, Default)]
pub(crate) struct Confirms {
    published: u64,
    answered: u64,
    runs: VecDeque<Run>,
}

impl Confirms {
    /// Enters `count` publishes that share their fate.
    pub(crate) fn publish(&mut self, count: u64, position: Position, accepted: bool) {
        if count == 0 {
            return;
        }
        self.published += count;
        let position = position.max(self.runs.back().map_or(0, |run| run.position));
        match self.runs.back_mut() {
            Some(run) if run.position == position && run.accepted == accepted => run.last = self.published,
            _ => self.runs.push_back(Run { last: self.published, position, accepted }),
        }
    }

    /// How many wait.
    pub(crate) fn unanswered(&self) -> u64 {
        self.published - self.answered
    }

    /// The next answer that is due at `durable`.
    pub(crate) fn next(&mut self, durable: Position) -> Option<Confirm> {
        let first = self.runs.front().copied().filter(|run| run.position <= durable)?;
        let mut last = first.last;
        self.runs.pop_front();
        while let Some(run) = self.runs.pop_front_if(|run| run.position <= durable && run.accepted == first.accepted) {
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

    #[test]
    fn nothing_is_confirmed_before_it_is_durable() {
        let mut confirms = Confirms::default();
        confirms.publish(3, 10, true);
        confirms.publish(1, 0, true);
        assert_eq!(confirms.next(9), None, "one without a position stands behind its predecessors");
        assert_eq!(confirms.next(10), Some(Confirm { sequence: 4, multiple: true, accepted: true }));
        assert_eq!(confirms.next(10), None);
        assert_eq!(confirms.unanswered(), 0);
    }

    #[test]
    fn refused_ones_are_answered_apart() {
        let mut confirms = Confirms::default();
        confirms.publish(2, 5, true);
        confirms.publish(1, 5, false);
        confirms.publish(1, 6, true);
        assert_eq!(confirms.next(6), Some(Confirm { sequence: 2, multiple: true, accepted: true }));
        assert_eq!(confirms.next(6), Some(Confirm { sequence: 3, multiple: false, accepted: false }));
        assert_eq!(confirms.next(6), Some(Confirm { sequence: 4, multiple: false, accepted: true }));
        assert_eq!(confirms.next(6), None);
    }

    #[test]
    fn what_becomes_durable_together_is_answered_together() {
        let mut confirms = Confirms::default();
        for position in 1..=100 {
            confirms.publish(1, position, true);
        }
        assert_eq!(confirms.next(40), Some(Confirm { sequence: 40, multiple: true, accepted: true }));
        assert_eq!(confirms.unanswered(), 60);
    }
}
