//! Compares RabbitMQ's recorded answers to the scripts of golden/ with the broker's.
//!
//! A difference is listed in allow/ with its reason, or fails; an unneeded entry fails too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use leveret_tests::broker::{Broker, is_given};
use leveret_tests::node::{Node, Options};
use leveret_tests::{allow, cell};
use serde_json::Value;

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The result of each scenario by its name.
fn results(text: &str) -> BTreeMap<String, Value> {
    let json: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let scenarios = json["scenarios"].as_array().expect("a list of scenarios");
    let name = |scenario: &Value| scenario["name"].as_str().expect("a name").to_owned();
    scenarios.iter().map(|scenario| (name(scenario), scenario["result"].clone())).collect()
}

/// Runs a script of golden/ with the arguments and the broker's port, and returns its output.
fn play(broker: &Broker, python: &Path, script: &str, mode: &str) -> String {
    let output = Command::new(python)
        .arg(here().join("golden").join(script).with_extension("py"))
        .args([mode, &broker.amqp().port().to_string()])
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}: run `make -C tests/clients install`", python.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compares the output of a script with the recording.
fn compare(script: &str, played: &str, least: usize) {
    compare_as(script, played, least, |_| ());
}

/// The same of results without what doesn't matter, which `simplify` takes away.
fn compare_as(script: &str, played: &str, least: usize, simplify: impl Fn(&mut Value)) {
    let simple = |text: &str| {
        let mut all = results(text);
        all.values_mut().for_each(&simplify);
        all
    };
    let ours = simple(played);
    let recorded = simple(&read(&here().join("golden").join(script).with_extension("json")));
    assert!(ours.len() > least, "only {} scenarios were played", ours.len());

    let (passed, failed): (Vec<_>, Vec<_>) =
        ours.iter().partition(|(name, result)| recorded.get(*name) == Some(result));
    for (name, result) in &failed {
        let theirs = recorded.get(*name).map_or("nothing".to_owned(), Value::to_string);
        println!("{name}\n  ours     {result}\n  RabbitMQ {theirs}");
    }
    let names = |list: Vec<(&String, &Value)>| list.into_iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let allowed = allow::parse(&read(&here().join("allow").join(script).with_extension("txt")));
    let wrong = allow::judge(&allowed, &names(passed), &names(failed));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn refusals_are_those_of_rabbitmq() {
    let broker = Broker::start();
    let python = cell::clients().join(".installed/venv/bin/python");
    compare("amqp091-errors", &play(&broker, &python, "amqp091-errors", "play"), 150);
    broker.finish("q");
}

#[test]
fn streams_are_those_of_rabbitmq() {
    let broker = Broker::start();
    let python = cell::clients().join(".installed/venv/bin/python");
    compare("streams", &play(&broker, &python, "streams", "play"), 550);
    broker.finish("golden-stream");
}

#[test]
fn the_stream_protocol_is_that_of_rabbitmq() {
    let node = Node::start(Options::new().set("debug.refused_login_delay_ms", 10));
    let ports = node.ports();
    let output = Command::new("python3")
        .arg(here().join("golden/stream-protocol.py"))
        .args(["play", &ports.stream.to_string(), &ports.http.to_string()])
        .output()
        .expect("there is Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let simplify = |result: &mut Value| {
        for step in result.as_array_mut().expect("steps").iter_mut().filter_map(Value::as_object_mut) {
            step.remove("bytes");
            // Metadata is in no order.
            if let Some(Value::Array(streams)) = step.get_mut("streams") {
                streams.sort_by_key(Value::to_string);
            }
        }
        let steps = result.as_array_mut().expect("steps");
        *steps = with_deliveries_together(std::mem::take(steps));
    };
    compare_as("stream-protocol", &String::from_utf8_lossy(&output.stdout), 250, simplify);
}

/// The steps with what a subscription is sent where its first chunk came, and chunks of whole messages that follow each other as one.
/// Where a chunk ends, and which answer it comes before, is a matter of the moment at which its reader looks.
fn with_deliveries_together(steps: Vec<Value>) -> Vec<Value> {
    let is_delivery =
        |step: &Value, subscription: &Value| step["receive"] == "deliver" && step["subscription"] == *subscription;
    let is_plain = |step: &Value| step["kind"] == 0 && step["entries"] == step["records"];
    let number = |step: &Value, field: &str| step[field].as_u64().unwrap_or(0);
    let mut together: Vec<Value> = Vec::new();
    for step in steps {
        let last = together.iter().rposition(|other| is_delivery(other, &step["subscription"]));
        let Some(last) = last.filter(|_| step["receive"] == "deliver") else {
            together.push(step);
            continue;
        };
        let before = &mut together[last];
        let follows = number(before, "offset") + number(before, "records") == number(&step, "offset");
        if !(follows && is_plain(before) && is_plain(&step)) {
            together.insert(last + 1, step);
            continue;
        }
        let data = [&before["data"], &step["data"]].map(|data| data.as_str().unwrap_or("").to_owned());
        before["data"] = data.concat().into();
        for field in ["entries", "records"] {
            before[field] = (number(before, field) + number(&step, field)).into();
        }
    }
    together
}

#[test]
fn management_over_amqp_10_is_that_of_rabbitmq() {
    let broker = Broker::start();
    compare("amqp10-management", &play(&broker, Path::new("python3"), "amqp10-management", "play"), 140);
    broker.finish("mgmt-");
}

#[test]
fn management_requests_fatal_to_rabbitmqs_session_are_answered() {
    if is_given() {
        return;
    }
    let broker = Broker::start();
    play(&broker, Path::new("python3"), "amqp10-management", "own");
    broker.finish("mgmt-");
}

#[test]
fn management_over_amqp_10_takes_the_permissions_of_rabbitmq() {
    if is_given() {
        return;
    }
    let options = Options::new()
        .set("default_permissions.configure", "^mgmt-ok$")
        .set("default_permissions.write", "^mgmt-ok$")
        .set("default_permissions.read", "^mgmt-(ok|read)$");
    let broker = Broker::start_with(options);
    play(&broker, Path::new("python3"), "amqp10-management", "permissions");
    broker.finish("mgmt-");
}
