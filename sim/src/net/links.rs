//! All links of a network.

use std::collections::BTreeMap;

use super::link::Link;
use super::{LinkFaults, NodeNumber};
use crate::event_hash::EventHash;
use crate::random::Random;

/// Identifies a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(u64);

/// Links that carry bytes between nodes, as connections of TCP do: in order within one way of a link, in any order between links. Bytes
/// that are lost, or meet a cut, are sent again until a link is over.
pub struct Links {
    /// The faults on the way.
    pub faults: LinkFaults,
    links: BTreeMap<LinkId, Link>,
    opened: u64,
    now: u64,
    random: Random,
    /// The hash of all that arrived.
    pub hash: EventHash,
}

impl Links {
    /// No link yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            faults: LinkFaults::default(),
            links: BTreeMap::new(),
            opened: 0,
            now: 0,
            random: Random::new(seed ^ 0x006c_696e_6b73),
            hash: EventHash::default(),
        }
    }

    /// Opens a link between two nodes.
    pub fn open(&mut self, one: NodeNumber, other: NodeNumber) -> LinkId {
        assert_ne!(one, other, "a link has two ends");
        self.opened += 1;
        let id = LinkId(self.opened);
        self.links.insert(id, Link::new([one, other]));
        id
    }

    /// Sends bytes from one end of a link, as many as there is room for. Returns their number: 0 also once the link is over.
    pub fn send(&mut self, link: LinkId, from: NodeNumber, bytes: &[u8]) -> usize {
        let Some(link) = self.links.get_mut(&link) else { return 0 };
        link.send(link.end(from), bytes, self.now, &mut self.random)
    }

    /// Takes the bytes that have arrived at one end of a link.
    pub fn receive(&mut self, link: LinkId, at: NodeNumber) -> Vec<u8> {
        let Some(found) = self.links.get_mut(&link) else { return Vec::new() };
        let bytes = found.receive(found.end(at), self.now);
        if !bytes.is_empty() {
            [link.0, at, self.now].into_iter().for_each(|number| self.hash.note(number));
            self.hash.bytes(&bytes);
        }
        bytes
    }

    /// Whether one end of a link has noticed that it is over. What arrived before is there to be taken.
    #[must_use]
    pub fn is_over(&self, link: LinkId, at: NodeNumber) -> bool {
        self.links.get(&link).is_none_or(|link| link.is_over(link.end(at), self.now))
    }

    /// One end closes a link. The other notices behind the bytes that were sent.
    pub fn close(&mut self, link: LinkId, at: NodeNumber) {
        if let Some(link) = self.links.get_mut(&link) {
            link.close(link.end(at), self.now);
        }
    }

    /// A node is gone: its links are over, and what it had is lost. Of the bytes that it sent and that are on their way a part arrives.
    pub fn crash(&mut self, node: NodeNumber) {
        for link in self.links.values_mut().filter(|link| link.ends.contains(&node)) {
            link.crash(link.end(node), self.now, &mut self.faults, &mut self.random);
        }
    }

    /// Lets time pass up to `now`.
    pub fn pass(&mut self, now: u64) {
        self.now = self.now.max(now);
        for link in self.links.values_mut() {
            link.pass(self.now, &mut self.faults, &mut self.random);
        }
        self.links.retain(|_, link| !link.is_forgotten(self.now));
    }

    /// When something happens next; `None` if nothing is on its way.
    #[must_use]
    pub fn next_time(&self) -> Option<u64> {
        self.links.values().filter_map(|link| link.next_time(self.now)).min()
    }

    /// Number of links that aren't forgotten by both ends.
    #[must_use]
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }
}
