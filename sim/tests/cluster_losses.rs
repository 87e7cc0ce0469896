//! Losses and hostile frames that the crate `cluster` mends or refuses, seen through the engine: lost votes, older tails, stepped clocks,
//! and a ring that doesn't grow.

use bytes::Bytes;
use leveret_log::{Entry, EntryKind, Lane, Next, PlacementId, Vote, recover_entries};
use leveret_sim::cluster::Cluster;
use leveret_sim::disk::SimDisk;

const PLACEMENT: PlacementId = PlacementId(1);

/// A cluster of three nodes with commands, which has changed its leader: its term is 2 or later. The second is a follower.
fn cluster(seed: u64) -> (Cluster, u64) {
    let cluster = Cluster::new(seed, 3, 1);
    cluster.run(2000);
    cluster.client(1, 60, 2, 1000);
    cluster.run(1500);
    let leader = cluster.leader(PLACEMENT).expect("there is one");
    cluster.transfer(PLACEMENT, 1 + leader % 3).unwrap();
    cluster.run(1500);
    cluster.client(1, 30, 2, 1000);
    cluster.run(1500);
    cluster.settle(10).unwrap();
    let leader = cluster.leader(PLACEMENT).expect("there is one");
    (cluster, 1 + leader % 3)
}

#[test]
fn a_replica_that_lost_its_entry_log_doesnt_vote_again() {
    let (cluster, follower) = cluster(3);
    cluster.kill(follower);
    cluster.replace_disk(follower, SimDisk::new());
    cluster.start(follower);
    cluster.run(500);
    let stopped = cluster.stopped();
    assert!(stopped.len() == 1 && stopped[0].contains("votes were lost"), "{stopped:?}");
}

/// A disk with an entry log that has this vote and entries of term 1 below an index.
fn older_log(cluster: &Cluster, vote: Vote, end: u64) -> SimDisk {
    let disk = SimDisk::new();
    let (mut log, _) = recover_entries(&disk, &cluster.log_options(), 0).unwrap();
    log.save_vote(PLACEMENT, vote, 0).unwrap();
    let entry = |index| {
        let body = Bytes::from_static(b"another");
        let kind = EntryKind::Commands;
        Entry { kind, placement: PLACEMENT, index, term: 1, led_by: 9, clock: 1, committed: 0, body }
    };
    log.append(PLACEMENT, (0..end).map(entry).collect(), 0).unwrap();
    let mut now = 0;
    while log.durable() < log.appended() {
        now += 60_000_000;
        if let Next::Run(id, job) = log.next_job(Lane::Commit, now) {
            log.complete(id, job.run(&disk), now).unwrap();
        }
    }
    disk
}

#[test]
fn a_store_ahead_of_its_entry_log_goes_on() {
    for (name, more) in [("shorter", -2_i64), ("as long, of an older term", 0), ("longer, of an older term", 7)] {
        let (cluster, follower) = cluster(4);
        let state = cluster.counter(follower, PLACEMENT).now.borrow().state.clone();
        let (term, index) = state.applied.unwrap();
        assert!(term >= 2);
        let vote = cluster.with_log(follower, |log| log.vote(PLACEMENT)).unwrap();
        cluster.kill(follower);
        cluster.counter(follower, PLACEMENT).sync();
        cluster.replace_disk(follower, older_log(&cluster, vote, (index + 1).saturating_add_signed(more)));
        cluster.start(follower);
        cluster.client(2, 40, 2, 1000);
        cluster.run(1500);
        cluster.settle(10).unwrap_or_else(|text| panic!("{name}: {text}"));
        cluster.judge().unwrap_or_else(|text| panic!("{name}: {text}"));
        assert_eq!(cluster.stopped(), [""; 0], "{name}");
        let after = cluster.counter(follower, PLACEMENT).now.borrow().state.applied.unwrap();
        assert!(after.1 > index + 30, "{name}: {index} to {}", after.1);
    }
}

#[test]
fn a_clock_never_goes_back_after_a_restart() {
    for is_purged in [false, true] {
        let (cluster, _) = cluster(5);
        (1..=3).for_each(|node| cluster.step_clock(node, 3_600_000));
        cluster.client(2, 200, 2, 1000);
        cluster.run(2500);
        cluster.settle(10).unwrap();
        let before = cluster.counter(1, PLACEMENT).now.borrow().state.clock;
        for node in 1..=3 {
            let next = cluster.counter(node, PLACEMENT).sync();
            cluster.kill(node);
            cluster.step_clock(node, 0);
            if is_purged {
                let vote = Vote { term: 9, replica: 1, is_leader: false };
                // Nothing of the log is left but the vote.
                cluster.replace_disk(node, older_log(&cluster, vote, next.min(1)));
            }
        }
        (1..=3).for_each(|node| cluster.start(node));
        cluster.run(2000);
        cluster.client(2, 10, 2, 1000);
        cluster.run(1500);
        cluster.settle(10).unwrap();
        let after = cluster.counter(1, PLACEMENT).now.borrow().state.clock;
        assert!(after >= before, "{before} to {after}");
        assert_eq!(cluster.stopped(), [""; 0]);
    }
}

/// An append frame: the vote's term, replica and flag; the entry before; the entries.
fn append((term, replica, is_leader): (u64, u64, u8), previous: Option<(u64, u64)>, entries: &[Entry]) -> Bytes {
    let mut frame = vec![1, 1, 0, 0];
    frame.extend(PLACEMENT.0.to_le_bytes());
    frame.extend(term.to_le_bytes());
    frame.extend(replica.to_le_bytes());
    frame.push(is_leader);
    match previous {
        Some((term, index)) => {
            frame.push(1);
            frame.extend(term.to_le_bytes());
            frame.extend(index.to_le_bytes());
        }
        None => frame.push(0),
    }
    frame.push(0);
    frame.extend((entries.len() as u32).to_le_bytes());
    for entry in entries {
        frame.extend((entry.encoded_bytes() as u32).to_le_bytes());
        frame.extend(entry.head());
        frame.extend_from_slice(&entry.body);
    }
    frame.into()
}

#[test]
fn hostile_frames_are_refused_in_words_and_end_nothing() {
    let (cluster, follower) = cluster(6);
    let state = cluster.counter(follower, PLACEMENT).now.borrow().state.clone();
    let (term, index) = state.applied.unwrap();
    let leader = cluster.leader(PLACEMENT).unwrap();
    let entry = |term, index, led_by| {
        let (kind, body) = (EntryKind::Blank, Bytes::new());
        Entry { kind, placement: PLACEMENT, index, term, led_by, clock: u64::MAX >> 1, committed: 0, body }
    };
    let last = Some((term, index));
    for (frame, text) in [
        (append((term, leader, 1), last, &[entry(term, index + 2, leader)]), "is due"),
        (append((term, leader, 1), last, &[entry(term + 1, index + 1, leader)]), "later term than the vote"),
        (append((term, leader, 1), last, &[entry(term - 1, index + 1, leader)]), "terms never fall"),
        (append((term, leader, 1), Some((term - 1, index)), &[]), "contradicts the committed entries"),
        (append((term, leader, 0), last, &[]), "isn't that of a leader"),
        (append((term + 1, follower, 1), last, &[]), "named as its own leader"),
        (append((u64::MAX, leader, 1), last, &[]), "isn't one of this version"),
        (append((term, 0, 1), last, &[]), "isn't one of this version"),
        (append((term, leader, 1), Some((term, u64::MAX - 1)), &[]), "isn't one of this version"),
        (append((term, leader, 1), last, &[entry(term, index + 1, 0)]), "was led by 0"),
        (Bytes::from_static(b"\x01\x04\0\0\x01\0\0\0"), "isn't one of this version"),
        (Bytes::new(), "isn't one of this version"),
    ] {
        let answer = cluster.send(follower, PLACEMENT, frame).expect(text);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains(text), "{answer:?} for {text}");
    }
    let other = append((term, leader, 1), None, &[]);
    let other = [&other[..4], &7_u32.to_le_bytes(), &other[8..]].concat();
    assert_eq!(cluster.send(follower, PLACEMENT, other.into()), None, "it is one for another placement");
    let before = cluster.acknowledged().len();
    cluster.client(3, 20, 2, 1000);
    cluster.run(1500);
    cluster.settle(10).unwrap();
    assert!(cluster.acknowledged().len() > before + 15, "{before} to {}", cluster.acknowledged().len());
    assert_eq!(cluster.stopped(), [""; 0]);
}

#[test]
fn purges_keep_the_ring_from_growing_without_a_restart() {
    let cluster = Cluster::new(8, 3, 1);
    cluster.run(2000);
    for name in 0..4 {
        cluster.client(name, 3000, 0, 1000);
    }
    cluster.run(12_000);
    cluster.settle(20).unwrap();
    assert!(cluster.acknowledged().len() > 8000, "{}", cluster.acknowledged().len());
    cluster.run(3000);
    for node in 1..=3 {
        let (first, end, files) = cluster.with_log(node, |log| {
            let bounds = log.bounds(PLACEMENT);
            (bounds.first, bounds.end, log.files_in_use())
        });
        assert!(end > 8000 && end - first < 200, "node {node} has {first} to {end}");
        assert!(files <= 4, "node {node} has {files} files");
    }
    cluster.judge().unwrap();
}
