//! Peers that don't keep to the protocol: the node tells them, or closes, and serves the others.

use std::io::Write as _;
use std::net::TcpStream;

use leveret_stream_protocol::client::request;
use leveret_tests::node::Node;
use leveret_tests::random::Random;
use leveret_tests::stream::{OK, OffsetSpec, ResponseCode, StreamClient, number};

use super::{finish, node, numbered};

const MIB: u64 = 1 << 20;

/// A frame of these bytes behind its size.
fn frame(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).expect("small").to_be_bytes()[..], bytes].concat()
}

/// A client that works while others don't keep to the protocol.
struct Canary {
    client: StreamClient,
    next: u64,
}

impl Canary {
    fn new(node: &Node) -> Self {
        let mut client = StreamClient::open(node.streams());
        client.create("canary");
        client.publisher(1, "canary", "canary");
        client.subscribe(1, "canary", OffsetSpec::First, 10);
        Self { client, next: 0 }
    }

    fn sings(&mut self) {
        self.client.publish(1, numbered(self.next + 1..=self.next + 10));
        self.client.confirms();
        self.next += 10;
        self.client.read_to(1, self.next);
    }
}

#[test]
fn false_lengths_close_the_connection_without_memory() {
    let Some(node) = node() else { return };
    let mut canary = Canary::new(&node);
    canary.sings();
    node.forget_resident_bytes_max();
    let before = node.resident_bytes();
    let unknown = number(ResponseCode::UnknownFrame);
    let large = number(ResponseCode::FrameTooLarge);
    for (name, bytes, code) in [
        ("a size of 4 GiB", u32::MAX.to_be_bytes().to_vec(), large),
        ("a size of 3", 3_u32.to_be_bytes().to_vec(), unknown),
        ("a size of 0", vec![0; 4], unknown),
        ("an unknown key", frame(&[0, 99, 0, 1, 0, 0, 0, 1]), unknown),
        ("an unknown version", frame(&[0, 13, 0, 9, 0, 0, 0, 1]), unknown),
        // create, a name of 32,767 bytes that aren't there
        ("a string beyond the frame", frame(&[0, 13, 0, 1, 0, 0, 0, 1, 0x7F, 0xFF, b's']), unknown),
        ("a negative length", frame(&[0, 13, 0, 1, 0, 0, 0, 1, 0x80, 0, b's']), unknown),
        // publish, a message of 2 GiB, and a sub-batch of 4 GiB
        (
            "a message beyond the frame",
            frame(&[0, 2, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 0xFF, 0xFF, 0xFF]),
            unknown,
        ),
        (
            "a sub-batch beyond the frame",
            frame(&[
                0, 2, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0x90, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                0xFF, 0xFF, 0xFF,
            ]),
            unknown,
        ),
        // super stream, four billion partitions
        ("a count beyond the frame", frame(&[0, 29, 0, 1, 0, 0, 0, 1, 0, 1, b's', 0xFF, 0xFF, 0xFF, 0xFF]), unknown),
    ] {
        let mut client = StreamClient::open(node.streams());
        client.create(&format!("of {name}"));
        client.publisher(1, "", &format!("of {name}"));
        client.send(&bytes);
        let closed = client.until_closed().unwrap_or_else(|| panic!("{name}: no reason"));
        assert_eq!(closed.code, code, "{name}: {closed:?}");
    }
    canary.sings();
    let grown = node.resident_bytes_max().saturating_sub(before);
    assert!(grown < 64 * MIB, "{} MiB", grown / MIB);
    finish(&node);
}

#[test]
fn random_bytes_end_only_their_own_connection() {
    let Some(node) = node() else { return };
    let mut canary = Canary::new(&node);
    let mut random = Random::new(0x5eed);
    for round in 0..200 {
        let mut bytes: Vec<u8> = (0..random.below(600)).map(|_| random.next().to_le_bytes()[0]).collect();
        // Every second one is a frame of a known key, half of them on an open connection.
        if round % 2 == 0 {
            let key = u16::try_from(1 + random.below(31)).expect("small");
            let version = u16::try_from(1 + random.below(2)).expect("small");
            bytes.splice(..0, key.to_be_bytes().into_iter().chain(version.to_be_bytes()));
            bytes = frame(&bytes);
        }
        if round % 4 == 0 {
            let mut client = StreamClient::open(node.streams());
            let _ = client.try_send(&bytes);
        } else {
            let mut socket = TcpStream::connect(node.streams()).expect("a listener");
            let _ = socket.write_all(&bytes);
        }
        if round % 20 == 0 {
            canary.sings();
        }
    }
    canary.sings();
    finish(&node);
}

#[test]
fn commands_of_a_server_and_out_of_order_are_refused() {
    let Some(node) = node() else { return };
    // Before the login.
    let mut client = StreamClient::connect(node.streams());
    let mut out = Vec::new();
    request::create(&mut out, 1, "s", []);
    client.send(&out);
    assert_eq!(client.until_closed(), None);
    // deliver, confirm, tune and open once more
    for bytes in [
        frame(&[0, 8, 0, 1, 1]),
        frame(&[0, 3, 0, 1, 1, 0, 0, 0, 0]),
        frame(&[0x80, 20, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        frame(&[0, 21, 0, 1, 0, 0, 0, 9, 0, 1, b'/']),
    ] {
        let mut client = StreamClient::open(node.streams());
        client.send(&bytes);
        let closed = client.until_closed().expect("a reason");
        assert_eq!(closed.code, number(ResponseCode::UnknownFrame), "{bytes:?}");
    }
    finish(&node);
}

#[test]
fn a_client_that_reads_nothing_costs_a_buffer() {
    let Some(node) = node() else { return };
    let mut canary = Canary::new(&node);
    let mut writer = StreamClient::open(node.streams());
    writer.create("large");
    writer.publisher(1, "", "large");
    for id in 0..100 {
        writer.publish(1, [(id, vec![b'x'; 500_000])]);
    }
    writer.confirms();
    node.forget_resident_bytes_max();
    let before = node.resident_bytes();
    let mut deaf: Vec<StreamClient> = (0..8).map(|_| StreamClient::open(node.streams())).collect();
    for client in &mut deaf {
        let mut out = Vec::new();
        for id in 0..8 {
            request::subscribe(&mut out, u32::from(id), id, "large", OffsetSpec::First, u16::MAX, []);
            for _ in 0..10 {
                request::credit(&mut out, id, u16::MAX);
            }
        }
        client.send(&out);
    }
    for _ in 0..20 {
        canary.sings();
    }
    let grown = node.resident_bytes_max().saturating_sub(before);
    assert!(grown < 300 * MIB, "{} MiB for 64 subscriptions of 50", grown / MIB);
    drop(deaf);
    canary.sings();
    finish(&node);
}

#[test]
fn many_names_and_subscriptions_come_and_go() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    for round in 0..2000_u32 {
        assert_eq!(client.try_subscribe(1, "s", OffsetSpec::Next, 1, &[]), OK);
        assert_eq!(client.unsubscribe(1), OK);
        client.publisher(1, &format!("name {round}"), "s");
        client.publish(1, numbered(1..=1));
        client.confirms();
        assert_eq!(client.code(|out, correlation| request::delete_publisher(out, correlation, 1)), OK);
    }
    let queue = node.http().get("/api/queues/%2F/s").expect("an answer").json();
    assert_eq!(queue["consumers"], 0);
    assert_eq!(client.statistic("s", "committed_offset"), 1999);
    client.close();
    finish(&node);
}

#[test]
#[ignore = "longer than others: make -C tests soak"]
fn a_node_serves_100_000_subscriptions() {
    let Some(node) = node() else { return };
    let mut owner = StreamClient::open(node.streams());
    owner.create("s");
    let before = node.resident_bytes();
    let mut clients: Vec<StreamClient> = (0..400).map(|_| StreamClient::open(node.streams())).collect();
    for client in &mut clients {
        for id in 0..250 {
            client.subscribe(id, "s", OffsetSpec::Next, 1);
        }
    }
    let each = (node.resident_bytes() - before) / 100_000;
    println!("{each} bytes for each subscription");
    assert!(each < 4096, "{each} bytes");
    owner.publisher(1, "", "s");
    owner.publish(1, numbered(1..=1));
    owner.confirms();
    for client in &mut clients {
        for id in 0..250 {
            client.read_to(id, 1);
        }
    }
    drop(clients);
    owner.close();
    finish(&node);
}
