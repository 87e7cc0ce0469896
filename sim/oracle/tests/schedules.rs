//! Placements and raft-rs under the same schedules: both keep all promises, and go on as soon as they can.

use std::ops::Range;

use leveret_sim::cluster::schedule::{Schedule, ScheduleOutcome, run_schedule};

/// Seeds of a run: others with `LEVERET_CLUSTER_SEEDS=first..end`.
fn seeds() -> Range<u64> {
    let Ok(wanted) = std::env::var("LEVERET_CLUSTER_SEEDS") else { return 0..40 };
    let (first, end) = wanted.split_once("..").expect("FIRST..END");
    first.parse().expect("a number")..end.parse().expect("a number")
}

#[test]
fn both_engines_keep_their_promises_under_one_schedule() {
    let (mut ours, mut theirs) = (ScheduleOutcome::default(), ScheduleOutcome::default());
    let mut longest = (0, 0);
    for seed in seeds() {
        let schedule = Schedule::of_seed(seed);
        let here = run_schedule(seed, &schedule).unwrap_or_else(|text| panic!("placements: {text}"));
        let there = leveret_oracle::run_schedule(seed, &schedule).unwrap_or_else(|text| panic!("raft-rs: {text}"));
        println!("seed {seed}: {here:?}, raft-rs {there:?}");
        for (sum, one) in [(&mut ours, here), (&mut theirs, there)] {
            sum.acknowledged += one.acknowledged;
            sum.settled_after += one.settled_after;
        }
        longest = (longest.0.max(here.settled_after), longest.1.max(there.settled_after));
    }
    println!("all: {ours:?}, raft-rs {theirs:?}; longest until even: {longest:?} ms");
    assert!(theirs.acknowledged > 0);
    // Commands that one engine acknowledges under a schedule, the other can, too.
    assert!(ours.acknowledged * 10 >= theirs.acknowledged * 8, "{ours:?}, raft-rs {theirs:?}");
}

#[test]
fn a_seed_repeats_itself() {
    let run = |seed| leveret_oracle::run_schedule(seed, &Schedule::of_seed(seed)).unwrap();
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
