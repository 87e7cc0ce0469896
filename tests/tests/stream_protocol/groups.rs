//! Single active consumers, and partitions of super streams.

use std::time::{Duration, Instant};

use leveret_stream_protocol::client::request;
use leveret_tests::PATIENCE;
use leveret_tests::stream::{OK, OffsetSpec, ResponseCode, StreamClient, number};
use serde_json::json;

use super::{bodies, finish, node, numbered};

const GROUP: [(&str, &str); 2] = [("single-active-consumer", "true"), ("name", "group")];

/// Longest time without an active consumer because of a client that doesn't answer.
const REST_MAX: Duration = Duration::from_secs(1);

fn join(client: &mut StreamClient, id: u8, stream: &str, super_stream: Option<&str>) {
    let of = super_stream.map(|name| ("super-stream", name));
    let properties: Vec<_> = GROUP.into_iter().chain(of).collect();
    assert_eq!(client.try_subscribe(id, stream, OffsetSpec::First, 10, &properties), OK);
}

#[test]
fn another_member_goes_on_where_the_active_one_was() {
    let Some(node) = node() else { return };
    let mut members = [(); 3].map(|()| StreamClient::open(node.streams()));
    members[0].create("s");
    members[0].publisher(1, "", "s");
    for (id, member) in (1..).zip(&mut members) {
        join(member, id, "s", None);
    }
    let [first, second, third] = &mut members;
    let (correlation, 1, true) = first.next_update() else { panic!("the first one is active") };
    first.publish(1, numbered(0..=9));
    first.confirms();
    assert_eq!(first.subscriptions[&1].received, 0, "it hasn't answered");
    first.answer_update(correlation, OffsetSpec::First);
    first.read_to(1, 10);
    first.store_offset("group", "s", 4);
    for other in [&mut *second, &mut *third] {
        other.barrier();
        assert!(other.updates.is_empty() && other.subscriptions.values().all(|known| known.received == 0));
    }
    assert_eq!(first.unsubscribe(1), OK);
    let (correlation, 2, true) = second.next_update() else { panic!("the second one is active") };
    let stored = second.stored_offset("group", "s").expect("an offset");
    second.answer_update(correlation, OffsetSpec::Offset(stored + 1));
    second.read_to(2, 10);
    assert_eq!(second.subscriptions[&2].bodies_from(5).len(), 5);
    third.barrier();
    assert!(third.updates.is_empty());
    // Its connection is lost.
    let [_, second, mut third] = members;
    drop(second);
    let (correlation, 3, true) = third.next_update() else { panic!("the third one is active") };
    third.answer_update(correlation, OffsetSpec::None);
    third.read_to(3, 10);
    assert_eq!(third.subscriptions[&3].chunks[0].first, 0, "where it subscribed");
    third.close();
    finish(&node);
}

#[test]
fn a_group_has_consumers_of_one_partition() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    create_super_stream(&mut client, "ss", &["ss-0".to_owned(), "ss-1".to_owned()]);
    let refused = number(ResponseCode::PreconditionFailed);
    join(&mut client, 1, "ss-0", None);
    let of_super_stream: Vec<_> = GROUP.into_iter().chain([("super-stream", "ss")]).collect();
    assert_eq!(client.try_subscribe(2, "ss-0", OffsetSpec::First, 10, &of_super_stream), refused);
    join(&mut client, 2, "ss-1", Some("ss"));
    assert_eq!(client.try_subscribe(3, "ss-1", OffsetSpec::First, 10, &GROUP), refused);
    join(&mut client, 3, "ss-1", Some("ss"));
    client.close();
    finish(&node);
}

#[test]
fn super_streams_have_rabbitmqs_names_routes_and_refusals() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    create_super_stream(&mut client, "ss\n", &["ss-\r\n0".to_owned(), "ss-1".to_owned()]);
    assert_eq!(client.partitions("ss"), ["ss-0", "ss-1"]);
    assert_eq!(client.routes("1", "ss"), ["ss-1"]);
    let http = node.http();
    let shown = http.get("/api/queues/%2F/ss-0").expect("an answer").json();
    assert_eq!(shown["arguments"]["x-queue-leader-locator"], "balanced");
    // Any exchange with streams routes by its type.
    let exchange = json!({"type": "topic", "durable": true});
    assert_eq!(http.put("/api/exchanges/%2F/topics", &exchange).expect("an answer").status, 201);
    for (stream, key) in [("ss-0", "a.*"), ("ss-1", "*.b")] {
        let path = format!("/api/bindings/%2F/e/topics/q/{stream}");
        assert_eq!(http.post(&path, &json!({"routing_key": key})).expect("an answer").status, 201);
    }
    assert_eq!(client.routes("a.b", "topics"), ["ss-0", "ss-1"]);
    assert_eq!(client.routes("a.c", "topics"), ["ss-0"]);
    // A partition with several bindings is named once, whichever of them match. All are its partitions, as in RabbitMQ.
    let bind = json!({"routing_key": "0"});
    assert_eq!(http.post("/api/bindings/%2F/e/ss/q/ss-1", &bind).expect("an answer").status, 201);
    assert_eq!(client.routes("0", "ss"), ["ss-0", "ss-1"]);
    assert_eq!(client.routes("1", "ss"), ["ss-1"]);
    assert_eq!(client.partitions("ss").len(), 3);
    let missing = number(ResponseCode::StreamDoesNotExist);
    for name in ["amq.direct", "amq.none", "none", "topics"] {
        let code = client.code(|out, correlation| request::delete_super_stream(out, correlation, name));
        assert_eq!(code, missing, "{name}");
    }
    client.close();
    finish(&node);
}

fn create_super_stream(client: &mut StreamClient, name: &str, partitions: &[String]) {
    let keys: Vec<String> = (0..partitions.len()).map(|number| number.to_string()).collect();
    let code = client.code(|out, correlation| {
        let (partitions, keys) = (partitions.iter().map(String::as_str), keys.iter().map(String::as_str));
        request::create_super_stream(out, correlation, name, partitions, keys, []);
    });
    assert_eq!(code, OK);
}

/// Answers changes of activity until the number of each partition picks its member.
fn until_spread(members: &mut [StreamClient], active: &mut [Vec<bool>]) {
    let count = members.len();
    let deadline = Instant::now() + PATIENCE;
    let is_spread = |active: &[Vec<bool>]| {
        (0..).zip(active).all(|(member, active)| (0..).zip(active).all(|(id, is)| *is == (id % count == member)))
    };
    while !is_spread(active) {
        assert!(Instant::now() < deadline, "{active:?}");
        for (member, active) in members.iter_mut().zip(&mut *active) {
            member.barrier();
            while let Some((correlation, id, becomes)) = member.updates.pop_front() {
                active[usize::from(id)] = becomes;
                member.answer_update(correlation, if becomes { OffsetSpec::First } else { OffsetSpec::None });
            }
        }
    }
}

#[test]
fn partitions_are_spread_over_the_members_of_a_group() {
    let Some(node) = node() else { return };
    let partitions: Vec<String> = (0..3).map(|number| format!("super-{number}")).collect();
    let mut members = vec![StreamClient::open(node.streams())];
    create_super_stream(&mut members[0], "super", &partitions);
    assert_eq!(members[0].partitions("super"), partitions);
    let mut active: Vec<Vec<bool>> = Vec::new();
    for count in 1..=3 {
        if members.len() < count {
            members.push(StreamClient::open(node.streams()));
        }
        let member = members.last_mut().expect("a member");
        for (id, stream) in (0..).zip(&partitions) {
            join(member, id, stream, Some("super"));
        }
        active.push(vec![false; 3]);
        until_spread(&mut members, &mut active);
    }
    // One leaves: the others take its partitions.
    drop(members.remove(1));
    active.remove(1);
    until_spread(&mut members, &mut active);
    for (stream, partition) in partitions.iter().zip(0..) {
        let mut publisher = StreamClient::open(node.streams());
        publisher.publisher(1, "", stream);
        publisher.publish(1, numbered(0..=4));
        publisher.confirms();
        let reader = active.iter().position(|active| active[partition]).expect("one is active");
        members[reader].read_to(u8::try_from(partition).expect("small"), 5);
        publisher.close();
    }
    assert_eq!(bodies(node.streams(), "super-0", 5).len(), 5);
    finish(&node);
}

#[test]
fn a_member_that_never_answers_is_replaced_within_a_second() {
    let Some(node) = node() else { return };
    let mut owner = StreamClient::open(node.streams());
    let partitions: Vec<String> = (0..2).map(|number| format!("super-{number}")).collect();
    create_super_stream(&mut owner, "super", &partitions);
    let (mut silent, mut other) = (StreamClient::open(node.streams()), StreamClient::open(node.streams()));
    join(&mut silent, 1, "super-1", Some("super"));
    let (correlation, 1, true) = silent.next_update() else { panic!("it is active") };
    silent.answer_update(correlation, OffsetSpec::First);
    // The second of two partitions is for the second of two members.
    join(&mut other, 1, "super-1", Some("super"));
    let begin = Instant::now();
    let (_, 1, false) = silent.next_update() else { panic!("it is to step down") };
    let (correlation, 1, true) = other.next_update() else { panic!("the other one is active") };
    assert!(begin.elapsed() < REST_MAX + Duration::from_secs(1), "{:?}", begin.elapsed());
    other.answer_update(correlation, OffsetSpec::First);
    owner.publisher(1, "", "super-1");
    owner.publish(1, numbered(0..=9));
    owner.confirms();
    other.read_to(1, 10);
    silent.barrier();
    assert_eq!(silent.subscriptions[&1].received, 0);
    // One that doesn't answer that it is active gets nothing, and makes way by leaving.
    drop(other);
    let (_, 1, true) = silent.next_update() else { panic!("it is active again") };
    silent.barrier();
    assert_eq!(silent.subscriptions[&1].received, 0, "it hasn't answered");
    finish(&node);
}
