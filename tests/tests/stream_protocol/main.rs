//! The stream protocol from outside: a client that checks every chunk, confirm and answer publishes, reads, kills the broker, and
//! breaks the rules.

mod addresses;
mod batches;
mod ends;
mod groups;
mod hostile;
mod kills;
mod limits;
mod other_protocols;
mod permissions;
mod publishing;
mod reading;
mod sizes;

use std::net::SocketAddr;

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::stream::{OffsetSpec, ResponseCode, StreamClient, number};

/// The subscription with which [`read_all`] reads.
const READER: u8 = 200;

/// A node, or nothing where a broker is given.
fn node() -> Option<Node> {
    node_with(Options::new())
}

fn node_with(options: Options) -> Option<Node> {
    (!is_given()).then(|| Node::start(options))
}

/// Ends a test.
fn finish(node: &Node) {
    conservation::check(&node.http());
}

/// All messages of a stream up to offset `end`, in order, each with its offset.
fn read_all(client: &mut StreamClient, stream: &str, end: u64) -> Vec<(u64, Vec<u8>)> {
    client.subscribe(READER, stream, OffsetSpec::First, 10);
    client.read_to(READER, end);
    let bodies = client.subscriptions[&READER].bodies_from(0);
    assert_eq!(client.unsubscribe(READER), number(ResponseCode::Ok));
    bodies
}

/// The bodies of all messages of a stream, read on a connection of its own.
fn bodies(address: SocketAddr, stream: &str, end: u64) -> Vec<String> {
    let mut reader = StreamClient::open(address);
    let messages = read_all(&mut reader, stream, end);
    assert!(messages.iter().map(|(offset, _)| *offset).eq(0..end), "offsets of {stream}");
    reader.close();
    messages.into_iter().map(|(_, body)| String::from_utf8(body).expect("text")).collect()
}

/// Messages whose bodies are their ids.
fn numbered(ids: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = (u64, String)> {
    ids.map(|id| (id, id.to_string()))
}

fn texts(ids: impl IntoIterator<Item = u64>) -> Vec<String> {
    ids.into_iter().map(|id| id.to_string()).collect()
}
