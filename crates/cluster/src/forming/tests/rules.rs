use super::*;

const NAMES: [&str; 3] = ["r@a", "r@b", "r@c"];

fn blank(started_at_ms: u64, follows: &str) -> PeerAnswer {
    PeerAnswer::Blank { started_at_ms, mark: 0, follows: Some(follows.to_owned()) }
}

fn in_cluster(id: u8, size: u32, started_at_ms: u64) -> PeerAnswer {
    PeerAnswer::InCluster { cluster_id: [id; 16], size, started_at_ms }
}

fn gone() -> PeerAnswer {
    PeerAnswer::Unreachable("connection refused".to_owned())
}

fn round(names: &[&str], answers: &[(&str, PeerAnswer)]) -> FormingRound {
    FormingRound {
        elapsed_ms: 0,
        names: Ok(names.iter().map(|name| (*name).to_owned()).collect()),
        answers: answers.iter().map(|(name, answer)| ((*name).to_owned(), answer.clone())).collect(),
    }
}

fn listed(name: &str, retries: u32) -> Forming {
    Forming::new(options(name, SeedRule::FirstListed, Some(retries)))
}

fn of_order(name: &str, retries: u32, target_size: u32) -> Forming {
    Forming::new(FormingOptions { target_size, ..options(name, SeedRule::FirstOfOrder, Some(retries)) })
}

#[track_caller]
fn seeds(step: FormingStep, unanswered: bool) -> String {
    match step {
        FormingStep::Seed { text, is_unanswered } if is_unanswered == unanswered => text,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn joins(step: FormingStep, expected: &str) -> String {
    match step {
        FormingStep::Join { node, text, .. } if node == expected => text,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn waits(step: FormingStep) -> String {
    match step {
        FormingStep::Wait { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_without_others_or_with_data_goes_on_alone() {
    for names in [&[][..], &["r@a"]] {
        let step = listed("r@a", 3).round(&round(names, &[]));
        assert!(matches!(&step, FormingStep::GoOnAlone(text) if text.contains("no other node")), "{step:?}");
    }
    let with_data = FormingOptions { is_blank: false, ..options("r@a", SeedRule::FirstListed, Some(3)) };
    let step = Forming::new(with_data).round(&round(&NAMES, &[("r@b", in_cluster(1, 2, 0))]));
    assert!(matches!(&step, FormingStep::GoOnAlone(text) if text.contains("rabbitmqctl join_cluster")), "{step:?}");
}

#[test]
fn the_first_listed_node_seeds_with_a_majority() {
    let mut first = listed("r@a", 3);
    let text = waits(first.round(&round(&NAMES, &[("r@b", gone()), ("r@c", gone())])));
    assert!(text.contains("r@b (connection refused), r@c (connection refused)"), "{text}");
    let text = seeds(first.round(&round(&NAMES, &[("r@b", gone()), ("r@c", blank(1, ""))])), false);
    assert!(text.contains("2 of the 3 listed nodes are blank"), "{text}");
    // Half of the list isn't a majority.
    waits(listed("r@a", 3).round(&round(&["r@a", "r@b", "r@c", "r@d"], &[("r@b", blank(1, ""))])));
}

#[test]
fn the_first_listed_node_seeds_after_the_retries() {
    let mut first = listed("r@a", 3);
    let nobody = round(&NAMES, &[]);
    (0..3).for_each(|_| drop(waits(first.round(&nobody))));
    assert!(seeds(first.round(&nobody), true).contains("after all retries still waits for r@b"));
    let mut endless = Forming::new(options("r@a", SeedRule::FirstListed, None));
    (0..1000).for_each(|_| drop(waits(endless.round(&nobody))));
}

#[test]
fn other_listed_nodes_never_seed() {
    for name in ["r@b", "r@x"] {
        let mut other = listed(name, 1);
        let others = round(&NAMES, &[("r@a", gone()), ("r@b", blank(1, "")), ("r@c", blank(1, ""))]);
        (0..100).for_each(|_| drop(waits(other.round(&others))));
    }
    let text = waits(listed("leveret@a", 1).round(&round(&NAMES, &[])));
    assert!(text.contains("leveret@a isn't in") && text.contains("RABBITMQ_NODENAME=r@a"), "{text}");
}

#[test]
fn a_node_that_reaches_itself_is_in_the_list() {
    let mut first = listed("leveret@a", 1);
    seeds(first.round(&round(&NAMES, &[("r@a", PeerAnswer::Itself), ("r@b", blank(1, ""))])), false);
    let step = listed("leveret@a", 1).round(&round(&["r@a"], &[("r@a", PeerAnswer::Itself)]));
    assert!(matches!(step, FormingStep::GoOnAlone(_)), "{step:?}");
    // Otherwise it would wait for itself, as for a node that started at the same time.
    let mut first = of_order("z@a", 1, 3);
    seeds(
        first.round(&round(&NAMES, &[("r@a", PeerAnswer::Itself), ("r@b", blank(6, "z@a")), ("r@c", blank(6, ""))])),
        false,
    );
}

#[test]
fn a_cluster_goes_before_seeding_and_the_larger_one_first() {
    for rule in [SeedRule::FirstListed, SeedRule::FirstOfOrder, SeedRule::Named("r@a".to_owned())] {
        let mut first = Forming::new(options("r@a", rule, Some(0)));
        let answers = [("r@b", in_cluster(1, 1, 0)), ("r@c", in_cluster(2, 2, 9))];
        let text = joins(first.round(&round(&NAMES, &answers)), "r@c");
        assert!(text.contains("02020202") && text.contains("r@b is in another cluster, 01010101"), "{text}");
    }
    let order = [("r@b", in_cluster(1, 2, 7)), ("r@c", in_cluster(1, 2, 3)), ("r@d", in_cluster(1, 2, 3))];
    let names = ["r@a", "r@b", "r@c", "r@d"];
    let mut joining = listed("r@a", 3);
    // The earlier start, then the name; each attempt asks the next one.
    for expected in ["r@c", "r@d", "r@b", "r@c"] {
        joins(joining.round(&round(&names, &order)), expected);
    }
}

#[test]
fn a_node_that_saw_a_cluster_does_not_seed_once_it_is_gone() {
    for rule in [SeedRule::FirstListed, SeedRule::FirstOfOrder, SeedRule::Named("r@a".to_owned())] {
        let mut wiped = Forming::new(options("r@a", rule, Some(2)));
        joins(wiped.round(&round(&NAMES, &[("r@b", in_cluster(1, 2, 0)), ("r@c", gone())])), "r@b");
        let nobody = round(&NAMES, &[("r@b", gone()), ("r@c", blank(9, "r@a"))]);
        for _ in 0..10 {
            assert!(waits(wiped.round(&nobody)).contains("r@b has said that it is in the cluster 01010101"));
        }
        // It was reset, so its cluster is gone.
        let reset = round(&NAMES, &[("r@b", blank(8, "r@a")), ("r@c", blank(9, "r@a"))]);
        seeds(wiped.round(&reset), false);
    }
}

#[test]
fn a_node_that_had_answered_gets_the_retries_again() {
    let mut first = listed("r@a", 2);
    let names = ["r@a", "r@b", "r@c", "r@d", "r@e"];
    let with_b = round(&names, &[("r@b", blank(1, ""))]);
    (0..2).for_each(|_| drop(waits(first.round(&with_b))));
    let nobody = round(&names, &[]);
    (0..2).for_each(|_| drop(waits(first.round(&nobody))));
    seeds(first.round(&nobody), true);
}

#[test]
fn a_node_with_data_is_joined_when_no_other_may_have_a_cluster() {
    let data = |started_at_ms| PeerAnswer::HasData { started_at_ms };
    let names = ["r@a", "r@b", "r@c"];
    let mut node = listed("r@a", 2);
    let partly = round(&names, &[("r@b", data(1)), ("r@c", gone())]);
    (0..2).for_each(|_| drop(waits(node.round(&partly))));
    joins(node.round(&partly), "r@b");
    let all = round(&names, &[("r@b", data(1)), ("r@c", data(0))]);
    joins(listed("r@a", 2).round(&all), "r@c");
    // The one that may seed is joined at once, and before others.
    joins(listed("r@b", 2).round(&round(&names, &[("r@a", data(9))])), "r@a");
    let mut pod = Forming::new(options("r@b", SeedRule::Named("r@a".to_owned()), Some(2)));
    joins(pod.round(&round(&names, &[("r@a", data(9)), ("r@c", data(0))])), "r@a");
}

#[test]
fn a_named_seed_seeds_at_once_and_others_wait() {
    let seed = SeedRule::Named("r@a".to_owned());
    let mut first = Forming::new(options("r@a", seed.clone(), Some(30)));
    seeds(first.round(&round(&NAMES, &[("r@b", gone()), ("r@c", gone())])), true);
    let mut second = Forming::new(options("r@b", seed, Some(1)));
    let others = round(&NAMES, &[("r@a", gone()), ("r@c", blank(0, ""))]);
    for _ in 0..10 {
        let text = waits(second.round(&others));
        assert_eq!(text, "waiting for r@a to seed the cluster: it can't be reached (connection refused)");
    }
}

#[test]
fn the_first_of_order_waits_for_the_unreachable() {
    let mut first = of_order("r@a", 2, 1);
    let partly = round(&NAMES, &[("r@b", blank(6, "r@a")), ("r@c", gone())]);
    (0..2).for_each(|_| assert!(waits(first.round(&partly)).contains("r@c (connection refused)")));
    seeds(first.round(&partly), false);
    // Start, then name, decide.
    assert!(waits(of_order("r@b", 0, 1).round(&round(&NAMES, &[("r@c", blank(4, ""))]))).contains("waiting for r@c"));
    let mut alone = of_order("r@a", 1, 1);
    waits(alone.round(&round(&["r@a"], &[])));
    seeds(alone.round(&round(&["r@a"], &[])), true);
}

#[test]
fn the_first_of_order_waits_for_a_majority_behind_it() {
    let names = ["r@a", "r@b", "r@c", "r@d", "r@e"];
    let mut first = of_order("r@a", 1, 5);
    let answers =
        |follow: &str| [("r@b", blank(6, "r@a")), ("r@c", blank(7, follow)), ("r@d", gone()), ("r@e", gone())];
    for _ in 0..10 {
        waits(first.round(&round(&names, &answers("r@d"))));
    }
    assert!(
        waits(first.round(&round(&names, &answers("")))).contains("when 3 of them see each other, and there are 2")
    );
    seeds(first.round(&round(&names, &answers("r@a"))), false);
    // Without a hint all that answer have to agree while retries are left.
    let mut first = of_order("r@a", 1, 1);
    waits(first.round(&round(&NAMES, &[("r@b", blank(6, "")), ("r@c", blank(6, "r@a"))])));
    assert_eq!(first.follows(), "r@a");
}

#[test]
fn an_error_of_discovery_is_as_an_unreachable_node() {
    let error = FormingRound { names: Err("no such host".to_owned()), ..round(&[], &[]) };
    let mut node = of_order("r@a", 1, 1);
    assert!(waits(node.round(&error)).contains("no such host"));
    seeds(node.round(&error), true);
    let mut node = of_order("r@a", 1, 3);
    (0..10).for_each(|_| assert!(waits(node.round(&error)).contains("no such host")));
    let mut pod = Forming::new(options("r@b", SeedRule::Named("r@a".to_owned()), Some(0)));
    assert_eq!(waits(pod.round(&error)), "waiting for r@a to seed the cluster: no such host");
    let mut unknown = Forming::new(options("r@b", SeedRule::Named(String::new()), Some(0)));
    assert_eq!(waits(unknown.round(&error)), "the node that seeds the cluster isn't known: no such host");
}

#[test]
fn a_wait_is_logged_at_once_and_then_every_ten_seconds() {
    let mut node = listed("r@b", 0);
    let mut logged = |elapsed_ms: u64, answers: &[(&str, PeerAnswer)]| match node
        .round(&FormingRound { elapsed_ms, ..round(&NAMES, answers) })
    {
        FormingStep::Wait { log_now, .. } | FormingStep::Join { log_now, .. } => log_now,
        other => panic!("{other:?}"),
    };
    let times: Vec<u64> = (0..25).map(|second| second * 1000).filter(|at| logged(*at, &[])).collect();
    assert_eq!(times, [0, 10_000, 20_000]);
    assert!(logged(25_000, &[("r@a", in_cluster(1, 1, 0))]));
    assert!(!logged(26_000, &[("r@a", in_cluster(1, 1, 0))]));
}

#[test]
fn long_lists_of_unreachable_nodes_are_cut() {
    let names: Vec<String> = (0..8).map(|number| format!("r@{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = waits(listed("r@0", 1).round(&round(&names, &[])));
    assert!(text.contains("r@5 (it wasn't asked) and 2 more") && !text.contains("r@6"), "{text}");
}
