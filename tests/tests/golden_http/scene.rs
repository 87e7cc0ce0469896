//! The scene: a connection of each protocol, their queues and messages, and objects of every kind, all called
//! `shapes`. RabbitMQ's responses were recorded with the same scene.

use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::broker::Broker;
use leveret_tests::http::Http;
use leveret_tests::wire::{Login, PROTOCOL_HEADER, Tuning, Wire, Writer, method, publish};
use serde_json::{Value, json};

/// The capabilities of the recorded client.
const CAPABILITIES: &[&str] = &[
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "exchange_exchange_bindings",
    "publisher_confirms",
];

const PROPERTIES: &[(&str, &str)] = &[
    ("connection_name", "shapes"),
    ("product", "shapes"),
    ("version", "1"),
    ("platform", "none"),
    ("information", "none"),
];

/// Paths and bodies of the scene's PUT requests.
const PUTS: &[(&str, &str)] = &[
    ("vhosts/shapes", r#"{"description": "d", "tags": "a,b"}"#),
    ("users/shapes", r#"{"password": "shapes-password", "tags": "monitoring"}"#),
    ("permissions/shapes/shapes", r#"{"configure": ".*", "write": ".*", "read": ".*"}"#),
    ("topic-permissions/shapes/shapes", r#"{"exchange": "amq.topic", "write": ".*", "read": ".*"}"#),
    ("vhost-limits/shapes/max-queues", r#"{"value": 100}"#),
    ("user-limits/shapes/max-channels", r#"{"value": 100}"#),
    (
        "policies/%2F/shapes",
        r#"{"pattern": "^shapes-none$", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"}"#,
    ),
];

const REMOVED: &[&str] = &[
    "policies/%2F/shapes",
    "users/shapes",
    "users/shapes3",
    "vhosts/shapes",
    "queues/%2F/shapes-c",
    "queues/%2F/shapes-dl",
    "exchanges/%2F/shapes-x",
];

/// The scene. Its connections stay open as long as it exists.
pub(crate) struct Scene {
    _wire: Wire,
    _amqp10: Amqp10,
}

impl Scene {
    /// Creates it and waits until all of it is visible.
    pub(crate) fn set(broker: &Broker) -> Self {
        let http = broker.http();
        let wire = amqp091(broker);
        let mut amqp10 = Amqp10::open(broker.amqp());
        amqp10.sender(0, "/queues/shapes-dl");
        amqp10.publish_accepted(0, b"x");
        amqp10.receiver(1, "/queues/shapes-dl", 1);
        amqp10.receive(1);
        amqp10.barrier(CHANNEL);
        for (path, body) in PUTS {
            http.request("PUT", &format!("/api/{path}"), body).expect("an answer");
        }
        wait_until_shown(&http);
        Self { _wire: wire, _amqp10: amqp10 }
    }

    /// Deletes its objects.
    pub(crate) fn clear(self, http: &Http) {
        for path in REMOVED {
            http.delete(&format!("/api/{path}")).expect("an answer");
        }
    }
}

fn amqp091(broker: &Broker) -> Wire {
    let mut wire = Wire::connect(broker.amqp());
    wire.send(PROTOCOL_HEADER);
    wire.next_method(method::CONNECTION_START).expect("connection.start");
    let login = Login { capabilities: CAPABILITIES, properties: PROPERTIES, ..Login::default() };
    wire.log_in(Tuning { frame_max: 0, heartbeat: 0 }, &login).expect("the login");
    wire.open_channel(1);
    wire.confirm_select(1);
    wire.prefetch(1, 5);
    let mut exchange = Writer::new();
    exchange.put_short(0).put_short_string("shapes-x").put_short_string("topic").put_octet(0b10).put_empty_table();
    wire.call(1, method::EXCHANGE_DECLARE, &exchange, method::EXCHANGE_DECLARE_OK);
    wire.declare(1, "shapes-c", true);
    let mut dead = Writer::new();
    dead.put_short(0).put_short_string("shapes-dl").put_octet(0b10);
    let mut table = Writer::new();
    table.put_short_string("x-dead-letter-exchange").put_octet(b'S').put_long_string(b"shapes-x");
    table.put_short_string("x-max-length").put_octet(b'I').put_long(100);
    dead.put_long_string(table.bytes());
    wire.call(1, method::QUEUE_DECLARE, &dead, method::QUEUE_DECLARE_OK);
    let mut bind = Writer::new();
    bind.put_short(0).put_short_string("shapes-c").put_short_string("shapes-x").put_short_string("a.#");
    bind.put_octet(0).put_empty_table();
    wire.call(1, method::QUEUE_BIND, &bind, method::QUEUE_BIND_OK);
    for _ in 0..20 {
        wire.send(&publish(1, "shapes-x", "a.b", b"0123456789ab", false, true));
    }
    wire.confirms(20);
    let mut consume = Writer::new();
    consume.put_short(0).put_short_string("shapes-c").put_short_string("shapes-tag").put_octet(0).put_empty_table();
    wire.call(1, method::BASIC_CONSUME, &consume, method::BASIC_CONSUME_OK);
    for _ in 0..5 {
        wire.delivery();
    }
    wire
}

/// RabbitMQ's statistics are updated at intervals.
fn wait_until_shown(http: &Http) {
    let get = |path: &str| http.get(&format!("/api/{path}")).map(|answer| answer.json()).unwrap_or(Value::Null);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = json!([
            get("queues/%2F/shapes-c")["message_stats"]["deliver"],
            get("queues/%2F/shapes-dl")["messages_unacknowledged"],
            get("exchanges/%2F/shapes-x")["message_stats"]["publish_out"],
            get("channels")[0]["message_stats"]["confirm"],
            get("consumers").as_array().map(Vec::len),
            get("connections").as_array().map(Vec::len),
        ]);
        if shown == json!([5, 1, 20, 20, 2, 2]) {
            return;
        }
        assert!(Instant::now() < deadline, "the scene isn't shown: {shown}");
        // Statistics can only be polled.
        thread::sleep(Duration::from_millis(10));
    }
}
