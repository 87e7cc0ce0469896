//! The rate at which a stream is searched: ten million messages, ten of which are wanted.

use std::time::Instant;

use leveret_amqp10::message::{MapSection, Properties, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{OwnedValue, Value};
use leveret_strict_client::amqp10::{Send, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::filters::{attach, filter};
use leveret_tests::node::{Node, Options};
use serde_json::json;

const QUEUE: &str = "scan";

fn message(value: &str, subject: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    let annotations = EncodedMap::new().with("x-stream-filter-value", Value::String(value));
    write_map_section(&mut payload, MapSection::MessageAnnotations, annotations.as_map());
    Properties { subject: Some(subject), ..Properties::default() }.encode(&mut payload);
    write_data(&mut payload, b"twelve bytes");
    payload
}

/// Publishes messages of which every hundred thousandth has the value that is asked for, and every millionth the subject.
fn publish(client: &mut Amqp10, count: u32) {
    client.sender(0, &format!("/queues/{QUEUE}"));
    let (other, value, both) = (message("other", "other"), message("wanted", "other"), message("wanted", "wanted"));
    for number in 1..=count {
        let payload = match number {
            _ if number.is_multiple_of(1_000_000) => &both,
            _ if number.is_multiple_of(100_000) => &value,
            _ => &other,
        };
        let asks = number == count || number.is_multiple_of(10_000);
        let options = Send { settled: !asks, ..Send::default() };
        let tag = number.to_be_bytes();
        let id = loop {
            if let Some(id) = client.client.send(CHANNEL, 0, &tag, payload, &options) {
                break id;
            }
            client.flush();
            client.wait_credit(CHANNEL, 0);
        };
        // A thousand at once are one chunk, or two.
        if number.is_multiple_of(1_000) || asks {
            client.flush();
        }
        if asks {
            assert_eq!(client.outcome(id), State::Accepted);
            client.backlog.clear();
        }
    }
}

/// Receives everything that filters let through, and returns how many messages that are.
fn search(client: &mut Amqp10, handle: u32, filters: &[(&str, OwnedValue)]) -> u32 {
    let offset = ("offset", filter("rabbitmq:stream-offset-spec", OwnedValue::String("first".into())));
    let all: Vec<_> = filters.iter().cloned().chain([offset]).collect();
    attach(client, handle, QUEUE, &all);
    client.drained(handle).len() as u32
}

fn filters() -> [(&'static str, OwnedValue); 2] {
    let text = |text: &str| OwnedValue::String(text.into());
    [
        ("sql-filter", filter("amqp:sql-filter", text("properties.subject = 'wanted'"))),
        ("value", filter("rabbitmq:stream-filter", text("wanted"))),
    ]
}

#[test]
#[ignore = "ten million messages: make -C tests soak"]
fn ten_of_ten_million_messages_are_found() {
    let count = std::env::var("SCAN_MESSAGES").map_or(10_000_000, |count| count.parse().expect("a number"));
    let node = Node::start(Options::new());
    let body = json!({"durable": true, "arguments": {"x-queue-type": "stream"}});
    assert_eq!(node.http().put(&format!("/api/queues/%2F/{QUEUE}"), &body).expect("an answer").status, 201);
    let mut client = Amqp10::open(node.amqp());
    let begin = Instant::now();
    publish(&mut client, count);
    println!("published after {:?}", begin.elapsed());
    let [sql, value] = filters();
    for (handle, name, filters) in [
        (1, "SQL", vec![sql.clone()]),
        (2, "SQL and value", vec![sql.clone(), value.clone()]),
        (3, "SQL", vec![sql.clone()]),
        (4, "SQL and value", vec![sql, value]),
    ] {
        let (begin, idle) = (Instant::now(), node.cpu_ticks());
        assert_eq!(search(&mut client, handle, &filters), count / 1_000_000);
        let took = begin.elapsed().as_secs_f64();
        let rate = f64::from(count) / took / 1e6;
        println!("{name}: {rate:.1} million/s, {} ms of CPU", 10 * (node.cpu_ticks() - idle));
    }
    client.close();
}
