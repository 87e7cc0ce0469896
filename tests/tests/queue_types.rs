//! Types of queues that are switched off: `queue_types.*.enabled`.

use leveret_amqp10::message::{BodyRef, MessageId, Properties, write_value_raw};
use leveret_amqp10::value::{EncodedMap, OwnedMap};
use leveret_amqp10::{OwnedValue, Role};
use leveret_strict_client::amqp10::Send;
use leveret_tests::amqp10::{Amqp10, CHANNEL, Seen, management_link};
use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, Writer, method, method_frame};
use serde_json::{Value, json};

fn text(queue: &str, kind: &str) -> String {
    format!(
        "Cannot declare a queue 'queue '{queue}' in vhost '/'' of type 'rabbit_{kind}_queue': such queues are switched off by \
         queue_types.{kind}.enabled"
    )
}

/// Answers of RabbitMQ 4.3.6 with `queue_types.quorum.enabled = false`: to a declaration over AMQP 0-9-1, over HTTP, and to a vhost
/// with this type as its default.
const RECORDED: [(u16, &str); 3] = [
    (
        541,
        "INTERNAL_ERROR - Cannot declare a queue 'queue 'another' in vhost '/'' of type 'rabbit_quorum_queue' on node 'off@localhost': \
         the corresponding feature flag is disabled",
    ),
    (
        400,
        "Cannot declare a queue 'queue 'another' in vhost '/'' of type 'rabbit_quorum_queue' on node 'off@localhost': the corresponding \
         feature flag is disabled",
    ),
    (400, "queue type quorum is not enabled"),
];

/// RabbitMQ names a feature flag as the reason, where ours is the setting.
fn without_reason((code, text): (u16, &str)) -> (u16, String) {
    let text = text.split(" on node ").next().unwrap_or_default();
    (code, text.split(": such queues").next().unwrap_or_default().to_owned())
}

fn put(node: &Node, path: &str, body: &Value) -> (u16, Value) {
    let answer = node.http().put(path, body).expect("an answer");
    (answer.status, if answer.body.is_empty() { Value::Null } else { answer.json() })
}

fn bad(reason: impl Into<String>) -> (u16, Value) {
    (400, json!({"error": "bad_request", "reason": reason.into()}))
}

/// Declares a queue over AMQP 0-9-1 on a connection of its own. The reason if that ends.
fn declare(node: &Node, queue: &str, exclusive: bool) -> Result<(), (u16, String)> {
    declare_with(node, queue, if exclusive { 4 } else { 2 }, &[])
}

fn declare_with(node: &Node, queue: &str, flags: u8, table: &[(&str, &str)]) -> Result<(), (u16, String)> {
    let mut wire = Wire::open(node.amqp());
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_octet(flags).put_string_table(table);
    wire.send(&method_frame(1, method::QUEUE_DECLARE, &arguments));
    wire.next_method(method::QUEUE_DECLARE_OK).map(drop).map_err(|frame| frame.reason().expect("a close"))
}

/// A link pair with the management node: requests on handle 0, responses on handle 1.
fn management(client: &mut Amqp10) {
    let properties = EncodedMap::new().with("paired", true);
    for role in [Role::Sender, Role::Receiver] {
        client.attach(CHANNEL, &management_link(role, &properties));
    }
    client.grant(1, 10);
}

/// Declares a queue through the management node. Returns status and body of the response.
fn manage(client: &mut Amqp10, queue: &str) -> (Option<String>, OwnedValue) {
    let to = format!("/queues/{queue}");
    let mut payload = Vec::new();
    let properties = Properties {
        message_id: Some(MessageId::Ulong(1)),
        to: Some(&to),
        subject: Some("PUT"),
        reply_to: Some("$me"),
        ..Properties::default()
    };
    properties.encode(&mut payload);
    let mut body = OwnedMap(Vec::new());
    body.push(OwnedValue::String("durable".into()), OwnedValue::Bool(true));
    let body = OwnedValue::Map(body);
    write_value_raw(&mut payload, |out| body.encode(out));
    client.send(0, &payload, &Send { settled: true, ..Send::default() });
    let response: Seen = client.receive(1);
    let sections = response.sections();
    let status = sections.properties.as_ref().and_then(|properties| properties.subject.map(str::to_owned));
    let BodyRef::Value(value) = sections.body else { panic!("the body of a response is a value") };
    (status, OwnedValue::from(value.decode().expect("a well-formed value")))
}

#[test]
fn new_queues_of_a_disabled_type_are_refused_everywhere() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let queue = |kind: &str| json!({"durable": true, "arguments": {"x-queue-type": kind}});
    assert_eq!(put(&node, "/api/queues/%2F/old", &json!({"durable": true})).0, 201);
    assert_eq!(node.terminate().code(), Some(0));
    node.restart_with("queue_types.classic.enabled", false);
    assert_eq!(declare(&node, "old", false), Ok(()), "it goes on");
    assert_eq!(put(&node, "/api/queues/%2F/old", &json!({"durable": true})).0, 204);
    assert_eq!(put(&node, "/api/queues/%2F/quorum", &queue("quorum")).0, 201);
    let (code, reason) = declare(&node, "new", false).expect_err("classic queues are disabled");
    assert_eq!((code, reason), (541, format!("INTERNAL_ERROR - {}", text("new", "classic"))));
    assert_eq!(declare(&node, "mine", true).expect_err("it would be one, too").0, 541);
    assert_eq!(put(&node, "/api/queues/%2F/new", &queue("classic")), bad(text("new", "classic")));
    assert_eq!(put(&node, "/api/queues/%2F/new", &json!({"durable": true})), bad(text("new", "classic")));
    let refused = put(&node, "/api/vhosts/v", &json!({"default_queue_type": "classic"}));
    assert_eq!(refused, bad("queue type classic is not enabled"));
    assert_eq!(put(&node, "/api/vhosts/v", &json!({"default_queue_type": "quorum"})).0, 201);
    let definitions = json!({"queues": [{"name": "new", "vhost": "/", "durable": true, "auto_delete": false,
        "arguments": {"x-queue-type": "classic"}}]});
    let answer = node.http().post("/api/definitions", &definitions).expect("an answer");
    let reason = format!("internal_error: {}", text("new", "classic"));
    assert_eq!((answer.status, answer.json()["reason"].clone()), (400, json!(reason)));
    // The present default of a vhost stays, as in every export.
    let exported = node.http().get("/api/definitions").expect("an answer").json();
    let mut kept = exported.clone();
    kept["queues"] = json!([]);
    let vhosts = kept["vhosts"].as_array().expect("a list");
    let vhost = vhosts.iter().find(|vhost| vhost["name"] == "/").expect("it is exported");
    assert_eq!(vhost["metadata"]["default_queue_type"], "classic");
    let answer = node.http().post("/api/definitions", &kept).expect("an answer");
    assert_eq!(answer.status, 204, "{}", answer.body);
    let mut client = Amqp10::open(node.amqp());
    management(&mut client);
    let body = OwnedValue::String(text("new", "classic"));
    assert_eq!(manage(&mut client, "new"), (Some("400".to_owned()), body));
    client.close();
    assert_eq!(node.terminate().code(), Some(0));
    node.restart_with("queue_types.quorum.enabled", false);
    assert_eq!(put(&node, "/api/queues/%2F/quorum", &queue("quorum")).0, 204, "it goes on");
    assert_eq!(put(&node, "/api/queues/%2F/another", &queue("quorum")), bad(text("another", "quorum")));
    let closed = declare_with(&node, "another", 2, &[("x-queue-type", "quorum")]).expect_err("is refused");
    let refused = |path: &str, body: &Value| {
        let (status, answer) = put(&node, path, body);
        (status, answer["reason"].as_str().expect("a reason").to_owned())
    };
    let vhost = refused("/api/vhosts/another", &json!({"default_queue_type": "quorum"}));
    let ours = [closed, refused("/api/queues/%2F/another", &queue("quorum")), vhost];
    for ((code, text), recorded) in ours.iter().zip(RECORDED) {
        assert_eq!(without_reason((*code, text)), without_reason(recorded));
    }
}
