//! What an answer waits for that confirms a settlement.

use std::sync::Arc;

use leveret_log::Position;
use leveret_queue::GroupPosition;
use parking_lot::Mutex;

/// A position of the log, and moves of dead letters, which are written by somebody else a moment later. Whoever waits
/// for the same holds the same: a clone costs nothing, however many moves there are.
#[derive(Debug, Clone, Default)]
pub struct Ticket {
    position: Position,
    moves: Moves,
}

#[derive(Debug, Clone, Default)]
enum Moves {
    #[default]
    None,
    One(Arc<GroupPosition>),
    Many(Arc<Many>),
}

#[derive(Debug)]
struct Many {
    groups: Vec<Arc<GroupPosition>>,
    written: Mutex<Written>,
}

/// How far somebody has seen the moves to be written: nobody looks at those again.
#[derive(Debug, Default)]
struct Written {
    count: usize,
    last: Position,
}

impl Many {
    fn position(&self) -> Option<Position> {
        let mut written = self.written.lock();
        while let Some(group) = self.groups.get(written.count) {
            written.last = written.last.max(group.position()?);
            written.count += 1;
        }
        Some(written.last)
    }
}

impl Ticket {
    /// For what was appended up to here; 0 for nothing.
    pub fn at(position: Position) -> Self {
        Self { position, moves: Moves::None }
    }

    /// For dead letters that will have been moved.
    pub fn moved(group: Arc<GroupPosition>) -> Self {
        Self { position: 0, moves: Moves::One(group) }
    }

    /// For all of these.
    pub fn all(tickets: impl IntoIterator<Item = Self>) -> Self {
        let (mut position, mut groups) = (0, Vec::new());
        for ticket in tickets {
            position = position.max(ticket.position);
            match ticket.moves {
                Moves::None => {}
                Moves::One(group) => groups.push(group),
                Moves::Many(many) => groups.extend_from_slice(&many.groups),
            }
        }
        let moves = match groups.len() {
            0 => Moves::None,
            1 => groups.pop().map_or(Moves::None, Moves::One),
            _ => Moves::Many(Arc::new(Many { groups, written: Mutex::default() })),
        };
        Self { position, moves }
    }

    /// Whether it waits for moves of more than one queue or consumer, each of which has its own pace.
    pub fn is_of_many(&self) -> bool {
        matches!(self.moves, Moves::Many(_))
    }

    /// What it comes to; None while a move hasn't been written. Its owner is told when it has.
    pub fn position(&self) -> Option<Position> {
        let moved = match &self.moves {
            Moves::None => 0,
            Moves::One(group) => group.position()?,
            Moves::Many(many) => many.position()?,
        };
        Some(moved.max(self.position))
    }

    /// Whether all of it is on disk.
    pub fn is_durable(&self, durable: Position) -> bool {
        self.position().is_some_and(|position| position <= durable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> [Arc<GroupPosition>; 2] {
        [Arc::default(), Arc::default()]
    }

    #[test]
    fn it_is_durable_with_the_last_of_its_parts() {
        let [one, other] = groups();
        let ticket = Ticket::at(5);
        assert!(ticket.is_durable(5) && !ticket.is_durable(4));
        let ticket = Ticket::all([ticket, Ticket::moved(one.clone()), Ticket::moved(other.clone())]);
        other.close(9);
        assert_eq!(ticket.position(), None, "one is open still");
        one.close(0);
        assert_eq!(ticket.position(), Some(9));
        let later = Ticket::all([Ticket::at(11), ticket]);
        assert_eq!(later.position(), Some(11));
    }

    #[test]
    fn whoever_waits_for_the_same_shares_its_moves() {
        let [one, other] = groups();
        let ticket = Ticket::all([Ticket::moved(one.clone()), Ticket::moved(other)]);
        let clones = vec![ticket.clone(); 100];
        assert_eq!(Arc::strong_count(&one), 2);
        one.close(1);
        assert!(clones.iter().all(|clone| clone.position().is_none()));
        let Moves::Many(many) = &ticket.moves else { panic!("there are two") };
        assert_eq!(many.written.lock().count, 1, "the first isn't looked at again");
    }
}
