//! Logins and permissions whose backend answers late and in any order: clients are told what they would be told otherwise, and all
//! promises are kept.

use std::sync::Arc;

use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::ledger::Ledger;
use leveret_sim::life;
use leveret_sim::tally::Tally;
use leveret_sim::workload::Peers;
use leveret_sim::world::{World, small_log};

const OPERATIONS: usize = 400;
const PEERS: Peers = Peers { amqp091: 3, amqp10: 2, streams: 1 };
const SEEDS: u64 = 32;

/// Runs clients whose backend is late, cuts the power at the end, and judges what is left. Returns the number of late answers.
fn work_and_cut(seed: u64, tally: &mut Tally) -> Result<u64, Failure> {
    let disk = Arc::new(SimDisk::new());
    let mut ledger = Ledger::default();
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    world.backend.be_late();
    life::run(&mut world, &mut ledger, PEERS, OPERATIONS)?;
    ledger.heard_everything();
    let answered = world.backend.answered();
    drop(world);
    let at = disk.count();
    let survived = Arc::new(disk.moments().last().expect("a moment").crash(seed));
    life::recover_and_judge(survived, small_log(), &ledger, at, seed, tally)?;
    Ok(answered)
}

#[test]
fn promises_are_kept_however_late_a_backend_answers() {
    let mut tally = Tally::default();
    let mut answered = 0;
    for seed in 0..SEEDS {
        answered += work_and_cut(seed, &mut tally).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
    println!("{answered} late answers");
    assert!(answered > SEEDS * 20, "{answered}");
}
