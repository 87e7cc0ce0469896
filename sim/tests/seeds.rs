//! Random seeds: several lives of a broker each, ended by power cuts at any change of the disk, even during recovery,
//! by a disk that refuses an operation, or by a clean stop. Prints how often each fault and branch was hit; if one
//! never was, the run fails. Two runs of the same code over the same seeds have the same event hash.

use std::panic::{AssertUnwindSafe, catch_unwind};

use leveret_sim::event_hash::EventHash;
use leveret_sim::seed::{Plan, run_seed};
use leveret_sim::tally::Tally;
use leveret_sim::world::small_log;

/// A broker, its clients and its disk allocate a lot, and the system's allocator is slower.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of seeds of one run; the environment variable `SIM_SEEDS` overrides it.
const SEEDS: u64 = 300;
/// Number of threads; the seeds are distributed over them in turn.
const THREADS: u64 = 2;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The seeds that failed, with their failures.
fn run(seeds: impl Iterator<Item = u64>, tally: &mut Tally, hash: &mut EventHash) -> Vec<String> {
    let mut failed = Vec::new();
    for seed in seeds {
        let run = AssertUnwindSafe(|| run_seed(seed, &Plan::default(), &small_log(), tally, hash));
        match catch_unwind(run) {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => failed.push(format!("seed {seed}: {failure}")),
            Err(_) => failed.push(format!("seed {seed}: the shipped code panicked")),
        }
    }
    failed
}

#[test]
fn nothing_promised_is_lost_whatever_the_seed() {
    let (first, seeds) = (setting("SIM_FIRST_SEED", 0), setting("SIM_SEEDS", SEEDS));
    let (mut tally, mut hash) = (Tally::default(), EventHash::default());
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        let part = |thread| {
            move || {
                let (mut tally, mut hash) = (Tally::default(), EventHash::default());
                let seeds = (first + thread..first + seeds).step_by(THREADS as usize);
                let failed = run(seeds, &mut tally, &mut hash);
                (tally, hash, failed)
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(part(thread))).collect();
        for thread in threads {
            let (part, number, failures) = thread.join().expect("it catches panics");
            tally.merge(&part);
            hash.note(number.value());
            failed.extend(failures);
        }
    });
    println!("{seeds} seeds, events {:016x}\n{tally}", hash.value());
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(tally.zeros(seeds).is_empty(), "never happened: {:?}", tally.zeros(seeds));
}

/// 3945: a reader of a stream that went on from disk got messages again that it had read out of memory. 9311: a link that ended over
/// several turns told of the end of its drain within a delivery that was cut off.
#[test]
fn seeds_that_found_a_fault_pass() {
    let failed = run([3945, 9311].into_iter(), &mut Tally::default(), &mut EventHash::default());
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn a_seed_replays_bit_for_bit() {
    for seed in 0..3 {
        let run = || {
            let (mut tally, mut hash) = (Tally::default(), EventHash::default());
            run_seed(seed, &Plan::default(), &small_log(), &mut tally, &mut hash).map(|()| (hash, tally))
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}
