//! What somebody waits for: a position of the commit stream, and how far it has to have got.

use leveret_log::Position;

/// See the module. Position 0 is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Awaited {
    /// The position.
    pub position: Position,
    /// It is enough that it is written, as for queues whose durability is `os`; else it has to be durable.
    pub written: bool,
}

/// How far the commit stream has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// Everything up to here is written.
    pub written: Position,
    /// Everything up to here is durable.
    pub durable: Position,
}

impl Awaited {
    /// A position that has to be durable.
    pub fn durable(position: Position) -> Self {
        Self { position, written: false }
    }

    /// Both of them, by the stronger promise.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.position, other.position) {
            (0, _) => other,
            (_, 0) => self,
            _ => Self { position: self.position.max(other.position), written: self.written && other.written },
        }
    }

    /// The same for one that is answered after another: what waits for nothing itself waits for what was before it.
    ///
    /// The two aren't added up: whoever waits is told of positions that queues gave, and of what is neither nobody is told.
    #[must_use]
    pub fn behind(self, earlier: Self) -> Self {
        if self.position == 0 { earlier } else { self }
    }

    /// Whether it has come to it.
    pub fn is_reached(self, reached: Reached) -> bool {
        self.position <= if self.written { reached.written } else { reached.durable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stronger_promise_holds_for_both() {
        let (os, synced) = (Awaited { position: 7, written: true }, Awaited::durable(5));
        assert_eq!(os.and(synced), Awaited::durable(7));
        assert_eq!(os.and(Awaited::default()), os);
        assert_eq!(Awaited::default().and(synced), synced);
        assert_eq!(Awaited::default().behind(os), os);
        let reached = Reached { written: 7, durable: 4 };
        assert!(os.is_reached(reached) && !synced.is_reached(reached) && Awaited::default().is_reached(reached));
    }
}
