//! The cost of many selectors on a queue.

use std::thread;
use std::time::Instant;

use leveret_amqp10::SenderSettleMode;
use leveret_amqp10::message::{MapSection, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_strict_client::amqp10::{Event, Send, State};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::filters::attach_as;
use leveret_tests::node::{Node, Options};

use super::{declare, jms};

/// A million messages for a thousand receivers, each of which wants a thousand of them. Prints what that costs.
#[test]
#[ignore = "a million messages: make -C tests soak"]
fn a_thousand_selectors_share_a_million_messages() {
    const QUEUE: &str = "selectors.cost";
    let number = |name: &str| std::env::var(name).map_or(1_000, |number| number.parse().expect("a number"));
    let (receivers, each): (u32, u32) = (number("SELECTORS"), number("SELECTOR_MESSAGES"));
    for waits in [true, false] {
        let node = Node::start(Options::new());
        declare(&node.http(), QUEUE, "classic");
        let mut receiver = Amqp10::open(node.amqp());
        let attach_all = |receiver: &mut Amqp10| {
            for handle in 0..receivers {
                let selector = [jms(&format!("colour = 'c{handle}'"))];
                attach_as(receiver, handle, QUEUE, &selector, SenderSettleMode::Settled);
                receiver.grant(handle, each);
            }
        };
        if !waits {
            attach_all(&mut receiver);
        }
        let (idle, begin) = (node.cpu_ticks(), Instant::now());
        let address = node.amqp();
        let publisher = thread::spawn(move || {
            let mut client = Amqp10::open(address);
            client.sender(0, "/queues/selectors.cost");
            for number in 0..receivers * each {
                let mut payload = Vec::new();
                let mut properties = EncodedMap::new();
                let colour = format!("c{}", number % receivers);
                properties.push("colour", colour.as_str());
                write_map_section(&mut payload, MapSection::ApplicationProperties, properties.as_map());
                write_data(&mut payload, b"twelve bytes");
                let id = client.send(0, &payload, &Send::default());
                if (number + 1) % 1_000 == 0 {
                    assert_eq!(client.outcome(id), State::Accepted);
                    client.backlog.clear();
                }
            }
            client.close();
        });
        if waits {
            publisher.join().expect("all are published");
            println!("published after {:?}, {} ms of CPU", begin.elapsed(), 10 * (node.cpu_ticks() - idle));
            attach_all(&mut receiver);
            receive_all(&mut receiver, receivers * each);
        } else {
            receive_all(&mut receiver, receivers * each);
            publisher.join().expect("all are published");
        }
        println!("waiting {waits}: {:?}, {} ms of CPU", begin.elapsed(), 10 * (node.cpu_ticks() - idle));
        receiver.close();
        assert_eq!(node.count("rabbitmq_queue_messages"), 0);
    }
}

fn receive_all(client: &mut Amqp10, count: u32) {
    for _ in 0..count {
        client.wait("a message", |event| matches!(event, Event::Delivered(_)));
        client.backlog.retain(|seen| matches!(seen.event, Event::Delivered(_)));
    }
}
