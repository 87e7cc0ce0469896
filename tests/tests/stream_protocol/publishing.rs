//! Publishers: confirms, and names by which messages that come twice are stored once.

use leveret_tests::stream::{OK, ResponseCode, StreamClient, number};

use super::{bodies, finish, node, numbered, texts};

#[test]
fn every_message_is_confirmed_and_stored_in_order() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    for publisher in 0..3 {
        client.publisher(publisher, "", "s");
    }
    for frame in 0..10 {
        for publisher in 0..3 {
            let ids = frame * 100 + 1..=frame * 100 + 100;
            client.publish(publisher, ids.map(|id| (id, format!("{publisher}:{id}"))));
        }
    }
    client.confirms();
    for publisher in 0..3 {
        assert!(client.confirmed[&publisher].iter().copied().eq(1..=1000), "publisher {publisher}");
    }
    let stored = bodies(node.streams(), "s", 3000);
    for publisher in 0..3 {
        let beginning = format!("{publisher}:");
        let of_it = stored.iter().filter_map(|body| body.strip_prefix(&beginning));
        assert!(of_it.eq(&texts(1..=1000)), "publisher {publisher}");
    }
    assert_eq!(client.statistic("s", "committed_offset"), 2999);
    client.close();
    finish(&node);
}

#[test]
fn a_name_goes_on_after_a_reconnect_and_stores_nothing_twice() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "orders", "s");
    client.publish(1, numbered(1..=100));
    client.confirms();
    // It goes without a word, and what it sends last isn't answered.
    client.publish(1, numbered(101..=150));
    client.wait("a confirm of the last ones", |client| client.confirmed[&1].len() > 100);
    drop(client);

    let mut client = StreamClient::open(node.streams());
    client.publisher(9, "orders", "s");
    let last = client.last_id("orders", "s");
    assert!((101..=150).contains(&last), "{last}");
    client.publish(9, numbered(51..=200));
    client.confirms();
    assert_eq!(client.confirmed[&9].len(), 150, "those that are known are confirmed as well");
    assert_eq!(client.last_id("orders", "s"), 200);
    assert_eq!(client.last_id("another", "s"), 0);
    assert_eq!(bodies(node.streams(), "s", 200), texts(1..=200));
    client.close();
    finish(&node);
}

#[test]
fn ids_that_go_back_are_confirmed_and_not_stored() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "name", "s");
    let ids = [10, 5, 10, 11, 0, 11, u64::MAX, 12, u64::MAX];
    client.publish(1, ids.map(|id| (id, id.to_string())));
    client.confirms();
    assert_eq!(client.confirmed[&1].len(), ids.len());
    assert_eq!(bodies(node.streams(), "s", 3), texts([10, 11, u64::MAX]));
    // Without a name ids mean nothing.
    client.publisher(2, "", "s");
    client.publish(2, [5, 5, 4].map(|id| (id, id.to_string())));
    client.confirms();
    assert_eq!(bodies(node.streams(), "s", 6)[3..], texts([5, 5, 4]));
    client.close();
    finish(&node);
}

#[test]
fn a_name_is_told_the_number_of_its_last_message() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "name", "s");
    assert_eq!(client.last_id("name", "s"), 0);
    // The question comes while the messages are being written. Another connection asks then, too.
    let mut other = StreamClient::open(node.streams());
    for last in (10..=300).step_by(10) {
        client.publish(1, numbered(last - 9..=last));
        assert_eq!(client.last_id("name", "s"), last);
        assert_eq!(other.last_id("name", "s"), last);
    }
    client.confirms();
    client.close();
    other.close();
    finish(&node);
}

#[test]
fn connections_that_share_a_name_store_each_message_once() {
    let Some(node) = node() else { return };
    let mut clients = [(); 3].map(|()| StreamClient::open(node.streams()));
    clients[0].create("s");
    for client in &mut clients {
        client.publisher(1, "shared", "s");
    }
    for first in (1..=1000).step_by(50) {
        for client in &mut clients {
            client.publish(1, numbered(first..=first + 49));
        }
    }
    for client in &mut clients {
        client.confirms();
        assert_eq!(client.confirmed[&1].len(), 1000);
    }
    assert_eq!(clients[0].last_id("shared", "s"), 1000);
    // Messages of one that is overtaken are known by then, so they may be missing. None is there twice, and none out of order.
    let count = u64::try_from(clients[0].statistic("s", "committed_offset") + 1).expect("a number");
    let stored = bodies(node.streams(), "s", count);
    let ids: Vec<u64> = stored.iter().map(|body| body.parse().expect("an id")).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert_eq!(ids.last(), Some(&1000));
    finish(&node);
}

#[test]
fn publishes_without_a_publisher_are_refused_one_by_one() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publish(7, numbered(1..=3));
    client.wait("refusals", StreamClient::is_answered);
    let code = number(ResponseCode::PublisherDoesNotExist);
    assert_eq!(std::mem::take(&mut client.refused), [1, 2, 3].map(|id| (7, id, code)));
    client.publisher(7, "", "s");
    client.publish(7, numbered(4..=4));
    client.confirms();
    assert_eq!(client.declare(7, "", "s"), number(ResponseCode::PreconditionFailed), "the id is taken");
    assert_eq!(client.declare(8, "", "none"), number(ResponseCode::StreamDoesNotExist));
    assert_eq!(client.declare(8, "", "s"), OK);
    client.close();
    finish(&node);
}
