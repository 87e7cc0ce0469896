//! The engine's public faults of this year as schedules: with its present version none of them shows. docs/simulator.md says of each what
//! would find it.

use leveret_log::{Bug, PlacementId};
use leveret_sim::cluster::{Cluster, now};

const PLACEMENT: PlacementId = PlacementId(1);

/// A cluster with a leader, and its leader.
fn cluster(seed: u64, nodes: u64) -> (Cluster, u64) {
    let cluster = Cluster::new(seed, nodes, 1);
    cluster.run(2000);
    let leader = cluster.leader(PLACEMENT).expect("there is one");
    (cluster, leader)
}

/// Commands that were acknowledged while the cluster ran for so many milliseconds.
fn commits(cluster: &Cluster, name: u8, milliseconds: u64) -> usize {
    let before = cluster.acknowledged().len();
    cluster.client(name, 10_000, 1, 300);
    cluster.client(name + 1, 10_000, 1, 300);
    cluster.run(milliseconds);
    cluster.acknowledged().len() - before
}

/// openraft#1810: an append that was never answered froze the leader's loop.
#[test]
fn a_follower_that_never_answers_stops_no_commit() {
    for seed in 0..5 {
        let (cluster, leader) = cluster(seed, 3);
        let silent = 1 + leader % 3;
        cluster.links(|links| links.cut(silent, leader));
        let commits = commits(&cluster, 1, 1500);
        assert!(commits > 100, "seed {seed}: {commits}");
        assert_eq!(cluster.leader(PLACEMENT), Some(leader), "seed {seed}");
        cluster.judge().unwrap();
    }
}

/// A leader of five whose frames reach all, and who hears one of them. Returns the commits of the sixth second, and whether it still leads.
fn commits_of_an_unheard_leader(seed: u64) -> (usize, bool) {
    let (cluster, leader) = cluster(seed, 5);
    let bridge = 1 + leader % 5;
    let others = (1..=5).filter(|node| ![leader, bridge].contains(node));
    cluster.links(|links| others.for_each(|other| links.cut(other, leader)));
    let from = now();
    cluster.client(1, 10_000, 1, 300);
    cluster.client(2, 10_000, 1, 300);
    cluster.run(6000);
    cluster.judge().unwrap();
    let last = cluster.acknowledged().into_iter().filter(|answer| answer.at > from + 5_000_000_000).count();
    (last, cluster.leader(PLACEMENT) == Some(leader))
}

/// openraft#2080: a leader that hears only one voter went on renewing the lease of the others, who heard it and elected nobody.
#[test]
fn a_leader_that_hears_one_voter_gives_way_to_the_majority() {
    for seed in 20..25 {
        let (last, is_leading) = commits_of_an_unheard_leader(seed);
        assert!(last > 20 && !is_leading, "seed {seed}: {last} commits in the last second");
    }
}

#[test]
fn a_leader_that_asks_no_quorum_is_found() {
    Bug::plant(Some(Bug::LeadUnheard));
    let (last, is_leading) = commits_of_an_unheard_leader(20);
    Bug::plant(None);
    assert!(last == 0 && is_leading, "{last} commits in the last second");
}

/// openraft#1795: after a failed read the leader sent entries from the middle of its log as if they were the first.
#[test]
fn a_leader_that_cant_read_its_log_sends_nothing_of_it() {
    for seed in 0..5 {
        let (cluster, leader) = cluster(100 + seed, 3);
        let follower = 1 + leader % 3;
        cluster.keep_entries();
        cluster.links(|links| links.isolate(follower, 1..=3));
        assert!(commits(&cluster, 1, 1500) > 100, "seed {seed}");
        cluster.fail_reads(leader);
        cluster.links(leveret_sim::net::LinkFaults::heal);
        cluster.run(1500);
        let ended = cluster.ended();
        assert!(ended.iter().any(|text| text.contains("entries could not be read")), "seed {seed}: {ended:?}");
        assert_eq!(cluster.stopped(), [""; 0], "seed {seed}: no frame was refused");
        let commits = commits(&cluster, 3, 1500);
        assert!(commits > 30, "seed {seed}: {commits}");
        assert!(cluster.leader(PLACEMENT).is_some_and(|next| next != leader), "seed {seed}");
        cluster.judge().unwrap();
    }
}

/// openraft#2091: a removed leader that lost its leadership before the removal was committed had the newest log, and might not stand.
#[test]
fn a_leader_cut_off_in_its_own_removal_leaves_no_deadlock() {
    for delay in 0..16 {
        let (cluster, leader) = cluster(40 + delay, 3);
        let voters: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
        cluster.begin_change(PLACEMENT, &voters);
        cluster.run(delay);
        cluster.links(|links| links.isolate(leader, 1..=3));
        cluster.run(2500);
        for node in voters.iter().copied() {
            cluster.kill(node);
        }
        cluster.links(leveret_sim::net::LinkFaults::heal);
        voters.iter().for_each(|node| cluster.start(*node));
        cluster.run(3000);
        let commits = commits(&cluster, 1, 3000);
        assert!(commits > 20, "delay {delay} ms: {commits} commits, leader {:?}", cluster.leader(PLACEMENT));
        cluster.judge().unwrap();
        assert_eq!(cluster.stopped(), [""; 0], "delay {delay} ms");
    }
}

/// openraft#1808: members that were never committed outlived the state that replaced their entry.
#[test]
fn members_of_a_cut_entry_are_gone_once_a_state_replaces_it() {
    for seed in 0..5 {
        let cluster = Cluster::with_spares(60 + seed, 3, 1, 1);
        cluster.run(2000);
        let old = cluster.leader(PLACEMENT).expect("there is one");
        // It appends a change that nobody else gets.
        cluster.links(|links| links.isolate(old, 1..=4));
        cluster.begin_change(PLACEMENT, &[1, 2, 3, 4]);
        cluster.run(2000);
        // The others go on, and purge what it lacks.
        let commits = commits(&cluster, 1, 4000);
        assert!(commits > 300, "seed {seed}: {commits}");
        for node in (1..=3).filter(|node| *node != old) {
            let first = cluster.with_log(node, |log| log.bounds(PLACEMENT).first);
            assert!(first > 20, "seed {seed}: node {node} purged below {first}");
        }
        cluster.links(leveret_sim::net::LinkFaults::heal);
        cluster.run(3000);
        let state = cluster.counter(old, PLACEMENT).now.borrow().state.clone();
        assert_eq!(state.voters(), [[1, 2, 3].into()], "seed {seed}");
        let next = cluster.leader(PLACEMENT).expect("there is one");
        cluster.links(|links| links.isolate(next, 1..=4));
        cluster.run(3000);
        cluster.judge().unwrap();
        assert_eq!(cluster.stopped(), [""; 0], "seed {seed}");
    }
}

/// openraft#1805, as far as version alpha.25 shows what it mended: a replica that the leadership was handed to stood for election although
/// its log wasn't flushed, and the vote of one that is no member ended the candidate.
#[test]
fn a_replica_whose_log_is_not_durable_does_not_stand() {
    for seed in 0..5 {
        let (cluster, leader) = cluster(80 + seed, 3);
        let slow = 1 + leader % 3;
        cluster.slow_disk(slow, 3_000_000);
        assert!(commits(&cluster, 1, 500) > 30, "seed {seed}");
        cluster.transfer(PLACEMENT, slow).unwrap();
        let commits = commits(&cluster, 3, 1500);
        assert_ne!(cluster.leader(PLACEMENT), Some(slow), "seed {seed}");
        assert!(commits > 30, "seed {seed}: {commits}");
        cluster.judge().unwrap();
    }
}
