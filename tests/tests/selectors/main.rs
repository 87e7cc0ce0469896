//! Filters on classic and quorum queues, over AMQP 1.0. RabbitMQ has none there.

mod cost;
mod scan;

use leveret_amqp10::message::{MapSection, Properties, write_data, write_map_section};
use leveret_amqp10::performative::Attach;
use leveret_amqp10::terminus::DistributionMode;
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{DeliveryState, OwnedValue, Role, Source, Target, TargetArchetype, Value};
use leveret_strict_client::amqp10::{Event, Send, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL, Seen};
use leveret_tests::broker::{Broker, is_given};
use leveret_tests::filters::{attach, echoed, filter, map_of};
use leveret_tests::http::Http;
use serde_json::json;

const TYPES: [&str; 2] = ["classic", "quorum"];

fn declare(http: &Http, queue: &str, queue_type: &str) {
    let body = json!({"durable": true, "arguments": {"x-queue-type": queue_type}});
    let answer = http.put(&format!("/api/queues/%2F/{queue}"), &body).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
}

fn sql(text: &str) -> (&'static str, OwnedValue) {
    ("sql-filter", filter("amqp:sql-filter", OwnedValue::String(text.into())))
}

fn jms(text: &str) -> (&'static str, OwnedValue) {
    ("jms-selector", filter("apache.org:selector-filter:string", OwnedValue::String(text.into())))
}

/// Sends a message whose subject is its text, with the application property `colour`.
fn publish(client: &mut Amqp10, colour: &str, text: &str) {
    let mut payload = Vec::new();
    Properties { subject: Some(text), ..Properties::default() }.encode(&mut payload);
    let mut properties = EncodedMap::new();
    properties.push("colour", colour);
    write_map_section(&mut payload, MapSection::ApplicationProperties, properties.as_map());
    write_data(&mut payload, text.as_bytes());
    let id = client.send(0, &payload, &Send::default());
    assert_eq!(client.outcome(id), State::Accepted);
}

fn text(message: &Seen) -> String {
    String::from_utf8(message.data()).expect("text")
}

fn texts(messages: &[Seen]) -> Vec<String> {
    messages.iter().map(text).collect()
}

#[test]
fn a_consumer_with_a_filter_takes_only_what_it_wants() {
    const QUEUE: &str = "selectors.some";
    if is_given() {
        return;
    }
    for queue_type in TYPES {
        let broker = Broker::start();
        declare(&broker.http(), QUEUE, queue_type);
        let mut client = Amqp10::open(broker.amqp());
        client.sender(0, "/queues/selectors.some");
        for (colour, text) in [("red", "r0"), ("blue", "b0"), ("green", "g0"), ("blue", "b1"), ("red", "r1")] {
            publish(&mut client, colour, text);
        }
        let expressions = [jms("colour = 'red'"), sql("colour = 'blue'")];
        for (handle, expression) in (1..).zip(&expressions) {
            let seen = attach(&mut client, handle, QUEUE, std::slice::from_ref(expression));
            assert_eq!(echoed(&seen), [(expression.0.to_owned(), expression.1.clone())]);
            let offered = seen.attach().offered_capabilities;
            assert!(offered.iter().any(|symbol| symbol.as_str() == "APACHE.ORG:SELECTOR"), "{offered:?}");
        }
        let reds = client.drained(1);
        assert_eq!(texts(&reds), ["r0", "r1"], "{queue_type}");
        let blues = client.drained(2);
        assert_eq!(texts(&blues), ["b0", "b1"]);
        // A message that comes back is looked at again.
        client.client.dispose(
            CHANNEL,
            reds[0].delivery_id(),
            reds[0].delivery_id(),
            true,
            Some(DeliveryState::Released),
        );
        client.flush();
        client.grant(1, 5);
        let again = client.receive(1);
        assert_eq!(text(&again), "r0");
        for message in [&again, &reds[1], &blues[0], &blues[1]] {
            client.accept(message);
        }
        // A later message goes to the one that wants it; what none wants stays.
        publish(&mut client, "red", "r2");
        let later = client.receive(1);
        assert_eq!(text(&later), "r2");
        client.accept(&later);
        client.receiver(3, "/queues/selectors.some", 10);
        let rest = client.receive(3);
        assert_eq!(text(&rest), "g0");
        client.accept(&rest);
        client.close();
        broker.finish(QUEUE);
    }
}

#[test]
fn every_kind_of_filter_is_in_effect() {
    const QUEUE: &str = "selectors.kinds";
    if is_given() {
        return;
    }
    let broker = Broker::start();
    declare(&broker.http(), QUEUE, "quorum");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, "/queues/selectors.kinds");
    for (colour, text) in [("red", "one"), ("blue", "two"), ("red", "three")] {
        publish(&mut client, colour, text);
    }
    let string = |text: &str| OwnedValue::String(text.into());
    let properties = ("p", filter("amqp:properties-filter", map_of(&[("subject", string("&p:t"))])));
    let application = ("a", filter("amqp:application-properties-filter", map_of(&[("colour", string("red"))])));
    let both = vec![properties.clone(), application.clone()];
    for (handle, (filters, expected)) in (1..).zip([
        (vec![properties], vec!["two", "three"]),
        (vec![application.clone()], vec!["one", "three"]),
        (both, vec!["three"]),
        (vec![application, sql("properties.subject <> 'one'")], vec!["three"]),
        (vec![jms("JMSType LIKE 't%' AND colour IN ('red', 'blue')")], vec!["two", "three"]),
        (vec![jms("")], vec!["one", "two", "three"]),
    ]) {
        let seen = attach(&mut client, handle, QUEUE, &filters);
        assert_eq!(echoed(&seen).len(), filters.len());
        let got = client.drained(handle);
        assert_eq!(texts(&got), expected, "{filters:?}");
        for message in got {
            client.client.dispose(
                CHANNEL,
                message.delivery_id(),
                message.delivery_id(),
                true,
                Some(DeliveryState::Released),
            );
        }
        client.client.detach(CHANNEL, handle, true, None);
        client.wait("detach", |event| matches!(event, Event::Detached { handle: of, .. } if *of == handle));
    }
    client.receiver(9, "/queues/selectors.kinds", 3);
    let mut rest: Vec<String> = (0..3).map(|_| text(&client.receive(9))).collect();
    rest.sort_unstable();
    assert_eq!(rest, ["one", "three", "two"], "released means that it is there again");
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn a_filter_that_cannot_be_in_effect_is_refused() {
    const QUEUE: &str = "selectors.refused";
    if is_given() {
        return;
    }
    let broker = Broker::start();
    declare(&broker.http(), QUEUE, "classic");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, "/queues/selectors.refused");
    let string = |text: &str| OwnedValue::String(text.into());
    let long = format!("a = '{}'", "x".repeat(5000));
    for (handle, (filters, said)) in (1..).zip([
        (vec![jms("colour = ")], "filter jms-selector: "),
        (vec![sql("and = 1")], "filter sql-filter: "),
        (vec![sql(&long)], "4096"),
        (vec![sql("a = 1"), jms("b = 1")], "one expression at most"),
        (vec![("jms-selector", string("a = 1"))], "expected a string described as apache.org:selector-filter:string"),
        (vec![("p", filter("amqp:properties-filter", map_of(&[("nothing", string("x"))])))], "filter p: "),
    ]) {
        attach(&mut client, handle, QUEUE, &filters);
        let error = client.error();
        assert_eq!(error.condition, "amqp:invalid-field", "{filters:?}");
        assert!(error.description.contains(said), "{}: expected {said}", error.description);
    }
    // The session goes on. What isn't a filter that we know is left out, as everywhere.
    let seen = attach(&mut client, 20, QUEUE, &[("mine", string("x")), ("größe", filter("mine:filter", string("x")))]);
    assert_eq!(echoed(&seen), []);
    // A name that is no symbol doesn't keep a filter from being in effect.
    let name = "größe";
    attach(&mut client, 21, QUEUE, &[(name, filter("amqp:sql-filter", string("colour = 'red'")))]);
    publish(&mut client, "blue", "b");
    publish(&mut client, "red", "r");
    assert_eq!(texts(&client.drained(21)), ["r"]);
    client.close();
    broker.finish(QUEUE);
}

#[test]
fn one_that_only_looks_is_shown_what_it_wants() {
    const QUEUE: &str = "selectors.copy";
    if is_given() {
        return;
    }
    for queue_type in TYPES {
        let broker = Broker::start();
        declare(&broker.http(), QUEUE, queue_type);
        let mut client = Amqp10::open(broker.amqp());
        client.sender(0, "/queues/selectors.copy");
        for (colour, text) in [("red", "r0"), ("blue", "b0"), ("red", "r1")] {
            publish(&mut client, colour, text);
        }
        let encoded = map_of(&[jms("colour = 'red'")]).encoded();
        let Value::Map(filter) = encoded.as_value() else { unreachable!("it is a map") };
        let source = Source {
            address: Some("/queues/selectors.copy"),
            filter: Some(filter),
            distribution_mode: Some(DistributionMode::Copy),
            ..Source::default()
        };
        let browser = Attach {
            name: "browser",
            handle: 1,
            role: Role::Receiver,
            source: Some(source),
            target: Some(TargetArchetype::Target(Target::default())),
            ..Attach::default()
        };
        client.attach(CHANNEL, &browser);
        let seen = client.drained(1);
        assert_eq!(texts(&seen), ["r0", "r1"]);
        for message in &seen {
            client.accept(message);
        }
        client.receiver(2, "/queues/selectors.copy", 10);
        for expected in ["r0", "b0", "r1"] {
            let message = client.receive(2);
            assert_eq!(text(&message), expected);
            client.accept(&message);
        }
        client.close();
        broker.finish(QUEUE);
    }
}

#[test]
fn many_consumers_share_a_queue_by_their_selectors() {
    const QUEUE: &str = "selectors.many";
    const CONSUMERS: u32 = 50;
    if is_given() {
        return;
    }
    let broker = Broker::start();
    declare(&broker.http(), QUEUE, "quorum");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, "/queues/selectors.many");
    for handle in 1..=CONSUMERS {
        attach(&mut client, handle, QUEUE, &[jms(&format!("colour = 'c{handle}'"))]);
        client.grant(handle, 20);
    }
    for round in 0..10 {
        for handle in (1..=CONSUMERS).rev() {
            publish(&mut client, &format!("c{handle}"), &format!("{handle} {round}"));
        }
    }
    for handle in 1..=CONSUMERS {
        for round in 0..10 {
            let message = client.receive(handle);
            assert_eq!(text(&message), format!("{handle} {round}"));
            client.accept(&message);
        }
    }
    client.close();
    broker.finish(QUEUE);
}

/// A selector of JMS is in effect on streams, too.
#[test]
fn a_selector_reads_a_stream() {
    const QUEUE: &str = "selectors.stream";
    if is_given() {
        return;
    }
    let broker = Broker::start();
    declare(&broker.http(), QUEUE, "stream");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, "/queues/selectors.stream");
    for (colour, text) in [("red", "r0"), ("blue", "b0"), ("red", "r1")] {
        publish(&mut client, colour, text);
    }
    let first = ("offset", filter("rabbitmq:stream-offset-spec", OwnedValue::String("first".into())));
    let seen = attach(&mut client, 1, QUEUE, &[first.clone(), jms("colour = 'red'")]);
    assert_eq!(echoed(&seen).len(), 2);
    assert_eq!(texts(&client.drained(1)), ["r0", "r1"]);
    attach(&mut client, 2, QUEUE, &[first, jms("colour =")]);
    assert_eq!(client.error().condition, "amqp:invalid-field");
    client.close();
    broker.finish(QUEUE);
}
