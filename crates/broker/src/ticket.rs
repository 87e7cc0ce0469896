//! What an answer waits for that confirms a settlement.

use std::sync::Arc;

use leveret_log::Position;
use leveret_queue::GroupPosition;
use smallvec::SmallVec;

/// A position of the log, and moves of dead letters, which are written by somebody else a moment later.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ticket {
    position: Position,
    moves: SmallVec<[Arc<GroupPosition>; 1]>,
}

impl Ticket {
    /// For what was appended up to here; 0 for nothing.
    pub(crate) fn at(position: Position) -> Self {
        Self { position, moves: SmallVec::new() }
    }

    /// For dead letters that will have been moved.
    pub(crate) fn moved(group: Arc<GroupPosition>) -> Self {
        Self { position: 0, moves: SmallVec::from_iter([group]) }
    }

    /// For both.
    pub(crate) fn join(&mut self, other: Self) {
        self.position = self.position.max(other.position);
        self.moves.extend(other.moves);
    }

    /// What it comes to; None while a move hasn't been written. Its owner is told when it has.
    pub(crate) fn position(&self) -> Option<Position> {
        let moves = self.moves.iter().map(|group| group.position());
        moves.chain([Some(self.position)]).try_fold(0, |last, next| Some(last.max(next?)))
    }

    /// Whether all of it is on disk.
    pub(crate) fn is_durable(&self, durable: Position) -> bool {
        self.position().is_some_and(|position| position <= durable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_durable_with_the_last_of_its_parts() {
        let (one, other) = (Arc::new(GroupPosition::default()), Arc::new(GroupPosition::default()));
        let mut ticket = Ticket::at(5);
        assert!(ticket.is_durable(5) && !ticket.is_durable(4));
        ticket.join(Ticket::moved(one.clone()));
        ticket.join(Ticket::moved(other.clone()));
        one.close(9);
        assert_eq!(ticket.position(), None, "one is open still");
        other.close(0);
        assert_eq!(ticket.position(), Some(9));
    }
}
