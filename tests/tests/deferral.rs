//! Messages that a consumer of a quorum queue defers, and that are fetched by their tokens.

use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::{EncodedMap, OwnedArray};
use leveret_amqp10::{DeliveryState, OwnedValue, Role, Source, Target, TargetArchetype, Value};
use leveret_strict_client::amqp10::{Event, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL, Seen, annotation};
use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options};
use serde_json::json;

const TOKENS: &str = "rabbitmq:deferral-tokens";
const QUEUE: &str = "cell.quorum.deferral";
const LATER_MS: i64 = 4_000_000_000_000;

/// A node with a quorum queue and messages; `None` if there is another broker: RabbitMQ 4.3 has no deferral.
fn start(bodies: &[&str]) -> Option<Node> {
    if is_given() {
        return None;
    }
    let node = Node::start(Options::new());
    let body = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
    let answer = node.http().put(&format!("/api/queues/%2F/{QUEUE}"), &body).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    bodies.iter().for_each(|body| client.publish_accepted(0, body.as_bytes()));
    client.close();
    Some(node)
}

fn receiver(node: &Node, credit: u32) -> Amqp10 {
    let mut client = Amqp10::open(node.amqp());
    client.receiver(1, &format!("/queues/{QUEUE}"), credit);
    client
}

/// Defers a message. With `asks`, waits until that is safe.
fn defer(client: &mut Amqp10, message: &Seen, token: Value<'_>, asks: bool) {
    let added = EncodedMap::new().with("x-opt-delivery-time", Value::Timestamp(LATER_MS));
    let added = added.with("x-opt-deferral-token", token);
    let map = Some(added.as_map());
    let state = DeliveryState::Modified { delivery_failed: false, undeliverable_here: false, message_annotations: map };
    let id = message.delivery_id();
    client.client.dispose(CHANNEL, id, id, !asks, Some(state));
    client.flush();
    if asks {
        client.wait("the answer", |event| {
            let Event::Disposition { role: Role::Sender, first, last, settled: true, state, .. } = event else {
                return false;
            };
            id.is_within(*first, *last) && matches!(state, Some(State::Modified { .. }))
        });
    }
}

/// Grants credit by a flow that asks for deferred messages.
fn fetch(client: &mut Amqp10, credit: u32, tokens: &OwnedValue) {
    let mut bytes = Vec::new();
    tokens.encode(&mut bytes);
    let value = Value::decode_all(&bytes).expect("it is encoded");
    client.client.grant_with(CHANNEL, 1, credit, EncodedMap::new().with(TOKENS, value).as_map());
    client.flush();
}

fn strings(tokens: &[&str]) -> OwnedValue {
    let items = tokens.iter().map(|token| OwnedValue::String((*token).into())).collect();
    OwnedValue::Array(OwnedArray::new(items).expect("they are alike"))
}

#[test]
fn deferred_messages_are_fetched_by_token_also_after_a_kill() {
    let Some(mut node) = start(&["one", "two", "three", "four"]) else { return };
    let mut client = receiver(&node, 3);
    for token in ["a", "b", "a"] {
        let message = client.receive(1);
        defer(&mut client, &message, Value::String(token), true);
    }
    drop(client);
    node.kill();
    node.restart();
    let listed = node.http().get(&format!("/api/queues/%2F/{QUEUE}/delayed")).expect("an answer").json();
    let messages = listed["messages"].as_array().expect("a list").iter();
    let shown: Vec<_> = messages.map(|message| [&message["payload"], &message["deferral_token"]]).collect();
    assert_eq!(json!(shown), json!([["one", "a"], ["two", "b"], ["three", "a"]]));
    let mut client = receiver(&node, 0);
    // One credit now, and one later: what was claimed comes before what is ready.
    fetch(&mut client, 1, &strings(&["a", "unknown"]));
    let first = client.receive(1);
    assert_eq!(first.data(), b"one");
    assert_eq!(annotation(&first, "x-opt-deferral-token"), Some(OwnedValue::String("a".into())));
    assert_eq!(annotation(&first, "x-acquired-count"), Some(OwnedValue::Long(1)));
    client.grant(1, 2);
    let second = client.receive(1);
    let third = client.receive(1);
    assert_eq!([second.data(), third.data()], [&b"three"[..], b"four"]);
    // It isn't delayed again when it comes back.
    let id = first.delivery_id();
    client.client.dispose(CHANNEL, id, id, true, Some(DeliveryState::Released));
    client.accept(&second);
    client.accept(&third);
    client.grant(1, 1);
    assert_eq!(client.receive(1).data(), b"one");
    client.close();
}

#[test]
fn a_claim_ends_with_its_link() {
    let Some(node) = start(&["one"]) else { return };
    let mut client = receiver(&node, 1);
    let message = client.receive(1);
    defer(&mut client, &message, Value::String("a"), true);
    fetch(&mut client, 0, &strings(&["a"]));
    client.barrier(CHANNEL);
    let mut other = receiver(&node, 0);
    fetch(&mut other, 1, &strings(&["a"]));
    other.barrier(CHANNEL);
    assert_eq!(other.waiting(CHANNEL, 1), 0, "another link has the token");
    client.close();
    // The end of the connection is seen before its socket is closed.
    fetch(&mut other, 1, &strings(&["a"]));
    assert_eq!(other.receive(1).data(), b"one");
    other.close();
}

#[test]
fn other_types_of_tokens_are_refused() {
    let Some(node) = start(&["one"]) else { return };
    let symbols = OwnedArray::new(vec![OwnedValue::Symbol("a".into())]).expect("it is one");
    for (tokens, text) in [
        (OwnedValue::Array(symbols), "has to be a string (utf8)"),
        (OwnedValue::String("a".into()), "has to be an array of strings (utf8)"),
        (strings(&["a"; 257]), "257 values"),
        (strings(&["a".repeat(257).as_str()]), "257 bytes is longer than 256"),
    ] {
        let mut client = receiver(&node, 0);
        fetch(&mut client, 1, &tokens);
        let error = client.error();
        assert_eq!(error.condition, "amqp:invalid-field");
        assert!(error.description.contains(text), "{error:?}");
    }
    let mut client = receiver(&node, 1);
    let message = client.receive(1);
    defer(&mut client, &message, Value::Binary(b"a"), false);
    assert_eq!(client.error().condition, "amqp:invalid-field");
}

#[test]
fn the_capability_is_offered_by_quorum_queues_only() {
    let Some(node) = start(&[]) else { return };
    let answer = node.http().put("/api/queues/%2F/classic", &json!({"durable": true})).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
    let mut client = Amqp10::open(node.amqp());
    for (handle, queue, offered) in [(1, QUEUE, true), (2, "classic", false)] {
        let address = format!("/queues/{queue}");
        let attach = Attach {
            name: queue,
            handle,
            role: Role::Receiver,
            source: Some(Source { address: Some(&address), ..Source::default() }),
            target: Some(TargetArchetype::Target(Target::default())),
            ..Attach::default()
        };
        let answer = client.attach(CHANNEL, &attach);
        assert_eq!(answer.attach().offered_capabilities.contains(TOKENS), offered, "{queue}");
    }
    let tokens = EncodedMap::new().with(TOKENS, Value::Bool(true));
    client.client.grant_with(CHANNEL, 2, 1, tokens.as_map());
    client.flush();
    assert_eq!(client.error().condition, "amqp:invalid-field");
}
