//! Links between nodes: bytes come in order within each way of a link, whole, however they are delayed, lost and cut, unless the link is over.

use std::collections::BTreeMap;

use leveret_sim::net::{LinkId, Links};
use leveret_sim::random::Random;

const SECOND: u64 = 1_000_000_000;
/// Bytes are sent again for so long.
const PATIENCE: u64 = 10 * SECOND;

/// The byte at a place of what one end of a link sends.
fn byte(link: usize, end: u64, at: usize) -> u8 {
    (at ^ (at >> 8) ^ (link << 4) ^ end as usize) as u8
}

/// Bytes that one end has sent, and has received.
#[derive(Clone, Copy, Default)]
struct Seen {
    sent: usize,
    received: usize,
}

/// Nodes 0 and 1 with some links, over which both send all the time.
struct Rig {
    links: Links,
    open: Vec<LinkId>,
    seen: BTreeMap<(usize, u64), Seen>,
    random: Random,
    now: u64,
}

impl Rig {
    fn new(seed: u64, count: usize) -> Self {
        let mut links = Links::new(seed);
        let open = (0..count).map(|_| links.open(0, 1)).collect();
        Self { links, open, seen: BTreeMap::new(), random: Random::new(seed), now: 0 }
    }

    fn send(&mut self, link: usize, end: u64, count: usize) -> usize {
        let seen = self.seen.entry((link, end)).or_default();
        let bytes: Vec<u8> = (seen.sent..seen.sent + count).map(|at| byte(link, end, at)).collect();
        let sent = self.links.send(self.open[link], end, &bytes);
        seen.sent += sent;
        sent
    }

    /// Takes what has arrived at an end. Returns how much.
    fn receive(&mut self, link: usize, end: u64) -> usize {
        let bytes = self.links.receive(self.open[link], end);
        let seen = self.seen.entry((link, end)).or_default();
        let expected = (seen.received..).map(|at| byte(link, 1 - end, at));
        assert!(bytes.iter().copied().eq(expected.take(bytes.len())), "link {link}: other bytes come to {end}");
        seen.received += bytes.len();
        bytes.len()
    }

    /// Lets time pass until nothing happens any more, or up to a time. All that arrives is taken.
    fn run(&mut self, until: u64) {
        self.links.pass(self.now);
        while let Some(next) = self.links.next_time().filter(|next| *next <= until) {
            self.now = next;
            self.links.pass(next);
            for link in 0..self.open.len() {
                self.receive(link, 0);
                self.receive(link, 1);
            }
        }
        self.now = self.now.max(until);
        self.links.pass(self.now);
    }

    /// Bytes that an end has sent, and that the other has received.
    fn passed(&self, link: usize, from: u64) -> (usize, usize) {
        let seen = |end| self.seen.get(&(link, end)).copied().unwrap_or_default();
        (seen(from).sent, seen(1 - from).received)
    }
}

fn exchange(seed: u64) -> (u64, [u64; 3]) {
    let mut rig = Rig::new(seed, 3);
    let mut hits = [0; 3];
    for _ in 0..2_000 {
        match rig.random.below(40) {
            0 => {
                let from = rig.random.below(2);
                rig.links.faults.cut(from, 1 - from);
                hits[0] += 1;
            }
            1 => {
                let (from, period) = (rig.random.below(2), 1 + rig.random.below(SECOND));
                rig.links.faults.flap(from, 1 - from, period, rig.now);
                hits[1] += 1;
            }
            2 => {
                (rig.links.faults.loss, rig.links.faults.delay) = (rig.random.below(500), rig.random.below(SECOND));
                hits[2] += 1;
            }
            3..=7 => rig.links.faults.heal(),
            _ => {
                let (link, end) = (rig.random.below(3) as usize, rig.random.below(2));
                let count = 1 + rig.random.below(9_000) as usize;
                rig.send(link, end, count);
            }
        }
        let pause = rig.random.below(20_000_000);
        let until = rig.now + pause;
        rig.run(until);
    }
    rig.links.faults.heal();
    let end = rig.now + 60 * SECOND;
    rig.run(end);
    for (link, from) in (0..3).flat_map(|link| [(link, 0), (link, 1)]) {
        let (sent, received) = rig.passed(link, from);
        let is_over = rig.links.is_over(rig.open[link], 1 - from);
        assert!(received == sent || is_over && received < sent, "link {link}: {received} of {sent} bytes came");
    }
    assert_eq!(rig.links.next_time(), None, "something is on its way for ever");
    (rig.links.hash.value(), hits)
}

#[test]
fn bytes_come_in_order_and_whole_under_faults() {
    let mut hits = [0; 3];
    for seed in 0..60 {
        let (hash, some) = exchange(seed);
        assert_eq!(hash, exchange(seed).0, "seed {seed} gives the same again");
        hits = [0, 1, 2].map(|at| hits[at] + some[at]);
    }
    assert!(hits.iter().all(|count| *count > 1_000), "{hits:?}");
}

#[test]
fn links_of_one_pair_overtake_each_other() {
    let mut rig = Rig::new(1, 2);
    rig.links.faults.delay = SECOND;
    let (mut first, mut other) = (0, 0);
    for _ in 0..100 {
        rig.send(0, 0, 1);
        rig.send(1, 0, 1);
        rig.links.pass(rig.now);
        rig.now = rig.links.next_time().expect("both are on their way");
        rig.links.pass(rig.now);
        match [0, 1].map(|link| rig.receive(link, 1)) {
            [1, 0] => first += 1,
            [0, 1] => other += 1,
            both => assert_eq!(both, [1, 1]),
        }
        let end = rig.now + 2 * SECOND;
        rig.run(end);
    }
    assert!(first > 20 && other > 20, "{first} {other}");
}

#[test]
fn a_cut_holds_one_way_back_and_not_the_other() {
    let mut rig = Rig::new(2, 1);
    rig.links.faults.cut(0, 1);
    rig.send(0, 0, 5_000);
    rig.send(0, 1, 5_000);
    rig.run(5 * SECOND);
    assert_eq!([rig.passed(0, 0), rig.passed(0, 1)], [(5_000, 0), (5_000, 5_000)]);
    rig.links.faults.heal();
    rig.run(6 * SECOND);
    assert_eq!(rig.passed(0, 0), (5_000, 5_000), "it is sent again");
    assert!(!rig.links.is_over(rig.open[0], 1));
}

#[test]
fn a_link_is_over_after_ten_seconds_in_vain() {
    let mut rig = Rig::new(3, 2);
    rig.links.faults.cut(0, 1);
    rig.send(0, 0, 100);
    rig.run(PATIENCE - SECOND);
    assert!(![0, 1].into_iter().any(|end| rig.links.is_over(rig.open[0], end)));
    rig.run(PATIENCE + SECOND);
    assert!([0, 1].into_iter().all(|end| rig.links.is_over(rig.open[0], end)));
    assert_eq!((rig.send(0, 0, 1), rig.send(0, 1, 1), rig.links.len()), (0, 0, 1), "the other had nothing to send");
    assert!(!rig.links.is_over(rig.open[1], 0));
}

#[test]
fn an_end_has_room_for_64_kib() {
    let mut rig = Rig::new(4, 1);
    assert_eq!(rig.send(0, 0, 100_000), 65_536);
    rig.links.pass(0);
    rig.links.pass(SECOND);
    assert_eq!(rig.send(0, 0, 1), 0, "nobody took it");
    assert_eq!((rig.receive(0, 1), rig.send(0, 0, 1)), (65_536, 1));
}

#[test]
fn a_closed_link_brings_what_was_sent_before() {
    let mut rig = Rig::new(5, 1);
    rig.send(0, 0, 30_000);
    rig.send(0, 1, 30_000);
    rig.links.close(rig.open[0], 0);
    assert!(rig.links.is_over(rig.open[0], 0) && !rig.links.is_over(rig.open[0], 1));
    assert_eq!((rig.send(0, 0, 1), rig.send(0, 1, 10)), (0, 10), "the other end doesn't know yet");
    rig.run(SECOND);
    assert_eq!((rig.passed(0, 0), rig.passed(0, 1).1), ((30_000, 30_000), 0), "nobody takes what the other sent");
    assert!(rig.links.is_over(rig.open[0], 1) && rig.links.is_empty());
}

#[test]
fn a_crash_drops_what_its_node_had() {
    let mut parts = [0; 3];
    for seed in 0..200 {
        let mut rig = Rig::new(seed, 1);
        rig.links.faults.delay = SECOND;
        rig.send(0, 0, 40_000);
        rig.send(0, 1, 40_000);
        rig.run(SECOND / 2);
        let had = rig.passed(0, 0).1;
        let taken = rig.passed(0, 1).1;
        rig.links.crash(0);
        assert!(rig.links.is_over(rig.open[0], 0) && rig.send(0, 0, 1) == 0);
        rig.run(20 * SECOND);
        let (sent, received) = rig.passed(0, 0);
        parts[if received == had { 0 } else { 1 + usize::from(received == sent) }] += 1;
        assert_eq!(rig.passed(0, 1).1, taken, "nothing comes to a node that is gone");
        assert!(rig.links.is_over(rig.open[0], 1) && rig.links.is_empty());
    }
    assert!(parts.iter().all(|count| *count > 0), "nothing, a part or all of what was on its way arrives: {parts:?}");
}
