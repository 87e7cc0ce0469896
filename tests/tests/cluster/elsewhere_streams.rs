//! A stream serves clients of the stream protocol on every node.

use leveret_stream_protocol::client::request;
use leveret_tests::stream::{OK, OffsetSpec, ResponseCode, StreamClient, number};
use leveret_tests::wire::{Wire, publish};

use crate::Cluster;

/// Three nodes, and a stream of the first one that all reach.
fn with_stream() -> Cluster {
    let cluster = Cluster::start(3);
    let mut client = StreamClient::open(cluster.nodes[0].streams());
    client.create("s");
    client.close();
    for at in 0..3 {
        cluster.wait_until("the stream's node is reached", |cluster| is_served(cluster, at, "s"));
    }
    cluster
}

/// Whether a node serves a stream, from each core: connections are on different ones.
fn is_served(cluster: &Cluster, at: usize, stream: &str) -> bool {
    let clients: Vec<_> = (0..4).map(|_| StreamClient::open(cluster.nodes[at].streams())).collect();
    let none = number(ResponseCode::NoOffset);
    clients.into_iter().all(|mut client| client.stored_offset("nobody", stream) == Err(none))
}

fn numbered(ids: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = (u64, String)> {
    ids.map(|id| (id, id.to_string()))
}

/// Reads a stream on a node up to an offset.
fn bodies(cluster: &Cluster, at: usize, stream: &str, end: u64) -> Vec<String> {
    let mut reader = StreamClient::open(cluster.nodes[at].streams());
    reader.subscribe(7, stream, OffsetSpec::First, 2);
    reader.read_to(7, end);
    let found = reader.subscriptions[&7].bodies_from(0);
    reader.close();
    assert!(found.iter().map(|(offset, _)| *offset).eq(0..end), "offsets");
    found.into_iter().map(|(_, body)| String::from_utf8(body).expect("text")).collect()
}

fn texts(ids: std::ops::RangeInclusive<u64>) -> Vec<String> {
    ids.map(|id| id.to_string()).collect()
}

#[test]
fn a_stream_is_written_and_read_on_nodes_without_it() {
    let cluster = with_stream();
    let mut publisher = StreamClient::open(cluster.nodes[1].streams());
    publisher.publisher(1, "", "s");
    for frame in 0..20 {
        publisher.publish(1, numbered(frame * 100 + 1..=frame * 100 + 100));
    }
    publisher.confirms();
    assert!(publisher.confirmed[&1].iter().copied().eq(1..=2000));
    for at in 0..3 {
        assert_eq!(bodies(&cluster, at, "s", 2000), texts(1..=2000), "on node {at}");
    }
    let mut client = StreamClient::open(cluster.nodes[2].streams());
    assert_eq!(client.statistic("s", "committed_offset"), 1999);
    // Chunks of a megabyte and what AMQP publishes come over as well.
    let large = vec![b'x'; 900_000];
    (1..=5).for_each(|id| publisher.publish(1, [(id, large.clone())]));
    publisher.confirms();
    client.subscribe(3, "s", OffsetSpec::Offset(2000), 1);
    client.read_to(3, 2005);
    assert!(client.subscriptions[&3].bodies_from(2000).iter().all(|(_, body)| *body == large));
    let mut wire = Wire::open(cluster.nodes[1].amqp());
    wire.confirm_select(1);
    wire.send(&publish(1, "", "s", b"over AMQP", false, true));
    wire.confirms(1);
    client.read_to(3, 2006);
    let last = client.subscriptions[&3].chunks.back().expect("a chunk");
    assert!(last.messages[0].ends_with(b"over AMQP"));
    assert_eq!(client.unsubscribe(3), OK);
    client.close();
}

#[test]
fn credit_of_a_stream_elsewhere_is_exact() {
    let cluster = with_stream();
    let mut client = StreamClient::open(cluster.nodes[1].streams());
    client.publisher(1, "", "s");
    for at in 0..30 {
        client.publish(1, [(at, vec![b'x'; 3000])]);
        client.confirms();
    }
    // The client fails at a chunk without credit.
    client.subscribe(1, "s", OffsetSpec::First, 1);
    for _ in 0..30 {
        client.wait("a chunk", |client| client.subscriptions[&1].credit == 0);
        assert_eq!(bodies(&cluster, 2, "s", 30).len(), 30);
        client.barrier();
        if client.subscriptions[&1].next == Some(30) {
            return client.close();
        }
        client.grant(1, 1);
    }
    panic!("{:?} of 30 messages", client.subscriptions[&1].next);
}

#[test]
fn a_named_publisher_goes_on_at_another_node() {
    let cluster = with_stream();
    let mut client = StreamClient::open(cluster.nodes[0].streams());
    client.publisher(1, "orders", "s");
    client.publish(1, numbered(1..=100));
    client.confirms();
    client.close();
    let mut client = StreamClient::open(cluster.nodes[1].streams());
    client.publisher(9, "orders", "s");
    assert_eq!(client.last_id("orders", "s"), 100);
    client.publish(9, numbered(51..=150));
    client.publish(9, numbered(140..=160));
    client.confirms();
    assert_eq!(client.confirmed[&9].len(), 121, "those that are known are confirmed as well");
    assert_eq!(client.last_id("orders", "s"), 160);
    assert_eq!(client.last_id("another", "s"), 0);
    client.close();
    assert_eq!(bodies(&cluster, 2, "s", 160), texts(1..=160));
}

#[test]
fn offsets_and_groups_are_the_streams_on_all_nodes() {
    const GROUP: [(&str, &str); 2] = [("single-active-consumer", "true"), ("name", "group")];
    let cluster = with_stream();
    let mut members: Vec<_> = (0..3).map(|at| StreamClient::open(cluster.nodes[2 - at].streams())).collect();
    members[0].publisher(1, "", "s");
    members[0].publish(1, numbered(0..=9));
    members[0].confirms();
    for (id, member) in (1..).zip(&mut members) {
        assert_eq!(member.try_subscribe(id, "s", OffsetSpec::First, 10, &GROUP), OK);
    }
    let (correlation, 1, true) = members[0].next_update() else { panic!("the first one is active") };
    members[0].answer_update(correlation, OffsetSpec::First);
    members[0].read_to(1, 10);
    members[0].store_offset("group", "s", 4);
    for member in &mut members[1..] {
        member.barrier();
        assert!(member.updates.is_empty() && member.subscriptions.values().all(|known| known.received == 0));
    }
    assert_eq!(members[0].unsubscribe(1), OK);
    let (correlation, 2, true) = members[1].next_update() else { panic!("the second one is active") };
    let stored = members[1].stored_offset("group", "s").expect("an offset");
    assert_eq!(stored, 4);
    members[1].answer_update(correlation, OffsetSpec::Offset(stored + 1));
    members[1].read_to(2, 10);
    assert_eq!(members[1].subscriptions[&2].bodies_from(5).len(), 5);
    // The connection of one is lost.
    drop(members.remove(1));
    let (_, 3, true) = members[1].next_update() else { panic!("the third one is active") };
}

#[test]
fn clients_are_told_the_node_that_has_a_stream() {
    let cluster = with_stream();
    let expected = |at: usize| (cluster.name(at)[8..].to_owned(), u32::from(cluster.nodes[at].streams().port()));
    for at in 0..3 {
        let mut client = StreamClient::open(cluster.nodes[at].streams());
        // A node's words of itself may come a moment after the link that serves.
        cluster.wait_until("its address is known", |cluster| {
            let mut client = StreamClient::open(cluster.nodes[at].streams());
            client.leader("s") == Ok(expected(0))
        });
        let properties = (&client.properties["advertised_host"], &client.properties["advertised_port"]);
        assert_eq!(properties, (&expected(at).0, &expected(at).1.to_string()), "it says the same of itself");
        let code = client.leader("none").expect_err("there is none");
        assert_eq!(code, number(ResponseCode::StreamDoesNotExist));
        client.close();
    }
}

#[test]
fn a_super_stream_is_used_and_deleted_on_another_node() {
    let cluster = Cluster::start(2);
    let mut client = StreamClient::open(cluster.nodes[0].streams());
    let code = client.code(|out, correlation| {
        request::create_super_stream(out, correlation, "ss", ["ss-0", "ss-1"], ["0", "1"], []);
    });
    assert_eq!(code, OK);
    cluster.wait_until("its node is reached", |cluster| is_served(cluster, 1, "ss-1"));
    let mut other = StreamClient::open(cluster.nodes[1].streams());
    assert_eq!(other.partitions("ss"), ["ss-0", "ss-1"]);
    assert_eq!(other.routes("1", "ss"), ["ss-1"]);
    for (id, partition) in [(1, "ss-0"), (2, "ss-1")] {
        other.publisher(id, "", partition);
        other.publish(id, numbered(1..=5));
    }
    other.confirms();
    assert_eq!(bodies(&cluster, 0, "ss-0", 5), texts(1..=5));
    client.subscribe(4, "ss-1", OffsetSpec::First, 10);
    let code = other.code(|out, correlation| request::delete_super_stream(out, correlation, "ss"));
    assert_eq!(code, OK);
    client.wait("its end", |client| !client.gone.is_empty());
    assert_eq!(other.declare(5, "", "ss-0"), number(ResponseCode::StreamDoesNotExist));
}

#[test]
fn clients_are_told_that_the_node_of_a_stream_is_gone() {
    let mut cluster = with_stream();
    let mut client = StreamClient::open(cluster.nodes[1].streams());
    let mut idle = StreamClient::open(cluster.nodes[2].streams());
    client.publisher(1, "", "s");
    client.publish(1, numbered(1..=100));
    client.confirms();
    client.subscribe(2, "s", OffsetSpec::First, 10);
    client.read_to(2, 100);
    idle.publisher(1, "", "s");
    cluster.nodes[0].kill();
    let unavailable = number(ResponseCode::StreamNotAvailable);
    for client in [&mut client, &mut idle] {
        client.wait("the stream's end", |client| !client.gone.is_empty());
        assert_eq!(client.gone.pop_front(), Some(("s".to_owned(), unavailable)));
        assert_eq!(client.declare(1, "", "s"), unavailable);
        assert_eq!(client.leader("s"), Err(unavailable));
    }
    cluster.nodes[0].restart();
    cluster.wait_until("its node is reached again", |cluster| is_served(cluster, 1, "s"));
    client.publisher(1, "", "s");
    client.publish(1, numbered(101..=150));
    client.confirms();
    assert_eq!(bodies(&cluster, 1, "s", 150), texts(1..=150));
}

#[test]
fn chunks_of_another_nodes_stream_are_filtered_there() {
    let cluster = with_stream();
    let mut client = StreamClient::open(cluster.nodes[1].streams());
    client.publisher(1, "", "s");
    for (id, value) in (0..).zip(["red", "blue", "red"]) {
        client.publish_filtered(1, &[(id, value, value.as_bytes())]);
        client.confirms();
    }
    let filter = [("filter.0", "blue"), ("match-unfiltered", "false")];
    assert_eq!(client.try_subscribe(4, "s", OffsetSpec::First, 10, &filter), OK);
    client.wait("its chunk", |client| client.subscriptions[&4].received > 0);
    client.barrier();
    let chunks = &client.subscriptions[&4].chunks;
    assert!(chunks.len() == 1 && chunks[0].bodies().eq([b"blue"]), "{} chunks", chunks.len());
}
