//! Random seeds: several lives of a broker each, ended by power cuts at any change of the disk, also during recovery,
//! or by a clean stop. Prints how often each fault and branch was hit; one that never was fails the run.

use leveret_sim::event_hash::EventHash;
use leveret_sim::seed::{Plan, run_seed};
use leveret_sim::tally::Tally;
use leveret_sim::world::small_log;

/// Seeds of one run; more with the environment variable `SIM_SEEDS`.
const SEEDS: u64 = 120;

#[test]
fn nothing_promised_is_lost_whatever_the_seed() {
    let seeds = std::env::var("SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let first = std::env::var("SIM_FIRST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut tally = Tally::default();
    for seed in first..first + seeds {
        let mut hash = EventHash::default();
        run_seed(seed, &Plan::default(), &small_log(), &mut tally, &mut hash)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
    println!("{seeds} seeds\n{tally}");
    assert!(tally.zeros().is_empty(), "never happened: {:?}", tally.zeros());
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
