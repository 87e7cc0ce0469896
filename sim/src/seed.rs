//! The run of one seed: several lives over one disk.

use std::sync::Arc;

use leveret_broker::Nanos;
use leveret_log::{Log, Options};

use crate::audit::audit;
use crate::disk::{Change, SimDisk};
use crate::event_hash::EventHash;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, Stamp};
use crate::life::{close_books, rebase, recover_and_judge};
use crate::random::Random;
use crate::restart::{cut, cut_recovery, troubled};
use crate::streams::StreamKind;
use crate::tally::Tally;
use crate::trouble::Trouble;
use crate::verdict::judge;
use crate::workload::{Peers, Workload};
use crate::world::World;

/// The size of a seed's run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of lives that a crash ends; the last one is followed by a clean stop.
    pub lives: usize,
    /// Number of concurrent clients.
    pub peers: Peers,
    /// Least number of operations of clients in all lives together.
    pub operations: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self { lives: 4, peers: Peers { amqp091: 2, amqp10: 2, streams: 1 }, operations: 2_000 }
    }
}

/// Runs a seed.
///
/// # Errors
/// The first broken rule.
pub fn run_seed(seed: u64, plan: &Plan, log: &Options, tally: &mut Tally, hash: &mut EventHash) -> Result<(), Failure> {
    run_noting(seed, plan, log, (tally, hash), &mut String::new())
}

/// Like [`run_seed`]; `event` gets the last exceptional event.
///
/// # Errors
/// Like [`run_seed`].
pub fn run_noting(
    seed: u64,
    plan: &Plan,
    log: &Options,
    (tally, hash): (&mut Tally, &mut EventHash),
    event: &mut String,
) -> Result<(), Failure> {
    let mut random = Random::new(seed);
    let log = &vary(log, &mut random);
    let mut ledger = Ledger::default();
    ledger.stream_kind = StreamKind::any(&mut random);
    let mut disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), log.clone(), random.next())?;
    let mut done = 0;
    for life in 0..plan.lives {
        let began = disk.count();
        let share = plan.operations / plan.lives;
        // Some lives are over before anything of the previous life is retired.
        let operations = match random.below(4) {
            0 => 1 + random.below(60) as usize,
            _ => share / 2 + random.below(share as u64) as usize,
        };
        // Some lives end in the middle of everything, some when everything is answered.
        let steps = operations as u64 * 20 + random.below(operations as u64 * 40);
        let trouble = Trouble::of_life(&mut random);
        ledger.space_is_short = matches!(trouble, Trouble::Space(_));
        // Without space publishers wait as long as the life lasts.
        let all = random.below(4) == 0 && !ledger.space_is_short;
        let steps_left = if all { u64::MAX } else { steps };
        trouble.arm(&disk);
        *event = trouble.text(event);
        let mut workload = live(&mut world, &mut ledger, plan.peers, operations, steps_left)?;
        done += workload.operations;
        if ledger.space_is_short && world.stopped.is_none() {
            without_space(&mut world)?;
            workload.rest(&mut world, &mut ledger)?;
            tally.hit("full disks with space again");
        }
        let is_stopped = world.stopped.is_some();
        tally.add("nodes stopped by their disk", is_stopped.into());
        close(&mut world, tally, hash, &disk);
        drop(world);
        Trouble::end(&disk);
        let at = if is_stopped { disk.count() } else { moment_of_crash(&disk, &ledger, began, &mut random) };
        ledger.kept_power = true;
        let kills = if is_stopped { 6 } else { 2 };
        disk = cut(&disk, at, kills, &mut random, (tally, event, &mut ledger));
        let times = if is_stopped { random.below(3) / 2 } else { random.below(3) };
        let times = times.max(u64::from(life == 0));
        disk = cut_recovery(disk, log, times, &mut random, (tally, event, &mut ledger))?;
        troubled(&disk, log, (&ledger, at), trouble, &mut random, tally)?;
        (world, _) = reopen(&disk, log, &mut ledger, at, random.next(), tally)?;
    }
    ledger.space_is_short = false;
    *event = Trouble::None.text(event);
    let rest = plan.operations.saturating_sub(done).max(100);
    done += live(&mut world, &mut ledger, plan.peers, rest, u64::MAX)?.operations;
    tally.add("operations", done as u64);
    for link in 0..world.links.len() {
        world.disconnect(link);
    }
    while world.step()? {}
    ledger.heard_everything();
    // A client finds now what was promised, and finds the same after a clean stop.
    let findings = audit(&mut world, &ledger)?;
    judge(&ledger, disk.count(), &findings, &mut Tally::default())?;
    stop(&mut world)?;
    tally.hit("clean restarts");
    let at = disk.count();
    ledger.kept_power = true;
    *event = String::from("a clean stop");
    close(&mut world, tally, hash, &disk);
    drop(world);
    // The power may be cut after a clean stop, too.
    disk = Arc::new(disk.crash(random.next()));
    let (mut world, clean) = reopen(&disk, log, &mut ledger, at, random.next(), tally)?;
    if !clean {
        return Err(Failure::new(Check::Starts, "a clean stop was taken for a crash"));
    }
    close(&mut world, tally, hash, &disk);
    Ok(())
}

/// The moment of a crash: a few changes back. Clients then know more than they did at that moment, but promises carry
/// their stamps. Often it is right after a write, of which not everything is on the disk, or before names are synced,
/// or right after a promise to a client. Sometimes the life had hardly begun: then only what recovery made certain
/// exists.
fn moment_of_crash(disk: &SimDisk, ledger: &Ledger, began: usize, random: &mut Random) -> usize {
    let (now, back) = (disk.count(), random.below(12) as usize);
    let promises = ledger.promises();
    match random.below(10) {
        0..=2 if !promises.is_empty() => {
            return promises[random.below(promises.len() as u64) as usize].clamp(began, now);
        }
        3 => return began + random.below((now - began) as u64 + 1) as usize,
        4 => return now.min(began + random.below(4) as usize),
        5 => {
            let syncs = disk.before_each(began, |change| matches!(change, Change::SyncDirectory));
            if !syncs.is_empty() {
                return syncs[random.below(syncs.len() as u64) as usize];
            }
        }
        _ => {}
    }
    let latest = now - back.min(now - began);
    let is_write = |change: &Change| matches!(change, Change::Write { bytes, .. } if bytes.len() > 512);
    let after_write = || disk.last_change(latest, is_write).filter(|at| *at > began);
    if random.below(2) == 0 { after_write().unwrap_or(latest) } else { latest }
}

/// Varies the log's options: some logs have larger buffers and files than others, and more of them.
fn vary(log: &Options, random: &mut Random) -> Options {
    let buffer_bytes = [4 << 10, 14 << 10, 24 << 10, 48 << 10][random.below(4) as usize];
    Options {
        buffer_bytes,
        reserve_bytes: buffer_bytes / 6,
        file_bytes: [32 << 10, 64 << 10][random.below(2) as usize],
        mixed_below: [2 << 10, 8 << 10][random.below(2) as usize],
        unretired_max: 2 + random.below(2) as usize,
        fill_after: [2 << 10, 16 << 10, 1 << 20][random.below(3) as usize],
        unsynced_max: [2 << 10, 4 << 20][random.below(2) as usize],
        keep_live_percent: [10, 75, 101][random.below(3) as usize],
        ..log.clone()
    }
}

/// Runs clients and returns what they did and wait for.
fn live(
    world: &mut World,
    ledger: &mut Ledger,
    peers: Peers,
    operations: usize,
    mut steps_left: u64,
) -> Result<Workload, Failure> {
    let mut workload = Workload::new(world, ledger, peers, operations);
    while steps_left > 0 && workload.step(world, ledger)? {
        steps_left -= 1;
    }
    Ok(workload)
}

/// Starts, audits and judges, and continues from the findings. Also returns whether the stop before was a clean one.
fn reopen(
    disk: &Arc<SimDisk>,
    log: &Options,
    ledger: &mut Ledger,
    at: Stamp,
    seed: u64,
    tally: &mut Tally,
) -> Result<(World, bool), Failure> {
    let (world, findings) = recover_and_judge(disk.clone(), log.clone(), ledger, at, seed, tally)?;
    rebase(ledger, &findings)?;
    let clean = findings.clean;
    Ok((world, clean))
}

/// Stops cleanly, to the end of the commit lane's work.
fn stop(world: &mut World) -> Result<(), Failure> {
    while world.step()? {}
    world.broker.stop(world.clock.now());
    while world.step()? {}
    let (appended, durable) = world.broker.commit.inspect(|log| (log.appended(), log.durable()));
    if appended != durable {
        return Err(Failure::new(Check::Answered, format!("stopped with {durable} of {appended} records durable")));
    }
    Ok(())
}

/// Checks a life in which the disk is full. Nothing more is published. Once there is space again, everything that was
/// accepted becomes durable, and publishers may continue soon. (Before that they needn't: a single record may be larger
/// here than the reserve, which it can't be on a node.)
fn without_space(world: &mut World) -> Result<(), Failure> {
    let wait = |world: &mut World, time: Nanos, what: &str, is_done: &dyn Fn(&Log) -> bool| {
        let end = world.clock.nanos() + time;
        while world.stopped.is_none() && !world.broker.commit.inspect(is_done) {
            if world.clock.nanos() > end || !world.step()? {
                let (appended, durable) = world.broker.commit.inspect(|log| (log.appended(), log.durable()));
                let detail = format!("{what}; {durable} of {appended} records are durable");
                return Err(Failure::new(Check::DiskErrors, detail));
            }
        }
        Ok(())
    };
    world.space_again();
    let goes_on = |log: &Log| !log.is_out_of_space() && log.appended() == log.durable();
    wait(world, GOES_ON_WITHIN, "there is space again, and nothing goes on", &goes_on)
}

/// Longest time until publishers may continue. A node has five seconds. Retirements come before the reserve, and one
/// disk in four is forty times slower here.
const GOES_ON_WITHIN: Nanos = 15_000_000_000;

fn close(world: &mut World, tally: &mut Tally, hash: &mut EventHash, disk: &SimDisk) {
    let is_reuse = |change: &Change| matches!(change, Change::Rename { to, .. } if to.starts_with("wal-"));
    tally.add("WAL files used again", disk.count_changes(is_reuse));
    close_books(world, tally, hash);
}
