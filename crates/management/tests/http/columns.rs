//! Columns of lists are those of whole rows, whether a row is made for them or not.

use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};
use serde_json::{Value, json};

use crate::stage::{Amqp, HttpStage};

/// Values that change from one request to the next.
fn moves(column: &str) -> bool {
    const NAMES: &[&str] = &[
        "message_stats",
        "wait",
        "why",
        "waits",
        "idle_since",
        "recv_oct",
        "recv_cnt",
        "send_oct",
        "send_cnt",
        "memory",
    ];
    NAMES.contains(&column) || column.ends_with("_details")
}

#[test]
fn a_column_has_the_value_of_the_whole_row() {
    let stage = HttpStage::new();
    let mut amqp = Amqp::connect(stage.amqp);
    let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
    amqp.client.declare_queue(1, b"read", durable, &Default::default());
    amqp.until(|event| matches!(event, Event::QueueDeclared { .. }));
    amqp.client.publish(1, Publication::to_queue(b"read", b"x").mandatory());
    amqp.client.consume(1, b"read", b"tag", Consume::default(), &Default::default());
    amqp.until(|event| matches!(event, Event::Delivered(_)));
    for (name, arguments) in [
        ("a", json!({"x-max-length": 5, "x-list": [1, {"b": "c"}]})),
        ("stream", json!({"x-queue-type": "stream"})),
        ("quorum", json!({"x-queue-type": "quorum"})),
    ] {
        let body = json!({"durable": true, "arguments": arguments}).to_string();
        assert_eq!(stage.ask("PUT", &format!("/api/queues/v/{name}"), &body).0, 201);
    }
    let policy = r#"{"pattern": "^a", "definition": {"max-length": 3}}"#;
    assert_eq!(stage.ask("PUT", "/api/policies/v/short", policy).0, 201);
    assert_eq!(
        stage.ask("POST", "/api/bindings/v/e/amq.topic/q/a", r#"{"routing_key": "k", "arguments": {"n": 1}}"#).0,
        201
    );
    for path in [
        "/api/queues",
        "/api/queues/v",
        "/api/queues/detailed",
        "/api/queues?disable_stats=true",
        "/api/queues?disable_stats=true&enable_queue_totals=true",
        "/api/exchanges",
        "/api/bindings",
        "/api/consumers",
        "/api/connections",
        "/api/channels",
        "/api/nodes",
        "/api/vhosts",
        "/api/users",
    ] {
        let ask = |query: &str| {
            let separator = if path.contains('?') { '&' } else { '?' };
            let (status, answer) = stage.ask("GET", &format!("{path}{separator}{query}"), "");
            assert_eq!(status, 200, "{path} {query}: {answer}");
            answer
        };
        let rows = ask("");
        let rows = rows.as_array().expect("a list");
        let mut columns: Vec<&String> = rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys()).collect();
        columns.sort();
        columns.dedup();
        assert!(!columns.is_empty(), "{path}");
        // Everything else of a node is measured anew for each request.
        let stands = |column: &str| path != "/api/nodes" || ["name", "type", "running", "os_pid"].contains(&column);
        let columns = columns.into_iter().filter(|column| !moves(column) && stands(column));
        for column in columns {
            let expected: Vec<Value> = rows
                .iter()
                .map(|row| row.get(column).map_or(json!([]), |value| json!({column.as_str(): value})))
                .collect();
            assert_eq!(ask(&format!("columns={column}")), json!(expected), "{column} of {path}");
            // Beside one that needs the whole row, and on a page.
            let beside = ask(&format!("columns={column},no-such-column&page=1&page_size=500"));
            assert_eq!(beside["items"], json!(expected), "{column} of {path}");
        }
    }
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn a_path_leads_into_a_column_that_is_made_alone() {
    let stage = HttpStage::new();
    let body = json!({"durable": true, "arguments": {"x-max-length": 5, "x-other": 1}}).to_string();
    assert_eq!(stage.ask("PUT", "/api/queues/v/a", &body).0, 201);
    let (_, rows) = stage.ask("GET", "/api/queues/v?columns=name,arguments.x-max-length", "");
    assert_eq!(rows, json!([{"name": "a", "arguments": {"x-max-length": 5}}]));
    let (_, sorted) = stage.ask("GET", "/api/connections?columns=name,user&sort=user&page=1", "");
    assert_eq!((&sorted["total_count"], &sorted["items"]), (&json!(0), &json!([])));
    stage.node.stop("test");
}
