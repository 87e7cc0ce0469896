//! The metadata of a cluster: objects that clients declare, delete and look up on every node, under faults, have one history; and the judge
//! finds each planted bug within a few seeds. `LEVERET_METADATA_SEEDS=FIRST..END` picks the seeds.

use leveret_broker::planted::Bug as BrokerBug;
use leveret_log::Bug as LogBug;
use leveret_model::CommandOutcome;
use leveret_sim::cluster::{
    MetadataCounts, run_forgetful_leader, run_forming_seed, run_lagging_node, run_metadata_seed,
};
use leveret_sim::planted::{Bug, hunt, plant};

/// Most seeds until a bug is found.
const SEEDS: u64 = 30;

/// Seeds of a run.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let Ok(wanted) = std::env::var("LEVERET_METADATA_SEEDS") else { return 0..usual };
    let (first, end) = wanted.split_once("..").expect("FIRST..END");
    first.parse().expect("a number")..end.parse().expect("a number")
}

/// The text with which a bug is found.
fn found(bug: Bug, seeds: u64) -> String {
    let catch = hunt(bug, 0..seeds).unwrap_or_else(|| panic!("{bug:?} isn't found in {seeds} seeds"));
    println!("{bug:?}: {}", catch.verdict);
    catch.verdict
}

#[test]
fn metadata_is_linearizable_under_faults() {
    let mut all = MetadataCounts::new();
    for seed in seeds(16) {
        let counts = run_metadata_seed(seed).unwrap_or_else(|text| panic!("{text}"));
        counts.into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
    }
    println!("{all:?}");
    assert!(all["operations"] > all["unanswered"] * 4, "{all:?}");
    if std::env::var("LEVERET_METADATA_SEEDS").is_err() {
        let faults = [
            "kill",
            "power cut",
            "power cut of all",
            "pause",
            "isolation",
            "cut one way",
            "clock step",
            "transfer",
            "replaced",
        ];
        for name in faults {
            assert!(all.contains_key(name), "no {name}: {all:?}");
        }
    }
}

/// 3046: a leader was lost between the two entries of a change of the voters, and no later one ended it.
#[test]
fn seeds_of_metadata_that_found_a_fault_pass() {
    run_metadata_seed(3046).unwrap_or_else(|text| panic!("{text}"));
}

#[test]
fn a_permission_that_is_gone_isnt_used_by_a_lagging_node() {
    for seed in 0..3 {
        let outcome = run_lagging_node(seed).unwrap_or_else(|text| panic!("{text}"));
        let refused = outcome.expect_err("the leader knows that the permission is gone");
        assert_eq!(refused.text, "access to vhost '/' refused for user 'ann'");
    }
}

#[test]
fn a_leader_that_trusts_permits_is_found() {
    plant(Some(Bug::Broker(BrokerBug::TrustPermits)));
    let outcome = run_lagging_node(0);
    plant(None);
    assert_eq!(outcome, Ok(Ok(CommandOutcome::Created)), "nothing else refuses it");
}

#[test]
fn a_request_is_carried_out_once_by_a_leader_that_restarted() {
    let kept: Vec<bool> =
        (0..40).filter_map(|seed| run_forgetful_leader(seed).unwrap_or_else(|text| panic!("{text}"))).collect();
    assert!(kept.len() >= 5, "the request comes back to the leader that restarted: {kept:?}");
    assert!(kept.iter().all(|is_kept| *is_kept), "the user was deleted twice: {kept:?}");
}

#[test]
fn blank_nodes_form_one_cluster_in_any_order_of_events() {
    for seed in 0..2_000 {
        run_forming_seed(seed).unwrap_or_else(|text| panic!("{text}"));
    }
}

#[test]
fn a_read_barrier_that_is_left_out_is_found() {
    let text = found(Bug::Metadata(LogBug::SkipReadBarrier), SEEDS);
    assert!(text.contains("have no order"), "{text}");
}

#[test]
fn a_staged_model_that_outlives_its_leader_is_found() {
    found(Bug::Metadata(LogBug::KeepStagedModel), SEEDS);
}

#[test]
fn a_member_number_that_is_given_twice_is_found() {
    let text = found(Bug::Metadata(LogBug::GiveNumberAgain), SEEDS);
    assert!(text.contains("member number"), "{text}");
}

#[test]
fn a_second_seed_is_found() {
    let text = found(Bug::Forming(LogBug::SeedWithoutMajority), 1_000);
    assert!(text.contains("2 clusters"), "{text}");
}
