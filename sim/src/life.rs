//! A life, from a start to the next power cut: the parts that tests combine.

use std::sync::Arc;

use crate::amqp091::Received;
use crate::audit::{Findings, audit};
use crate::body;
use crate::clock::Clock;
use crate::disk::SimDisk;
use crate::event_hash::EventHash;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, Stamp};
use crate::streams::is_stream;
use crate::tally::Tally;
use crate::verdict::judge;
use crate::workload::{Peers, Workload};
use crate::world::{Logs, World};

/// Runs a trace of clients' operations, on an empty or surviving disk, until everything is answered.
///
/// # Errors
/// A broken rule.
pub fn run(world: &mut World, ledger: &mut Ledger, peers: Peers, operations: usize) -> Result<usize, Failure> {
    let mut workload = Workload::new(world, ledger, peers, operations);
    while workload.step(world, ledger)? {}
    Ok(workload.operations)
}

/// Starts on the disk that a power cut left, reads everything and judges it. `at` is the number of changes that the
/// disk had seen.
///
/// # Errors
/// A broken rule.
pub fn recover_and_judge(
    disk: Arc<SimDisk>,
    log: impl Into<Logs>,
    ledger: &Ledger,
    at: Stamp,
    seed: u64,
    tally: &mut Tally,
) -> Result<(World, Findings), Failure> {
    // Wall time goes on where the last life ended.
    let clock = if ledger.now_ms == 0 { Clock::default() } else { Clock::at(ledger.now_ms) };
    let (mut world, report) = World::start_at(clock, disk, log, seed)?;
    let mut findings = audit(&mut world, ledger)?;
    findings.clean = report.clean;
    if let Some(name) = findings.stopped.first() {
        let reasons = world.note_failed();
        return Err(Failure::new(
            Check::Runs,
            format!("queue {name} has stopped although the disk works: {reasons:?}"),
        ));
    }
    judge(ledger, at, &findings, tally)?;
    Ok((world, findings))
}

/// The ledger of the life that begins with these findings.
///
/// # Errors
/// The messages of a stream can't be those of one stream.
pub fn rebase(ledger: &mut Ledger, findings: &Findings) -> Result<(), Failure> {
    let ids = |found: &Vec<Received>| found.iter().filter_map(|received| body::id(&received.content.body)).collect();
    let found = findings.queues.iter().map(|(queue, found)| (queue.clone(), ids(found))).collect();
    for (queue, found) in findings.queues.iter().filter(|(queue, _)| is_stream(queue)) {
        let found = found.iter().filter_map(|received| received.content.offset.zip(body::id(&received.content.body)));
        let found = found.map(|(offset, id)| (offset, &ledger.messages[id as usize]));
        let next = findings.streams.get(queue).map_or(0, |(_, next, _)| *next);
        ledger.streams.entry(queue.clone()).or_default().rebase(queue, found, next)?;
    }
    ledger.streams.retain(|queue, _| findings.queues.contains_key(queue));
    ledger.rebase(&found, &|object| findings.objects.contains(object));
    Ok(())
}

/// Adds a world's counts and hash to the totals.
pub fn close_books(world: &mut World, tally: &mut Tally, hash: &mut EventHash) {
    world.count_log();
    world.tally.add("milliseconds of virtual time", world.clock.nanos() / 1_000_000);
    for (name, count) in world.disk.take_damage().iter() {
        world.tally.add(name, count);
    }
    tally.merge(&world.tally);
    hash.note(world.hash.value());
}
