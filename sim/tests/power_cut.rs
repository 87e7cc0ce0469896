//! Power cuts after every single change of the disk in one trace: the next client finds everything that a client had
//! been promised by then.

use std::sync::Arc;

use leveret_sim::disk::{Change, SimDisk};
use leveret_sim::event_hash::EventHash;
use leveret_sim::failure::Failure;
use leveret_sim::ledger::{Ledger, Stamp};
use leveret_sim::life;
use leveret_sim::tally::Tally;
use leveret_sim::workload::Peers;
use leveret_sim::world::{World, small_log};

const OPERATIONS: usize = 500;
const PEERS: Peers = Peers { amqp091: 2, amqp10: 2, streams: 1 };
const SEED: u64 = 4;
/// One in this many moments is followed by power cuts during its recovery, and by another life.
const SAMPLE: usize = 25;

/// A trace, its clients' knowledge, and the disk that recorded it.
fn trace() -> (Arc<SimDisk>, Ledger, Tally) {
    let disk = Arc::new(SimDisk::new());
    let mut ledger = Ledger::default();
    let (mut world, _) = World::start(disk.clone(), small_log(), SEED).unwrap();
    let operations = life::run(&mut world, &mut ledger, PEERS, OPERATIONS).unwrap();
    ledger.heard_everything();
    let (mut tally, mut hash) = (Tally::default(), EventHash::default());
    life::close_books(&mut world, &mut tally, &mut hash);
    assert!(operations >= 200, "only {operations} operations");
    assert!(tally.count("retirements") > 0, "the trace crosses no retirement");
    let confirms = tally.count("confirms");
    println!("{operations} operations, {confirms} confirms, {} changes of the disk", disk.count());
    (disk, ledger, tally)
}

fn judge(disk: SimDisk, ledger: &Ledger, at: Stamp, seed: u64, tally: &mut Tally) -> Result<World, Failure> {
    let (mut world, _) = life::recover_and_judge(Arc::new(disk), small_log(), ledger, at, seed, tally)?;
    life::close_books(&mut world, tally, &mut EventHash::default());
    Ok(world)
}

#[test]
fn promises_hold_after_a_cut_at_every_write_and_sync() {
    let (disk, ledger, mut tally) = trace();
    let mut cuts = 0;
    for (at, moment) in disk.moments().enumerate() {
        for seed in [at as u64, !(at as u64)] {
            cuts += 1;
            let survived = moment.crash(seed);
            judge(survived, &ledger, at, seed, &mut tally)
                .unwrap_or_else(|failure| panic!("power cut after change {at}, seed {seed}: {failure}"));
        }
    }
    println!("{cuts} power cuts, everything promised was found\n{tally}");
}

#[test]
fn promises_hold_after_cuts_during_recovery() {
    let (disk, ledger, mut tally) = trace();
    let mut cuts = 0;
    for (at, moment) in disk.moments().enumerate().step_by(SAMPLE) {
        let seed = at as u64;
        let survived = Arc::new(moment.crash(seed));
        World::start(survived.clone(), small_log(), seed).unwrap_or_else(|failure| panic!("change {at}: {failure}"));
        for (step, moment) in survived.moments().enumerate() {
            cuts += 1;
            judge(moment.crash(seed), &ledger, at, seed, &mut tally).unwrap_or_else(|failure| {
                panic!("power cut after change {at}, and after change {step} of the recovery, seed {seed}: {failure}")
            });
        }
    }
    println!("{cuts} power cuts during recovery, everything promised was found");
}

#[test]
fn promises_hold_after_cuts_in_the_next_life() {
    let (disk, ledger, mut tally) = trace();
    for (at, moment) in disk.moments().enumerate().step_by(SAMPLE) {
        let seed = at as u64;
        let text =
            |life: &str, failure: &Failure| format!("power cut after change {at}, seed {seed}, {life}: {failure}");
        let survived = Arc::new(moment.crash(seed));
        let mut ledger = ledger.clone();
        let (mut world, findings) =
            life::recover_and_judge(survived.clone(), small_log(), &ledger, at, seed, &mut tally)
                .unwrap_or_else(|failure| panic!("{}", text("first recovery", &failure)));
        let before = survived.count();
        life::rebase(&mut ledger, &findings).unwrap_or_else(|failure| panic!("{}", text("first recovery", &failure)));
        life::run(&mut world, &mut ledger, PEERS, 30)
            .unwrap_or_else(|failure| panic!("{}", text("second life", &failure)));
        ledger.heard_everything();
        let moments: Vec<SimDisk> = survived.moments().collect();
        for (at, moment) in moments.iter().enumerate().skip(before).step_by(7) {
            judge(moment.crash(seed), &ledger, at, seed, &mut tally)
                .unwrap_or_else(|failure| panic!("{}", text(&format!("second cut after {at}"), &failure)));
        }
    }
}

/// The first checkpoint has no predecessor to fall back to. If a power cut leaves only a part of it, the WAL is still
/// complete.
#[test]
fn promises_hold_after_cuts_in_the_first_checkpoint() {
    let (disk, ledger, mut tally) = trace();
    let is_checkpoint =
        |change: &Change| matches!(change, Change::Write { name, .. } if name.starts_with("checkpoint"));
    let at = 1 + disk.trace().iter().position(is_checkpoint).expect("the trace crosses a retirement");
    let moment = disk.moments().nth(at).expect("it was made");
    for seed in 0..300 {
        judge(moment.crash(seed), &ledger, at, seed, &mut tally)
            .unwrap_or_else(|failure| panic!("power cut after change {at}, seed {seed}: {failure}"));
    }
}
