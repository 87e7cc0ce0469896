//! Bugs that are planted on purpose, each caught by a seed: a table of bugs, seeds needed, and the checks that caught
//! them.
//!
//! With `SIM_BUGS=all` every bug is hunted, for `SIM_BUG_SEEDS` seeds (1,000) each, and one in ten may stay undetected.
//! Otherwise three are hunted, another three for each `SIM_TURN`, which is printed. `SIM_BUG=Name,Name` only hunts
//! those.
#![cfg(feature = "planted-bugs")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use leveret_broker::mailbox::{Inner, Lock, Mailbox};
use leveret_sim::planted::{BUGS, Bug, Catch, hunt};

/// The same allocator as in the test of the seeds.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Bugs that only `make sim` hunts: none of the first few dozen seeds was seen to catch them.
const HIDING: &[&str] = &[
    "Log(SkipSyncOfRecovered)",
    "Log(TrustLastBatch)",
    "Log(TrustCheckpoint)",
    "Log(SkipSegmentDirectorySync)",
    "Log(UnlinkBeforeSettleDurable)",
    "Log(WithdrawFirstOnly)",
    "Log(CutGroupByCheckpoint)",
    "Log(OmitRestart)",
    "Log(LoseSettlesAtRetirement)",
    "Log(SpendReserve)",
];

/// Bugs are planted per thread: two are hunted at a time.
fn hunt_all(chosen: &[(&str, Bug)], seeds: u64) -> Vec<Option<Catch>> {
    let next = AtomicUsize::new(0);
    let catches: Vec<Mutex<Option<Catch>>> = chosen.iter().map(|_| Mutex::default()).collect();
    let work = || {
        while let Some((_, bug)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let catch = hunt(*bug, 0..seeds);
            let found = catch.as_ref().map(|catch| catch.seed + 1);
            println!("{bug:?}: {}", found.map_or(String::from("hidden"), |seeds| format!("{seeds} seeds")));
            let at = chosen.iter().position(|(_, other)| other == bug).expect("it was chosen");
            *catches[at].lock().unwrap() = catch;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    catches.into_iter().map(|catch| catch.into_inner().unwrap()).collect()
}

#[test]
fn planted_bugs_are_caught() {
    let all = std::env::var("SIM_BUGS").is_ok_and(|text| text == "all");
    let turn = setting("SIM_TURN", BUGS.len() as u64) as usize;
    let seeds = setting("SIM_BUG_SEEDS", 1_000);
    let only = std::env::var("SIM_BUG").unwrap_or_default();
    let is_open = |name: &str| (all || !HIDING.contains(&name)) && only.split(',').any(|part| name.contains(part));
    let open: Vec<_> = BUGS.iter().copied().filter(|(_, bug)| is_open(&format!("{bug:?}"))).collect();
    let chosen: Vec<_> = match all {
        true => open,
        false => (0..3).map(|at| open[(turn * 3 + at) % open.len()]).collect(),
    };
    println!("turn {turn}, {} of {} bugs, up to {seeds} seeds each", chosen.len(), BUGS.len());
    let catches = hunt_all(&chosen, seeds);
    println!("| class | bug | seeds | after | verdict |\n| --- | --- | ---: | --- | --- |");
    let mut hidden = Vec::new();
    for ((class, bug), catch) in chosen.iter().zip(catches) {
        let name = format!("{bug:?}");
        let Some(Catch { seed, event, verdict }) = catch else {
            println!("| {class} | `{name}` | - | | hidden from {seeds} seeds |");
            hidden.push(name);
            continue;
        };
        println!("| {class} | `{name}` | {} | {event} | {verdict} |", seed + 1);
    }
    let allowed = if all { chosen.len() / 10 } else { 0 };
    assert!(hidden.len() <= allowed, "hidden: {hidden:?}");
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

/// A core pushes twice, and the owner sleeps until it is woken. If it is asleep with items left, `shuttle` reports a
/// deadlock.
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
            // The channel stays open: the owner would sleep forever.
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

/// A turn of a task is one step in the simulation, so the steps within a hand-off are explored by `shuttle`.
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
