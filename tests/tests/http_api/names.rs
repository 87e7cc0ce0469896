//! Names of any characters: what a client may declare is found, listed and deleted over HTTP, whatever its path would be shortened to.

use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::Wire;
use serde_json::{Value, json};

/// Names that clients, proxies or routes take for something else, and some that have to be encoded.
const NAMES: [&str; 16] = [
    ".",
    "..",
    "...",
    ";",
    ";=",
    ";=..",
    "%2e%2e",
    "/",
    "//",
    "?",
    "#",
    "a?b#c;d",
    "~",
    "detailed",
    "\u{0}\u{7}",
    "ö\u{202e}",
];

/// A name behind `;=`, percent-encoded.
fn segment(name: &str) -> String {
    let quoted = name.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    format!(";={}", quoted.collect::<String>())
}

/// Asserts the status of a response, and returns its body.
fn ask(http: &Http, method: &str, path: &str, body: &Value, status: u16) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = http.request(method, path, &body).expect("an answer");
    assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
    answer.json()
}

#[test]
fn every_name_of_a_client_is_found_and_deleted() {
    let node = Node::start(Options::new());
    let (http, mut wire) = (node.http(), Wire::open(node.amqp()));
    let longest = "ö".repeat(127);
    for name in NAMES.into_iter().chain([&*longest]) {
        wire.declare(1, name, true);
        let there = segment(name);
        let exchange = format!("/api/exchanges/%2F/{there}");
        ask(&http, "PUT", &exchange, &json!({"type": "direct"}), 201);
        let bindings = format!("/api/bindings/%2F/e/{there}/q/{there}");
        ask(&http, "POST", &bindings, &json!({"routing_key": name}), 201);
        let bound = ask(&http, "GET", &bindings, &Value::Null, 200);
        let key = bound[0]["properties_key"].as_str().expect("a key").to_owned();
        assert_eq!(bound[0]["routing_key"], *name, "{bound}");
        let binding = format!("{bindings}/{}", segment(&key));
        assert_eq!(ask(&http, "GET", &binding, &Value::Null, 200)["properties_key"], *key);
        let of_users = [format!("/api/vhosts/{there}v"), format!("/api/users/{there}")];
        ask(&http, "PUT", &of_users[0], &json!({}), 201);
        ask(&http, "PUT", &of_users[1], &json!({"password": "secret", "tags": ""}), 201);
        let rule = json!({"pattern": "^none$", "definition": {"max-length": 1}, "apply-to": "queues"});
        let policies = ["policies", "operator-policies"].map(|kind| format!("/api/{kind}/%2F/{there}"));
        policies.iter().for_each(|path| drop(ask(&http, "PUT", path, &rule, 201)));
        let parameter = format!("/api/global-parameters/{there}");
        ask(&http, "PUT", &parameter, &json!({"name": name, "value": 1}), 201);

        let queue = format!("/api/queues/%2F/{there}");
        assert_eq!(ask(&http, "GET", &queue, &Value::Null, 200)["name"], *name);
        ask(&http, "DELETE", &binding, &Value::Null, 204);
        assert_eq!(ask(&http, "GET", &bindings, &Value::Null, 200), json!([]));
        let all = [queue, exchange, parameter].into_iter().chain(of_users).chain(policies);
        for path in all {
            ask(&http, "GET", &path, &Value::Null, 200);
            ask(&http, "DELETE", &path, &Value::Null, 204);
            ask(&http, "GET", &path, &Value::Null, 404);
        }
    }
}

#[test]
fn an_empty_name_is_reached_where_there_is_one() {
    let node = Node::start(Options::new());
    let http = node.http();
    assert_eq!(ask(&http, "GET", "/api/exchanges/%2F/;=", &Value::Null, 200)["name"], "");
    for (path, body) in [
        ("/api/queues/%2F/;=", json!({"durable": true})),
        ("/api/users/;=", json!({"password": "secret", "tags": ""})),
        ("/api/vhosts/;=", json!({})),
        ("/api/policies/%2F/;=", json!({"pattern": "^none$", "definition": {"max-length": 1}, "apply-to": "queues"})),
    ] {
        let refused = ask(&http, "PUT", path, &body, 400);
        assert!(refused["reason"].as_str().is_some_and(|reason| reason.contains("is empty")), "{refused}");
    }
}

#[test]
fn a_name_is_told_apart_from_a_word_of_a_route() {
    let node = Node::start(Options::new());
    let http = node.http();
    ask(&http, "PUT", "/api/vhosts/detailed", &json!({}), 201);
    ask(&http, "PUT", "/api/queues/;=detailed/inside", &json!({"durable": true}), 201);
    ask(&http, "PUT", "/api/queues/%2F/outside", &json!({"durable": true}), 201);
    let names = |path: &str| -> Vec<String> {
        let list = ask(&http, "GET", path, &Value::Null, 200);
        let name = |queue: &Value| queue["name"].as_str().expect("a name").to_owned();
        list.as_array().expect("a list").iter().map(name).collect()
    };
    assert_eq!(names("/api/queues/;=detailed"), ["inside"]);
    assert_eq!(names("/api/queues/detailed?sort=name"), ["inside", "outside"]);
    ask(&http, "PUT", "/api/users/without-permissions", &json!({"password": "secret", "tags": ""}), 405);
    ask(&http, "PUT", "/api/users/;=without-permissions", &json!({"password": "secret", "tags": ""}), 201);
    ask(&http, "GET", "/api/users/;=without-permissions", &Value::Null, 200);
    ask(&http, "DELETE", "/api/users/;=without-permissions", &Value::Null, 204);
}
