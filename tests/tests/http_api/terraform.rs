//! The requests of Terraform's RabbitMQ provider and of the messaging topology operator, as sent by their client:
//! created objects are readable at once, and both tolerate a second deletion.

use leveret_tests::broker::{Broker, is_given};
use leveret_tests::http::Http;
use serde_json::{Value, json};

fn status(http: &Http, method: &str, path: &str, body: &Value) -> u16 {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    http.request(method, &format!("/api/{path}"), &body).expect("an answer").status
}

fn read(http: &Http, path: &str) -> Value {
    let answer = http.get(&format!("/api/{path}")).expect("an answer");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.json()
}

/// Creates, reads, updates and reads an object; fields have to be as requested.
fn applied(http: &Http, path: &str, created: &Value, updated: Option<&Value>) {
    assert_eq!(status(http, "GET", path, &Value::Null), 404, "{path}");
    assert_eq!(status(http, "PUT", path, created), 201, "{path}");
    compared(&read(http, path), created, path);
    if let Some(updated) = updated {
        assert_eq!(status(http, "PUT", path, updated), 204, "{path}");
        compared(&read(http, path), updated, path);
    }
}

fn compared(shown: &Value, asked: &Value, path: &str) {
    for (key, value) in asked.as_object().expect("an object") {
        if key == "password" {
            continue;
        }
        // Tags are sent as a text and read as a list.
        let tags = value.as_str().map(|text| json!(text.split(',').filter(|tag| !tag.is_empty()).collect::<Vec<_>>()));
        let shown = &shown[key];
        let same = shown == value || (key == "tags" && Some(shown) == tags.as_ref());
        assert!(same, "{path}: {key} is {shown}, asked for {value}");
    }
}

#[test]
fn applied_objects_are_read_at_once_and_destroyed_once() {
    if is_given() {
        return;
    }
    let broker = Broker::start();
    let http = broker.http();
    let none = Value::Null;
    // A slash and a space in names are quoted.
    let vhost = "terra%2Fform%20v";
    applied(
        &http,
        &format!("vhosts/{vhost}"),
        &json!({"description": "one", "tags": "a,b", "default_queue_type": "classic", "tracing": false}),
        Some(&json!({"description": "two", "tags": "", "default_queue_type": "classic", "tracing": false})),
    );
    applied(
        &http,
        "users/terraform",
        &json!({"password": "secret", "tags": "management,monitoring"}),
        Some(&json!({"password": "other", "tags": ""})),
    );
    applied(
        &http,
        &format!("permissions/{vhost}/terraform"),
        &json!({"configure": ".*", "write": "^w", "read": ""}),
        Some(&json!({"configure": "^$", "write": ".*", "read": ".*"})),
    );
    let exchange = json!({"type": "topic", "durable": true, "auto_delete": false, "arguments": {}});
    applied(&http, &format!("exchanges/{vhost}/ex%2F1"), &exchange, Some(&exchange));
    let queue = json!({
        "durable": true,
        "auto_delete": false,
        "arguments": {"x-queue-type": "classic", "x-message-ttl": 5000, "x-dead-letter-exchange": "ex/1"},
    });
    applied(&http, &format!("queues/{vhost}/q%2F1"), &queue, Some(&queue));

    // The provider stores a binding by its properties_key and looks it up in the list of its vhost; the operator
    // reads the list between both ends.
    let between = format!("bindings/{vhost}/e/ex%2F1/q/q%2F1");
    for (routing_key, arguments) in [("#", json!({})), ("", json!({})), ("a.*/b~c", json!({"x": 1, "y": "z"}))] {
        let body = json!({"routing_key": routing_key, "arguments": arguments});
        assert_eq!(status(&http, "POST", &between, &body), 201, "{routing_key}");
        let made = |list: &Value| {
            let found = list.as_array().expect("a list").iter().find(|binding| {
                binding["source"] == "ex/1"
                    && binding["routing_key"] == routing_key
                    && binding["arguments"] == arguments
            });
            found.map(|binding| binding["properties_key"].as_str().expect("a key").to_owned())
        };
        let key = made(&read(&http, &format!("bindings/{vhost}"))).expect("is listed");
        assert_eq!(made(&read(&http, &between)).as_ref(), Some(&key));
        // It is quoted like any segment of a path.
        let quoted: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("{between}/{quoted}");
        assert_eq!(read(&http, &path)["routing_key"], routing_key);
        assert_eq!((status(&http, "DELETE", &path, &none), status(&http, "DELETE", &path, &none)), (204, 404), "{key}");
        assert_eq!(made(&read(&http, &between)), None);
    }

    for path in [
        format!("queues/{vhost}/q%2F1"),
        format!("exchanges/{vhost}/ex%2F1"),
        format!("permissions/{vhost}/terraform"),
        "users/terraform".to_owned(),
        format!("vhosts/{vhost}"),
    ] {
        assert_eq!(status(&http, "DELETE", &path, &none), 204, "{path}");
        assert_eq!(status(&http, "GET", &path, &none), 404, "{path}");
        assert_eq!(status(&http, "DELETE", &path, &none), 404, "{path}");
    }
    broker.finish("");
}
