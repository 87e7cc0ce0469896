//! The user that declared a queue, over either interface, is still known after a restart.

use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::Wire;
use serde_json::{Value, json};

fn names(http: &Http, user: &str) -> Vec<String> {
    let answer = http.get(&format!("/api/users/{user}/queues?sort=name")).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let list = answer.json();
    let name = |queue: &Value| queue["name"].as_str().expect("a name").to_owned();
    list.as_array().expect("a list").iter().map(name).collect()
}

#[test]
fn queues_are_listed_by_the_user_who_declared_them() {
    let mut node = Node::start(Options::new());
    let http = node.http();
    let put = |http: &Http, path: &str, body: Value| {
        let answer = http.put(path, &body).expect("an answer");
        assert!(matches!(answer.status, 201 | 204), "{path}: {}", answer.body);
    };
    put(&http, "/api/users/bob", json!({"password": "bob", "tags": "management"}));
    put(&http, "/api/permissions/%2F/bob", json!({"configure": ".*", "write": ".*", "read": ".*"}));
    put(&http.as_user("bob", "bob"), "/api/queues/%2F/of-bob", json!({"durable": true}));
    // Declared again by another user: nothing changes.
    put(&http, "/api/queues/%2F/of-bob", json!({"durable": true}));
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "of-guest", true);
    wire.declare(1, "transient-of-guest", false);
    let imported = json!({"queues": [
        {"name": "imported", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}}
    ]});
    assert_eq!(http.post("/api/definitions", &imported).expect("an answer").status, 204);

    assert_eq!(names(&http, "bob"), ["of-bob"]);
    assert_eq!(names(&http, "guest"), ["imported", "of-guest", "transient-of-guest"]);
    assert_eq!(names(&http, "nobody"), [""; 0]);
    node.terminate();
    node.restart();
    let http = node.http();
    assert_eq!(names(&http, "bob"), ["of-bob"]);
    assert_eq!(names(&http, "guest"), ["imported", "of-guest"]);
}
