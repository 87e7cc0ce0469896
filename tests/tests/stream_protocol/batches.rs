//! Sub-batches: stored as they come, and read by every protocol.

use leveret_amqp10::OwnedValue;
use leveret_stream_protocol::client::SentSubBatch;
use leveret_tests::amqp10::{Amqp10, annotation};
use leveret_tests::filters::{attach, filter};
use leveret_tests::stream::{Compression, OffsetSpec, ResponseCode, StreamClient, data, number, sub_batch};
use leveret_tests::wire::Wire;

use super::{finish, node, numbered};

const ALL: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn packed(compression: u8, messages: u16, uncompressed: u32, data: &[u8]) -> SentSubBatch<'_> {
    SentSubBatch { compression, messages, uncompressed, data }
}

fn bodies_over_amqp091(wire: &mut Wire, count: usize) -> Vec<Vec<u8>> {
    wire.prefetch(1, 500);
    wire.consume_with(1, "s", false, &[("x-stream-offset", 0)]);
    (0..count).map(|_| wire.delivery().2).collect()
}

fn bodies_over_amqp10(client: &mut Amqp10, count: usize) -> Vec<Vec<u8>> {
    let first = leveret_amqp10::OwnedValue::String("first".into());
    attach(client, 0, "s", &[("offset", filter("rabbitmq:stream-offset-spec", first))]);
    client.grant(0, 500);
    (0..count).map(|_| client.receive(0).data()).collect()
}

#[test]
fn sub_batches_of_each_compression_are_read_by_all_protocols() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    let mut published = Vec::new();
    let mut sent = Vec::new();
    for (id, compression) in (1..).zip(ALL) {
        let bodies: Vec<Vec<u8>> =
            (0..20).map(|n| format!("{compression} {n} {}", "x".repeat(n)).into_bytes()).collect();
        let messages: Vec<Vec<u8>> = bodies.iter().map(|body| data(body)).collect();
        let (length, bytes) = sub_batch(compression, &messages);
        client.publish_sub_batch(1, id, packed(compression as u8, 20, length, &bytes));
        client.publish(1, [(100 + id, format!("after {compression}"))]);
        published.extend(bodies);
        published.push(format!("after {compression}").into_bytes());
        sent.push((compression as u8, 20, bytes));
    }
    client.confirms();
    // One confirm for each sub-batch.
    assert_eq!(client.confirmed[&1].len(), 10);
    client.subscribe(2, "s", OffsetSpec::First, 20);
    client.read_to(2, 105);
    let received = client.subscriptions[&2].chunks.iter().flat_map(|chunk| chunk.sub_batches.clone());
    assert_eq!(received.collect::<Vec<_>>(), sent, "they come as they were published");
    // An offset within a sub-batch begins with its chunk.
    client.subscribe(3, "s", OffsetSpec::Offset(30), 1);
    client.wait("a chunk", |client| client.subscriptions[&3].received == 1);
    let chunk = &client.subscriptions[&3].chunks[0];
    assert!((chunk.first..chunk.first + chunk.count).contains(&30), "{chunk:?}");

    let mut amqp091 = Wire::open(node.amqp());
    assert_eq!(bodies_over_amqp091(&mut amqp091, 105), published);
    amqp091.close();
    let mut amqp10 = Amqp10::open(node.amqp());
    assert_eq!(bodies_over_amqp10(&mut amqp10, 105), published);
    amqp10.close();
    client.close();
    finish(&node);
}

#[test]
fn a_named_publisher_repeats_a_sub_batch_without_effect() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "name", "s");
    let (length, bytes) = sub_batch(Compression::Gzip, &[data(b"a"), data(b"b")]);
    for _ in 0..3 {
        client.publish_sub_batch(1, 1, packed(Compression::Gzip as u8, 2, length, &bytes));
    }
    client.publish(1, numbered(2..=2));
    client.confirms();
    assert_eq!(client.statistic("s", "committed_offset"), 2);
    client.close();
    finish(&node);
}

/// A mebibyte.
/// The client for JavaScript reads no more of a chunk than its first sub-batch.
#[test]
fn sub_batches_of_different_frames_come_in_chunks_of_their_own() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    let (length, bytes) = sub_batch(Compression::None, &[data(b"one"), data(b"two")]);
    for id in (1..).step_by(3).take(10) {
        client.publish(1, [(id, "before")]);
        client.publish_sub_batch(1, id + 1, packed(0, 2, length, &bytes));
        client.publish_sub_batch(1, id + 2, packed(0, 2, length, &bytes));
    }
    client.confirms();
    // As they were stored, and as they are sent together.
    client.subscribe(2, "s", OffsetSpec::First, 100);
    client.read_to(2, 50);
    let chunks = &client.subscriptions[&2].chunks;
    assert!(chunks.iter().all(|chunk| chunk.sub_batches.len() <= 1), "{chunks:?}");
    assert!(chunks.iter().all(|chunk| chunk.sub_batches.is_empty() || chunk.count == 2), "{chunks:?}");
    client.close();
    finish(&node);
}

#[test]
fn a_sub_batch_that_no_reader_can_take_is_refused() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    let messages = [data(b"one"), data(b"two")];
    let (length, bytes) = sub_batch(Compression::None, &messages);
    let (inflated, zipped) = sub_batch(Compression::Gzip, &messages);
    assert_eq!(inflated, length);
    // Compression, number of messages, length when it is decompressed, bytes.
    let wrong: [(u8, u16, u32, &[u8]); 9] = [
        (0, 2, length + 1, &bytes),
        (0, 2, 0, &bytes),
        (0, 3, length, &bytes),
        (0, 1, length, &bytes),
        (0, 0, length, &bytes),
        (0, 2, 20, &[0xff; 20]),
        (1, 0, length, &zipped),
        (1, 9, 35, &zipped),
        (5, 2, length, &zipped),
    ];
    for (id, (compression, count, length, bytes)) in (1..).zip(wrong) {
        client.publish_sub_batch(1, id, packed(compression, count, length, bytes));
    }
    client.wait("refusals", StreamClient::is_answered);
    let code = number(ResponseCode::PreconditionFailed);
    assert_eq!(client.refused, (1..=9).map(|id| (1, id, code)).collect::<Vec<_>>());
    // The next ones are taken, and nothing of the others is there.
    client.refused.clear();
    client.publish_sub_batch(1, 10, packed(0, 2, length, &bytes));
    client.publish_sub_batch(1, 11, packed(1, 2, inflated, &zipped));
    client.confirms();
    let mut amqp091 = Wire::open(node.amqp());
    assert_eq!(bodies_over_amqp091(&mut amqp091, 4), [b"one", b"two", b"one", b"two"]);
    amqp091.close();
    client.close();
    finish(&node);
}

/// A sub-batch of three messages, and ones whose damage shows only when they are decompressed.
fn damaged(compression: Compression) -> [(u16, u32, Vec<u8>); 4] {
    let messages = [data(b"m0"), data(b"m1"), data(b"m2")];
    let (length, good) = sub_batch(compression, &messages);
    let head = good[..good.len().min(12)].to_vec();
    let cut = good[..good.len() - 6].to_vec();
    [(3, length, head), (3, length, cut), (2, length, good.clone()), (4, length, good)]
}

#[test]
fn damaged_sub_batches_are_skipped_and_told() {
    for compression in &ALL[1..] {
        let Some(mut node) = node() else { return };
        let mut client = StreamClient::open(node.streams());
        client.create("s");
        client.publisher(1, "", "s");
        client.publish(1, [(1, "begin")]);
        client.confirms();
        for (id, (count, length, bytes)) in (2..).zip(damaged(*compression)) {
            client.publish_sub_batch(1, id, packed(*compression as u8, count, length, &bytes));
        }
        client.publish(1, [(9, "end")]);
        client.confirms();
        let mut amqp10 = Amqp10::open(node.amqp());
        let first = leveret_amqp10::OwnedValue::String("first".into());
        attach(&mut amqp10, 0, "s", &[("offset", filter("rabbitmq:stream-offset-spec", first))]);
        amqp10.grant(0, 500);
        let begin = amqp10.receive(0);
        assert_eq!((begin.data(), annotation(&begin, "x-stream-skipped")), (b"begin".to_vec(), None));
        let end = amqp10.receive(0);
        assert_eq!(end.data(), b"end", "{compression}: nobody gets what nobody published");
        assert_eq!(annotation(&end, "x-stream-offset"), Some(OwnedValue::Long(13)));
        assert_eq!(annotation(&end, "x-stream-skipped"), Some(OwnedValue::Long(12)), "{compression}");
        amqp10.close();
        let mut amqp091 = Wire::open(node.amqp());
        assert_eq!(bodies_over_amqp091(&mut amqp091, 2), [&b"begin"[..], b"end"]);
        amqp091.close();
        assert!(node.count("leveret_stream_messages_unreadable_total") >= 12, "{compression}");
        client.close();
        finish(&node);
        node.ask_to_stop();
        assert!(node.terminate_asked().success());
        assert!(node.log().contains("messages of a stream can't be read and are skipped"), "{compression}");
    }
}

#[test]
fn bytes_of_another_form_than_they_say_are_refused() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    for (id, compression) in (1..).zip(&ALL[1..]) {
        client.publish_sub_batch(1, id, packed(*compression as u8, 3, 100, &[7; 40]));
    }
    client.wait("refusals", StreamClient::is_answered);
    let code = number(ResponseCode::PreconditionFailed);
    assert_eq!(client.refused, (1..=4).map(|id| (1, id, code)).collect::<Vec<_>>());
    client.close();
    finish(&node);
}

const MIB: u64 = 1 << 20;

#[test]
fn a_sub_batch_that_inflates_beyond_its_length_costs_nothing() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    // 128 MiB of zeros in half a megabyte, said to be ten bytes, and said to be as long as is allowed.
    let (_, bomb) = sub_batch(Compression::Gzip, &[vec![0; 128 << 20]]);
    for (id, length) in [(1, 10), (2, 64 << 20)] {
        client.publish_sub_batch(1, id, packed(Compression::Gzip as u8, 1, length, &bomb));
    }
    client.publish(1, [(3, "after")]);
    client.confirms();
    // Longer ones are refused.
    client.publish_sub_batch(1, 4, packed(Compression::Gzip as u8, 1, (64 << 20) + 1, &bomb));
    client.wait("a refusal", StreamClient::is_answered);
    assert_eq!(client.refused, [(1, 4, number(ResponseCode::PreconditionFailed))]);
    let before = node.resident_bytes();
    let mut amqp091 = Wire::open(node.amqp());
    assert_eq!(bodies_over_amqp091(&mut amqp091, 1), [b"after"]);
    let grown = node.resident_bytes_max().saturating_sub(before);
    assert!(grown < 256 * MIB, "{} MiB for bombs of 256", grown / MIB);
    amqp091.close();
    client.close();
    finish(&node);
}
