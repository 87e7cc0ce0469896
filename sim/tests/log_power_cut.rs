//! Power cuts after every change of the disk, even during recovery: everything that was confirmed is there, in order
//! and byte for byte. With a planted bug it isn't, and the checks report it.

mod log_world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use leveret_log::{Bug, Options};
use leveret_sim::disk::SimDisk;
use log_world::{Recovered, World, check, check_salts, options};

const OPERATIONS: usize = 260;

/// The number of times that the events happened that the test is about.
#[derive(Debug, Default)]
struct Counts {
    moments: usize,
    recoveries: usize,
    cuts: usize,
    removed: [usize; 3],
    in_recovery: usize,
    rewrites: u64,
    files_kept: u64,
}

impl Counts {
    fn note(&mut self, recovered: &Recovered) {
        self.recoveries += 1;
        self.cuts += usize::from(recovered.report.cut.is_some());
        for (i, kind) in ["wal-", "segment-", "checkpoint-"].iter().enumerate() {
            self.removed[i] += usize::from(recovered.report.removed.iter().any(|name| name.starts_with(kind)));
        }
    }
}

fn run(options: &Options, seed: u64) -> Result<World, String> {
    let mut world = World::new(options.clone(), seed);
    for _ in 0..OPERATIONS {
        world.operate();
        world.work().map_err(|error| format!("run: {error}"))?;
    }
    world.settle_down().map_err(|error| format!("run: {error}"))?;
    Ok(world)
}

/// Cuts the power after every change. Ends at the first check that fails.
fn cut_everywhere(options: &Options, seed: u64, counts: &mut Counts) -> Result<(), String> {
    let world = run(options, seed)?;
    counts.rewrites += world.log.statistics().rewrites;
    counts.files_kept += world.log.statistics().files_kept;
    if let Some(fault) = world.history.faults.first() {
        return Err(format!("order check: {fault}"));
    }
    check_salts(&world.disk.trace())?;
    for (moment, disk) in world.disk.moments().enumerate() {
        counts.moments += 1;
        let confirmed = world.history.confirmed_at(moment);
        let cut_seed = seed * 100_000 + moment as u64;
        let crashed = disk.crash(cut_seed);
        let at = |text: String| format!("cut after change {moment}: {text}");
        let recovered = check(&crashed, options, &world.history.records, confirmed).map_err(at)?;
        counts.note(&recovered);
        let position = recovered.report.position;
        // Power cuts during recovery.
        for (step, disk) in crashed.moments().enumerate() {
            counts.in_recovery += 1;
            let again = disk.crash(cut_seed + step as u64);
            let at = |text: String| format!("cut after change {moment} and change {step} of recovery: {text}");
            let recovered = check(&again, options, &world.history.records, confirmed).map_err(at)?;
            if recovered.report.position != position {
                return Err(at(format!("recovery found {position} first, then {}", recovered.report.position)));
            }
            counts.note(&recovered);
        }
        kill(&disk, options, &world, cut_seed, counts).map_err(at)?;
        // Power cuts in the next life.
        go_on(recovered, crashed, options, &world, cut_seed, counts).map_err(at)?;
    }
    Ok(())
}

/// After a kill all written bytes are still there. Recovery tells clients what it finds, so that has to be durable if
/// the power is cut afterwards.
fn kill(disk: &SimDisk, options: &Options, world: &World, seed: u64, counts: &mut Counts) -> Result<(), String> {
    let records = &world.history.records;
    let recovered = check(disk, options, records, 0).map_err(|text| format!("after a kill: {text}"))?;
    let found = recovered.report.position;
    let crashed = disk.crash(seed);
    let recovered =
        check(&crashed, options, records, found).map_err(|text| format!("after a kill and a power cut: {text}"))?;
    counts.note(&recovered);
    Ok(())
}

/// Continues after the recovery, until the next power cut.
fn go_on(
    recovered: Recovered,
    disk: SimDisk,
    options: &Options,
    before: &World,
    seed: u64,
    counts: &mut Counts,
) -> Result<(), String> {
    let records = before.history.records[..recovered.report.position as usize].to_vec();
    let mut world = World::resume(recovered.log, disk, recovered.ledgers, records, seed);
    for _ in 0..6 {
        world.operate();
        world.work().map_err(|error| format!("later: {error}"))?;
    }
    let confirmed = world.history.confirmed_at(usize::MAX);
    let crashed = world.disk.crash(seed);
    let recovered = check(&crashed, options, &world.history.records, confirmed.max(before_position(&world)))
        .map_err(|text| format!("after going on: {text}"))?;
    counts.note(&recovered);
    Ok(())
}

/// The position up to which the findings of the first recovery are durable by now.
fn before_position(world: &World) -> u64 {
    world.history.confirmed.first().map_or(0, |(_, position)| *position)
}

#[test]
fn nothing_confirmed_is_lost_at_any_power_cut() {
    let mut counts = Counts::default();
    // To run more seeds: `SIM_SEEDS=100 cargo test -p leveret-sim`.
    let seeds = std::env::var("SIM_SEEDS").map_or(2, |seeds| seeds.parse().expect("SIM_SEEDS is a number"));
    for seed in 1..=seeds {
        let world = run(&options(), seed).unwrap();
        assert!(world.log.statistics().retirements >= 2, "{:?}", world.log.statistics());
        assert!(world.log.statistics().messages_copied > 0);
        if let Err(text) = cut_everywhere(&options(), seed, &mut counts) {
            panic!("seed {seed}: {text}");
        }
    }
    println!("{counts:?}");
    let Counts { moments, recoveries, cuts, removed, in_recovery, rewrites, .. } = counts;
    assert!(rewrites > 2, "{rewrites} rewrites");
    assert!(moments >= 400 && recoveries > moments && in_recovery > moments);
    assert!(cuts > 0, "no batch was torn");
    assert!(removed.iter().all(|count| *count > 0), "not every kind of leftover was met: {removed:?}");
}

/// Options with which many retired files become segments.
fn keeping() -> Options {
    Options { keep_live_percent: 20, ..options() }
}

#[test]
fn nothing_confirmed_is_lost_where_files_are_kept() {
    let mut counts = Counts::default();
    for seed in 1..=2 {
        if let Err(text) = cut_everywhere(&keeping(), seed, &mut counts) {
            panic!("seed {seed}: {text}");
        }
    }
    println!("{counts:?}");
    assert!(counts.files_kept > 2 && counts.rewrites > 2, "{counts:?}");
    assert!(counts.removed.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_failing_disk_ends_the_log_and_confirms_nothing_more() {
    let changes = run(&options(), 3).unwrap().disk.count();
    for from in (1..changes).step_by(7) {
        let mut world = World::new(options(), 3);
        world.disk.fail_from(world.disk.count() + from, 5);
        let mut failed = None;
        for _ in 0..OPERATIONS {
            world.operate();
            if let Err(error) = world.work() {
                failed = Some(error.to_string());
                break;
            }
        }
        if failed.is_none() {
            failed = world.settle_down().err().map(|error| error.to_string());
        }
        // Failures near the end may come after the run's last operation.
        if let Some(text) = failed {
            assert!(text.contains("os error 5"), "{text}");
        }
        let confirmed = world.history.confirmed_at(usize::MAX);
        let crashed = world.disk.crash(from as u64);
        if let Err(text) = check(&crashed, &options(), &world.history.records, confirmed) {
            panic!("failing from change {from}: {text}");
        }
    }
}

/// The check that catches a bug.
fn caught(bug: Bug) -> String {
    caught_with(options(), bug)
}

fn caught_with(options: Options, bug: Bug) -> String {
    let options = Options { bug: Some(bug), ..options };
    for seed in 1..=5 {
        let found = catch_unwind(AssertUnwindSafe(|| cut_everywhere(&options, seed, &mut Counts::default())));
        match found {
            Ok(Ok(())) => {}
            Ok(Err(text)) => return format!("{bug:?}, seed {seed}: {text}"),
            Err(_) => return format!("{bug:?}, seed {seed}: assertion"),
        }
    }
    panic!("{bug:?} was not caught");
}

/// As [`caught`], for a bug that is planted in the thread instead of the options.
fn caught_in_thread(options: Options, bug: Bug) -> String {
    Bug::plant(Some(bug));
    let found = catch_unwind(|| caught_with(options, bug));
    Bug::plant(None);
    found.unwrap_or_else(|_| panic!("{bug:?} was not caught"))
}

#[test]
fn a_skipped_sync_is_caught() {
    println!("{}", caught(Bug::SkipSync));
}

#[test]
fn a_skipped_directory_sync_is_caught() {
    println!("{}", caught(Bug::SkipDirectorySync));
}

#[test]
fn a_reused_salt_is_caught() {
    println!("{}", caught(Bug::ReuseSalt));
}

#[test]
fn recycling_before_the_settles_are_durable_is_caught() {
    println!("{}", caught(Bug::UnlinkBeforeSettleDurable));
}

#[test]
fn a_confirm_at_append_is_caught() {
    println!("{}", caught(Bug::ConfirmAtAppend));
}

#[test]
fn a_chunk_dropped_by_its_first_message_is_caught() {
    println!("{}", caught_in_thread(options(), Bug::DropChunkByFirst));
}

#[test]
fn a_kept_file_that_is_used_again_is_caught() {
    println!("{}", caught_in_thread(keeping(), Bug::ReuseKeptFile));
}

#[test]
fn a_kept_file_that_recovery_removes_is_caught() {
    println!("{}", caught_in_thread(keeping(), Bug::RemoveKeptFile));
}
