//! Lists sorted by each column that a queue has.

use leveret_tests::node::{Node, Options};
use serde_json::{Value, json};

/// Columns whose sort keys aren't read from the displayed row, and one whose key is.
const COLUMNS: [&str; 14] = [
    "name",
    "state",
    "type",
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "message_bytes",
    "message_bytes_ready",
    "memory",
    "consumers",
    "message_stats.publish",
    "message_stats.get_no_ack",
    "message_stats.deliver_get",
    "arguments.x-max-length",
];

/// As in RabbitMQ: a missing value counts as 0, and numbers sort before texts.
fn key(row: &Value, column: &str) -> (bool, u64, String) {
    let shown = column.split('.').try_fold(row, |value, step| value.get(step));
    match shown {
        Some(Value::String(text)) => (true, 0, text.clone()),
        other => (false, other.and_then(Value::as_u64).unwrap_or(0), String::new()),
    }
}

#[test]
fn queues_are_sorted_by_what_is_shown() {
    let node = Node::start(Options::new());
    let http = node.http();
    // Number of messages, their length, and the number of deliveries.
    let queues = [("a", 2, 10, 1), ("b", 5, 1, 4), ("c", 0, 0, 0), ("d", 1, 300, 0), ("e", 3, 2, 2)];
    for (at, (name, messages, length, taken)) in queues.into_iter().enumerate() {
        let arguments = if at % 2 == 0 { json!({"x-max-length": 100 - at}) } else { json!({}) };
        let declared = http.put(&format!("/api/queues/%2F/{name}"), &json!({"durable": true, "arguments": arguments}));
        assert_eq!(declared.expect("an answer").status, 201);
        for _ in 0..messages {
            let message = json!({"routing_key": name, "payload": "x".repeat(length), "payload_encoding": "string", "properties": {}});
            let published = http.post("/api/exchanges/%2F/amq.default/publish", &message).expect("an answer");
            assert_eq!(published.json()["routed"], true);
        }
        let get = json!({"count": taken.max(1), "ackmode": "ack_requeue_false", "encoding": "auto"});
        if taken > 0 {
            let got = http.post(&format!("/api/queues/%2F/{name}/get"), &get).expect("an answer");
            assert_eq!(got.json().as_array().map(Vec::len), Some(taken));
        }
    }
    for column in COLUMNS {
        for reverse in [false, true] {
            let list = |page| {
                let query = format!("sort={column}&sort_reverse={reverse}{page}");
                http.get(&format!("/api/queues?{query}")).expect("an answer").json()
            };
            let whole = list("");
            let rows = whole.as_array().expect("a list");
            let keys: Vec<_> = rows.iter().map(|row| key(row, column)).collect();
            let in_order = |pair: &[_]| if reverse { pair[0] >= pair[1] } else { pair[0] <= pair[1] };
            assert_eq!(keys.len(), queues.len());
            assert!(keys.windows(2).all(in_order), "{column}, reverse {reverse}: {keys:?}");
            let names = |rows: &[Value]| -> Vec<Value> { rows.iter().map(|row| row["name"].clone()).collect() };
            let page = list("&page=2&page_size=2");
            let page = names(page["items"].as_array().expect("items"));
            assert_eq!(page, names(&rows[2..4]), "{column}, reverse {reverse}");
        }
    }
}
