//! Compares the recorded responses of RabbitMQ's HTTP API under golden/http with the broker's.
//!
//! The scene is the same as for the recording. Status, keys and types have to be RabbitMQ's, and values determined by
//! the scene have to be equal. A difference is listed in allow/golden-http.txt, or fails; so does an unneeded line
//! there.

mod compare;
mod fixed;
mod requests;
mod scene;
mod skips;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use leveret_tests::broker::Broker;
use serde_json::Value;

use compare::Difference;
use scene::Scene;
use skips::Skips;

/// Number of recorded responses.
const ANSWERS: usize = 110;

/// The name of the recorded node, which is a key in some responses.
const NODE: &str = "compare@localhost";

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn answers_are_those_of_rabbitmq() {
    let broker = Broker::start();
    let scene = Scene::set(&broker);
    let http = broker.http();
    let nodes = http.get("/api/nodes").expect("the nodes").json();
    let node = nodes[0]["name"].as_str().expect("a node's name");
    let mut differences = Vec::new();
    let mut compared = BTreeSet::new();
    for request in requests::all(&http, broker.amqp().port()) {
        let answer = request.ask(&http);
        let recorded = read(&here().join("golden/http").join(request.name).with_extension("json"));
        let recorded = recorded.replace(NODE, node);
        let recorded: Value = serde_json::from_str(&recorded).expect("a recorded answer");
        differences.extend(compare::compare(request.name, &answer, &recorded));
        assert!(compared.insert(request.name), "{} is asked twice", request.name);
    }
    assert_eq!(compared.len(), ANSWERS);

    let mut skips = Skips::parse(&read(&here().join("allow/golden-http.txt")));
    let mut wrong: Vec<String> =
        differences.iter().filter(|one| !skips.cover(one)).map(Difference::to_string).collect();
    wrong.extend(skips.unused());
    println!("{} answers, {} differences, {} of them not listed", compared.len(), differences.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    scene.clear(&http);
    broker.finish("shapes-");
}
