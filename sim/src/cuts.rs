//! Power cuts after the changes of the disk in one trace, and the hunt for planted bugs with them.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::disk::SimDisk;
use crate::failure::Failure;
use crate::planted::{Bug, plant};

/// Cuts the power at every `every`th change of the disk from change `ready` on. `judge` gets the number of the change and the disk that
/// survived. Returns the number of cuts.
///
/// # Errors
/// The first failure that `judge` reports, with the place of the cut.
pub fn cut(
    disk: &SimDisk,
    ready: usize,
    (seed, every): (u64, usize),
    judge: impl FnMut(usize, SimDisk) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    crash(disk, ready..usize::MAX, (seed, every), |_| false, judge)
}

/// As [`cut`], at changes of this range; every fourth time only the broker is killed, and the disk keeps everything.
///
/// # Errors
/// As [`cut`].
pub fn cut_or_kill(
    disk: &SimDisk,
    range: Range<usize>,
    (seed, every): (u64, usize),
    judge: impl FnMut(usize, SimDisk) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    crash(disk, range, (seed, every), |count| count % 4 == 3, judge)
}

fn crash(
    disk: &SimDisk,
    range: Range<usize>,
    (seed, every): (u64, usize),
    is_kill: impl Fn(usize) -> bool,
    mut judge: impl FnMut(usize, SimDisk) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    let mut count = 0;
    for (at, moment) in disk.moments().enumerate().filter(|(at, _)| range.contains(at) && at % every == 0) {
        let (what, survived) = match is_kill(count) {
            true => ("kill", moment),
            false => ("power cut", moment.crash(seed ^ at as u64)),
        };
        count += 1;
        judge(at, survived).map_err(|failure| {
            Failure::new(failure.check, format!("seed {seed}, {what} after change {at}: {}", failure.detail))
        })?;
    }
    Ok(count)
}

/// Runs `check` with each of these seeds, at every so many changes of the disk.
///
/// # Panics
/// With the first failure that it reports.
pub fn assert_survived(runs: &[(u64, usize)], check: impl Fn(u64, usize) -> Result<usize, Failure>) {
    for &(seed, every) in runs {
        let cuts = check(seed, every).unwrap_or_else(|failure| panic!("{failure}"));
        println!("seed {seed}: {cuts} power cuts and kills");
    }
}

/// Plants each bug and runs `check` with these seeds until one reports it.
///
/// # Panics
/// If a bug stays hidden.
pub fn assert_caught(bugs: &[Bug], seeds: std::ops::Range<u64>, check: impl Fn(u64) -> Result<usize, Failure>) {
    let mut hidden = Vec::new();
    for &bug in bugs {
        plant(Some(bug));
        let found = seeds.clone().find_map(|seed| match catch_unwind(AssertUnwindSafe(|| check(seed))) {
            Ok(Ok(_)) => None,
            Ok(Err(failure)) => Some(failure.to_string()),
            Err(_) => Some(String::from("an assertion")),
        });
        plant(None);
        println!("{bug:?}: {found:?}");
        if found.is_none() {
            hidden.push(bug);
        }
    }
    assert!(hidden.is_empty(), "hidden: {hidden:?}");
}
