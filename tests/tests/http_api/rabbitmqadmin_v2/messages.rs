use leveret_tests::wire::Wire;
use serde_json::json;

use super::Effect;
use super::admin::{Admin, name};

pub(super) const EFFECTS: &[(&str, Effect)] =
    &[("publish message", publish), ("get messages", get), ("purge queue", purge), ("queues purge", purge)];

/// A queue with messages `m0`, `m1`, ...
fn fill(admin: &Admin, queue: &str, count: usize) {
    admin.put(&format!("queues/%2F/{queue}"), json!({}));
    for number in 0..count {
        let message = json!({
            "properties": {"delivery_mode": 2},
            "routing_key": queue,
            "payload": format!("m{number}"),
            "payload_encoding": "string",
        });
        admin.post("exchanges/%2F/amq.default/publish", message);
    }
}

fn length(admin: &Admin, queue: &str) -> u64 {
    admin.get(&format!("queues/%2F/{queue}"))["messages"].as_u64().expect("a length")
}

fn publish(admin: &Admin, command: &str) {
    let queue = name(command);
    admin.put(&format!("queues/%2F/{queue}"), json!({}));
    let properties = r#"{"delivery_mode":2,"content_type":"text/plain","headers":{"a":1}}"#;
    let printed = admin.run(command, &format!("--routing-key {queue} --payload hello --properties {properties}"));
    assert!(printed.contains("Message published and routed successfully"), "{printed}");
    let seen = admin.get(&format!("queues/%2F/{queue}/browse"));
    assert_eq!(seen[0]["payload"], "hello");
    assert_eq!(
        seen[0]["properties"],
        json!({"content_type": "text/plain", "delivery_mode": 2, "headers": {"a": 1}}),
        "{seen}"
    );
    admin.post(&format!("bindings/%2F/e/amq.fanout/q/{queue}"), json!({"routing_key": ""}));
    let body = admin.home().join("body");
    std::fs::write(&body, "from a file").expect("a file");
    admin.run(command, &format!("--exchange amq.fanout --payload-file {}", body.display()));
    let mut wire = Wire::open(admin.broker.amqp());
    wire.consume(1, &queue, true);
    assert_eq!((wire.delivery().2, wire.delivery().2), (b"hello".to_vec(), b"from a file".to_vec()));
    wire.close();
    assert!(admin.run(command, "--routing-key nobody").contains("NOT routed"));
    admin.fails(command, "--exchange nothing --routing-key nobody", "404");
}

fn get(admin: &Admin, command: &str) {
    let queue = name(command);
    fill(admin, &queue, 3);
    let got = |count: usize, mode: &str| {
        let rows = admin.rows(command, &format!("--queue {queue} --count {count} --ack-mode {mode}"));
        let payload = |row: &Vec<String>| row.iter().find(|word| word.starts_with('m')).cloned();
        // Length, redelivered, key, messages left, properties, payload and encoding.
        rows.iter().filter_map(|row| Some((row[1].clone(), payload(row)?))).collect::<Vec<_>>()
    };
    let of = |redelivered: &str, payload: &str| (redelivered.to_owned(), payload.to_owned());
    assert_eq!(got(2, "ack_requeue_true"), [of("false", "m0"), of("false", "m1")]);
    assert_eq!(length(admin, &queue), 3);
    assert_eq!(got(1, "reject_requeue_true"), [of("true", "m0")]);
    assert_eq!(length(admin, &queue), 3);
    assert_eq!(got(1, "ack_requeue_false"), [of("true", "m0")]);
    assert_eq!(length(admin, &queue), 2);
    assert_eq!(got(9, "reject_requeue_false"), [of("true", "m1"), of("false", "m2")]);
    assert_eq!(length(admin, &queue), 0);
    assert_eq!(got(1, "ack_requeue_false"), []);
    admin.fails(command, "--queue nobody", "404");
}

fn purge(admin: &Admin, command: &str) {
    let queue = name(command);
    fill(admin, &queue, 3);
    assert_eq!(length(admin, &queue), 3);
    admin.run(command, &format!("--name {queue}"));
    assert_eq!(length(admin, &queue), 0);
    admin.fails(command, "--name nobody", "404");
}
