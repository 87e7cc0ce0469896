//! Power cuts after every change that the entry log makes of the disk, even during recovery: votes and entries that were confirmed are
//! there, in order and byte for byte, and no cut or purged entry comes back wrongly. With a planted bug the checks report it.

mod entry_world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use entry_world::{EntryWorld, check, files, options, recover};
use leveret_log::{Bug, EntryOptions};
use leveret_sim::disk::{Change, SimDisk};

const OPERATIONS: usize = 300;

/// The number of times that the events happened that the test is about.
#[derive(Debug, Default)]
struct Counts {
    moments: usize,
    cuts: usize,
    reused: u64,
    longest: usize,
    carried: usize,
    in_recovery: usize,
}

fn run(options: &EntryOptions, seed: u64) -> Result<EntryWorld, String> {
    let mut world = EntryWorld::new(options.clone(), seed);
    for _ in 0..OPERATIONS {
        world.operate();
        world.work().map_err(|error| format!("run: {error}"))?;
        world.check_memory().map_err(|text| format!("run: {text}"))?;
    }
    world.settle_down().map_err(|error| format!("run: {error}"))?;
    Ok(world)
}

/// Cuts the power after every change. Ends at the first check that fails.
fn cut_everywhere(options: &EntryOptions, seed: u64, counts: &mut Counts) -> Result<(), String> {
    let world = run(options, seed)?;
    counts.reused += world.disk.count_changes(|change| matches!(change, Change::Rename { .. }));
    counts.longest = counts.longest.max(files(&world.disk));
    counts.carried += carried(&world.disk);
    for (moment, disk) in world.disk.moments().enumerate() {
        counts.moments += 1;
        let confirmed = world.history.confirmed_at(moment);
        let cut_seed = seed * 100_000 + moment as u64;
        let crashed = disk.crash(cut_seed);
        let at = |text: String| format!("cut after change {moment}: {text}");
        let (log, report, models) = check(&crashed, options, &world.history, confirmed).map_err(at)?;
        counts.cuts += usize::from(report.cut.is_some());
        let position = log.durable();
        for (step, disk) in crashed.moments().enumerate().filter(|(step, _)| step % 3 == moment % 3) {
            counts.in_recovery += 1;
            let again = disk.crash(cut_seed + step as u64);
            let at = |text: String| format!("cut after change {moment} and change {step} of recovery: {text}");
            let (log, ..) = check(&again, options, &world.history, confirmed).map_err(at)?;
            if log.durable() != position {
                return Err(at(format!("recovery found {position} first, then {}", log.durable())));
            }
        }
        // After a kill everything that is found has to be durable.
        let (log, ..) = check(&disk, options, &world.history, confirmed).map_err(at)?;
        check(&disk.crash(cut_seed), options, &world.history, log.durable()).map_err(at)?;
        // The next life, and its power cut.
        if moment % 5 == 0 {
            let (log, _) = recover(&crashed, options).map_err(|error| error.to_string())?;
            let mut next = EntryWorld::resume(log, crashed, options.clone(), models, cut_seed);
            for _ in 0..8 {
                next.operate();
                next.work().map_err(|error| at(format!("later: {error}")))?;
            }
            let confirmed = next.history.confirmed_at(usize::MAX);
            let last = next.disk.crash(cut_seed);
            check(&last, options, &next.history, confirmed).map_err(|text| at(format!("after going on: {text}")))?;
        }
    }
    Ok(())
}

/// Entries that stand in the files more than once.
fn carried(disk: &SimDisk) -> usize {
    disk.trace().iter().filter(|change| matches!(change, Change::Write { bytes, .. } if has_carried(bytes))).count()
}

fn has_carried(bytes: &[u8]) -> bool {
    // Version 1, commands, carried, zeros.
    bytes.windows(4).any(|head| head == [1, 0x82, 0, 0])
}

/// Variants of the options: a ring of three files, one of four, and one that keeps nothing in memory.
fn variants() -> Vec<EntryOptions> {
    let nothing_cached = EntryOptions { cached_bytes: 0, ..options() };
    vec![options(), EntryOptions { files: 3, ..options() }, nothing_cached]
}

#[test]
fn confirmed_votes_and_entries_survive_every_power_cut() {
    let mut counts = Counts::default();
    for (options, seed) in variants().into_iter().cycle().take(24).zip(1..) {
        if let Err(text) = cut_everywhere(&options, seed, &mut counts) {
            panic!("seed {seed}: {text}");
        }
    }
    assert!(counts.moments > 500 && counts.in_recovery > 500, "{counts:?}");
    assert!(counts.cuts > 20, "batches were torn: {counts:?}");
    assert!(counts.reused > 15, "the ring came round: {counts:?}");
    assert!(counts.carried > 5, "entries were carried: {counts:?}");
    assert!(counts.longest > 4, "the ring grew for followers: {counts:?}");
}

/// Whether the bug is found within a few seeds.
fn is_found(bug: Bug) -> bool {
    (1..12).any(|seed| {
        Bug::plant(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(|| {
            variants().iter().any(|options| cut_everywhere(options, seed, &mut Counts::default()).is_err())
        }));
        Bug::plant(None);
        found.unwrap_or(true)
    })
}

#[test]
fn records_acknowledged_before_their_sync_are_found() {
    assert!(is_found(Bug::AcknowledgeEarly));
}

#[test]
fn a_dropped_carried_entry_is_found() {
    assert!(is_found(Bug::DropCarried));
}

#[test]
fn a_file_used_before_its_copies_are_durable_is_found() {
    assert!(is_found(Bug::ReuseBeforeDurable));
}

#[test]
fn a_forgotten_cut_is_found() {
    assert!(is_found(Bug::ForgetCut));
}

#[test]
fn a_carried_entry_that_cuts_is_found() {
    assert!(is_found(Bug::CutByCarried));
}

#[test]
fn a_torn_batch_that_is_taken_is_found() {
    assert!(is_found(Bug::AcceptTornBatch));
}

#[test]
fn a_recycled_salt_is_found() {
    assert!(is_found(Bug::TakeEarlierUse));
}
