//! Bugs that are put in on purpose, each caught by a seed; the output says by which check.
//!
//! The seventh, to unlink a WAL file before the settle that emptied it is durable, hides from a thousand of these seeds:
//! it needs a cut between a checkpoint and the settles that it already counts, and another one after few records of
//! the next life. tests/log_power_cut.rs catches it by the order of the disk's operations.
#![cfg(feature = "planted-bugs")]

use std::sync::Arc;

use leveret_broker::mailbox::{Inner, Lock, Mailbox};
use leveret_log::{Bug, Options};
use leveret_sim::event_hash::EventHash;
use leveret_sim::failure::{Check, Failure};
use leveret_sim::seed::{Plan, run_seed};
use leveret_sim::tally::Tally;
use leveret_sim::world::small_log;

/// Seeds that a bug may hide from at most.
const SEEDS: u64 = 1_000;

/// The first seed that fails, and how. A panic of an assertion in the shipped code counts, too.
fn first_failure(log: &Options) -> Option<(u64, Result<Failure, String>)> {
    (0..SEEDS).find_map(|seed| {
        let run = || run_seed(seed, &Plan::default(), log, &mut Tally::default(), &mut EventHash::default());
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some((seed, Ok(failure))),
            Err(panic) => Some((seed, Err(panic.downcast_ref::<String>().cloned().unwrap_or_default()))),
        }
    })
}

fn is_caught(name: &str, log: &Options) -> Option<Check> {
    let (seed, found) = first_failure(log).unwrap_or_else(|| panic!("{name}: not caught by {SEEDS} seeds"));
    match found {
        Ok(failure) => {
            println!("caught: {name}, by seed {seed}: {failure}");
            Some(failure.check)
        }
        Err(panic) => {
            println!("caught: {name}, by seed {seed}: an assertion: {panic}");
            None
        }
    }
}

fn with(bug: Bug) -> Options {
    Options { bug: Some(bug), ..small_log() }
}

#[test]
fn no_seed_fails_without_a_bug() {
    for seed in 0..20 {
        run_seed(seed, &Plan::default(), &small_log(), &mut Tally::default(), &mut EventHash::default()).unwrap();
    }
}

#[test]
fn a_skipped_sync_is_caught() {
    is_caught("skip the sync", &with(Bug::SkipSync));
}

#[test]
fn a_confirm_at_append_is_caught() {
    is_caught("confirm at append", &with(Bug::ConfirmAtAppend));
}

#[test]
fn a_skipped_directory_sync_is_caught() {
    is_caught("skip the directory sync", &with(Bug::SkipDirectorySync));
}

#[test]
fn a_salt_used_again_is_caught() {
    is_caught("reuse a file salt", &with(Bug::ReuseSalt));
}

/// Records of one fan-out come into different batches when the log's buffer is full between two of its queues.
#[test]
fn a_fan_out_confirmed_after_its_first_queue_is_caught() {
    leveret_broker::planted::plant_first_queue_confirms(true);
    let check = is_caught("confirm a fan-out after its first queue", &small_log());
    leveret_broker::planted::plant_first_queue_confirms(false);
    assert!(check.is_some());
}

struct Shuttled<T>(shuttle::sync::Mutex<T>);

impl<T> Lock<T> for Shuttled<T> {
    fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    fn with<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        call(&mut self.0.lock().unwrap())
    }
}

/// A core pushes twice, the owner sleeps until it is woken; asleep with items left is a deadlock to `shuttle`.
fn hand_off() {
    let mailbox: Arc<Mailbox<u32, Shuttled<Inner<u32>>>> = Arc::new(Mailbox::default());
    let (sender, woken) = shuttle::sync::mpsc::channel();
    let pusher = {
        let mailbox = mailbox.clone();
        shuttle::thread::spawn(move || {
            for item in 0..3 {
                if mailbox.push(item) {
                    sender.send(()).unwrap();
                }
            }
            // The channel stays open: the owner would sleep for ever.
            sender
        })
    };
    let mut seen = Vec::new();
    while seen.len() < 3 {
        woken.recv().unwrap();
        mailbox.drain(&mut seen);
    }
    let _ = pusher.join();
}

/// A turn of a task is one step in the simulation, so what happens inside a hand-off is explored by `shuttle`.
#[test]
fn a_lost_wake_up_is_caught() {
    use leveret_broker::mailbox::planted::plant_lost_wakeup;
    shuttle::check_random(hand_off, 1_000);
    plant_lost_wakeup(true);
    let caught = std::panic::catch_unwind(|| shuttle::check_random(hand_off, 1_000));
    plant_lost_wakeup(false);
    let message =
        caught.expect_err("the bug was not seen").downcast::<String>().map_or_else(|_| String::new(), |text| *text);
    println!("caught: lost wake-up between cores, by shuttle over the mailbox: {message}");
}
