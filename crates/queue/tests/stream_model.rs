//! The stream against a naive reference: random readers, chunks, reads, retention and restarts.

mod chunks;
mod stream_rig;

use leveret_queue::{ConsumerFlow, StreamStart};
use proptest::prelude::*;

use crate::stream_rig::{Filtered, LATE_MS, ReaderPlan, Rig};

#[derive(Debug, Clone)]
enum Step {
    Publish(Vec<(usize, bool)>, u64, bool),
    Apply(u64),
    Withdraw,
    Add(ReaderPlan),
    Cancel(usize, bool),
    Take(usize, u32, u64),
    Settle(usize, usize, u8),
    Grant(usize, u32, u32, bool),
    Able(usize, u8, bool),
    Look(usize, usize),
    Answer(usize, usize),
    Time(u64),
    Save,
    Retire,
    Restart,
    Crash(u8, bool),
}

fn start() -> impl Strategy<Value = StreamStart> {
    prop_oneof![
        2 => Just(StreamStart::First),
        1 => Just(StreamStart::Last),
        1 => Just(StreamStart::Next),
        2 => (0u64..300).prop_map(StreamStart::Offset),
        1 => prop_oneof![Just(u64::MAX), Just(u64::MAX - 1)].prop_map(StreamStart::Offset),
        1 => prop_oneof![0u64..30, Just(u64::MAX)].prop_map(StreamStart::LastN),
        2 => (999_900u64..1_010_000).prop_map(StreamStart::Timestamp),
    ]
}

fn flow() -> impl Strategy<Value = ConsumerFlow> {
    prop_oneof![
        2 => Just(ConsumerFlow::Prefetch(0)),
        2 => (1u32..20).prop_map(ConsumerFlow::Prefetch),
        3 => Just(ConsumerFlow::Credit { delivery_count: u32::MAX - 20 }),
    ]
}

fn reader() -> impl Strategy<Value = ReaderPlan> {
    let filtered = prop_oneof![2 => Just(Filtered::No), 2 => Just(Filtered::X), 1 => Just(Filtered::Nothing)];
    (start(), flow(), prop::bool::weighted(0.2), filtered).prop_map(|(start, flow, automatic, filtered)| {
        // A filter may leave out the chunk that ends the search for a time, and later ones may be older.
        let filtered = if let StreamStart::Timestamp(_) = start { Filtered::No } else { filtered };
        ReaderPlan { start, flow, automatic, filtered }
    })
}

fn chunk() -> impl Strategy<Value = Vec<(usize, bool)>> {
    let size = prop_oneof![20 => 0usize..50, 8 => 500usize..3000, 1 => Just(200_000usize)];
    prop::collection::vec((size, prop::bool::weighted(0.3)), 1..8)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (chunk(), prop_oneof![Just(0), 0..LATE_MS], any::<bool>())
            .prop_map(|(messages, late_ms, joins)| Step::Publish(messages, late_ms, joins)),
        6 => (0u64..3).prop_map(Step::Apply),
        1 => Just(Step::Withdraw),
        4 => reader().prop_map(Step::Add),
        1 => (0usize..9, any::<bool>()).prop_map(|(at, leaves)| Step::Cancel(at, leaves)),
        12 => (0usize..9, 1u32..12, prop_oneof![Just(1u64 << 20), 1u64..3000])
            .prop_map(|(at, most, bytes)| Step::Take(at, most, bytes)),
        6 => (0usize..9, 0usize..9, 0u8..3).prop_map(|(at, which, how)| Step::Settle(at, which, how)),
        6 => (0usize..9, 0u32..3, 0u32..20, prop::bool::weighted(0.3))
            .prop_map(|(at, lag, credit, drain)| Step::Grant(at, lag, credit, drain)),
        3 => (0usize..9, 0u8..3, prop::bool::weighted(0.6)).prop_map(|(at, which, able)| Step::Able(at, which, able)),
        3 => (0usize..9, 1usize..5).prop_map(|(at, most)| Step::Look(at, most)),
        8 => (0usize..9, 1usize..5).prop_map(|(at, most)| Step::Answer(at, most)),
        3 => prop_oneof![1u64..100, 100u64..2000].prop_map(Step::Time),
        1 => Just(Step::Save),
        1 => Just(Step::Retire),
        1 => Just(Step::Restart),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(groups, stay)| Step::Crash(groups, stay)),
    ]
}

fn run(rig: &mut Rig, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Publish(messages, late_ms, joins) => rig.publish(&messages, late_ms, joins),
            Step::Apply(behind) => rig.apply(behind),
            Step::Withdraw => rig.withdraw(),
            Step::Add(plan) => rig.add(plan),
            Step::Cancel(at, leaves) => rig.cancel(at, leaves),
            Step::Take(at, most, bytes) => rig.take(at, most, bytes),
            Step::Settle(at, which, how) => rig.settle(at, which, how),
            Step::Grant(at, lag, credit, drain) => rig.grant(at, lag, credit, drain),
            Step::Able(at, which, able) => rig.able(at, which, able),
            Step::Look(at, most) => rig.look(at, most),
            Step::Answer(at, most) => rig.answer(at, most),
            Step::Time(ms) => rig.time(ms),
            Step::Save => rig.save(),
            Step::Retire => rig.retire(),
            Step::Restart => rig.restart(),
            Step::Crash(groups, stay) => rig.crash(groups, stay),
        }
        rig.check();
    }
    rig.finish();
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..150)
}

/// Limits of bytes and age, and the memory of all queues.
fn limits() -> impl Strategy<Value = (Option<u64>, Option<u64>, u64)> {
    let bytes = prop::option::of(prop_oneof![1u64..40_000, Just(500_000)]);
    (bytes, prop::option::of(1000u64..4000), prop_oneof![Just(0u64), Just(1 << 30)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_the_reference(steps in steps()) {
        run(&mut Rig::new(None, None, 1 << 30), steps);
    }

    #[test]
    fn agrees_with_retention(steps in steps(), (bytes, age_ms, memory) in limits()) {
        run(&mut Rig::new(bytes, age_ms, memory), steps);
    }
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use leveret_queue::planted::{Bug, plant};
    use proptest::test_runner::{Config, TestRunner};

    use super::*;

    /// Whether the model finds a bug in fewer cases than it has.
    fn is_found(bug: Bug) -> bool {
        plant(Some(bug));
        let config = Config { cases: 200, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
        let outcome = TestRunner::new(config).run(&(steps(), limits()), |(steps, (bytes, age_ms, memory))| {
            run(&mut Rig::new(bytes, age_ms, memory), steps);
            Ok(())
        });
        plant(None);
        outcome.is_err()
    }

    #[test]
    fn every_planted_bug_is_found() {
        for bug in [Bug::CountJoinedTwice, Bug::DropTooMuch, Bug::OffByOne, Bug::SkipMatch, Bug::ApplyOutOfOrder] {
            assert!(is_found(bug), "{bug:?} isn't found");
        }
    }
}
