//! Streams, with pika and with AMQP 1.0.

use leveret_amqp10::message::{MapSection, write_data, write_map_section};
use leveret_amqp10::performative::Attach;
use leveret_amqp10::terminus::DistributionMode;
use leveret_amqp10::value::{EncodedMap, OwnedMap};
use leveret_amqp10::{DeliveryState, OwnedValue, Role, SenderSettleMode, Source, Target, TargetArchetype, Value};
use leveret_strict_client::amqp10::{Event, Send, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL, Seen, annotation};
use leveret_tests::broker::{Broker, is_given};
use leveret_tests::cell::run_pika;
use leveret_tests::filters::{attach, attach_as, echoed, filter, map_of};
use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options};
use serde_json::json;

/// Runs a function of `clients/pika/streams.py`.
fn pika(name: &'static str) {
    run_pika("streams.py", name, "streams");
}

#[test]
fn a_declaration_is_refused_as_in_rabbitmq() {
    pika("declaration");
}

#[test]
fn each_consumer_begins_where_it_asks() {
    pika("offsets");
}

#[test]
fn acknowledgements_of_any_kind_are_credit() {
    pika("credit");
}

#[test]
fn chunks_without_a_match_are_skipped() {
    pika("filters");
}

#[test]
fn get_purge_and_delete_do_as_in_rabbitmq() {
    pika("calls");
}

#[test]
fn a_message_comes_back_as_from_rabbitmqs_streams() {
    pika("properties");
}

#[test]
fn publishing_of_every_kind_gets_into_a_stream() {
    pika("publishing");
}

#[test]
fn listings_have_the_keys_of_streams() {
    pika("listing");
}

#[test]
fn the_head_goes_when_a_stream_is_too_long() {
    pika("retention");
}

#[test]
fn a_consumer_goes_on_at_its_kept_offset() {
    pika("kept_offsets");
}

#[test]
fn messages_and_their_offsets_survive_a_kill() {
    pika("restart");
}

#[test]
fn a_vhost_may_have_stream_as_its_default_type() {
    pika("default_type");
}

/// Filters of a source, by name.
type Filters = Vec<(&'static str, OwnedValue)>;

fn declare(http: &Http, queue: &str) {
    let body = json!({"durable": true, "arguments": {"x-queue-type": "stream"}});
    let answer = http.put(&format!("/api/queues/%2F/{queue}"), &body).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
}

fn text(text: &str) -> OwnedValue {
    OwnedValue::String(text.into())
}

fn offset(value: OwnedValue) -> (&'static str, OwnedValue) {
    ("offset", filter("rabbitmq:stream-offset-spec", value))
}

fn values(value: OwnedValue) -> (&'static str, OwnedValue) {
    ("values", filter("rabbitmq:stream-filter", value))
}

fn unfiltered() -> (&'static str, OwnedValue) {
    ("unfiltered", filter("rabbitmq:stream-match-unfiltered", OwnedValue::Bool(true)))
}

/// Attaches a receiver whose offset the stream keeps by this name.
fn attach_kept(client: &mut Amqp10, handle: u32, queue: &str, kept: &str) -> Seen {
    let (address, name) = (format!("/queues/{queue}"), format!("receiver {handle}"));
    let filter = map_of(&[offset(text("first"))]).encoded();
    let Value::Map(filter) = filter.as_value() else { unreachable!("it is a map") };
    let properties = map_of(&[("rabbitmq:stream-offset-tracking", text(kept))]).encoded();
    let Value::Map(properties) = properties.as_value() else { unreachable!("it is a map") };
    let attach = Attach {
        name: &name,
        handle,
        role: Role::Receiver,
        source: Some(Source { address: Some(&address), filter: Some(filter), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target::default())),
        properties: Some(properties),
        ..Attach::default()
    };
    client.attach(CHANNEL, &attach)
}

/// Whether it is the first delivery by its header, its offset, and the body.
fn found(message: &Seen) -> (bool, i64, String) {
    let header = message.sections().header.expect("streams store a header with every message");
    let Some(OwnedValue::Long(offset)) = annotation(message, "x-stream-offset") else { panic!("no offset") };
    assert_eq!(header.delivery_count, 0, "nothing is counted");
    (header.first_acquirer, offset, String::from_utf8(message.data()).expect("text"))
}

/// Offset and body of everything that a receiver gets up to the end of the stream, then its credit is used up.
fn drained(client: &mut Amqp10, handle: u32) -> Vec<(i64, String)> {
    let messages = client.drained(handle);
    messages.iter().for_each(|message| client.accept(message));
    let place = |message: &Seen| {
        let (_, offset, body) = found(message);
        (offset, body)
    };
    messages.iter().map(place).collect()
}

/// Attaches a receiver for each row of filters, which have to be echoed, and asserts the offsets of what it gets.
fn assert_filtered(client: &mut Amqp10, queue: &str, rows: &[(Filters, Vec<i64>)]) {
    for (handle, (given, offsets)) in (1..).zip(rows) {
        let seen = attach(client, handle, queue, given);
        let mut expected: Vec<_> = given.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        expected.sort_by(|(a, _), (b, _)| a.cmp(b));
        assert_eq!(echoed(&seen), expected);
        let got: Vec<i64> = drained(client, handle).into_iter().map(|(offset, _)| offset).collect();
        assert_eq!(got, *offsets, "{given:?}");
    }
}

/// Lets everything arrive that a receiver's credit is good for: an answer to its flow comes after it.
fn answered(client: &mut Amqp10, handle: u32) {
    let of = |event: &Event| matches!(event, Event::LinkFlow { channel: CHANNEL, handle: of, .. } if *of == handle);
    client.backlog.retain(|seen| !of(&seen.event));
    client.client.flow(CHANNEL, handle, 0, false, true);
    client.wait("an answer to a flow", of);
}

/// Publishes a message with a value for filters, or without one, and waits until it is accepted. So each is a chunk of
/// its own.
fn publish(client: &mut Amqp10, handle: u32, value: Option<&str>, body: &str) {
    let mut payload = Vec::new();
    if let Some(value) = value {
        let annotations = EncodedMap::new().with("x-stream-filter-value", Value::String(value));
        write_map_section(&mut payload, MapSection::MessageAnnotations, annotations.as_map());
    }
    write_data(&mut payload, body.as_bytes());
    let id = client.send(handle, &payload, &Send::default());
    assert_eq!(client.outcome(id), State::Accepted);
}

fn numbered(range: std::ops::Range<i64>) -> Vec<(i64, String)> {
    range.map(|number| (number, format!("m{number}"))).collect()
}

/// A sender on handle 0, with messages `m0`, `m1` and so on in the stream.
fn filled(client: &mut Amqp10, queue: &str, count: i64) {
    client.sender(0, &format!("/queues/{queue}"));
    for (_, body) in numbered(0..count) {
        publish(client, 0, None, &body);
    }
}

#[test]
fn settling_gives_no_credit_on_a_stream() {
    const QUEUE: &str = "cell.streams.credit";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    let mut client = Amqp10::open(broker.amqp());
    filled(&mut client, QUEUE, 15);
    attach(&mut client, 1, QUEUE, &[offset(text("first"))]);
    client.grant(1, 10);
    for (offset, body) in numbered(0..10) {
        let message = client.receive(1);
        assert_eq!(found(&message), (true, offset, body));
        client.accept(&message);
    }
    answered(&mut client, 1);
    publish(&mut client, 0, None, "m15");
    answered(&mut client, 1);
    assert_eq!(client.waiting(CHANNEL, 1), 0, "an eleventh message came before a flow");
    assert_eq!(drained(&mut client, 1), numbered(10..16));
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn outcomes_change_nothing_on_a_stream() {
    const QUEUE: &str = "cell.streams.outcomes";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    let mut client = Amqp10::open(broker.amqp());
    filled(&mut client, QUEUE, 5);
    let seen = attach(&mut client, 1, QUEUE, &[offset(text("first"))]);
    assert_eq!(seen.attach().snd_settle_mode, SenderSettleMode::Unsettled);
    client.grant(1, 5);
    let modified = |undeliverable_here| DeliveryState::Modified {
        delivery_failed: true,
        undeliverable_here,
        message_annotations: None,
    };
    for outcome in [
        DeliveryState::Accepted,
        DeliveryState::Rejected { error: None },
        DeliveryState::Released,
        modified(false),
        modified(true),
    ] {
        let id = client.receive(1).delivery_id();
        client.client.dispose(CHANNEL, id, id, true, Some(outcome));
        client.flush();
    }
    answered(&mut client, 1);
    assert_eq!(drained(&mut client, 1), []);
    for (handle, mode) in [(2, SenderSettleMode::Unsettled), (3, SenderSettleMode::Settled)] {
        let seen = attach_as(&mut client, handle, QUEUE, &[offset(text("first"))], mode);
        assert_eq!(seen.attach().snd_settle_mode, mode);
        client.grant(handle, 5);
        for (offset, body) in numbered(0..5) {
            let message = client.receive(handle);
            assert_eq!(found(&message), (true, offset, body), "settle mode {mode:?}");
        }
    }
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn an_offset_is_echoed_and_in_force() {
    const QUEUE: &str = "cell.streams.offsets";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    let mut client = Amqp10::open(broker.amqp());
    filled(&mut client, QUEUE, 5);
    let rows = [
        (text("first"), 0),
        (text("last"), 4),
        (text("next"), 5),
        (text("1h"), 0),
        (OwnedValue::Symbol("first".into()), 0),
        (OwnedValue::Ulong(3), 3),
        (OwnedValue::Int(2), 2),
        (OwnedValue::Ulong(5), 5),
        (OwnedValue::Timestamp(0), 0),
        // The end of the year 2099.
        (OwnedValue::Timestamp(4_102_444_800_000), 5),
    ];
    for (handle, (value, from)) in (1..).zip(rows) {
        let given = [offset(value.clone())];
        let seen = attach(&mut client, handle, QUEUE, &given);
        assert_eq!(echoed(&seen), [("offset".to_owned(), given[0].1.clone())]);
        assert_eq!(drained(&mut client, handle), numbered(from..5), "from {value:?}");
    }
    // Another value is left out, and the receiver begins with the next message.
    for (handle, value) in (20..).zip([OwnedValue::List(vec![]), OwnedValue::Bool(true), OwnedValue::Null]) {
        let seen = attach(&mut client, handle, QUEUE, &[offset(value.clone())]);
        assert_eq!(echoed(&seen), [], "{value:?}");
        assert_eq!(drained(&mut client, handle), [], "from {value:?}");
    }
    // An offset that isn't there yet is waited for.
    attach(&mut client, 30, QUEUE, &[offset(OwnedValue::Ulong(7))]);
    client.grant(30, 10);
    for (_, body) in numbered(5..9) {
        publish(&mut client, 0, None, &body);
    }
    assert_eq!(found(&client.receive(30)), (true, 7, "m7".into()));
    assert_eq!(found(&client.receive(30)), (true, 8, "m8".into()));
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn a_negative_offset_counts_from_the_end() {
    const QUEUE: &str = "cell.streams.negative";
    if is_given() {
        // RabbitMQ begins at the end.
        return;
    }
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    let mut client = Amqp10::open(broker.amqp());
    filled(&mut client, QUEUE, 5);
    for (handle, (count, from)) in (1..).zip([(-1, 4), (-5, 0), (-9, 0)]) {
        attach(&mut client, handle, QUEUE, &[offset(OwnedValue::Long(count))]);
        assert_eq!(drained(&mut client, handle), numbered(from..5), "from {count}");
    }
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn an_interval_that_is_none_is_refused() {
    const QUEUE: &str = "cell.streams.interval";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    for value in ["First", "0s", "1h30m", ""] {
        let mut client = Amqp10::open(broker.amqp());
        attach(&mut client, 1, QUEUE, &[offset(text(value))]);
        let error = client.error();
        assert_eq!(error.condition, "amqp:precondition-failed", "{value:?}");
        client.close();
    }
    broker.finish(QUEUE);
}

#[test]
fn a_source_of_a_stream_says_how_it_is_read() {
    const QUEUE: &str = "cell.streams.source";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    let mut client = Amqp10::open(broker.amqp());
    let seen = attach(&mut client, 1, QUEUE, &[("mine", filter("example.org:mine", text("a = 1")))]);
    assert_eq!(echoed(&seen), [], "a filter that isn't in force");
    let attach = seen.attach();
    let source = attach.source.expect("a source");
    assert_eq!(source.distribution_mode, Some(DistributionMode::Copy));
    let offered: Vec<_> = attach.offered_capabilities.iter().map(|name| name.as_str().to_owned()).collect();
    assert_eq!(offered, ["AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"]);
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn filter_values_are_echoed_and_skip_chunks() {
    const QUEUE: &str = "cell.streams.values";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    for (value, body) in [(Some("a"), "m0"), (Some("b"), "m1"), (None, "m2"), (Some("a"), "m3"), (Some(""), "m4")] {
        publish(&mut client, 0, value, body);
    }
    let first = || offset(text("first"));
    let both = || OwnedValue::List(vec![text("a"), text("b")]);
    let rows = [
        (vec![first(), values(text("a"))], vec![0, 3]),
        (vec![first(), values(both())], vec![0, 1, 3]),
        (vec![first(), unfiltered(), values(text("b"))], vec![1, 2, 4]),
        (vec![first(), unfiltered(), values(both())], vec![0, 1, 2, 3, 4]),
        (vec![first(), values(text("c"))], vec![]),
        (vec![offset(OwnedValue::Ulong(1)), values(text("a"))], vec![3]),
    ];
    assert_filtered(&mut client, QUEUE, &rows);
    // A receiver that waits isn't woken by others' messages, and goes on at its place.
    attach(&mut client, 10, QUEUE, &[offset(text("next")), values(text("b"))]);
    client.grant(10, 5);
    publish(&mut client, 0, Some("a"), "m5");
    publish(&mut client, 0, Some("b"), "m6");
    let message = client.receive(10);
    assert_eq!(found(&message), (true, 6, "m6".into()));
    assert_eq!(annotation(&message, "x-stream-filter-value"), Some(text("b")));
    assert_eq!(client.waiting(CHANNEL, 10), 0);
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn expressions_and_values_filter_together() {
    const QUEUE: &str = "cell.streams.expressions";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    for number in 0..6_i32 {
        let mut payload = Vec::new();
        let value = if number % 2 == 0 { "even" } else { "odd" };
        let annotations = EncodedMap::new().with("x-stream-filter-value", Value::String(value));
        write_map_section(&mut payload, MapSection::MessageAnnotations, annotations.as_map());
        let mut properties = EncodedMap::new();
        properties.push(Value::String("number"), Value::Int(number));
        write_map_section(&mut payload, MapSection::ApplicationProperties, properties.as_map());
        write_data(&mut payload, format!("m{number}").as_bytes());
        let id = client.send(0, &payload, &Send::default());
        assert_eq!(client.outcome(id), State::Accepted);
    }
    let sql = |expression| ("sql-filter", filter("amqp:sql-filter", text(expression)));
    let five = OwnedValue::Map(OwnedMap(vec![(text("number"), OwnedValue::Int(5))]));
    let properties = ("properties", filter("amqp:application-properties-filter", five));
    let rows = [
        (vec![offset(text("first")), sql("number > 1")], vec![2, 3, 4, 5]),
        (vec![offset(text("first")), sql("number > 1"), values(text("odd"))], vec![3, 5]),
        (vec![offset(text("first")), properties.clone()], vec![5]),
        (vec![offset(text("first")), properties, values(text("even"))], vec![]),
    ];
    assert_filtered(&mut client, QUEUE, &rows);
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn a_chunk_is_delivered_credit_by_credit() {
    const QUEUE: &str = "cell.streams.chunk";
    const COUNT: i64 = 500;
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &format!("/queues/{QUEUE}"));
    // Sent ahead of their outcomes, so that chunks have many messages.
    let ids: Vec<_> = (0..COUNT).map(|number| client.publish(0, format!("m{number}").as_bytes())).collect();
    for id in ids {
        assert_eq!(client.outcome(id), State::Accepted);
    }
    attach(&mut client, 1, QUEUE, &[offset(text("first"))]);
    attach(&mut client, 2, QUEUE, &[offset(OwnedValue::Ulong((COUNT / 2).cast_unsigned()))]);
    for (offset, body) in numbered(0..COUNT / 2) {
        client.grant(1, 1);
        assert_eq!(found(&client.receive(1)), (true, offset, body));
        assert_eq!(client.waiting(CHANNEL, 1), 0, "more than the credit");
    }
    // In the middle of a chunk nothing before the offset comes.
    for handle in [1, 2] {
        assert_eq!(drained(&mut client, handle), numbered(COUNT / 2..COUNT));
    }
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn lists_show_filters_by_the_names_of_amqp_0_9_1() {
    const QUEUE: &str = "cell.streams.shown";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    let mut client = Amqp10::open(broker.amqp());
    let list = OwnedValue::List(vec![text("a"), text("b")]);
    let rows = [
        (vec![], json!({})),
        (
            vec![offset(text("first")), values(list), unfiltered()],
            json!({"x-stream-offset": "first", "x-stream-filter": ["a", "b"], "x-stream-match-unfiltered": true}),
        ),
        (vec![offset(OwnedValue::Uint(5)), values(text("x"))], json!({"x-stream-offset": 5, "x-stream-filter": "x"})),
        (vec![offset(OwnedValue::Timestamp(1_700_000_000_000))], json!({"x-stream-offset": 1_700_000_000})),
    ];
    for (handle, (filters, _)) in (1..).zip(&rows) {
        attach(&mut client, handle, QUEUE, filters);
    }
    let shown = broker.http().get(&format!("/api/queues/%2F/{QUEUE}")).expect("an answer").json();
    let shown: Vec<_> =
        shown["consumer_details"].as_array().expect("a list").iter().map(|one| &one["arguments"]).collect();
    assert_eq!(shown, rows.iter().map(|(_, arguments)| arguments).collect::<Vec<_>>());
    client.close();
    broker.finish("cell.streams");
}

#[test]
fn links_end_when_their_stream_is_deleted() {
    const QUEUE: &str = "cell.streams.deleted";
    let broker = Broker::start();
    declare(&broker.http(), QUEUE);
    let mut client = Amqp10::open(broker.amqp());
    filled(&mut client, QUEUE, 1);
    attach(&mut client, 1, QUEUE, &[offset(text("first"))]);
    client.grant(1, 5);
    client.receive(1);
    assert_eq!(broker.http().delete(&format!("/api/queues/%2F/{QUEUE}")).expect("an answer").status, 204);
    for _ in 0..2 {
        assert_eq!(client.error().condition, "amqp:resource-deleted");
    }
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn a_kept_offset_of_a_receiver_survives_a_kill() {
    const QUEUE: &str = "cell.streams.kept";
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    declare(&node.http(), QUEUE);
    let mut client = Amqp10::open(node.amqp());
    filled(&mut client, QUEUE, 10);
    attach_kept(&mut client, 1, QUEUE, "reader");
    assert_eq!(drained(&mut client, 1), numbered(0..10));
    // The offset is logged when the receiver leaves. What is confirmed behind that makes it durable.
    client.close();
    let mut client = Amqp10::open(node.amqp());
    filled(&mut client, QUEUE, 1);
    node.kill();
    node.restart();
    let mut client = Amqp10::open(node.amqp());
    attach_kept(&mut client, 1, QUEUE, "reader");
    assert_eq!(drained(&mut client, 1), [(10, "m0".to_owned())]);
    client.close();
    leveret_tests::conservation::check(&node.http());
}

#[test]
fn a_receiver_goes_on_by_its_offset_after_a_kill() {
    const QUEUE: &str = "cell.streams.restart";
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    declare(&node.http(), QUEUE);
    let mut client = Amqp10::open(node.amqp());
    filled(&mut client, QUEUE, 10);
    publish(&mut client, 0, Some("a"), "m10");
    node.kill();
    node.restart();
    let mut client = Amqp10::open(node.amqp());
    attach(&mut client, 1, QUEUE, &[offset(OwnedValue::Ulong(4))]);
    assert_eq!(drained(&mut client, 1), numbered(4..11));
    attach(&mut client, 2, QUEUE, &[offset(text("last"))]);
    assert_eq!(drained(&mut client, 2), numbered(10..11));
    attach(&mut client, 3, QUEUE, &[offset(text("first")), values(text("a"))]);
    assert_eq!(drained(&mut client, 3), numbered(10..11), "filters are on the disk");
    client.sender(0, &format!("/queues/{QUEUE}"));
    publish(&mut client, 0, None, "m11");
    client.grant(1, 1);
    assert_eq!(found(&client.receive(1)), (true, 11, "m11".into()), "numbers go on");
    client.close();
    leveret_tests::conservation::check(&node.http());
}
