//! Tickets: places in commit streams that can be waited for.
//!
//! Tickets of different streams have no order: each stream counts independently.

use leveret_queue::{Place, Watermarks};

/// One of the node's commit streams. The node's own log is 0; other logs of the same disk, which only tests have, follow it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

impl StreamId {
    /// The node's own log.
    pub const LOCAL: Self = Self(0);
    /// The first id of the streams of placements. Logs, and queues that answer late in tests, have lower ones.
    pub(crate) const FIRST_OF_PLACEMENTS: Self = Self(1 << 20);
    /// The first id of a link's stream, whose places are calls on queues of another node.
    pub(crate) const FIRST_OF_LINKS: Self = Self(1 << 31);
    /// The id of no stream: a wait for its places ends as one for a stream that is gone.
    pub(crate) const NOBODYS: Self = Self(u32::MAX);

    /// Whether it is the stream of a link to another node.
    #[inline]
    pub fn is_of_link(self) -> bool {
        self >= Self::FIRST_OF_LINKS
    }
}

/// A place in a commit stream: the last record of an operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticket {
    stream: StreamId,
    place: Place,
}

impl Ticket {
    /// A ticket for all records in `stream` up to `place`.
    pub const fn new(stream: StreamId, place: Place) -> Self {
        Self { stream, place }
    }

    /// The stream.
    pub fn stream(self) -> StreamId {
        self.stream
    }

    /// The place in it.
    pub fn place(self) -> Place {
        self.place
    }

    /// Whether nothing has to be waited for.
    pub fn is_nothing(self) -> bool {
        self.place.is_nothing()
    }

    /// The later of two tickets.
    ///
    /// # Panics
    /// In debug builds if they are of different streams.
    #[must_use]
    pub fn or_later(self, other: Self) -> Self {
        if self.is_nothing() {
            return other;
        }
        debug_assert!(other.is_nothing() || self.stream == other.stream, "tickets of two streams have no order");
        Self { stream: self.stream, place: self.place.or_later(other.place) }
    }
}

/// A wait condition: a ticket, and whether it must be written or durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Awaited {
    place: Place,
    stream: StreamId,
    written: bool,
}

impl Awaited {
    /// A ticket that has to be durable.
    pub const fn durable(ticket: Ticket) -> Self {
        Self { place: ticket.place, stream: ticket.stream, written: false }
    }

    /// A ticket that only has to be written, as for queues whose durability is `os`.
    pub const fn written(ticket: Ticket) -> Self {
        Self { place: ticket.place, stream: ticket.stream, written: true }
    }

    /// The stream.
    pub fn stream(self) -> StreamId {
        self.stream
    }

    /// The place in it.
    pub fn place(self) -> Place {
        self.place
    }

    /// Whether it is enough that the place is written.
    pub fn is_written(self) -> bool {
        self.written
    }

    /// Whether nothing has to be waited for.
    pub fn is_nothing(self) -> bool {
        self.place.is_nothing()
    }

    /// The same place, to be durable.
    #[must_use]
    pub fn synced(self) -> Self {
        Self { written: false, ..self }
    }

    /// Whether the condition is reached.
    #[inline]
    pub fn is_reached(self, reached: Watermarks) -> bool {
        reached.have(self.place, self.written)
    }

    /// Combines two conditions of one stream, with the stronger promise.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.is_nothing(), other.is_nothing()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { place: self.place.or_later(other.place), written: self.written && other.written, ..self },
        }
    }
}

impl From<Ticket> for Awaited {
    fn from(ticket: Ticket) -> Self {
        Self::durable(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stronger_promise_holds_for_both() {
        let at = |number| Ticket::new(StreamId::LOCAL, Place::new(number));
        let (os, synced) = (Awaited::written(at(7)), Awaited::durable(at(5)));
        assert_eq!(os.and(synced), Awaited::durable(at(7)));
        assert_eq!(os.and(Awaited::default()), os);
        assert_eq!(Awaited::default().and(synced), synced);
        let reached = Watermarks { written: Place::new(7), durable: Place::new(4) };
        assert!(os.is_reached(reached) && !synced.is_reached(reached) && Awaited::default().is_reached(reached));
    }
}
