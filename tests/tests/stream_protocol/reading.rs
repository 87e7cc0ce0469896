//! Subscriptions: where they begin, credit, filters, stored offsets.

use leveret_tests::node::Options;
use leveret_tests::stream::{OK, OffsetSpec, ResponseCode, StreamClient, number};

use super::{finish, node, node_with, numbered};

/// A stream with chunks of ten messages, one behind the other.
fn with_chunks(client: &mut StreamClient, chunks: u64) {
    client.create("s");
    client.publisher(1, "", "s");
    for chunk in 0..chunks {
        client.publish(1, numbered(chunk * 10..=chunk * 10 + 9));
        client.confirms();
    }
}

/// The offset of the first message of the first chunk that comes, after one more message.
fn begins_at(client: &mut StreamClient, start: OffsetSpec) -> u64 {
    client.subscribe(2, "s", start, 1);
    client.publish(1, numbered(1000..=1000));
    client.confirms();
    client.wait("a chunk", |client| client.subscriptions[&2].received == 1);
    let first = client.subscriptions[&2].chunks[0].first;
    assert_eq!(client.unsubscribe(2), OK);
    first
}

#[test]
fn each_offset_begins_with_the_chunk_that_has_it() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    with_chunks(&mut client, 3);
    let rows = [
        (OffsetSpec::Last, 20),
        (OffsetSpec::First, 0),
        (OffsetSpec::Offset(0), 0),
        (OffsetSpec::Offset(9), 0),
        (OffsetSpec::Offset(10), 10),
        (OffsetSpec::Offset(29), 20),
        (OffsetSpec::Offset(30), 30),
        (OffsetSpec::Timestamp(0), 0),
        // The last one of the stream, and behind it.
        (OffsetSpec::Last, 37),
        (OffsetSpec::Offset(39), 39),
        (OffsetSpec::Next, 40),
        (OffsetSpec::Timestamp(i64::MAX), 41),
    ];
    for (row, (start, first)) in rows.into_iter().enumerate() {
        assert_eq!(begins_at(&mut client, start), first, "row {row}: {start:?}");
    }
    client.close();
    finish(&node);
}

/// The messages are on their way to the disk when the client asks.
#[test]
fn a_reader_begins_behind_what_its_connection_published() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    with_chunks(&mut client, 1);
    let mut end = 10;
    for _ in 0..10 {
        client.publish(1, numbered(end..=end + 9));
        end += 10;
        assert_eq!(begins_at(&mut client, OffsetSpec::Next), end);
        end += 1;
        client.publish(1, numbered(end..=end + 9));
        assert_eq!(client.statistic("s", "committed_offset"), end as i64 + 9);
        end += 10;
    }
    client.confirms();
    client.close();
    finish(&node);
}

#[test]
fn a_timestamp_begins_with_the_first_chunk_of_that_time() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    with_chunks(&mut client, 1);
    client.subscribe(3, "s", OffsetSpec::First, 1000);
    client.read_to(3, 10);
    let begin = client.subscriptions[&3].chunks[0].timestamp_ms;
    // Chunks of a later millisecond come after some.
    while client.subscriptions[&3].chunks.back().is_none_or(|chunk| chunk.timestamp_ms == begin) {
        let next = client.subscriptions[&3].next.expect("a chunk came");
        client.publish(1, numbered(next..=next));
        client.confirms();
        client.read_to(3, next + 1);
    }
    let last = client.subscriptions[&3].chunks.back().expect("a chunk");
    let (first, time) = (last.first, last.timestamp_ms);
    assert_eq!(begins_at(&mut client, OffsetSpec::Timestamp(time)), first);
    assert_eq!(begins_at(&mut client, OffsetSpec::Timestamp(begin)), 0);
    client.close();
    finish(&node);
}

#[test]
fn each_credit_brings_a_chunk_of_a_large_frame() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    // Three chunks, of 4,096 messages at most.
    client.publish(1, numbered(0..=9_999));
    for (subscription, credit) in [(1, 1), (2, 2), (3, 3)] {
        client.subscribe(subscription, "s", OffsetSpec::First, credit);
        client.wait("its chunks", |client| client.subscriptions[&subscription].received == u64::from(credit));
    }
    client.confirms();
    client.close();
    finish(&node);
}

#[test]
fn ten_credits_bring_ten_chunks_at_most() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    // So long that no two of them are sent as one.
    let body = vec![b'b'; 40 << 10];
    for id in 0..25 {
        client.publish(1, [(id, &body)]);
        client.confirms();
    }
    client.subscribe(2, "s", OffsetSpec::First, 0);
    client.barrier();
    assert_eq!(client.subscriptions[&2].received, 0, "no chunk without credit");
    for chunks in [10, 20] {
        client.grant(2, 10);
        client.wait("ten chunks", |client| client.subscriptions[&2].received >= chunks);
        client.barrier();
        assert_eq!(client.subscriptions[&2].received, chunks);
    }
    // Credit is counted without a limit of its own.
    for _ in 0..3 {
        client.grant(2, u16::MAX);
    }
    client.read_to(2, 25);
    client.publish(1, numbered(25..=25));
    client.read_to(2, 26);
    client.grant(9, 1);
    client.barrier();
    assert_eq!(client.credit_refused, [(9, number(ResponseCode::SubscriptionIdDoesNotExist))]);
    client.close();
    finish(&node);
}

/// A client that is far away gets one chunk in the time of a round trip if it grants one at a time.
#[test]
fn chunks_of_one_message_need_few_credits() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    // Publishers that take turns: none of their messages are stored together.
    [1, 2].into_iter().for_each(|publisher| client.publisher(publisher, "", "s"));
    for id in 0..1000 {
        [1, 2].into_iter().for_each(|publisher| client.publish(publisher, [(id, format!("{publisher}: {id}"))]));
    }
    // Some come while it reads, and some from the disk.
    client.subscribe(3, "s", OffsetSpec::First, 0);
    client.confirms();
    while client.subscriptions[&3].next.unwrap_or(0) < 2000 {
        let received = client.subscriptions[&3].received;
        client.grant(3, 1);
        client.wait("a chunk", |client| client.subscriptions[&3].received > received);
    }
    let received = client.subscriptions[&3].received;
    assert!(received <= 200, "{received} chunks for 2000 messages");
    let bodies = client.subscriptions[&3].bodies_from(0);
    for (at, (offset, body)) in (0..).zip(bodies) {
        assert_eq!((offset, body), (at, format!("{}: {}", at % 2 + 1, at / 2).into_bytes()));
    }
    client.close();
    finish(&node);
}

#[test]
fn newer_deliveries_have_the_committed_offset() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    with_chunks(&mut client, 3);
    client.subscribe(2, "s", OffsetSpec::First, 10);
    client.read_to(2, 30);
    assert!(client.subscriptions[&2].chunks.iter().all(|chunk| chunk.committed.is_none()));
    client.ask_for_newer_deliveries();
    client.subscribe(3, "s", OffsetSpec::First, 10);
    client.read_to(3, 30);
    // The client checks that it isn't behind the chunk.
    assert!(client.subscriptions[&3].chunks.iter().all(|chunk| chunk.committed.is_some()));
    client.close();
    finish(&node);
}

#[test]
fn nothing_comes_after_the_end_of_a_subscription() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    with_chunks(&mut client, 50);
    // The client panics on a chunk of an unknown subscription.
    for _ in 0..20 {
        client.subscribe(2, "s", OffsetSpec::First, 5);
        client.grant(2, 1000);
        assert_eq!(client.unsubscribe(2), OK);
        client.barrier();
    }
    assert_eq!(client.unsubscribe(2), number(ResponseCode::SubscriptionIdDoesNotExist));
    client.close();
    finish(&node);
}

#[test]
fn subscriptions_of_one_stream_read_at_their_own_pace() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    with_chunks(&mut client, 40);
    for id in 10..14 {
        client.subscribe(id, "s", OffsetSpec::Offset(u64::from(id) * 10), 1);
    }
    for id in [13, 10, 12, 11] {
        client.read_to(id, 400);
        assert_eq!(client.subscriptions[&id].chunks[0].first, u64::from(id) * 10);
    }
    client.close();
    finish(&node);
}

#[test]
fn filters_leave_out_chunks_without_the_value() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    for (id, value) in (0..).zip(["eu", "us", "", "eu", "asia", ""]) {
        client.publish_filtered(1, &[(id, value, value.as_bytes())]);
        client.confirms();
    }
    // A chunk of several values has them all.
    client.publish_filtered(1, &[(6, "us", b"us"), (7, "asia", b"asia")]);
    client.confirms();
    for (properties, offsets) in [
        (&[("filter.0", "eu")][..], &[0, 3][..]),
        (&[("filter.0", "us")], &[1, 6, 7]),
        (&[("filter.0", "eu"), ("filter.1", "asia")], &[0, 3, 4, 6, 7]),
        (&[("filter.0", "us"), ("match-unfiltered", "true")], &[1, 2, 5, 6, 7]),
        (&[("filter.0", "nowhere")], &[]),
        (&[("match-unfiltered", "true")], &[0, 1, 2, 3, 4, 5, 6, 7]),
    ] {
        assert_eq!(client.try_subscribe(2, "s", OffsetSpec::First, 100, properties), OK);
        // A last chunk that all of them want.
        let id = u64::try_from(client.statistic("s", "committed_offset")).expect("an offset") + 1;
        let all = ["eu", "us", "asia", "nowhere"];
        client.publish_filtered(1, &all.map(|value| (id, value, &b"end"[..])));
        client.confirms();
        client.read_to(2, id + 4);
        let chunks = client.subscriptions[&2].chunks.iter();
        let came = chunks.flat_map(|chunk| chunk.first..chunk.first + chunk.count).filter(|offset| *offset < 8);
        assert_eq!(came.collect::<Vec<u64>>(), offsets, "{properties:?}");
        assert_eq!(client.unsubscribe(2), OK);
    }
    client.close();
    finish(&node);
}

#[test]
fn messages_of_other_values_come_in_chunks_of_their_own() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    // In one read of the broker, most probably.
    for (at, value) in (0..30).zip(["eu", "us", ""].into_iter().cycle()) {
        let ids = at * 100..(at + 1) * 100;
        client.publish_filtered(1, &ids.map(|id| (id, value, value.as_bytes())).collect::<Vec<_>>());
    }
    client.confirms();
    assert_eq!(client.try_subscribe(2, "s", OffsetSpec::First, 100, &[("filter.0", "us")]), OK);
    client.publish_filtered(1, &[(3000, "us", b"last")]);
    client.confirms();
    client.read_to(2, 3001);
    let came: Vec<_> = client.subscriptions[&2].bodies_from(0);
    let wanted = came.iter().filter(|(_, body)| body == b"us").count();
    assert_eq!(wanted, 1000);
    assert!(came.len() < 1200, "{} messages for 1,001", came.len());
    client.close();
    finish(&node);
}

#[test]
fn stored_offsets_belong_to_a_name_and_a_stream() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    with_chunks(&mut client, 2);
    client.create("another");
    client.store_offset("app", "s", 4);
    client.store_offset("app", "s", 11);
    client.store_offset("other", "s", 3);
    assert_eq!(client.stored_offset("app", "s"), Ok(11));
    assert_eq!(client.stored_offset("other", "s"), Ok(3));
    assert_eq!(client.stored_offset("app", "another"), Err(number(ResponseCode::NoOffset)));
    assert_eq!(client.stored_offset("app", "none"), Err(number(ResponseCode::StreamDoesNotExist)));
    // It may go back.
    client.store_offset("app", "s", 2);
    assert_eq!(StreamClient::open(node.streams()).stored_offset("app", "s"), Ok(2));
    client.close();
    finish(&node);
}

/// Chunks that have left the log for segments are sent out of these files by the system, also while the stream is deleted.
#[test]
fn long_chunks_come_whole_out_of_their_files() {
    const CHUNKS: u64 = 100;
    let Some(node) = node_with(Options::new().set("debug.wal_file_bytes", 1 << 20)) else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    let body = |id: u64| [&id.to_be_bytes()[..], &[id as u8; 192]].concat();
    for chunk in 0..CHUNKS {
        client.publish(1, (chunk * 1000..(chunk + 1) * 1000).map(|id| (id, body(id))));
        client.confirms();
    }
    let mut reader = StreamClient::open(node.streams());
    reader.subscribe(2, "s", OffsetSpec::First, 1000);
    reader.read_to(2, CHUNKS * 1000);
    let found = reader.subscriptions[&2].bodies_from(0);
    assert_eq!(found.len() as u64, CHUNKS * 1000);
    for (id, (offset, found)) in (0..).zip(found) {
        assert_eq!((offset, found), (id, body(id)));
    }
    // A part of the files is on its way to a client that doesn't read when they are removed. Each chunk's checksum is compared.
    let mut late = StreamClient::open(node.streams());
    late.subscribe(3, "s", OffsetSpec::First, 1000);
    assert_eq!(client.delete("s"), OK);
    late.wait("the end of the stream", |client| !client.gone.is_empty());
    late.barrier();
    client.close();
    finish(&node);
}
