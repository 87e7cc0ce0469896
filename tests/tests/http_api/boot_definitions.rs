//! Definitions loaded at the start of a node: an export of RabbitMQ with its users' password hashes.

use std::fs;
use std::path::Path;
use std::time::Instant;

use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options, new_directory};
use serde_json::{Value, json};

/// RabbitMQ 4.3.6's export. The user `shapes` has the password `shapes-password`.
fn exported() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/http/definitions.json");
    let recorded: Value = serde_json::from_str(&fs::read_to_string(path).expect("a recording")).expect("is JSON");
    recorded["body"].clone()
}

fn names(node: &Node, kind: &str) -> Vec<String> {
    let list = node.http().get(&format!("/api/{kind}?columns=name")).expect(kind);
    let names = list.json();
    names.as_array().into_iter().flatten().filter_map(|each| Some(each["name"].as_str()?.to_owned())).collect()
}

#[test]
fn an_export_is_loaded_at_the_start_with_its_hashes() {
    if is_given() {
        return;
    }
    let folder = new_directory();
    let file = folder.path().join("definitions.json");
    fs::write(&file, exported().to_string()).expect("is written");
    let options = Options::new()
        .set("definitions.import_backend", "local_filesystem")
        .set("definitions.local.path", file.display())
        .set("definitions.skip_if_unchanged", true);
    let mut node = Node::start(options);
    // RabbitMQ's hash is accepted.
    let user = node.http().as_user("shapes", "shapes-password");
    assert_eq!(user.get("/api/whoami").expect("an answer").json()["name"], "shapes");
    assert_eq!(user.as_user("shapes", "none").get("/api/whoami").expect("an answer").status, 401);
    assert_eq!(names(&node, "queues"), ["shapes-c", "shapes-dl"]);
    assert!(names(&node, "exchanges").contains(&"shapes-x".to_owned()));
    assert!(names(&node, "vhosts").contains(&"shapes".to_owned()));
    assert_eq!(names(&node, "policies"), ["shapes"]);

    // An unchanged file isn't loaded again: deleted objects stay deleted.
    let administrator = node.http();
    assert_eq!(administrator.delete("/api/queues/%2F/shapes-dl").expect("an answer").status, 204);
    node.terminate();
    node.restart();
    assert_eq!(names(&node, "queues"), ["shapes-c"]);
    assert!(node.wait_for_line("definitions haven't changed since they were loaded"));
    // A changed file is.
    let mut document = exported();
    document["queues"].as_array_mut().expect("queues").push(
        json!({"name": "new", "vhost": "/", "durable": true, "auto_delete": false, "type": "classic", "arguments": {}}),
    );
    fs::write(&file, document.to_string()).expect("is written");
    node.terminate();
    node.restart();
    assert_eq!(names(&node, "queues"), ["new", "shapes-c", "shapes-dl"]);
}

/// The error output of a node that doesn't start because of these definitions.
fn refused(text: &str) -> String {
    let folder = new_directory();
    let file = folder.path().join("definitions.json");
    fs::write(&file, text).expect("is written");
    let server = std::process::Command::new(leveret_tests::node::binary())
        .args(["server", "--data-dir"])
        .arg(folder.path().join("data"))
        .args(["--set", "listeners.tcp.default=127.0.0.1:0", "--set", "management.tcp.port=0"])
        .args(["--set", "prometheus.tcp.port=0", "--set"])
        .arg(format!("load_definitions={}", file.display()))
        .output()
        .expect("runs");
    assert!(!server.status.success(), "{text}");
    String::from_utf8_lossy(&server.stderr).into_owned()
}

#[test]
fn definitions_of_a_wrong_shape_stop_the_start_with_their_place() {
    if is_given() {
        return;
    }
    let told = refused("{\n \"users\": [\n  {\"name\": \"a\",}\n ]\n}\n");
    assert!(told.contains("definitions.json holds no definitions: key must be a string at line 3 column 16"), "{told}");
    let told = refused("{\"rabbit_version\": \"3.12.10\",\n \"queues\": [{\"name\": \"q1\", \"durable\": true}]}");
    assert!(told.contains("queues[0].vhost is missing (line 2, column 13)"), "{told}");
    let shovel = r#"{"parameters":[{"vhost":"/","component":"shovel","name":"p","value":{}}]}"#;
    let told = refused(shovel);
    assert!(told.contains("shovel parameter 'p' in vhost '/'") && told.contains("Take them out of the file"), "{told}");
    assert!(told.contains("or set definitions.skip_unsupported = true"), "{told}");
}

/// The target: 50,000 queues and bindings in under 5 s, unchanged ones in under 1 s.
#[test]
#[ignore = "a measurement: prints how long 50,000 queues and bindings take to import"]
fn import_of_50_000_queues_and_bindings() {
    let node = Node::start(Options::new());
    let queue = |n: u32| json!({"name": format!("queue-{n}"), "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}});
    let binding = |n: u32| {
        json!({"source": "amq.topic", "vhost": "/", "destination": format!("queue-{n}"), "destination_type": "queue",
            "routing_key": format!("key.{n}"), "arguments": {}})
    };
    let document = json!({
        "queues": (0..50_000).map(queue).collect::<Vec<_>>(),
        "bindings": (0..50_000).map(binding).collect::<Vec<_>>(),
    });
    for what in ["new", "unchanged"] {
        let begun = Instant::now();
        let answer = node.http().post("/api/definitions", &document).expect("an answer");
        assert_eq!(answer.status, 204, "{}", answer.body);
        println!("{what}: {:.2} s", begun.elapsed().as_secs_f64());
    }
    let overview = node.http().get("/api/overview").expect("an answer").json();
    assert_eq!(overview["object_totals"]["queues"], 50_000);
}
