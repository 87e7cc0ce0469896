//! From a start to the next power cut: the pieces that tests put together.

use std::sync::Arc;

use crate::amqp091::Received;
use crate::audit::{Findings, audit};
use crate::body;
use crate::disk::SimDisk;
use crate::event_hash::EventHash;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, Stamp};
use crate::tally::Tally;
use crate::verdict::judge;
use crate::workload::{Peers, Workload};
use crate::world::{Logs, World};

/// A trace of clients' operations from an empty or surviving disk, run until everything is answered.
///
/// # Errors
/// A rule was found broken.
pub fn run(world: &mut World, ledger: &mut Ledger, peers: Peers, operations: usize) -> Result<usize, Failure> {
    let mut workload = Workload::new(world, ledger, peers, operations);
    while workload.step(world, ledger)? {}
    Ok(workload.operations)
}

/// Starts on what a power cut left, looks at everything and judges it. `at` is how many changes the disk had seen.
///
/// # Errors
/// A rule was found broken.
pub fn recover_and_judge(
    disk: Arc<SimDisk>,
    log: impl Into<Logs>,
    ledger: &Ledger,
    at: Stamp,
    seed: u64,
    tally: &mut Tally,
) -> Result<(World, Findings), Failure> {
    let (mut world, report) = World::start(disk, log, seed)?;
    let mut findings = audit(&mut world, ledger)?;
    findings.clean = report.clean;
    if let Some(name) = findings.stopped.first() {
        return Err(Failure::new(Check::Runs, format!("queue {name} has stopped although the disk works")));
    }
    judge(ledger, at, &findings, tally)?;
    Ok((world, findings))
}

/// The ledger of the life that begins with these findings.
pub fn rebase(ledger: &mut Ledger, findings: &Findings) {
    let ids = |found: &Vec<Received>| found.iter().filter_map(|received| body::id(&received.content.body)).collect();
    let found = findings.queues.iter().map(|(queue, found)| (queue.clone(), ids(found))).collect();
    ledger.rebase(&found, &|object| findings.objects.contains(object));
}

/// What a world leaves behind for the record.
pub fn close_books(world: &mut World, tally: &mut Tally, hash: &mut EventHash) {
    world.count_log();
    world.tally.add("milliseconds of virtual time", world.clock.nanos() / 1_000_000);
    for (name, count) in world.disk.take_damage().iter() {
        world.tally.add(name, count);
    }
    tally.merge(&world.tally);
    hash.note(world.hash.value());
}
