//! The time from the end of a life to the next start: power cuts while the broker starts, refused operations, bits that
//! are read wrong. The broker's changes up to then stay; in the end its disk works.

use std::sync::Arc;

use leveret_log::{Operation, Options};

use crate::audit::audit;
use crate::clock::Clock;
use crate::disk::{Fault, SimDisk, User};
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, Stamp};
use crate::random::Random;
use crate::tally::Tally;
use crate::trouble::{Trouble, reading};
use crate::verdict::{judge, judge_damaged};
use crate::world::World;

/// Cuts the power, or only ends the process (`kills` times in 8), after a moment that the seed chooses.
pub(crate) fn cut(
    disk: &SimDisk,
    at: usize,
    kills: u64,
    random: &mut Random,
    (tally, event, ledger): (&mut Tally, &mut String, &mut Ledger),
) -> Arc<SimDisk> {
    let moment = disk.moment(at);
    if random.below(8) < kills {
        tally.hit("kills");
        *event = String::from("a kill");
        return Arc::new(moment);
    }
    tally.hit("power cuts");
    *event = String::from("a power cut");
    ledger.kept_power = false;
    let cut = moment.crash(random.next());
    note_damage(&cut, tally);
    Arc::new(cut)
}

/// Cuts the power while the broker starts, at least this many times.
pub(crate) fn cut_recovery(
    mut disk: Arc<SimDisk>,
    log: &Options,
    times: u64,
    random: &mut Random,
    (tally, event, ledger): (&mut Tally, &mut String, &mut Ledger),
) -> Result<Arc<SimDisk>, Failure> {
    for _ in 0..times {
        let tried = Arc::new(SimDisk::clone(&disk));
        let (world, _) = World::start(tried.clone(), log.clone(), random.next())?;
        tally.merge(&world.tally);
        let moment = random.below(tried.count() as u64 + 1) as usize;
        disk = cut(&tried, moment, 2, random, (tally, event, ledger));
        event.push_str(" in recovery");
        tally.hit("power cuts in recovery");
    }
    Ok(disk)
}

/// Starts the broker on a disk that refuses an operation, which the broker has to report. Its changes up to then stay.
pub(crate) fn refuse(
    disk: &Arc<SimDisk>,
    fault: Fault,
    log: &Options,
    seed: u64,
    tally: &mut Tally,
) -> Result<(), Failure> {
    disk.arm(Some(fault));
    let started = World::start_damaged(Clock::default(), disk.clone(), log.clone(), seed);
    let fired = disk.fired();
    disk.arm(None);
    match started {
        Err(_) if fired > 0 => tally.hit("starts refused by a broken disk"),
        Err(failure) => return Err(failure),
        // Not every read is needed to start. Its changes to the disk are judged with the start on a healthy one.
        Ok(_) if fired > 0 && matches!(fault.on, Operation::Read | Operation::Length) => {
            tally.hit("read errors that a start survived")
        }
        Ok(_) if fired > 0 => {
            return Err(Failure::new(Check::DiskErrors, format!("the broker started in spite of {fault:?}")));
        }
        Ok((world, _)) => tally.merge(&world.tally),
    }
    Ok(())
}

/// Lets a bit be read wrong while the broker starts, or is audited afterwards. The broker may refuse to start, report
/// what is missing, or find nothing wrong; any message that it delivers is right.
pub(crate) fn flip(
    disk: &SimDisk,
    log: &Options,
    ledger: &Ledger,
    at: Stamp,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let disk = Arc::new(disk.clone());
    let fault = loop {
        let fault = reading(User::Start, random.below(40), false, random);
        if matches!(fault.wrong, crate::disk::Wrong::Flips(_)) {
            break fault;
        }
    };
    disk.arm(Some(fault));
    let started = World::start_damaged(Clock::default(), disk.clone(), log.clone(), random.next());
    let fired = disk.fired() > 0;
    note_damage(&disk, tally);
    let (mut world, report) = match started {
        Err(_) if fired => {
            tally.hit("starts refused by a flipped bit");
            return Ok(());
        }
        started => started?,
    };
    let findings = audit(&mut world, ledger)?;
    if report.damaged.is_empty() && report.cut.is_none() && findings.stopped.is_empty() {
        tally.add("flipped bits that changed nothing", fired.into());
        return judge(ledger, at, &findings, &mut Tally::default());
    }
    tally.add("flipped bits that a start reported", fired.into());
    judge_damaged(ledger, at, &findings)
}

/// Disturbs some starts with a fault.
pub(crate) fn troubled(
    disk: &Arc<SimDisk>,
    log: &Options,
    (ledger, at): (&Ledger, Stamp),
    before: Trouble,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), Failure> {
    if let Some(fault) = before.at_restart() {
        refuse(disk, fault, log, random.next(), tally)?;
    }
    match random.below(6) {
        0 => {
            if let Trouble::Fault(fault) = Trouble::of_start(random) {
                refuse(disk, fault, log, random.next(), tally)?;
            }
        }
        1 => flip(disk, log, ledger, at, random, tally)?,
        _ => {}
    }
    Ok(())
}

/// Counts the damage of a disk.
fn note_damage(disk: &SimDisk, tally: &mut Tally) {
    for (name, count) in disk.take_damage().iter() {
        tally.add(name, count);
    }
}
