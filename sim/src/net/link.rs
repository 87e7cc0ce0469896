//! A link between two nodes: bytes both ways, each in order.

use std::collections::VecDeque;

use super::{LinkFaults, NodeNumber};
use crate::random::Random;

/// Most bytes that one send hands to the network at once.
const SEGMENT_BYTES_MAX: u64 = 4096;
/// Bytes that an end may have sent which the other hasn't taken.
const WAY_BYTES_MAX: usize = 64 << 10;
/// Time after which lost bytes are sent again, at least, and half of the most.
const AGAIN: u64 = 50_000_000;
/// Time for which bytes are sent again in vain before the link is over.
pub(super) const PATIENCE: u64 = 10_000_000_000;

/// Bytes on their way.
struct Segment {
    bytes: Vec<u8>,
    /// Whether the sender closed the link behind them.
    is_last: bool,
    /// When they arrive.
    arrives: Option<u64>,
}

/// One direction of a link.
#[derive(Default)]
struct Way {
    segments: VecDeque<Segment>,
    bytes: usize,
    /// When the first bytes that aren't on their way yet are sent, again or for the first time.
    try_at: u64,
    /// Since when these are sent in vain.
    blocked: Option<u64>,
    /// The last arrival: nothing overtakes.
    latest: u64,
}

impl Way {
    fn drop_all(&mut self) {
        *self = Self { latest: self.latest, ..Self::default() };
    }

    /// Drops what hasn't arrived.
    fn drop_rest(&mut self, now: u64) {
        self.segments.retain(|segment| segment.arrives.is_some_and(|at| at <= now));
        self.bytes = self.segments.iter().map(|segment| segment.bytes.len()).sum();
    }

    /// Sends what waits. False if that was in vain for too long.
    fn pass(
        &mut self,
        (from, to): (NodeNumber, NodeNumber),
        now: u64,
        faults: &mut LinkFaults,
        random: &mut Random,
    ) -> bool {
        if self.try_at > now {
            return true;
        }
        for segment in self.segments.iter_mut().filter(|segment| segment.arrives.is_none()) {
            let Some(time) = faults.travel(from, to, now, &mut |end| random.below(end)) else {
                self.try_at = now + AGAIN + random.below(AGAIN);
                return now - *self.blocked.get_or_insert(now) < PATIENCE;
            };
            self.blocked = None;
            self.latest = self.latest.max(now + time);
            segment.arrives = Some(self.latest);
        }
        true
    }

    fn next_time(&self, now: u64) -> Option<u64> {
        let arrivals = self.segments.iter().filter_map(|segment| segment.arrives).filter(|at| *at > now);
        let again = self.segments.iter().any(|segment| segment.arrives.is_none()).then_some(self.try_at.max(now));
        arrivals.chain(again).min()
    }
}

/// A link. Its first way leads from the first end to the second.
pub(super) struct Link {
    pub(super) ends: [NodeNumber; 2],
    ways: [Way; 2],
    /// When each end notices that the link is over.
    over: [Option<u64>; 2],
    /// The ends that take no more bytes: they closed it, or crashed.
    gone: [bool; 2],
}

impl Link {
    pub(super) fn new(ends: [NodeNumber; 2]) -> Self {
        Self { ends, ways: Default::default(), over: [None; 2], gone: [false; 2] }
    }

    /// The place of a node among its ends.
    ///
    /// # Panics
    /// If it is none.
    pub(super) fn end(&self, node: NodeNumber) -> usize {
        self.ends.iter().position(|end| *end == node).expect("the node is an end of the link")
    }

    /// Sends some of `bytes`, as many as there is room for. Returns their number.
    pub(super) fn send(&mut self, end: usize, bytes: &[u8], now: u64, random: &mut Random) -> usize {
        if self.is_over(end, now) || self.ways[end].segments.back().is_some_and(|last| last.is_last) {
            return 0;
        }
        let way = &mut self.ways[end];
        let count = bytes.len().min(WAY_BYTES_MAX - way.bytes);
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            let (first, others) = rest.split_at(rest.len().min(1 + random.below(SEGMENT_BYTES_MAX) as usize));
            way.segments.push_back(Segment { bytes: first.to_vec(), is_last: false, arrives: None });
            rest = others;
        }
        way.bytes += count;
        count
    }

    /// Takes the bytes that have arrived at an end.
    pub(super) fn receive(&mut self, end: usize, now: u64) -> Vec<u8> {
        let way = &mut self.ways[1 - end];
        let mut bytes = Vec::new();
        while let Some(segment) = way.segments.pop_front_if(|segment| segment.arrives.is_some_and(|at| at <= now)) {
            bytes.extend_from_slice(&segment.bytes);
        }
        way.bytes -= bytes.len();
        bytes
    }

    /// Whether an end has noticed that the link is over. It may have bytes to take before.
    pub(super) fn is_over(&self, end: usize, now: u64) -> bool {
        self.over[end].is_some_and(|at| at <= now)
    }

    /// Both ends know that it is over, and have nothing to take.
    pub(super) fn is_forgotten(&self, now: u64) -> bool {
        let is_done = |end: usize| self.is_over(end, now) && self.ways[1 - end].segments.is_empty();
        is_done(0) && is_done(1)
    }

    /// An end closes the link: the other notices behind what was sent.
    pub(super) fn close(&mut self, end: usize, now: u64) {
        if self.over[end].is_none() {
            self.ways[end].segments.push_back(Segment { bytes: Vec::new(), is_last: true, arrives: None });
            self.over[end] = Some(now);
        }
        self.gone[end] = true;
        self.ways[1 - end].drop_all();
    }

    /// An end is gone, with what it had: bytes for it, and its own that weren't on their way. Of those, a part arrives.
    pub(super) fn crash(&mut self, end: usize, now: u64, faults: &mut LinkFaults, random: &mut Random) {
        let (from, to) = (self.ends[end], self.ends[1 - end]);
        self.gone[end] = true;
        self.ways[1 - end].drop_all();
        let way = &mut self.ways[end];
        let under_way = way.segments.iter().take_while(|segment| segment.arrives.is_some()).count();
        way.segments.truncate(random.below(under_way as u64 + 1) as usize);
        way.bytes = way.segments.iter().map(|segment| segment.bytes.len()).sum();
        let time = faults.travel(from, to, now, &mut |end| random.below(end));
        let notices = (now + time.unwrap_or(PATIENCE)).max(way.latest);
        self.over[end] = Some(now);
        let other = &mut self.over[1 - end];
        *other = Some(other.map_or(notices, |known| known.min(notices)));
    }

    /// Sends what waits, both ways.
    pub(super) fn pass(&mut self, now: u64, faults: &mut LinkFaults, random: &mut Random) {
        for end in [0, 1] {
            if self.gone[1 - end] {
                self.ways[end].drop_all();
            }
            let (from, to) = (self.ends[end], self.ends[1 - end]);
            let goes_on = self.ways[end].pass((from, to), now, faults, random);
            if !goes_on {
                self.ways.iter_mut().for_each(|way| way.drop_rest(now));
                self.over = self.over.map(|known| Some(known.map_or(now, |known| known.min(now))));
                return;
            }
            let closed = self.ways[end].segments.back().filter(|last| last.is_last).and_then(|last| last.arrives);
            if closed.is_some() && self.over[1 - end].is_none() {
                self.over[1 - end] = closed;
            }
        }
    }

    /// When something happens next, after `now`; no earlier than `now` if something waits to be sent.
    pub(super) fn next_time(&self, now: u64) -> Option<u64> {
        let over = self.over.iter().flatten().copied().filter(|at| *at > now);
        self.ways.iter().filter_map(|way| way.next_time(now)).chain(over).min()
    }
}
