//! Figures of placements in one thread, in time of a core: with the code of a release and its allocator.

use leveret_sim::cluster::{Cluster, bare_commits, direct_commits, polls, real_commits, run_seed};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rounds of the comparison with the engine alone.
const ROUNDS: u64 = 15;

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
#[ignore = "a measure, which wants a quiet machine: make engine-measures"]
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
#[ignore = "a measure, which wants a quiet machine: make engine-measures"]
fn placements_beside_the_bare_engine() {
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let mut from = 0;
        let bare = bare_commits(round, 16, 16, 1, || from = cpu_nanos()) as f64 / cpu_since(from);
        let (commits, syncs) = direct_commits(round, 16, 16, 1, || from = cpu_nanos());
        let ours = commits as f64 / cpu_since(from);
        ratios.push(ours / bare);
        println!(
            "{ours:.0} commits a second of a core, the bare engine {bare:.0}: {:.2}; {:.3} syncs a commit on all three nodes",
            ours / bare,
            syncs as f64 / commits as f64
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!("median of {ROUNDS} rounds: {:.2}", ratios[ratios.len() / 2]);
}

#[test]
#[ignore = "a measure, which wants a quiet machine: make engine-measures"]
fn seeds_beside_real_time() {
    let from = cpu_nanos();
    let simulated = |seed| run_seed(seed, |_| {}).expect("it keeps every promise")["simulated milliseconds"];
    let milliseconds: u64 = (0..40).map(simulated).sum();
    println!("40 seeds of six to ten replicas: {:.0} x real time", milliseconds as f64 / 1e3 / cpu_since(from));
}

#[test]
#[ignore = "a measure, which wants a quiet machine, and TMPDIR on the disk in question: make engine-measures"]
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
