//! `benches/perf-test` against a node of its own: PerfTest drives a row, and the result files describe the round.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use leveret_tests::node::{Node, Options, binary};
use serde_json::Value;
use tempfile::TempDir;

/// Runs it for the shortest time that works on a busy machine, where PerfTest omits one line in two, and writes
/// results to the directory. Neither its node nor the node's data remain.
fn perf_test(results: &TempDir, rows: &str, fixed_rate: u32) -> Output {
    run(results, |script| {
        script
            .envs([("BENCH_SECONDS", "3"), ("BENCH_ROUNDS", "1"), ("BENCH_ROWS", rows)])
            .env("FIXED_RATE", fixed_rate.to_string())
            .envs([("PEER_URI", ""), ("PEER_EXPECTED", "0")])
    })
}

fn run(results: &TempDir, variables: impl FnOnce(&mut Command) -> &mut Command) -> Output {
    let data = tempfile::tempdir().expect("a directory");
    let mut script = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/perf-test"));
    script
        .env("LEVERET_BIN", fs::canonicalize(binary()).expect("the binary"))
        .env("BENCH_OUT", results.path())
        .env("BENCH_DIR", data.path());
    let output = variables(&mut script).output().expect("it runs");
    assert_eq!(fs::read_dir(data.path()).expect("the directory").count(), 0, "{output:?}");
    output
}

/// The JSON of a successful run.
fn report(results: &TempDir, output: &Output) -> Value {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    serde_json::from_str(&file(results, "results.json")).expect("JSON")
}

fn file(results: &TempDir, name: &str) -> String {
    fs::read_to_string(results.path().join(name)).expect("it was written")
}

#[test]
fn a_row_is_measured_at_its_maximum_and_at_a_fixed_rate() {
    let results = tempfile::tempdir().expect("a directory");
    let output = perf_test(&results, "classic", 500);
    let report = report(&results, &output);
    let rounds = report["rounds"].as_array().expect("a list");
    assert_eq!(rounds.len(), 2, "{report}");
    for (round, rate_wanted) in rounds.iter().zip([Value::Null, 500.into()]) {
        assert_eq!((&round["row"], &round["broker"]), (&"classic-amqp091-200".into(), &"node".into()), "{report}");
        assert_eq!(round["rate_wanted"], rate_wanted, "{report}");
        let figures = [
            "messages_per_second",
            "resident_bytes",
            "resident_bytes_max",
            "reads_per_message",
            "writes_per_message",
            "consumer_p99_us",
            "confirm_p99_us",
        ];
        for figure in figures {
            assert!(round[figure].as_f64().is_some_and(|figure| figure > 0.0), "{figure}: {report}");
        }
        // Less than a tick of the kernel's clock isn't measurable.
        assert!(round["broker_cpu_seconds_per_million"].is_number() && round["void"].is_null(), "{report}");
    }
    assert_eq!(file(&results, "results.csv").lines().count(), 3, "a line of names and one per round");
}

#[test]
fn a_row_of_an_exchange_counts_every_copy() {
    let results = tempfile::tempdir().expect("a directory");
    let output = perf_test(&results, "fanout,topic", 2000);
    let report = report(&results, &output);
    let rounds = report["rounds"].as_array().expect("a list");
    let rows: Vec<&str> = rounds.iter().filter_map(|round| round["row"].as_str()).collect();
    assert_eq!(rows, ["fanout-amqp091-10", "fanout-amqp091-10", "topic-amqp091-1", "topic-amqp091-1"]);
    let at_rate: Vec<&Value> = rounds.iter().filter(|round| round["rate_wanted"] == 2000).collect();
    assert_eq!(at_rate.len(), 2, "{report}");
    for round in at_rate {
        let rate = round["messages_per_second"].as_f64().expect("a rate");
        assert!(
            rate < 8000.0,
            "200 messages for each of 10 queues, or 2,000 for one, as well as PerfTest can: {report}"
        );
    }
}

#[test]
fn an_unknown_row_is_an_error() {
    let results = tempfile::tempdir().expect("a directory");
    let output = perf_test(&results, "classic,cubist", 0);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("no row is called 'cubist'"), "{err}");
}

#[test]
fn nothing_is_measured_beside_an_unexpected_peer() {
    let peer = Node::start(Options::new());
    let results = tempfile::tempdir().expect("a directory");
    let output = run(&results, |script| {
        script
            .envs([("BENCH_ROUNDS", "2"), ("BENCH_ROWS", "classic"), ("PEER_MESSAGES", "20000")])
            .env("PEER_URI", format!("amqp://guest:guest@{}", peer.amqp()))
            .envs([("PEER_EXPECTED", "1000000000"), ("PEER_PID", ""), ("PEER_START", ""), ("PEER_STOP", "")])
    });
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(out.contains("the peer's published line, before: "), "{out}");
    assert!(out.contains("0% of the expected 1,000,000,000: void, more than 20 % away"), "{out}");
    let checks: Value = serde_json::from_str(&file(&results, "peer-check.json")).expect("JSON");
    assert_eq!(checks[0]["messages_per_second"].as_array().map(Vec::len), Some(2), "{checks}");
    assert_eq!((&checks[0]["when"], &checks[0]["valid"]), (&"before".into(), &false.into()), "{checks}");
    assert!(!results.path().join("results.json").exists(), "{out}");
}
