//! The cost of many selectors on a queue.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use leveret_amqp10::SenderSettleMode;
use leveret_amqp10::message::{MapSection, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_strict_client::amqp10::{Event, Send, State};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::filters::attach_as;
use leveret_tests::node::{Node, Options};

use super::{declare, jms};

/// Receivers of a connection: a session has no more than 256 links.
const PER_CONNECTION: u32 = 200;

const QUEUE: &str = "selectors.cost";

/// A million messages for a thousand receivers, each of which wants a thousand of them. Prints what that costs, if the messages are
/// there first, and if the receivers are.
#[test]
#[ignore = "a million messages: make -C tests soak"]
fn a_thousand_selectors_share_a_million_messages() {
    let number = |name: &str| std::env::var(name).map_or(1_000, |number| number.parse().expect("a number"));
    let (receivers, each): (u32, u32) = (number("SELECTORS"), number("SELECTOR_MESSAGES"));
    for waits in [true, false] {
        let node = Node::start(Options::new());
        declare(&node.http(), QUEUE, "classic");
        let address = node.amqp();
        let publish = thread::spawn(move || publish(address, receivers, each));
        let mut clients = Vec::new();
        let (idle, begin) = (node.cpu_ticks(), Instant::now());
        if waits {
            publish.join().expect("all are published");
            println!("published after {:?}, {} ms of CPU", begin.elapsed(), 10 * (node.cpu_ticks() - idle));
            clients.extend(receive(address, receivers, each));
        } else {
            clients.extend(receive(address, receivers, each));
            publish.join().expect("all are published");
        }
        clients.into_iter().for_each(|client| client.join().expect("it has received all that it wants"));
        println!("waiting {waits}: {:?}, {} ms of CPU", begin.elapsed(), 10 * (node.cpu_ticks() - idle));
        assert_eq!(node.count("rabbitmq_queue_messages"), 0);
    }
}

fn publish(address: SocketAddr, receivers: u32, each: u32) {
    let mut client = Amqp10::open(address);
    client.sender(0, &format!("/queues/{QUEUE}"));
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
}

/// Threads that receive what each receiver wants.
fn receive(address: SocketAddr, receivers: u32, each: u32) -> impl Iterator<Item = JoinHandle<()>> {
    (0..receivers).step_by(PER_CONNECTION as usize).map(move |first| {
        let last = receivers.min(first + PER_CONNECTION);
        thread::spawn(move || {
            let mut client = Amqp10::open(address);
            for colour in first..last {
                let selector = [jms(&format!("colour = 'c{colour}'"))];
                attach_as(&mut client, colour - first, QUEUE, &selector, SenderSettleMode::Settled);
                client.grant(colour - first, each);
            }
            let (mut left, is_message) = ((last - first) * each, |event: &Event| matches!(event, Event::Delivered(_)));
            while left > 0 {
                client.wait("a message", is_message);
                left -= 1 + client.backlog.drain(..).filter(|seen| is_message(&seen.event)).count() as u32;
            }
            client.close();
        })
    })
}
