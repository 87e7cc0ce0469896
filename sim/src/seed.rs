//! What one seed does: several lives over one disk.

use std::sync::Arc;

use leveret_log::Options;

use crate::disk::{Change, SimDisk};
use crate::event_hash::EventHash;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, Stamp};
use crate::life::{close_books, rebase, recover_and_judge};
use crate::random::Random;
use crate::tally::Tally;
use crate::workload::{Peers, Workload};
use crate::world::World;

/// How much a seed does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Lives that a power cut ends; a clean stop follows the last.
    pub lives: usize,
    /// Clients at a time.
    pub peers: Peers,
    /// Operations of clients in each life at most.
    pub operations: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { lives: 4, peers: Peers { amqp091: 2, amqp10: 2 }, operations: 250 }
    }
}

/// Runs a seed.
///
/// # Errors
/// The first rule found broken.
pub fn run_seed(seed: u64, plan: &Plan, log: &Options, tally: &mut Tally, hash: &mut EventHash) -> Result<(), Failure> {
    let mut random = Random::new(seed);
    let mut ledger = Ledger::default();
    let mut disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), log.clone(), random.next())?;
    for _ in 0..plan.lives {
        let began = disk.count();
        let operations = random.below(plan.operations) as usize;
        // Some lives end in the middle of everything, some when all is answered.
        let steps_left = if random.below(4) == 0 { u64::MAX } else { random.below(operations as u64 * 40 + 100) };
        live(&mut world, &mut ledger, plan.peers, operations, steps_left)?;
        close(&mut world, tally, hash, &disk);
        drop(world);
        tally.hit("power cuts");
        // A few changes back: clients then know more than they did, but promises carry their time.
        let at = disk.count() - (random.below(4) as usize).min(disk.count() - began);
        let moment = disk.moments().nth(at).map(|disk| disk.crash(random.next()));
        disk = moment.map_or(disk, Arc::new);
        disk = cut_recovery(disk, log, &mut random, tally)?;
        (world, _) = reopen(&disk, log, &mut ledger, at, random.next(), tally)?;
    }
    live(&mut world, &mut ledger, plan.peers, plan.operations as usize, u64::MAX)?;
    stop(&mut world)?;
    tally.hit("clean restarts");
    ledger.heard_everything();
    let at = disk.count();
    close(&mut world, tally, hash, &disk);
    drop(world);
    // The power may go after a clean stop, too.
    disk = Arc::new(disk.crash(random.next()));
    let (mut world, clean) = reopen(&disk, log, &mut ledger, at, random.next(), tally)?;
    if !clean {
        return Err(Failure::new(Check::Starts, "a clean stop was taken for a crash"));
    }
    close(&mut world, tally, hash, &disk);
    Ok(())
}

fn live(
    world: &mut World,
    ledger: &mut Ledger,
    peers: Peers,
    operations: usize,
    mut steps_left: u64,
) -> Result<(), Failure> {
    let mut workload = Workload::new(world, ledger, peers, operations);
    while steps_left > 0 && workload.step(world, ledger)? {
        steps_left -= 1;
    }
    Ok(())
}

/// Cuts the power while the broker starts, some times.
fn cut_recovery(
    mut disk: Arc<SimDisk>,
    log: &Options,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<Arc<SimDisk>, Failure> {
    for _ in 0..random.below(3) {
        let tried = Arc::new(SimDisk::clone(&disk));
        let (world, _) = World::start(tried.clone(), log.clone(), random.next())?;
        tally.merge(&world.tally);
        let moment = random.below(tried.count() as u64 + 1) as usize;
        let cut = tried.moments().nth(moment).map(|disk| disk.crash(random.next()));
        disk = cut.map_or(disk, Arc::new);
        tally.hit("power cuts in recovery");
    }
    Ok(disk)
}

/// Starts, looks, judges, and goes on from what was found. Also says whether the stop before was a clean one.
fn reopen(
    disk: &Arc<SimDisk>,
    log: &Options,
    ledger: &mut Ledger,
    at: Stamp,
    seed: u64,
    tally: &mut Tally,
) -> Result<(World, bool), Failure> {
    let (world, findings) = recover_and_judge(disk.clone(), log.clone(), ledger, at, seed, tally)?;
    rebase(ledger, &findings);
    let clean = findings.clean;
    Ok((world, clean))
}

/// A clean stop, to the end of the commit lane's work.
fn stop(world: &mut World) -> Result<(), Failure> {
    for link in 0..world.links.len() {
        world.disconnect(link);
    }
    while world.step()? {}
    world.broker.stop(world.clock.now());
    while world.step()? {}
    let (appended, durable) = world.broker.commit.inspect(|log| (log.appended(), log.durable()));
    if appended != durable {
        return Err(Failure::new(Check::Answered, format!("stopped with {durable} of {appended} records durable")));
    }
    Ok(())
}

fn close(world: &mut World, tally: &mut Tally, hash: &mut EventHash, disk: &SimDisk) {
    let is_reuse = |change: &&Change| matches!(change, Change::Rename { to, .. } if to.starts_with("wal-"));
    tally.add("WAL files used again", disk.trace().iter().filter(is_reuse).count() as u64);
    close_books(world, tally, hash);
}
