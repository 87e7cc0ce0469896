//! A link on the client's side: its ends, credit, and incomplete deliveries.

use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use leveret_amqp10::performative::DELIVERY_TAG_MAX;
use leveret_amqp10::{SenderSettleMode, Serial};

/// The state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// `attach` was sent.
    Attaching,
    Attached,
    /// `detach` was sent; frames in flight from the peer may still arrive.
    Detaching {
        closed: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// The client's handle.
    pub(crate) handle: u32,
    pub(crate) state: LinkState,
    /// The peer's handle, once its `attach` arrived.
    pub(crate) remote_handle: Option<u32>,
    pub(crate) end: LinkEnd,
}

/// The client's end of the link.
#[derive(Debug)]
pub(crate) enum LinkEnd {
    Sender(SenderEnd),
    Receiver(Box<ReceiverEnd>),
}

#[derive(Debug)]
pub(crate) struct SenderEnd {
    pub(crate) delivery_count: Serial,
    pub(crate) credit: u32,
    /// The largest message that the peer accepts, in bytes; 0 for no limit.
    pub(crate) max_message_size: u64,
    /// The incomplete delivery.
    pub(crate) sending: Option<Serial>,
}

#[derive(Debug)]
pub(crate) struct ReceiverEnd {
    pub(crate) delivery_count: Serial,
    pub(crate) grants: Grants,
    /// The largest message that the client accepts, in bytes; 0 for no limit.
    pub(crate) max_message_size: u64,
    /// The settlement mode announced by the peer.
    pub(crate) settle_mode: SenderSettleMode,
    pub(crate) assembly: Option<Assembly>,
    /// Bytes of the incomplete delivery.
    pub(crate) parts: Vec<u8>,
    /// Tags of unsettled deliveries.
    pub(crate) tags: HashSet<Tag>,
}

/// An incomplete delivery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Assembly {
    pub(crate) delivery_id: Serial,
    pub(crate) tag: Tag,
    pub(crate) message_format: u32,
    pub(crate) settled: bool,
    pub(crate) transfers: u32,
}

/// A delivery-tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag {
    bytes: [u8; DELIVERY_TAG_MAX],
    length: u8,
}

impl Tag {
    /// Copies a tag.
    ///
    /// # Panics
    /// If it is longer than allowed, which the codec refuses.
    pub(crate) fn new(tag: &[u8]) -> Self {
        let mut bytes = [0; DELIVERY_TAG_MAX];
        bytes[..tag.len()].copy_from_slice(tag);
        Self { bytes, length: tag.len() as u8 }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Tag {}

impl Hash for Tag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.as_bytes());
    }
}

/// Grants of the client that the peer may not have seen yet.
///
/// A grant is the delivery-count up to which the peer may send. A lower one only takes effect when the peer has seen
/// it, which its next `flow` shows; until then the highest one counts.
#[derive(Debug)]
pub(crate) struct Grants {
    open: VecDeque<Grant>,
    /// The highest limit among them.
    limit: Serial,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) limit: Serial,
    pub(crate) drain: bool,
}

impl Grants {
    /// No credit, from this delivery-count on.
    pub(crate) fn new(delivery_count: Serial) -> Self {
        Self { open: VecDeque::from([Grant { limit: delivery_count, drain: false }]), limit: delivery_count }
    }

    /// Shifts grants that were made before the peer announced its initial count.
    pub(crate) fn shift(&mut self, by: u32) {
        for grant in &mut self.open {
            grant.limit = grant.limit.add(by);
        }
        self.limit = self.limit.add(by);
    }

    /// Adds a grant, when the peer has sent up to `delivery_count`.
    pub(crate) fn push(&mut self, delivery_count: Serial, limit: Serial, drain: bool) {
        // A peer that sent beyond a grant has seen a later one.
        while self.open.front().is_some_and(|grant| delivery_count.distance_from(grant.limit) > 0) {
            self.open.pop_front();
        }
        let grant = Grant { limit, drain };
        if self.open.back() != Some(&grant) {
            self.open.push_back(grant);
        }
        self.find_limit();
    }

    /// Number of deliveries that the peer may send after `delivery_count`.
    pub(crate) fn credit(&self, delivery_count: Serial) -> u32 {
        self.limit.distance_from(delivery_count).max(0) as u32
    }

    /// The limits that the peer may use, oldest first.
    pub(crate) fn limits(&self) -> Vec<u32> {
        self.open.iter().map(|grant| grant.limit.0).collect()
    }

    /// The newest grant.
    pub(crate) fn newest(&self) -> Grant {
        *self.open.back().expect("there is always a grant")
    }

    /// Notes that the peer has seen the grant with this limit, so that older ones no longer count. `None` if there is
    /// no such grant. Of several with this limit it is the first with a drain if the peer reports a drain, else the
    /// first. A peer that had sent more when it saw a lower grant has `overrun` it: its own count is the limit then.
    pub(crate) fn seen(&mut self, limit: Serial, drain: bool, overrun: bool) -> Option<Grant> {
        let exact = |grant: &Grant| grant.limit == limit;
        let passed = |grant: &Grant| overrun && limit.distance_from(grant.limit) > 0;
        let drains = |grant: &Grant| drain && grant.drain;
        let position = |wanted: &dyn Fn(&Grant) -> bool| self.open.iter().position(wanted);
        // A later grant may coincide with the peer's count, but nothing shows that the peer has seen that one.
        let fits = |grant: &Grant| exact(grant) || passed(grant);
        let at = position(&|grant| fits(grant) && drains(grant)).or_else(|| position(&fits))?;
        self.open.drain(..at);
        // The peer may repeat its own count until it sees the next grant.
        if let Some(first) = self.open.front_mut().filter(|grant| passed(grant)) {
            first.limit = limit;
        }
        self.find_limit();
        let first = *self.open.front()?;
        if drains(&first) {
            return Some(first);
        }
        self.open.iter().take_while(|grant| grant.limit == first.limit).last().copied()
    }

    fn find_limit(&mut self) {
        let mut limit = self.newest().limit;
        for grant in &self.open {
            if grant.limit.distance_from(limit) > 0 {
                limit = grant.limit;
            }
        }
        self.limit = limit;
    }
}

#[cfg(test)]
mod tests {
    use super::{Grants, Tag};
    use leveret_amqp10::Serial;

    #[test]
    fn a_lower_grant_counts_once_it_was_seen() {
        let start = Serial(u32::MAX);
        let mut grants = Grants::new(start);
        assert_eq!(grants.credit(start), 0);
        grants.push(start, start.add(10), false);
        grants.push(start, start.add(3), true);
        assert_eq!(grants.credit(start.add(2)), 8);
        assert!(grants.seen(start.add(4), false, false).is_none());
        assert!(grants.seen(start.add(3), true, false).is_some_and(|grant| grant.drain));
        assert_eq!(grants.credit(start.add(2)), 1);
        assert_eq!(grants.credit(start.add(5)), 0, "the peer may have sent more before it saw the lower grant");
        for sent in 4..10_000 {
            grants.push(start.add(sent), start.add(sent + 5), false);
        }
        assert!(grants.open.len() <= 7, "{} grants are kept", grants.open.len());
    }

    #[test]
    fn a_drain_is_distinguished_from_a_grant_of_the_same_limit() {
        let start = Serial(0);
        let mut grants = Grants::new(start);
        grants.push(start, start.add(3), false);
        grants.push(start, start, true);
        assert!(grants.seen(start, true, false).is_some_and(|grant| grant.drain));
        assert_eq!(grants.credit(start), 0);
    }

    #[test]
    fn a_second_drain_without_credit_is_reported() {
        let start = Serial(0);
        let mut grants = Grants::new(start);
        grants.push(start, start, true);
        assert!(grants.seen(start, true, true).is_some_and(|grant| grant.drain));
        grants.push(start, start, false);
        grants.push(start, start.add(6), false);
        grants.push(start, start, true);
        assert!(grants.seen(start, true, true).is_some_and(|grant| grant.drain));
    }

    #[test]
    fn a_lower_grant_may_come_too_late() {
        let start = Serial(0);
        let mut grants = Grants::new(start);
        grants.push(start, start.add(7), false);
        grants.push(start.add(2), start.add(2), true);
        assert!(grants.seen(start.add(3), true, false).is_none());
        assert!(grants.seen(start.add(3), true, true).is_some_and(|grant| grant.drain));
        assert_eq!(grants.credit(start.add(3)), 0);
    }

    #[test]
    fn an_overrun_grant_may_be_reported_again_after_the_next_one() {
        let start = Serial(0);
        let mut grants = Grants::new(start);
        grants.push(start, start.add(8), false);
        grants.push(start, start, true);
        // The peer answers the drain and then, for its echo, once more.
        assert!(grants.seen(start.add(7), true, true).is_some_and(|grant| grant.drain));
        grants.push(start.add(7), start.add(14), true);
        assert!(grants.seen(start.add(7), false, true).is_some());
        assert_eq!(grants.credit(start.add(7)), 7);
    }

    #[test]
    fn a_later_grant_may_have_the_reported_limit() {
        let start = Serial(0);
        let mut grants = Grants::new(start);
        grants.push(start.add(1), start.add(2), false);
        for limit in [6, 3, 7] {
            grants.push(start.add(1), start.add(limit), false);
        }
        // It had sent three when it saw the first grant; the others are in flight.
        assert!(grants.seen(start.add(3), false, true).is_some());
        assert!(grants.seen(start.add(6), false, false).is_some());
    }

    #[test]
    fn tags_are_equal_by_their_bytes() {
        assert_eq!(Tag::new(b"a"), Tag::new(b"a"));
        assert_ne!(Tag::new(b"a"), Tag::new(b"a\0"));
    }
}
