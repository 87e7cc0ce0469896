//! Messages that clients hold of a quorum queue while its leader changes.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;

use leveret_tests::wire::{Wire, Writer, method, method_frame};

use crate::Cluster;
use crate::replicated::{NumberPublisher, declare, known_leader, leader, number, shown, with_queue};

/// A consumer with this prefetch.
fn consumer(cluster: &Cluster, at: usize, prefetch: u16) -> Wire {
    let mut consumer = Wire::open(cluster.nodes[at].amqp());
    consumer.prefetch(1, prefetch);
    consumer.consume(1, "q", false);
    consumer
}

/// Takes so many deliveries: the tag of the last one, and their numbers.
fn take(consumer: &mut Wire, count: usize) -> (u64, BTreeSet<u32>) {
    let taken: Vec<_> = (0..count).map(|_| consumer.delivery()).collect();
    let last = taken.last().expect("some are taken").0;
    (last, taken.iter().map(|(.., body)| number(body)).collect())
}

/// Gets a message: its tag and its number.
fn get(wire: &mut Wire) -> (u64, u32) {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("q").put_octet(0);
    wire.send(&method_frame(1, method::BASIC_GET, &arguments));
    let answer = wire.next_method(method::BASIC_GET_OK).expect("a message");
    let tag = answer.arguments().long_long();
    (tag, number(&wire.content().expect("a body")))
}

#[test]
fn clients_keep_what_they_hold_without_the_leader() {
    let mut cluster = with_queue("q");
    let leader_at = known_leader(&cluster, 0, "q");
    let (one, other) = ((leader_at + 1) % 3, (leader_at + 2) % 3);
    NumberPublisher::open(&cluster, one).publish(0..60);
    let (mut first, mut second) = (consumer(&cluster, one, 10), consumer(&cluster, other, 10));
    let ((first_tag, of_first), (second_tag, of_second)) = (take(&mut first, 10), take(&mut second, 10));
    let mut getter = Wire::open(cluster.nodes[other].amqp());
    let (get_tag, got) = get(&mut getter);
    cluster.nodes[leader_at].kill();
    cluster.wait_until("another one leads", |cluster| leader(cluster, one, "q").is_some_and(|at| at != leader_at));
    let held: BTreeSet<u32> = of_first.iter().chain(&of_second).copied().chain([got]).collect();
    assert_eq!(held.len(), 21);
    let unacknowledged = |cluster: &Cluster| shown(cluster, one, "q")?["messages_unacknowledged"].as_u64();
    // Its figures are what was last counted.
    cluster.wait_until("the next leader knows", |cluster| unacknowledged(cluster) == Some(21));
    // With their acknowledgements they get others, and their prefetch is what it was.
    first.ack(1, first_tag, true);
    second.ack(1, second_tag, true);
    let ((first_tag, more), (_, more_of_second)) = (take(&mut first, 10), take(&mut second, 10));
    let seen: BTreeSet<u32> = held.iter().chain(&more).chain(&more_of_second).copied().collect();
    assert_eq!(seen.len(), 41, "nobody got what somebody had");
    getter.ack(1, get_tag, false);
    // One leaves, the other one gets the rest and what was held.
    drop(second);
    first.ack(1, first_tag, true);
    let mut rest = BTreeSet::new();
    while rest.len() < 29 {
        let (tag, _, body) = first.delivery();
        assert!(rest.insert(number(&body)), "{} came twice", number(&body));
        first.ack(1, tag, false);
    }
    assert!(rest.is_superset(&more_of_second), "they come again");
    assert!(rest.is_disjoint(&held) && rest.is_disjoint(&more), "they were acknowledged");
    cluster.wait_until("nothing is left", |cluster| {
        shown(cluster, one, "q").is_some_and(|shown| shown["messages"] == 0 && shown["messages_unacknowledged"] == 0)
    });
}

#[test]
fn nothing_comes_twice_to_those_who_live() {
    const ALL: u32 = 3000;
    let mut cluster = Cluster::start(4);
    declare(&cluster, 0, "q");
    let members: Vec<usize> = {
        let shown = shown(&cluster, 0, "q").expect("it is shown");
        let names = shown["members"].as_array().expect("a list").clone();
        (0..4).filter(|at| names.iter().any(|name| *name == cluster.name(*at))).collect()
    };
    // All clients are on the node that has none of it.
    let without = (0..4).find(|at| !members.contains(at)).expect("three of four are members");
    let mut publisher = NumberPublisher::open(&cluster, without);
    let mut consumer = consumer(&cluster, without, 50);
    let (tell, told) = mpsc::channel();
    let taking = thread::spawn(move || {
        let (mut seen, mut twice, mut unacknowledged) = (BTreeSet::new(), Vec::new(), 0);
        while seen.len() < ALL as usize {
            let (tag, _, body) = consumer.delivery();
            if !seen.insert(number(&body)) {
                twice.push(number(&body));
            }
            unacknowledged += 1;
            // Some are held for a while.
            if unacknowledged == 30 || seen.len() == ALL as usize {
                consumer.ack(1, tag, true);
                unacknowledged = 0;
            }
            tell.send(seen.len()).expect("it is waited for");
        }
        (consumer, twice)
    });
    for round in 0..3 {
        publisher.publish(round * ALL / 3..(round + 1) * ALL / 3 - 200);
        let seen = told.iter().find(|seen| *seen > (round * ALL / 3) as usize + 100);
        assert!(seen.is_some());
        let leader_at = known_leader(&cluster, without, "q");
        cluster.nodes[leader_at].kill();
        publisher.publish((round + 1) * ALL / 3 - 200..(round + 1) * ALL / 3);
        cluster.nodes[leader_at].restart();
        cluster.wait_until("it has a leader", |cluster| leader(cluster, leader_at, "q").is_some());
    }
    let (consumer, twice) = taking.join().expect("it takes all");
    assert_eq!(twice, Vec::<u32>::new(), "they came twice");
    cluster.wait_until("nothing is left", |cluster| {
        shown(cluster, without, "q").is_some_and(|shown| shown["messages"] == 0)
    });
    drop(consumer);
}
