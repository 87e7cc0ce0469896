//! Plays golden/ctl/scene.txt on a node, and compares the results with RabbitMQ's.
//!
//! Exit codes, rows and columns of lists, JSON and CSV, and progress messages are compared, but no order that
//! RabbitMQ doesn't guarantee. A difference is listed in allow/golden-ctl.txt, or fails; so does an unneeded line
//! there.

use std::fs;
use std::path::PathBuf;

use leveret_tests::allow;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Login, PROTOCOL_HEADER, Tuning, Wire, Writer, method};
use serde_json::Value;

use crate::tool::{Said, run};

/// The name of the recorded node.
const NODE: &str = "compare@localhost";
/// Its port for AMQP.
const PORT: &str = "5772";

fn read(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn answers_are_those_of_rabbitmq() {
    let node = Node::start(Options::new());
    let (name, port) = (node.http().get("/api/nodes").expect("the nodes").json(), node.ports().amqp.to_string());
    let name = name[0]["name"].as_str().expect("a name").to_owned();
    let recorded: Value = serde_json::from_str(&read("golden/ctl/answers.json")).expect("JSON");
    let mut recorded = recorded["answers"].as_array().expect("answers").iter();
    let (mut passed, mut failed, mut told) = (Vec::new(), Vec::new(), Vec::new());
    let mut client = None;
    for line in read("golden/ctl/scene.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line {
            "@open" => client = Some(open(&node)),
            "@close" => drop(client.take()),
            _ => {
                let recorded = recorded.next().expect("a recorded answer");
                assert_eq!(recorded["command"], *line, "record it again");
                let (command, file) = line.split_once(" <").unwrap_or((line, ""));
                let input = if file.is_empty() { String::new() } else { read(&format!("golden/ctl/{file}")) };
                let said = run(node.directory(), &command.replace("{amqp}", &port), &input);
                let recorded = recorded.to_string().replace(NODE, &name).replace(PORT, &port);
                let recorded = serde_json::from_str(&recorded).expect("JSON");
                match difference(line, &recorded, &said) {
                    None => passed.push(line.to_owned()),
                    Some(text) => {
                        told.push(format!("{line}\n{text}\n{}", said.stderr));
                        failed.push(line.to_owned());
                    }
                }
            }
        }
    }
    assert_eq!(recorded.next(), None, "everything recorded is asked");
    let allowed = allow::parse(&read("allow/golden-ctl.txt"));
    let wrong = allow::judge(&allowed, &passed, &failed);
    println!("{} answers, {} different", passed.len() + failed.len(), failed.len());
    let unknown = |text: &&String| !allowed.contains_key(text.lines().next().unwrap_or_default());
    let details: Vec<&String> = told.iter().filter(unknown).collect();
    assert!(
        wrong.is_empty(),
        "{}\n\n{}",
        wrong.join("\n"),
        details.iter().map(|text| text.as_str()).collect::<Vec<_>>().join("\n")
    );
}

/// A connection of ctl-ann with one consumer.
fn open(node: &Node) -> Wire {
    let mut wire = Wire::connect(node.amqp());
    wire.send(PROTOCOL_HEADER);
    wire.next_method(method::CONNECTION_START).expect("a start");
    let login = Login { user: "ctl-ann", password: "second", vhost: "ctl-scene", ..Login::default() };
    wire.log_in(Tuning { frame_max: 131_072, heartbeat: 30 }, &login).expect("is let in");
    wire.open_channel(1);
    wire.prefetch(1, 7);
    let mut consume = Writer::new();
    consume.put_short(0).put_short_string("ctl-first").put_short_string("ctl-consumer").put_octet(0).put_long(0);
    wire.call(1, method::BASIC_CONSUME, &consume, method::BASIC_CONSUME_OK);
    wire
}

/// The difference from the recording, if any.
fn difference(line: &str, recorded: &Value, said: &Said) -> Option<String> {
    if recorded["exit"] != said.exit {
        return Some(format!("exits with {}, not {}", said.exit, recorded["exit"]));
    }
    if let Some(kinds) = recorded["kinds"].as_object() {
        let ours: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
        let mut wrong = kinds.iter().filter(|(key, wanted)| Some(kind(&ours[key.as_str()])) != wanted.as_str());
        return wrong.next().map(|(key, wanted)| format!("{key} is {} and not {wanted}", ours[key.as_str()]));
    }
    let lines = recorded["stdout"].as_array()?;
    let theirs: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
    let (theirs, ours) = match line.contains("--formatter json") {
        true => (documents(&theirs.join("\n")), documents(&said.stdout)),
        false => (sorted(theirs.iter().copied()), sorted(said.stdout.lines())),
    };
    let (theirs, ours) = (of_scene(line, theirs), of_scene(line, ours));
    (theirs != ours).then(|| format!("recorded: {theirs:#?}\nanswered: {ours:#?}"))
}

/// Python's name of a value's type; Python recorded it.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

fn sorted<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect();
    lines.sort();
    lines
}

/// The rows of a JSON list, or the one object.
fn documents(text: &str) -> Vec<String> {
    let rows = match serde_json::from_str(text) {
        Ok(Value::Array(rows)) => rows,
        Ok(other) => vec![other],
        Err(error) => vec![Value::from(format!("no JSON, {error}: {text}"))],
    };
    let mut rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

/// Removes objects that aren't part of the scene from lists of the whole node.
fn of_scene(line: &str, mut lines: Vec<String>) -> Vec<String> {
    let is_of_all = ["list_users", "list_vhosts"].iter().any(|command| line.contains(command));
    if is_of_all && lines.iter().any(|line| line.contains("ctl-")) {
        let is_head = |line: &str| ["Listing", "user", "name", "\""].iter().any(|begin| line.starts_with(begin));
        lines.retain(|line| line.contains("ctl-") || is_head(line));
    }
    lines
}
