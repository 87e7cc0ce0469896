//! A socket that isn't read: whether its peer has left.
//!
//! A read would find that out. While backpressure holds a client's input there is none, perhaps for as long as an alarm lasts, and
//! whatever a client that has left owns would stay: an unfinished message, a consumer, an exclusive queue.

use leveret_broker::Nanos;

use super::stream::PeerEnd;

/// Time between two looks at a socket that isn't read.
const LOOK_NS: Nanos = 1_000_000_000;
/// How long the input of a peer that has ended its side may wait to be read. Input that waits for the disk is read long before, so
/// that messages that a client sent right before it left aren't lost.
const PATIENCE_NS: Nanos = 5_000_000_000;

/// Since when a socket isn't read, and the next look at it.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    next_look: Option<Nanos>,
    /// The time since when the peer is known to have ended its side.
    ended: Option<Nanos>,
}

impl Unread {
    /// The socket is read.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// The socket isn't read. Returns whether its peer has left and the rest of its input has waited for long enough; `peer` is asked
    /// when a look is due.
    pub(crate) fn is_over(&mut self, now: Nanos, peer: impl FnOnce() -> PeerEnd) -> bool {
        let look = *self.next_look.get_or_insert(now + LOOK_NS);
        if now < look {
            return false;
        }
        self.next_look = Some(now + LOOK_NS);
        match peer() {
            PeerEnd::Nothing => false,
            PeerEnd::Everything => true,
            PeerEnd::Sending => now >= *self.ended.get_or_insert(now) + PATIENCE_NS,
        }
    }

    /// Time of the next look; none if the socket is read.
    pub(crate) fn next_look(&self) -> Option<Nanos> {
        self.next_look
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_ends_an_unread_connection_at_the_next_look() {
        let mut unread = Unread::default();
        assert!(!unread.is_over(0, || unreachable!("it was read a moment ago")));
        assert_eq!(unread.next_look(), Some(LOOK_NS));
        assert!(unread.is_over(LOOK_NS, || PeerEnd::Everything));
    }

    #[test]
    fn a_peer_that_ended_its_side_keeps_its_input_for_a_while() {
        let mut unread = Unread::default();
        assert!(!unread.is_over(0, || PeerEnd::Sending));
        let mut now = LOOK_NS;
        while now < LOOK_NS + PATIENCE_NS {
            assert!(!unread.is_over(now, || PeerEnd::Sending), "after {now} ns");
            now = unread.next_look().expect("it is still unread");
        }
        assert!(unread.is_over(now, || PeerEnd::Sending));
    }

    #[test]
    fn a_read_socket_begins_anew() {
        let mut unread = Unread::default();
        assert!(!unread.is_over(0, || PeerEnd::Sending));
        assert!(!unread.is_over(LOOK_NS, || PeerEnd::Sending));
        unread.end();
        assert_eq!(unread.next_look(), None);
        assert!(!unread.is_over(LOOK_NS + PATIENCE_NS, || PeerEnd::Sending));
        assert!(!unread.is_over(LOOK_NS + PATIENCE_NS + LOOK_NS, || PeerEnd::Sending));
    }
}
