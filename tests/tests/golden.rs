//! The answers of a RabbitMQ to the scripts of golden/amqp091-errors.py, compared with the broker's.
//!
//! A difference stands in allow/amqp091-errors.txt with its reason, or fails; an entry that isn't needed fails too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use leveret_tests::broker::Broker;
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

#[test]
fn refusals_are_those_of_rabbitmq() {
    let broker = Broker::start();
    let output = Command::new(cell::clients().join(".installed/venv/bin/python"))
        .arg(here().join("golden/amqp091-errors.py"))
        .args(["play", &broker.amqp().port().to_string()])
        .output()
        .expect("python with pika: run `make -C tests/clients install`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ours = results(&String::from_utf8_lossy(&output.stdout));
    let recorded = results(&read(&here().join("golden/amqp091-errors.json")));
    assert!(ours.len() > 150, "only {} scenarios were played", ours.len());

    let (passed, failed): (Vec<_>, Vec<_>) =
        ours.iter().partition(|(name, result)| recorded.get(*name) == Some(result));
    for (name, result) in &failed {
        let theirs = recorded.get(*name).map_or("nothing".to_owned(), Value::to_string);
        println!("{name}\n  ours     {result}\n  RabbitMQ {theirs}");
    }
    let names = |list: Vec<(&String, &Value)>| list.into_iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let allowed = allow::parse(&read(&here().join("allow/amqp091-errors.txt")));
    let wrong = allow::judge(&allowed, &names(passed), &names(failed));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    broker.finish("q");
}
