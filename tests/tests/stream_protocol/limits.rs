//! Limits of a connection: ids of a byte, sizes of frames, and those of vhosts and users.

use leveret_stream_protocol::client::{ServerCommand, request};
use leveret_tests::node::Options;
use leveret_tests::stream::{Closed, Login, OK, OffsetSpec, ResponseCode, StreamClient, number};
use leveret_tests::wire::Wire;
use serde_json::json;

use super::{finish, node, node_with, numbered};

#[test]
fn a_connection_has_256_publishers_and_256_subscriptions() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    for id in 0..=255 {
        client.publisher(id, "", "s");
        client.subscribe(id, "s", OffsetSpec::First, 10);
    }
    let refused = client.try_subscribe(77, "s", OffsetSpec::First, 10, &[]);
    assert_eq!(refused, number(ResponseCode::SubscriptionIdAlreadyExists));
    for id in 0..=255 {
        client.publish(id, [(1, [id])]);
    }
    client.confirms();
    for id in 0..=255 {
        client.read_to(id, 256);
    }
    let queue = node.http().get("/api/queues/%2F/s").expect("an answer").json();
    assert_eq!(queue["consumers"], json!(256));
    for id in 0..=255 {
        assert_eq!(client.unsubscribe(id), OK);
        assert_eq!(client.code(|out, correlation| request::delete_publisher(out, correlation, id)), OK);
    }
    client.close();
    finish(&node);
}

#[test]
fn frames_above_the_agreed_size_close_the_connection() {
    let Some(node) = node_with(Options::new().set("stream.frame_max", 100_000)) else { return };
    let mut client = StreamClient::connect(node.streams());
    client.log_in(&Login { frame_max: 50_000, ..Login::default() }).expect("a login");
    assert_eq!(client.proposed.0, 100_000);
    client.create("s");
    client.publisher(1, "", "s");
    client.publish(1, [(1, vec![b'x'; 49_900])]);
    client.confirms();
    // The size alone is enough.
    client.send(&50_001_u32.to_be_bytes());
    let closed = client.until_closed().expect("a reason");
    // In RabbitMQ's words, to which clients compare; the sizes are in the log.
    let expected = Closed { code: number(ResponseCode::FrameTooLarge), reason: "frame too large".to_owned() };
    assert_eq!(closed, expected);
    finish(&node);
}

#[test]
fn chunks_are_larger_than_the_frames_of_a_client() {
    let Some(node) = node() else { return };
    let mut writer = StreamClient::open(node.streams());
    writer.create("s");
    writer.publisher(1, "", "s");
    writer.publish(1, [(1, vec![b'x'; 900_000])]);
    writer.confirms();
    let mut reader = StreamClient::connect(node.streams());
    reader.log_in(&Login { frame_max: 8192, ..Login::default() }).expect("a login");
    reader.subscribe(1, "s", OffsetSpec::First, 1);
    reader.read_to(1, 1);
    assert_eq!(reader.subscriptions[&1].bodies_from(0)[0].1.len(), 900_000);
    reader.close();
    writer.close();
    finish(&node);
}

#[test]
fn frames_are_small_before_the_login() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::connect(node.streams());
    client.send(&8193_u32.to_be_bytes());
    assert_eq!(client.until_closed(), None, "a client that isn't logged in is told nothing");
    let mut client = StreamClient::connect(node.streams());
    let answered = client.call(
        |out, correlation| request::peer_properties(out, correlation, [("product", &*"x".repeat(8000))]),
        |answer| matches!(answer, ServerCommand::PeerProperties { code: OK, .. }),
    );
    assert!(answered);
    client.log_in(&Login::default()).expect("a login");
    client.close();
    finish(&node);
}

#[test]
fn connections_count_for_the_limits_of_vhosts_and_users() {
    let Some(node) = node() else { return };
    let http = node.http();
    for path in ["/api/vhost-limits/%2F/max-connections", "/api/user-limits/guest/max-connections"] {
        let answer = http.put(path, &json!({"value": 2})).expect("an answer");
        assert!(matches!(answer.status, 201 | 204), "{answer:?}");
        let open = [(); 2].map(|()| StreamClient::open(node.streams()));
        let mut third = StreamClient::connect(node.streams());
        assert_eq!(third.log_in(&Login::default()), Err(number(ResponseCode::VhostAccessFailure)), "{path}");
        open.into_iter().for_each(StreamClient::close);
        assert_eq!(http.delete(path).expect("an answer").status, 204);
        StreamClient::open(node.streams()).close();
    }
    finish(&node);
}

#[test]
fn stream_connections_have_a_limit_of_their_own() {
    let Some(node) = node_with(Options::new().set("stream.max_connections", 2)) else { return };
    let open = [(); 2].map(|()| StreamClient::open(node.streams()));
    let mut third = StreamClient::connect(node.streams());
    assert_eq!(third.log_in(&Login::default()), Err(number(ResponseCode::VhostAccessFailure)));
    Wire::open(node.amqp()).close();
    open.into_iter().for_each(StreamClient::close);
    StreamClient::open(node.streams()).close();
    finish(&node);
}

#[test]
fn retention_moves_the_beginning_and_readers_go_on() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create_with("s", &[("max-length-bytes", "20000")]);
    client.publisher(1, "", "s");
    for id in 0..200 {
        client.publish(1, [(id, [b'x'; 1000])]);
        client.confirms();
    }
    let first = client.statistic("s", "first_chunk_id");
    assert!((100..200).contains(&first), "{first}");
    client.subscribe(1, "s", OffsetSpec::First, 100);
    client.publish(1, numbered(200..=200));
    client.read_to(1, 201);
    let begin = client.subscriptions[&1].chunks[0].first;
    assert!(begin >= first.unsigned_abs(), "{begin} of {first}");
    client.close();
    finish(&node);
}
