//! The table of rows: each is a scenario with options of its own, and the name of its results.

use clap::Parser;

use crate::args::LoadArgs;
use crate::scenario::{Scenario, without_protocol};

/// The condition for running a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// It is part of `all`.
    WithAll,
    /// By name only: it takes minutes, or thousands of connections.
    Apart,
    /// By name only, on a node with an artificially slow disk.
    SlowDisk,
}

/// A line of the table for both protocols: name, scenario, and options with `{}` for the protocol.
struct Line {
    name: &'static str,
    words: &'static str,
    runs: Runs,
    help: &'static str,
}

const fn line(name: &'static str, words: &'static str, help: &'static str) -> Line {
    Line { name, words, runs: Runs::WithAll, help }
}

const fn apart(name: &'static str, words: &'static str, help: &'static str) -> Line {
    Line { name, words, runs: Runs::Apart, help }
}

const fn slow_disk(name: &'static str, words: &'static str, help: &'static str) -> Line {
    Line { name, words, runs: Runs::SlowDisk, help }
}

/// Lines for the stream protocol alone: brokers have a listener of its own for it.
const STREAM_LINES: &[Line] = &[
    apart(
        "streams-10",
        "classic-{} --confirm 50000 --qos 50 --size 10",
        "10 B, chunks of a thousand, 50,000 unconfirmed",
    ),
    apart("streams-1000", "classic-{} --confirm 10000 --qos 50 --size 1000", "1000 B, 10,000 unconfirmed"),
    apart(
        "streams-replay",
        "consume-only-{} --confirm 50000 --qos 50 --size 12",
        "12 B, published before: only reading from the first is measured",
    ),
    apart(
        "streams-replay-1",
        "consume-only-{} --confirm 50000 --qos 1000 --size 12 --chunk 1",
        "12 B, the same with a chunk for each message",
    ),
    apart(
        "streams-replay-6",
        "consume-only-{} --confirm 10000 --qos 1000 --size 1024 --chunk 6",
        "1 KiB, the same in chunks of 6",
    ),
    apart(
        "streams-half-rate",
        "classic-{} --confirm 50000 --qos 50 --rate half",
        "12 B at half of what the broker takes",
    ),
];

const LINES: &[Line] = &[
    line("classic-{}-200", "classic-{}", "12 B, durable, windows of 200"),
    line("classic-{}-3000", "classic-3000-{}", "12 B, durable, windows of 3000 and 5000"),
    line(
        "half-rate-{}",
        "classic-{} --rate half",
        "the first at half of what the broker takes: how long confirms take",
    ),
    line("publish-only-{}", "publish-only-{}", "12 B, durable: only publishing is measured"),
    line("consume-only-{}", "consume-only-{}", "12 B, durable: only consuming is measured"),
    line(
        "properties-{}",
        "classic-{} --message-properties \
         messageId=1f0c9a52-9d7b-4b7e-a9c5-0d2f4d3f8a11,contentType=application/octet-stream,SendTime=1764000000000",
        "the first, with message id, content type and a header, as libraries send",
    ),
    line("pairs-{}-1", "classic-{} --queues 1", "one pair"),
    line("pairs-{}-4", "classic-{} --queues 4", "4 pairs, each with a queue of its own"),
    line("pairs-{}-100", "classic-{} --queues 100", "100 pairs, each with a queue of its own"),
    line("memory-{}", "memory-{}", "12 B, transient, no confirms: maximum rate"),
    line("transient-{}", "transient-{}", "1000 B, transient, no confirms, at most 10,000 in the queue: maximum rate"),
    line("latency-{}-100", "latency-{} --rate 100", "the same at 100 messages per second"),
    line("latency-{}-1000", "latency-{} --rate 1000", "at 1,000"),
    line("latency-{}-10000", "latency-{} --rate 10000", "at 10,000"),
    line("latency-{}-20000", "latency-{} --rate 20000", "at 20,000"),
    line("latency-{}-30000", "latency-{} --rate 30000", "at 30,000"),
    line("latency-{}-50000", "latency-{} --rate 50000", "at 50,000"),
    line("latency-{}-80000", "latency-{} --rate 80000", "at 80,000"),
    line("many-queues-{}-1", "many-queues-{} --queues 1", "1000 B, transient, 10,000 messages per second, one queue"),
    line("many-queues-{}-2", "many-queues-{} --queues 2", "spread over 2 queues, each with its own connections"),
    line("many-queues-{}-5", "many-queues-{} --queues 5", "over 5 queues"),
    line("many-queues-{}-10", "many-queues-{} --queues 10", "over 10 queues"),
    line("many-queues-{}-100", "many-queues-{} --queues 100", "over 100 queues"),
    line("many-queues-{}-500", "many-queues-{} --queues 500", "over 500 queues"),
    line("many-queues-{}-1000", "many-queues-{} --queues 1000", "over 1000 queues"),
    line("two-pairs-{}-10", "two-pairs-{} --size 10", "10 B, durable, 2 publishers, 2 consumers, windows of 3000"),
    line("two-pairs-{}-100", "two-pairs-{} --size 100", "100 B"),
    line("two-pairs-{}-1000", "two-pairs-{} --size 1000", "1000 B"),
    line("two-pairs-{}-5000", "two-pairs-{} --size 5000", "5000 B"),
    line("fixed-rate-{}-10", "fixed-rate-{} --size 10", "10 B, durable, one pair at 10,000 messages per second"),
    line("fixed-rate-{}-100", "fixed-rate-{} --size 100", "100 B"),
    line("fixed-rate-{}-1000", "fixed-rate-{} --size 1000", "1000 B"),
    line("fixed-rate-{}-5000", "fixed-rate-{} --size 5000", "5000 B"),
    line("quorum-{}-200", "classic-{} --quorum-queue", "12 B, quorum queue, windows of 200"),
    line("quorum-{}-3000", "classic-3000-{} --quorum-queue", "windows of 3000 and 5000"),
    line("quorum-{}-5000", "classic-{} --quorum-queue --qos 5000", "windows of 200, and credit for 5000"),
    line("quorum-two-pairs-{}-10", "two-pairs-{} --size 10 --quorum-queue", "10 B, 2 publishers, 2 consumers"),
    line("quorum-two-pairs-{}-1000", "two-pairs-{} --size 1000 --quorum-queue", "1000 B"),
    line("stream-{}-200", "classic-{} --stream-queue", "12 B, a stream with a reader at its end, windows of 200"),
    line("stream-{}-3000", "classic-3000-{} --stream-queue", "windows of 3000 and 5000"),
    line("stream-large-{}-200", "classic-{} --size 1000 --stream-queue", "1000 B, windows of 200"),
    line("stream-large-{}-3000", "classic-3000-{} --size 1000 --stream-queue", "1000 B, windows of 3000 and 5000"),
    line(
        "stream-replay-{}",
        "consume-only-{} --stream-queue",
        "12 B, published before: only reading from the first is measured",
    ),
    line("slow-queues-{}", "slow-queues-{}", "500 durable queues at 10 messages per second each"),
    apart("one-of-many-queues-{}", "classic-{} --other-queues 100000", "windows of 200, beside 100,000 other queues"),
    apart("in-then-out-{}-10m", "in-then-out-{} --messages 10000000", "10 million messages of 12 B in, then out"),
    apart("idle-{}-10000", "idle-{} --connections 10000 --idle-s 60", "10,000 connections, no heartbeats"),
    apart(
        "idle-{}-10000-heartbeat",
        "idle-{} --connections 10000 --idle-s 60 --heartbeat 60",
        "10,000 connections with heartbeats of 60 s",
    ),
    apart("idle-{}-18000", "idle-{} --connections 18000 --idle-s 60", "18,000 connections with two sessions each"),
    apart(
        "idle-{}-18000-heartbeat",
        "idle-{} --connections 18000 --idle-s 60 --heartbeat 60",
        "the same with heartbeats of 60 s",
    ),
    slow_disk("quorum-sync-delay-{}-192", "sync-delay-{} --confirm 192 --quorum-queue", "quorum, 192 unconfirmed"),
    slow_disk("quorum-sync-delay-{}-1000", "sync-delay-{} --confirm 1000 --quorum-queue", "quorum, 1000 unconfirmed"),
    slow_disk("sync-delay-{}-192", "sync-delay-{} --confirm 192", "one pair, 192 unconfirmed"),
    slow_disk("sync-delay-{}-1000", "sync-delay-{} --confirm 1000", "one pair, 1000 unconfirmed"),
    slow_disk("sync-delay-{}-5000", "sync-delay-{}", "one pair, 5000 unconfirmed"),
    line("direct-{}", "direct-{}", "12 B, durable, through a direct exchange"),
    line("fanout-{}-1", "fanout-{} --queues 1", "through a fanout exchange to one queue"),
    line("fanout-{}-10", "fanout-{} --queues 10", "to 10 queues, per copy"),
    line("fanout-{}-100", "fanout-{} --queues 100", "to 100 queues, per copy"),
    line("topic-{}-1", "topic-{} --bindings 1", "through a topic exchange, one binding, which matches"),
    line("topic-{}-10", "topic-{} --bindings 10", "10 bindings, one of which matches"),
    line("topic-{}-1000", "topic-{} --bindings 1000", "1000 bindings, one of which matches"),
    line("topic-{}-100000", "topic-{} --bindings 100000", "100,000 bindings, one of which matches"),
    line(
        "many-keys-{}-500",
        "topic-{} --bindings 1000 --routing-key-cache-size 500",
        "1000 bindings, one of which matches; messages take 500 routing keys in turn",
    ),
    line(
        "many-keys-{}-5000",
        "topic-{} --bindings 1000 --routing-key-cache-size 5000",
        "5000 routing keys: more than a connection remembers",
    ),
    line("headers-{}", "headers-{}", "through a headers exchange with 10 bindings, one of which matches"),
];

/// A named load.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) scenario: Scenario,
    pub(crate) load: LoadArgs,
    runs: Runs,
    help: &'static str,
}

/// The content of a line, as on a command line.
#[derive(Parser)]
struct Words {
    scenario: Scenario,
    #[command(flatten)]
    load: LoadArgs,
}

/// Number of rows.
pub(crate) fn count() -> usize {
    LINES.len() * 2 + STREAM_LINES.len()
}

/// All rows in the table's order, AMQP 0-9-1 before 1.0.
pub(crate) fn all() -> Vec<Row> {
    let both = |line: &'static Line| ["amqp091", "amqp10"].map(|protocol| row(line, protocol));
    let of_streams = STREAM_LINES.iter().map(|line| row(line, "stream-protocol"));
    LINES.iter().flat_map(both).chain(of_streams).collect()
}

fn row(line: &'static Line, protocol: &str) -> Row {
    let words = line.words.replace("{}", protocol);
    // A test parses each of them.
    let Words { scenario, load } = Words::parse_from(["row"].into_iter().chain(words.split(' ')));
    Row { name: line.name.replace("{}", protocol), scenario, load, runs: line.runs, help: line.help }
}

/// The rows matched by any of the patterns, in the table's order. In a pattern `*` stands for any text; without a
/// protocol it means both. `all` stands for all rows that aren't by name only.
///
/// # Errors
/// If a pattern matches no row.
pub(crate) fn picked(patterns: &[String]) -> Result<Vec<Row>, String> {
    let rows = all();
    let names = |row: &Row, pattern: &str| match pattern {
        "all" => row.runs == Runs::WithAll,
        _ => matches(pattern, &row.name) || matches(pattern, &without_protocol(&row.name).0),
    };
    if let Some(nothing) = patterns.iter().find(|pattern| !rows.iter().any(|row| names(row, pattern))) {
        return Err(format!("no row is called '{nothing}': --list prints them"));
    }
    Ok(rows.into_iter().filter(|row| patterns.iter().any(|pattern| names(row, pattern))).collect())
}

/// Whether a pattern with `*` for any text matches all of `name`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name
            .strip_prefix(before)
            .is_some_and(|rest| (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| matches(after, rest)))),
    }
}

/// The table as text.
pub(crate) fn list() -> String {
    let mut text = String::new();
    for row in all() {
        let apart = match row.runs {
            Runs::WithAll => "",
            Runs::Apart => " (apart)",
            Runs::SlowDisk => " (apart: a node with debug.sync_delay_ms)",
        };
        text += &format!("{:<32} {}{apart}\n", row.name, row.help);
    }
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(patterns: &[&str]) -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        picked(&patterns).expect("there are such rows").into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn every_row_is_a_valid_load_with_a_name_of_its_own() {
        let rows = all();
        for row in &rows {
            assert_eq!(row.scenario.settings(&row.load).check(), Ok(()), "{}", row.name);
        }
        assert_eq!(rows.iter().map(|row| &row.name).collect::<BTreeSet<_>>().len(), rows.len());
        assert_eq!(rows.len(), count());
    }

    #[test]
    fn rows_are_picked_by_names_and_patterns() {
        assert_eq!(names(&["classic-amqp10-200"]), ["classic-amqp10-200"]);
        assert_eq!(names(&["two-pairs-1000"]), ["two-pairs-amqp091-1000", "two-pairs-amqp10-1000"]);
        assert_eq!(names(&["topic-amqp10-*", "direct-*"]).len(), 6, "both of direct, four of topic");
        assert_eq!(names(&["latency-*00"]).len(), 14);
        let all = names(&["all"]);
        assert!(all.contains(&"headers-amqp10".to_owned()) && !all.iter().any(|name| name.starts_with("idle")));
        assert!(!all.iter().any(|name| name.starts_with("sync-delay") || name.ends_with("10m")));
        assert!(names(&["all", "idle-amqp10-18000"]).contains(&"idle-amqp10-18000".to_owned()));
        assert_eq!(
            picked(&["laten*y".into(), "x".into()]).expect_err("none"),
            "no row is called 'laten*y': --list prints them"
        );
    }

    #[test]
    fn options_on_the_command_line_override_the_row() {
        let row = &picked(&["in-then-out-amqp091-10m".into()]).expect("there is one")[0];
        let said = LoadArgs { seconds: Some(2), size: Some(20), ..LoadArgs::default() };
        let load = said.or(&row.load);
        assert_eq!((load.messages, load.seconds, load.size), (None, Some(2), Some(20)));
        assert_eq!(LoadArgs::default().or(&row.load), row.load);
    }
}
