//! Placements of several nodes under faults: the judge finds every promise kept.

use leveret_log::PlacementId;
use leveret_sim::cluster::{Cluster, Faults, bare_commits, direct_commits, now, polls, real_commits, run_seed};

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

/// Nanoseconds of a core that this thread has used: as good on a busy machine.
fn cpu_nanos() -> u64 {
    let counters = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    counters.split(' ').next().and_then(|used| used.parse().ok()).expect("a number")
}

/// Seconds of a core since `from`, of [`cpu_nanos`].
fn cpu_since(from: u64) -> f64 {
    (cpu_nanos() - from) as f64 / 1e9
}

#[test]
#[ignore = "a measure, which wants a quiet machine: run it with --nocapture"]
fn measures_of_simulated_clusters() {
    for (nodes, placements, writers) in [(3, 2, 0), (3, 2, 16), (3, 24, 0), (3, 16, 256)] {
        let cluster = Cluster::with_options(1, nodes, placements, leveret_log::EntryOptions::default());
        cluster.run(3000);
        (0..writers).for_each(|writer| cluster.client(writer as u8, u64::MAX, 0, 5000));
        let (from, polled, answered) = (cpu_nanos(), polls(), cluster.acknowledged().len());
        let seconds = if writers > 16 { 2 } else { 20 };
        cluster.run(seconds * 1000);
        let took = cpu_since(from);
        println!(
            "{placements} placements on {nodes} nodes, {writers} writers: {seconds} s in {took:.2} s of a core ({:.1} %, {:.0} x real time), \
             {} polls, {} commits",
            took / seconds as f64 * 100.0,
            seconds as f64 / took,
            polls() - polled,
            cluster.acknowledged().len() - answered
        );
    }
}

#[test]
#[ignore = "a measure, which wants a quiet machine: run it with --nocapture"]
fn placements_beside_the_bare_engine() {
    const SECONDS: u64 = 2;
    for round in 0..3 {
        let mut from = 0;
        let bare = bare_commits(round, 16, 16, SECONDS, || from = cpu_nanos()) as f64 / cpu_since(from);
        let (commits, syncs) = direct_commits(round, 16, 16, SECONDS, || from = cpu_nanos());
        let ours = commits as f64 / cpu_since(from);
        println!(
            "{ours:.0} commits a second of a core, the bare engine {bare:.0}: {:.2}; {:.3} syncs a commit on all three nodes",
            ours / bare,
            syncs as f64 / commits as f64
        );
    }
}

#[test]
#[ignore = "a measure, which wants a quiet machine, and TMPDIR on the disk in question: run it with --nocapture"]
fn commits_of_placements_on_real_files() {
    const SECONDS: u64 = 5;
    let directory = std::env::temp_dir().join(format!("leveret-placements-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let alone = std::fs::File::create(directory.join("alone")).unwrap();
    let begun = std::time::Instant::now();
    for at in 0..100 {
        std::os::unix::fs::FileExt::write_all_at(&alone, &[7; 4096], at % 4 * 4096).unwrap();
        alone.sync_data().unwrap();
    }
    println!("a sync of 4 KiB with nothing beside it takes {:?}", begun.elapsed() / 100);
    for round in 0..3 {
        let nodes = [1, 2, 3].map(|node| directory.join(format!("{round}-{node}")));
        let (mut from, mut begun) = (0, std::time::Instant::now());
        let warm = || (from, begun) = (cpu_nanos(), std::time::Instant::now());
        let (commits, syncs) = real_commits(16, 16, SECONDS, nodes.each_ref().map(AsRef::as_ref), warm);
        println!(
            "{:.0} commits/s, {:.3} syncs a commit on all three nodes, {:.1} us of a core a commit without the disk's threads",
            commits as f64 / begun.elapsed().as_secs_f64(),
            syncs as f64 / commits as f64,
            cpu_since(from) / commits as f64 * 1e6
        );
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
