//! Placements of several nodes under faults: the judge finds every promise kept.

use leveret_log::PlacementId;
use leveret_sim::cluster::{Cluster, Faults, now, run_seed};

/// Seeds of a run: more with `LEVERET_CLUSTER_SEEDS=first..end`.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let Ok(wanted) = std::env::var("LEVERET_CLUSTER_SEEDS") else { return 0..usual };
    let (first, end) = wanted.split_once("..").expect("FIRST..END");
    first.parse().expect("a number")..end.parse().expect("a number")
}

#[test]
fn a_cluster_without_faults_elects_and_commits() {
    let cluster = Cluster::new(1, 3, 2);
    cluster.run(2000);
    for placement in cluster.placements() {
        assert!(cluster.leader(*placement).is_some(), "{:?}", cluster.stopped());
    }
    cluster.client(1, 100, 2, 1000);
    cluster.run(3000);
    let acknowledged = cluster.acknowledged().len();
    assert!(acknowledged > 90, "{acknowledged} of 100");
    cluster.settle(5).unwrap();
    cluster.judge().unwrap();
    assert!(cluster.stopped().is_empty(), "{:?}", cluster.stopped());
}

#[test]
fn a_seed_repeats_itself() {
    let run = |seed| run_seed(seed, |_| {}).unwrap_or_else(|text| panic!("{text}"));
    assert_eq!(run(7), run(7), "with the number of polls");
    assert_ne!(run(7), run(8));
}

#[test]
fn promises_hold_under_faults() {
    let mut all = Faults::new();
    for seed in seeds(40) {
        let faults = run_seed(seed, |_| {}).unwrap_or_else(|text| panic!("{text}"));
        faults.into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
    }
    println!("{all:?}");
    for name in [
        "kill",
        "power cut",
        "power cut of all",
        "pause",
        "isolation",
        "cut one way",
        "flapping link",
        "slow disk",
        "clock step",
        "wrong bits",
        "full disk",
        "failed sync or write",
        "learner added",
        "members replaced",
        "member removed",
    ] {
        assert!(all.contains_key(name) || std::env::var("LEVERET_CLUSTER_SEEDS").is_ok(), "no {name}: {all:?}");
    }
    let is_usual = std::env::var("LEVERET_CLUSTER_SEEDS").is_err();
    assert!(all["acknowledged commands"] > 0 && (!is_usual || all["replicas under a new id"] > 0), "{all:?}");
}

/// A state was delayed on its way, and came behind entries of the same leader that follow it: the engine took its log for shorter than it is.
#[test]
fn a_state_that_comes_behind_its_entries_changes_nothing() {
    run_seed(3455, |_| {}).unwrap_or_else(|text| panic!("{text}"));
}

/// Wrong bits in the last batch of a log can't be told from a write that a power cut ended.
#[test]
fn wrong_bits_in_the_last_batch_are_no_broken_promise() {
    run_seed(14_959, |_| {}).unwrap_or_else(|text| panic!("{text}"));
}

#[test]
fn a_leader_that_is_cut_off_is_replaced_within_1_2_s() {
    let placement = PlacementId(1);
    for seed in 0..5 {
        let cluster = Cluster::new(100 + seed, 3, 1);
        cluster.run(3000);
        let old = cluster.leader(placement).expect("there is one");
        (1..5).for_each(|name| cluster.client(name, 100_000, 1, 100));
        cluster.run(500);
        assert!(!cluster.acknowledged().is_empty());
        cluster.links(|links| links.isolate(old, 1..=3));
        let from = now();
        cluster.run(2500);
        let next = cluster.acknowledged().into_iter().find(|answer| answer.at > from + 50_000_000);
        let took = next.map(|answer| (answer.at - from) / 1_000_000);
        println!("seed {seed}: next commit after {took:?} ms");
        assert!(took.is_some_and(|took| took <= 1200), "seed {seed}: {took:?} ms");
        assert!(cluster.leader(placement).is_some_and(|leader| leader != old), "seed {seed}");
    }
}

/// The links between nodes end once they are silent. A leader that waited for the answer to its state for as long as a large one may take
/// would send nothing else to the follower meanwhile.
#[test]
fn a_lost_answer_to_a_state_holds_a_follower_up_for_seconds() {
    let placement = PlacementId(1);
    for seed in 0..3 {
        let cluster = Cluster::new(seed, 3, 1);
        cluster.run(2000);
        let leader = cluster.leader(placement).expect("there is one");
        let follower = 1 + leader % 3;
        cluster.links(|links| links.isolate(follower, 1..=3));
        (1..5).for_each(|name| cluster.client(name, 300, 2, 1000));
        cluster.run(4000);
        cluster.links(leveret_sim::net::LinkFaults::heal);
        let before = cluster.states_sent();
        while cluster.states_sent() == before {
            cluster.run(1);
        }
        cluster.links(|links| links.isolate(follower, 1..=3));
        cluster.run(100);
        cluster.links(leveret_sim::net::LinkFaults::heal);
        cluster.client(5, 50, 2, 1000);
        cluster.run(1000);
        cluster.settle(25).unwrap();
        cluster.judge().unwrap();
    }
}

#[test]
fn a_newcomer_learns_votes_and_leads() {
    let placement = PlacementId(1);
    let cluster = Cluster::with_newcomer(5, 3, 1);
    cluster.client(1, 300, 2, 1000);
    cluster.run(2000);
    cluster.add_learner(placement, 4).unwrap();
    cluster.run(500);
    let leader = cluster.leader(placement).expect("there is one");
    let leaves = (1..4).find(|node| *node != leader).expect("two others are there");
    let voters: Vec<u64> = (1..=4).filter(|node| *node != leaves).collect();
    cluster.change_voters(placement, &voters).unwrap();
    cluster.kill(leaves);
    cluster.transfer(placement, 4).unwrap();
    cluster.run(1500);
    assert_eq!(cluster.leader(placement), Some(4));
    let before = cluster.acknowledged().len();
    cluster.client(2, 50, 2, 1000);
    cluster.run(2000);
    assert!(cluster.acknowledged().len() > before + 40, "{before} to {}", cluster.acknowledged().len());
    assert!(cluster.stopped().is_empty(), "{:?}", cluster.stopped());
}
