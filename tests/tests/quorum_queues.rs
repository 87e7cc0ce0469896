//! Quorum queues of one member, with pika and with AMQP 1.0.

use leveret_amqp10::message::{MapSection, write_data, write_map_section};
use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{DeliveryState, OwnedValue, Role, Source, Target, TargetArchetype, Value};
use leveret_strict_client::amqp10::{Event, Send, SessionOptions, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL, Seen, annotation};
use leveret_tests::broker::{Broker, is_given};
use leveret_tests::cell::run_pika;
use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options};
use serde_json::json;

/// Runs a function of `clients/pika/quorum.py`.
fn pika(name: &'static str) {
    run_pika("quorum.py", name, "quorum queues");
}

#[test]
fn a_declaration_is_refused_as_in_rabbitmq() {
    pika("declaration");
}

#[test]
fn messages_and_their_counts_survive_a_kill() {
    pika("restart");
}

#[test]
fn priorities_are_strict_and_returns_come_first_in_their_order() {
    pika("order");
}

#[test]
fn each_return_is_counted_in_headers() {
    pika("counts");
}

#[test]
fn a_message_at_its_delivery_limit_is_dead_lettered() {
    pika("delivery_limit");
}

#[test]
fn without_an_exchange_for_it_it_is_parked() {
    pika("parking");
}

#[test]
fn returned_messages_are_delayed_longer_after_each_failure() {
    pika("delayed_retry");
}

#[test]
fn delayed_messages_are_listed_counted_and_survive_a_kill() {
    pika("delayed_messages");
}

#[test]
fn a_message_is_held_until_its_publishers_time_of_delivery() {
    pika("delayed_publishing");
}

#[test]
fn delayed_messages_come_in_the_order_of_their_times() {
    pika("delayed_order");
}

#[test]
fn failures_of_a_dead_letter_go_on_in_a_quorum_queue() {
    pika("dead_letter_counts");
}

#[test]
fn dead_letters_are_kept_until_a_queue_takes_them() {
    pika("kept_dead_letters");
}

#[test]
fn get_purge_delete_and_exclusive_consumers_do_as_in_rabbitmq() {
    pika("calls");
}

#[test]
fn listings_have_the_keys_of_quorum_queues() {
    pika("listing");
}

#[test]
fn ttl_and_length_limits_hold() {
    pika("limits");
}

#[test]
fn a_vhost_may_have_quorum_as_its_default_type() {
    pika("default_type");
}

#[test]
fn messages_come_back_from_a_consumer_after_its_timeout() {
    pika("consumer_timeout");
}

#[test]
fn returned_messages_come_first_or_in_their_old_places() {
    pika("return_order");
}

fn declare(http: &Http, queue: &str, arguments: serde_json::Value) {
    let mut body = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
    body["arguments"].as_object_mut().expect("an object").extend(arguments.as_object().expect("an object").clone());
    let answer = http.put(&format!("/api/queues/%2F/{queue}"), &body).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
}

/// Whether it is the first delivery, the header's delivery-count, and both counts of the annotations.
fn attempts(message: &Seen) -> (bool, u32, [Option<OwnedValue>; 2]) {
    let header = message.sections().header.unwrap_or_default();
    let counts = ["x-acquired-count", "x-delivery-count"].map(|key| annotation(message, key));
    (header.first_acquirer, header.delivery_count, counts)
}

/// Settles a message by the outcome `modified`, without a failure.
fn modify(client: &mut Amqp10, message: &Seen, undeliverable_here: bool, pairs: &[(&str, Value<'_>)]) {
    let mut added = EncodedMap::new();
    for (key, value) in pairs {
        added = added.with(key, *value);
    }
    let map = Some(added.as_map());
    let state = DeliveryState::Modified { delivery_failed: false, undeliverable_here, message_annotations: map };
    let id = message.delivery_id();
    client.client.dispose(CHANNEL, id, id, true, Some(state));
    client.flush();
}

#[test]
fn the_detach_of_a_receiver_is_no_failure_of_its_deliveries() {
    const QUEUE: &str = "cell.quorum.detach";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE, json!({"x-delivery-limit": 2}));
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    client.publish_accepted(0, b"m");
    let count = |number: u64| (number > 0).then_some(OwnedValue::Long(number as i64));
    for turn in 0..5 {
        client.receiver(1, &format!("/queues/{QUEUE}"), 1);
        let message = client.receive(1);
        let (is_first, failed, [acquired, _]) = attempts(&message);
        assert_eq!((is_first, failed, acquired.is_some()), (turn == 0, 0, turn > 0), "turn {turn}");
        assert!(
            acquired.is_none() || acquired == count(turn) || acquired == Some(OwnedValue::Ulong(turn)),
            "{acquired:?}"
        );
        client.client.detach(CHANNEL, 1, turn % 2 == 0, None);
        client.wait("detach", |event| matches!(event, Event::Detached { .. }));
    }
    // The end of a session is one.
    client.begin(CHANNEL + 1, SessionOptions::default());
    client.client.attach_receiver(CHANNEL + 1, 0, "other", &format!("/queues/{QUEUE}"), false);
    client.attached(CHANNEL + 1, 0);
    client.client.grant(CHANNEL + 1, 0, 1, false);
    client.flush();
    client.wait("a delivery", |event| matches!(event, Event::Delivered(delivery) if delivery.channel == CHANNEL + 1));
    client.client.end(CHANNEL + 1, None);
    client.wait("end", |event| matches!(event, Event::Ended { .. }));
    client.receiver(1, &format!("/queues/{QUEUE}"), 1);
    let message = client.receive(1);
    assert_eq!(attempts(&message).1, 1);
    client.accept(&message);
    client.barrier(CHANNEL);
    client.close();
    broker.finish("cell.quorum");
}

#[test]
fn annotations_of_a_modified_outcome_stay_with_the_message() {
    const QUEUE: &str = "cell.quorum.annotations";
    const DEAD: &str = "cell.quorum.annotations.dead";
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    declare(&node.http(), DEAD, json!({}));
    declare(&node.http(), QUEUE, json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}));
    let text = |text: &str| OwnedValue::String(text.into());
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    client.publish_accepted(0, b"m");
    client.receiver(1, &format!("/queues/{QUEUE}"), 10);
    let message = client.receive(1);
    modify(&mut client, &message, false, &[("x-opt-a", Value::String("one")), ("x-opt-b", Value::String("one"))]);
    let message = client.receive(1);
    modify(
        &mut client,
        &message,
        false,
        &[("x-opt-a", Value::String("two")), ("x-exchange", Value::String("not ours"))],
    );
    let message = client.receive(1);
    let of = |message: &Seen| ["x-opt-a", "x-opt-b", "x-exchange"].map(|key| annotation(message, key));
    assert_eq!(of(&message), [Some(text("two")), Some(text("one")), Some(text(""))]);
    // They are flushed at the latest with what is published after them.
    client.barrier(CHANNEL);
    client.publish_accepted(0, b"next");
    node.kill();
    node.restart();
    let mut client = Amqp10::open(node.amqp());
    client.receiver(1, &format!("/queues/{QUEUE}"), 1);
    let message = client.receive(1);
    assert_eq!((message.data(), of(&message)[0].clone()), (b"m".to_vec(), Some(text("two"))), "after a kill");
    modify(&mut client, &message, true, &[("x-opt-c", Value::String("three"))]);
    client.receiver(2, &format!("/queues/{DEAD}"), 1);
    let dead = client.receive(2);
    let found = ["x-opt-a", "x-opt-b", "x-opt-c", "x-first-death-reason"].map(|key| annotation(&dead, key));
    assert_eq!(found, ["two", "one", "three", "rejected"].map(|value| Some(text(value))), "a dead letter");
    client.close();
}

#[test]
fn a_modified_outcome_sets_the_time_of_the_next_delivery() {
    const QUEUE: &str = "cell.quorum.times";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE, json!({}));
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    client.publish_accepted(0, b"m");
    client.receiver(1, &format!("/queues/{QUEUE}"), 10);
    let wall_ms = || std::time::UNIX_EPOCH.elapsed().expect("a time after 1970").as_millis() as i64;
    for time in [Value::Timestamp, Value::Long] {
        let message = client.receive(1);
        let due_ms = wall_ms() + 300;
        modify(&mut client, &message, false, &[("x-opt-delivery-time", time(due_ms))]);
        let again = client.receive(1);
        assert!(wall_ms() >= due_ms, "{} ms too early", due_ms - wall_ms());
        assert_eq!(annotation(&again, "x-opt-delivery-time"), Some(time(due_ms).into()));
        modify(&mut client, &again, false, &[("x-opt-delivery-time", time(wall_ms() - 300))]);
    }
    let message = client.receive(1);
    client.accept(&message);
    client.barrier(CHANNEL);
    client.close();
    broker.finish("cell.quorum");
}

#[test]
fn a_message_annotation_sets_the_time_of_the_first_delivery() {
    const QUEUE: &str = "cell.quorum.delivery-time";
    if is_given() {
        // RabbitMQ 4.3 delivers them at once.
        return;
    }
    let broker = Broker::start();
    declare(&broker.http(), QUEUE, json!({}));
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    client.receiver(1, &format!("/queues/{QUEUE}"), 10);
    let wall_ms = || std::time::UNIX_EPOCH.elapsed().expect("a time after 1970").as_millis() as i64;
    let publish = |client: &mut Amqp10, time: Value<'_>, body: &[u8]| {
        let mut payload = Vec::new();
        let annotations = EncodedMap::new().with("x-opt-delivery-time", time);
        write_map_section(&mut payload, MapSection::MessageAnnotations, annotations.as_map());
        write_data(&mut payload, body);
        let id = client.send(0, &payload, &Send::default());
        assert_eq!(client.outcome(id), State::Accepted, "it is safe before it is due");
    };
    let due_ms = wall_ms() + 1_500;
    publish(&mut client, Value::Timestamp(due_ms + 1), b"timestamp");
    publish(&mut client, Value::Ulong(due_ms.cast_unsigned()), b"integer");
    for value in [Value::Timestamp(wall_ms() - 300), Value::Long(-1), Value::String("2099"), Value::Null] {
        publish(&mut client, value, b"at once");
        let message = client.receive(1);
        assert_eq!((message.data(), attempts(&message)), (b"at once".to_vec(), (true, 0, [None, None])));
        client.accept(&message);
    }
    for body in ["integer", "timestamp"] {
        let message = client.receive(1);
        assert!(wall_ms() >= due_ms, "{body} is {} ms too early", due_ms - wall_ms());
        assert_eq!((message.data(), attempts(&message)), (body.as_bytes().to_vec(), (true, 0, [None, None])));
        client.accept(&message);
    }
    client.barrier(CHANNEL);
    client.close();
    broker.finish("cell.quorum");
}

#[test]
fn each_outcome_of_amqp_1_0_counts_as_in_rabbitmq() {
    const QUEUE: &str = "cell.quorum.outcomes";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE, json!({}));
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    client.publish_accepted(0, b"m");
    client.receiver(1, &format!("/queues/{QUEUE}"), 10);
    let modified = |delivery_failed| DeliveryState::Modified {
        delivery_failed,
        undeliverable_here: false,
        message_annotations: None,
    };
    let long = |count| Some(OwnedValue::Long(count));
    for (outcome, first, failed, counts) in [
        (DeliveryState::Released, true, 0, [None, None]),
        (modified(false), false, 0, [long(1), None]),
        (modified(true), false, 0, [long(2), None]),
        (DeliveryState::Accepted, false, 1, [long(3), long(1)]),
    ] {
        let message = client.receive(1);
        assert_eq!(message.data(), b"m");
        assert_eq!(attempts(&message), (first, failed, counts), "before {outcome:?}");
        let id = message.delivery_id();
        client.client.dispose(CHANNEL, id, id, true, Some(outcome));
        client.flush();
    }
    client.barrier(CHANNEL);
    client.close();
    broker.finish("cell.quorum");
}

#[test]
fn counts_of_amqp_1_0_survive_a_restart() {
    if is_given() {
        return;
    }
    const QUEUE: &str = "cell.quorum.restart";
    let mut node = Node::start(Options::new());
    declare(&node.http(), QUEUE, json!({"x-delivery-limit": 1}));
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    client.publish_accepted(0, b"poison");
    client.receiver(1, &format!("/queues/{QUEUE}"), 1);
    let fail = |client: &mut Amqp10| {
        let message = client.receive(1);
        let id = message.delivery_id();
        let state =
            DeliveryState::Modified { delivery_failed: true, undeliverable_here: false, message_annotations: None };
        client.client.dispose(CHANNEL, id, id, true, Some(state));
        client.flush();
        message
    };
    fail(&mut client);
    // The count is flushed at the latest with what is published after it.
    client.barrier(CHANNEL);
    client.publish_accepted(0, b"next");
    node.kill();
    node.restart();
    let mut client = Amqp10::open(node.amqp());
    client.receiver(1, &format!("/queues/{QUEUE}"), 1);
    let again = fail(&mut client);
    assert_eq!(again.data(), b"poison");
    assert_eq!(attempts(&again).1, 1);
    client.grant(1, 1);
    let next = client.receive(1);
    assert_eq!(next.data(), b"next");
    client.accept(&next);
    client.barrier(CHANNEL);
    let shown = node.http().get(&format!("/api/queues/%2F/{QUEUE}")).expect("an answer").json();
    assert_eq!((&shown["messages"], &shown["parked"]), (&json!(0), &json!(1)), "one failure too many");
    client.close();
    leveret_tests::conservation::check(&node.http());
}

#[test]
fn a_receiver_that_settles_nothing_is_sent_released() {
    const QUEUE: &str = "cell.quorum.timeout";
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new().set("consumer_timeout", 60_000));
    declare(&node.http(), QUEUE, json!({}));
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    client.publish_accepted(0, b"m");
    let properties = EncodedMap::new().with("rabbitmq:consumer-timeout", Value::Uint(500));
    let address = format!("/queues/{QUEUE}");
    let attach = Attach {
        name: "patient",
        handle: 1,
        role: Role::Receiver,
        source: Some(Source { address: Some(&address), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target::default())),
        properties: Some(properties.as_map()),
        ..Attach::default()
    };
    client.attach(CHANNEL, &attach);
    client.grant(1, 10);
    let first = client.receive(1);
    let is_released = |event: &Event| matches!(event, Event::Disposition { state: Some(State::Released), .. });
    client.wait("an outcome of the broker", is_released);
    assert!(node.wait_for_line("hasn't acknowledged a delivery for"), "a warning at half of the time");
    assert!(node.wait_for_line("has timed out waiting for a consumer acknowledgement"));
    let consumers = node.http().get("/api/consumers/%2F").expect("an answer").json();
    assert_eq!(consumers[0]["wait"]["reason"], "overdue", "{consumers}");
    assert_eq!(consumers[0]["consumer_timeout"], 500, "{consumers}");
    // Accepting it has no effect now, but the link goes on.
    client.accept(&first);
    let again = client.receive(1);
    assert_eq!(attempts(&again), (false, 0, [Some(OwnedValue::Long(1)), None]));
    client.accept(&again);
    client.close();
}

#[test]
fn the_timeout_of_the_node_is_reloaded() {
    const QUEUE: &str = "cell.quorum.reloaded";
    if is_given() {
        return;
    }
    let directory = leveret_tests::node::new_directory();
    let file = directory.path().join("rabbitmq.conf");
    std::fs::write(&file, "consumer_timeout = 1h\n").expect("a file");
    let mut node = Node::start_in(directory, Options::new().with_file(&file));
    declare(&node.http(), QUEUE, json!({}));
    let shown =
        |node: &Node| node.http().get("/api/consumers/%2F").expect("an answer").json()[0]["consumer_timeout"].clone();
    let mut client = Amqp10::open(node.amqp());
    client.receiver(0, &format!("/queues/{QUEUE}"), 1);
    client.barrier(CHANNEL);
    assert_eq!(shown(&node), 3_600_000);
    std::fs::write(&file, "consumer_timeout = 0\n").expect("a file");
    node.hang_up();
    assert!(node.wait_for_line("expected a whole number from 1 to"), "an invalid value is refused");
    std::fs::write(&file, "consumer_timeout = 2h\n").expect("a file");
    node.hang_up();
    assert!(node.wait_for_line("in effect now: consumer_timeout"));
    assert_eq!(shown(&node), 7_200_000);
    client.close();
}
