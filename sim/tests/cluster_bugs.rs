//! Planted bugs: the judge, or a check of the crate `cluster`, finds each within a few seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use leveret_log::Bug;
use leveret_sim::cluster::{Cluster, run_seed};

/// Most seeds until a bug is found.
const SEEDS: u64 = 40;

/// The text with which a bug is found.
fn found(bug: Option<Bug>, prepare: fn(&Cluster)) -> String {
    let run = |seed| {
        Bug::plant(bug);
        let run = catch_unwind(AssertUnwindSafe(|| run_seed(seed, prepare)));
        Bug::plant(None);
        match run {
            Ok(judged) => judged.err(),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                Some(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
            }
        }
    };
    let text = (0..SEEDS).find_map(run).unwrap_or_else(|| panic!("{bug:?} isn't found in {SEEDS} seeds"));
    println!("{bug:?}: {text}");
    text
}

#[test]
fn acknowledgements_before_the_sync_are_found() {
    found(Some(Bug::AcknowledgeEarly), |_| {});
}

#[test]
fn votes_that_are_answered_before_the_sync_are_found() {
    let text = found(Some(Bug::AnswerVoteEarly), |_| {});
    assert!(text.contains("it answered a vote for"), "{text}");
}

#[test]
fn an_acknowledgement_of_a_cut_index_is_found() {
    found(Some(Bug::AcknowledgeCut), |_| {});
}

#[test]
fn a_term_that_falls_stops_its_placement() {
    let text = found(Some(Bug::LetTermFall), |_| {});
    assert!(text.contains("terms never fall"), "{text}");
}

#[test]
fn a_flush_reported_out_of_order_stops_its_placement() {
    let text = found(Some(Bug::ReportOutOfOrder), |_| {});
    assert!(text.contains("was reported after one up to record"), "{text}");
}

#[test]
fn a_dropped_carried_entry_is_found_by_the_judge() {
    found(Some(Bug::DropCarried), |_| {});
}

#[test]
fn entries_purged_before_the_store_has_them_are_found() {
    found(None, Cluster::plant_early_purges);
}

#[test]
fn a_quorum_that_is_one_too_small_is_found() {
    found(None, |cluster| cluster.plant_false_acknowledgements(2));
}
