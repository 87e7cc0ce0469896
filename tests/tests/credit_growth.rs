//! Credit of AMQP 1.0 publishers while the disk is slow: it grows while confirms keep pace, up to a limit of messages
//! and a limit of bytes, for each link on its own.

use leveret_strict_client::amqp10::{Event, Send};
use leveret_tests::amqp10::{Amqp10, CHANNEL, Seen};
use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::Wire;

/// The limits `link_credit.max_unconfirmed_messages` and `..._bytes`.
const MESSAGES_MAX: u32 = 5000;
const BYTES_MAX: u32 = 1 << 20;
/// Messages per sync of 5.9 ms at 60,000 messages per second.
const IN_FLIGHT: u32 = 354;
/// Messages after which credit must have grown; many times more than necessary.
const MESSAGES_GIVEN: u32 = 500_000;

/// A sending link on the client's side.
struct Link {
    /// Its handle, and its index among the links.
    handle: u32,
    payload: Vec<u8>,
    unsettled: u32,
    sent: u32,
}

impl Link {
    fn attach(client: &mut Amqp10, handle: u32, queue: &str, size: usize) -> Self {
        client.sender(handle, &format!("/queues/{queue}"));
        client.wait("the first grant", |event| matches!(event, Event::LinkFlow { handle: of, .. } if *of == handle));
        let mut payload = Vec::new();
        leveret_amqp10::message::Header { durable: Some(true), ..Default::default() }.encode(&mut payload);
        leveret_amqp10::message::write_data(&mut payload, &vec![7; size]);
        Self { handle, payload, unsettled: 0, sent: 0 }
    }

    /// Messages in flight, or that may be sent at once.
    fn on_their_way(&self, client: &Amqp10) -> u32 {
        self.unsettled + client.client.credit(CHANNEL, self.handle)
    }
}

/// Sends as much as credit and window allow.
fn send(client: &mut Amqp10, link: &mut Link, owners: &mut Vec<u32>) {
    loop {
        let tag = client.client.next_delivery_id(CHANNEL).0.to_be_bytes();
        if client.client.send(CHANNEL, link.handle, &tag, &link.payload, &Send::default()).is_none() {
            break;
        }
        owners.push(link.handle);
        link.unsettled += 1;
        link.sent += 1;
    }
    client.flush();
}

/// Processes events: settles answered deliveries, and returns the handles of links that got credit.
fn take(client: &mut Amqp10, links: &mut [Link], owners: &[u32]) -> Vec<u32> {
    let mut granted = Vec::new();
    for Seen { event, .. } in std::mem::take(&mut client.backlog) {
        match event {
            Event::Disposition { first, last, settled: true, .. } => {
                for id in first.0..=last.0 {
                    links[owners[id as usize] as usize].unsettled -= 1;
                }
            }
            Event::LinkFlow { handle, .. } => granted.push(handle),
            _ => {}
        }
    }
    granted
}

/// Waits for all outcomes, and for the queues' counters to add up.
fn finish(mut client: Amqp10, node: &Node, links: &mut [Link], owners: &[u32]) {
    while links.iter().any(|link| link.unsettled > 0) {
        client.try_read().expect("outcomes");
        take(&mut client, links, owners);
    }
    client.close();
    conservation::check(&node.http());
}

fn node(queues: &[&str]) -> Node {
    let node = Node::start(Options::new().set("debug.sync_delay_ms", "5.9"));
    let mut wire = Wire::open(node.amqp());
    for queue in queues {
        wire.declare(1, queue, true);
    }
    wire.close();
    node
}

#[test]
fn credit_grows_while_confirms_keep_pace() {
    if is_given() {
        return;
    }
    let node = node(&["grows"]);
    let mut client = Amqp10::open(node.amqp());
    let mut links = [Link::attach(&mut client, 0, "grows", 12)];
    let mut owners = Vec::new();
    let mut most = 0;
    // How near it comes to the limit depends on the pace of the machine.
    while most < MESSAGES_MAX - 100 && links[0].sent < MESSAGES_GIVEN {
        send(&mut client, &mut links[0], &mut owners);
        client.try_read().expect("outcomes");
        take(&mut client, &mut links, &owners);
        most = most.max(links[0].on_their_way(&client));
        assert!(most <= MESSAGES_MAX, "{most} are on their way");
    }
    assert!(most >= MESSAGES_MAX / 2, "at most {most} were on their way");
    finish(client, &node, &mut links, &owners);
}

/// The second link's messages are large, so that a few of them reach the limit of unconfirmed bytes.
#[test]
fn a_link_at_its_byte_ceiling_takes_no_credit_from_another() {
    if is_given() {
        return;
    }
    const LARGE: u32 = 64 << 10;
    let node = node(&["small", "large"]);
    let mut client = Amqp10::open(node.amqp());
    let mut links = [Link::attach(&mut client, 0, "small", 12), Link::attach(&mut client, 1, "large", LARGE as usize)];
    let mut owners = Vec::new();
    let (mut small_most, mut large_grants) = (0, 0);
    while small_most < 2 * IN_FLIGHT || large_grants < 20 {
        assert!(links[0].sent < MESSAGES_GIVEN, "{small_most} at most on their way, {large_grants} grants");
        for link in &mut links {
            send(&mut client, link, &mut owners);
        }
        client.try_read().expect("outcomes");
        if take(&mut client, &mut links, &owners).contains(&1) {
            large_grants += 1;
            let large = links[1].on_their_way(&client);
            assert!(large <= BYTES_MAX / LARGE, "{large} of 64 KiB after grant {large_grants}");
        }
        small_most = small_most.max(links[0].on_their_way(&client));
    }
    finish(client, &node, &mut links, &owners);
}
