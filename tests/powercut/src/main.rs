//! Real power cuts, but for the electricity: a node works on a file system of ours that forgets, when the power goes,
//! what wasn't synced, in pieces and in any order. After each cut it starts on what is left.
//!
//! `powercut CUTS [SEED]`, as root: it mounts through /dev/fuse. The node is `LEVERET_BIN`. With `lie` behind them, the
//! disk doesn't sync any more once the queues are there: then the run must fail.
#![forbid(unsafe_code)]

mod disk;
mod mount;

use std::env;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use disk::{Disk, Luck};
use fuser::MountOption;
use leveret_tests::kill_load::{CLIENTS, QUEUES, declare, ledger, read_to_the_end};
use leveret_tests::node::{Node, Options, new_directory};
use leveret_tests::random::Random;
use mount::Mounted;

/// Share of the unsynced bytes that stays, by turns: none, half of them, most of them, all.
const LUCK: [Luck; 4] = [Luck(0), Luck(8), Luck(15), Luck(16)];

#[derive(Debug, Default)]
struct Cuts {
    /// Right after a confirm reached its client.
    after_confirm: usize,
    /// At any operation of the disk, while the node worked.
    at_operation: usize,
    /// Before the node had started again.
    in_recovery: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let lies = arguments.last().is_some_and(|last| last == "lie");
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<u64>().ok());
    let Some(cuts) = numbers.next() else {
        eprintln!("usage: powercut CUTS [SEED] [lie]");
        return ExitCode::FAILURE;
    };
    let seed = numbers.next().unwrap_or(1);
    let disk = Arc::new(Mutex::new(Disk::new()));
    let directory = new_directory();
    let mount_point = directory.path().to_owned();
    let options = [MountOption::FSName("powercut".into())];
    let session = match fuser::spawn_mount2(Mounted(disk.clone()), &mount_point, &options) {
        Ok(session) => session,
        Err(error) => {
            eprintln!("powercut: cannot mount (as root, with /dev/fuse): {error}");
            return ExitCode::FAILURE;
        }
    };
    // Small files, so that retirement and rewriting are cut too.
    let node = Node::start_in(directory, Options::new().set("debug.wal_file_bytes", 256 << 10));
    run(node, &disk, cuts, seed, lies);
    session.join();
    let _ = std::fs::remove_dir(mount_point);
    ExitCode::SUCCESS
}

fn run(mut node: Node, disk: &Arc<Mutex<Disk>>, cuts: u64, seed: u64, lies: bool) {
    let on_disk = || disk.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    declare(node.amqp());
    on_disk().lies = lies;
    let ledger = ledger();
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut done, mut starts) = (Cuts::default(), Vec::new());
    let begin = Instant::now();
    for cut in 0..cuts {
        ledger.begin_life();
        let at_operation = cut % 2 == 1;
        thread::scope(|scope| {
            let address = node.amqp();
            for client in CLIENTS {
                let ledger = &ledger;
                scope.spawn(move || client(ledger, address));
            }
            ledger.wait_for_confirms(CLIENTS.len(), 1);
            if at_operation {
                // Failures of the clients from now on come from a disk that is gone.
                ledger.end_life_softly();
                on_disk().until_cut = Some(1 + random.below(400) as u64);
                let patience = Instant::now() + Duration::from_secs(20);
                while !on_disk().is_dead && Instant::now() < patience {
                    thread::yield_now();
                }
                on_disk().is_dead = true;
                done.at_operation += 1;
            } else {
                ledger.wait_for_confirms(CLIENTS.len(), 1 + random.below(800) as u64);
                // The node may see that its disk is gone, and end, before it is killed.
                ledger.end_life_softly();
                on_disk().is_dead = true;
                done.after_confirm += 1;
            }
            ledger.end_life();
            node.kill();
        });
        on_disk().come_back(&mut random, LUCK[cut as usize / 2 % LUCK.len()]);
        if cut % 3 == 2 {
            on_disk().until_cut = Some(1 + random.below(60) as u64);
        }
        let mut start = Instant::now();
        while !node.try_restart() {
            assert!(on_disk().is_dead, "the node doesn't start: {}", node.log());
            node.kill();
            done.in_recovery += 1;
            let luck = LUCK[random.below(LUCK.len())];
            on_disk().come_back(&mut random, luck);
            start = Instant::now();
        }
        starts.push(start.elapsed());
        if on_disk().until_cut.take().is_some() && on_disk().is_dead {
            // Between the last of recovery and the first of its work.
            node.kill();
            on_disk().come_back(&mut random, Luck(8));
            assert!(node.try_restart(), "the node doesn't start: {}", node.log());
        }
        if !ledger.is_well() {
            break;
        }
    }
    ledger.begin_life();
    for queue in 0..QUEUES.len() {
        read_to_the_end(&ledger, node.amqp(), queue);
    }
    let totals = ledger.judge();
    starts.sort_unstable();
    println!(
        "{cuts} cuts in {:?} ({} right after a confirm, {} at an operation of the disk, {} more in recovery): {totals}; \
         started again after {:?}, at most {:?}",
        begin.elapsed(),
        done.after_confirm,
        done.at_operation,
        done.in_recovery,
        starts[starts.len() / 2],
        starts[starts.len() - 1],
    );
}
