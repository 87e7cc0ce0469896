//! A quorum queue with a single active consumer while nodes of a cluster go.

use leveret_tests::wire::Wire;
use serde_json::json;

use crate::Cluster;
use crate::replicated::{NumberPublisher, known_leader, leader, make_leader, number, shown};

/// Three nodes that wait for an active consumer longer than a test lasts, and such a queue that the first of them leads.
fn with_single(timeout_ms: Option<u64>) -> Cluster {
    let cluster = Cluster::start_with(3, |options| options.set("consumer_disconnected_timeout", "1h"));
    let mut arguments = json!({"x-queue-type": "quorum", "x-single-active-consumer": true});
    if let Some(timeout_ms) = timeout_ms {
        arguments["x-consumer-disconnected-timeout"] = timeout_ms.into();
    }
    let body = json!({"durable": true, "arguments": arguments});
    let answer = cluster.nodes[0].http().put("/api/queues/%2F/q", &body).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
    make_leader(&cluster, 0, "q");
    (1..3).for_each(|at| cluster.wait_until("the leader is known", |cluster| leader(cluster, at, "q") == Some(0)));
    cluster
}

/// A consumer that has at most three messages at a time.
fn consumer(cluster: &Cluster, at: usize) -> Wire {
    let mut consumer = Wire::open(cluster.nodes[at].amqp());
    consumer.prefetch(1, 3);
    consumer.consume(1, "q", false);
    consumer
}

/// The numbers of the next deliveries, and whether they came before.
fn take(consumer: &mut Wire, count: usize) -> Vec<(u32, bool)> {
    let one = |_| {
        let (_, redelivered, body) = consumer.delivery();
        (number(&body), redelivered)
    };
    (0..count).map(one).collect()
}

fn new(numbers: std::ops::Range<u32>) -> Vec<(u32, bool)> {
    numbers.map(|number| (number, false)).collect()
}

fn again(numbers: std::ops::Range<u32>) -> Vec<(u32, bool)> {
    numbers.map(|number| (number, true)).collect()
}

/// The queue's consumers, as the leader says it.
fn consumers(cluster: &Cluster, at: usize) -> Vec<serde_json::Value> {
    let shown = shown(cluster, at, "q").unwrap_or_default();
    shown["consumer_details"].as_array().cloned().unwrap_or_default()
}

/// The number of those that are active.
fn active(cluster: &Cluster, at: usize) -> usize {
    consumers(cluster, at).iter().filter(|consumer| consumer["activity_status"] == "single_active").count()
}

#[test]
fn the_active_consumer_and_its_successors_outlive_the_leader() {
    let mut cluster = with_single(None);
    let (mut first, mut second, mut third) = (consumer(&cluster, 1), consumer(&cluster, 2), consumer(&cluster, 1));
    NumberPublisher::open(&cluster, 1).publish(0..9);
    assert_eq!(take(&mut first, 3), new(0..3));
    cluster.nodes[0].kill();
    cluster.wait_until("another one leads", |cluster| leader(cluster, 1, "q").is_some_and(|at| at != 0));
    first.ack(1, 3, true);
    let numbers = |taken: Vec<(u32, bool)>| taken.into_iter().map(|(number, _)| number).collect::<Vec<_>>();
    assert_eq!(numbers(take(&mut first, 3)), [3, 4, 5], "it goes on, and keeps what it has");
    // The next ones are those that came next, wherever they are, once they are registered there.
    let leader_at = known_leader(&cluster, 1, "q");
    cluster.wait_until("all are registered", |cluster| consumers(cluster, leader_at).len() == 3);
    first.close();
    assert_eq!(take(&mut second, 3), again(3..6), "it got nothing before");
    second.ack(1, 3, true);
    assert_eq!(numbers(take(&mut second, 3)), [6, 7, 8]);
    second.close();
    assert_eq!(take(&mut third, 3), again(6..9), "it got nothing before");
    cluster.wait_until("one is active", |cluster| active(cluster, leader_at) == 1);
}

#[test]
fn another_is_active_once_the_node_of_the_last_one_is_gone() {
    let mut cluster = with_single(None);
    let mut publisher = NumberPublisher::open(&cluster, 0);
    let (mut first, mut second) = (consumer(&cluster, 1), consumer(&cluster, 2));
    publisher.publish(0..3);
    assert_eq!(take(&mut first, 3), new(0..3));
    // Nothing listens there any more, so that nobody waits for the time that is set.
    cluster.nodes[1].kill();
    assert_eq!(take(&mut second, 3), again(0..3));
    // The same if the leader goes with it.
    cluster.nodes[1].restart();
    cluster.wait_until("it is a member", |cluster| leader(cluster, 1, "q") == Some(0));
    make_leader(&cluster, 2, "q");
    cluster.wait_until("all know it", |cluster| (0..2).all(|at| leader(cluster, at, "q") == Some(2)));
    let mut third = consumer(&cluster, 0);
    cluster.nodes[2].kill();
    assert_eq!(take(&mut third, 3), again(0..3));
}

#[test]
fn nobody_else_is_active_while_a_node_cannot_be_reached() {
    let cluster = with_single(None);
    let (mut first, mut second) = (consumer(&cluster, 1), consumer(&cluster, 2));
    NumberPublisher::open(&cluster, 0).publish(0..6);
    assert_eq!(take(&mut first, 3), new(0..3));
    cluster.nodes[1].pause();
    cluster.wait_until("it isn't reached", |cluster| cluster.members(&cluster.nodes[0]).len() == 2);
    cluster.wait_until("nobody is active", |cluster| active(cluster, 0) == 0);
    // Another leader doesn't know more.
    make_leader(&cluster, 2, "q");
    assert_eq!(active(&cluster, 2), 0);
    cluster.nodes[1].resume();
    cluster.wait_until("it is active again", |cluster| active(cluster, 2) == 1);
    assert_eq!(take(&mut first, 3), again(0..3), "the link was lost");
    first.ack(1, 6, true);
    assert_eq!(take(&mut first, 3).len(), 3);
    first.close();
    assert_eq!(take(&mut second, 3), again(3..6), "it got nothing before");
}

#[test]
fn another_consumer_is_active_after_the_time_that_a_queue_sets() {
    let cluster = with_single(Some(1000));
    let mut publisher = NumberPublisher::open(&cluster, 0);
    let (mut first, mut second) = (consumer(&cluster, 1), consumer(&cluster, 2));
    publisher.publish(0..3);
    assert_eq!(take(&mut first, 3), new(0..3));
    cluster.nodes[1].pause();
    assert_eq!(take(&mut second, 3), again(0..3));
    cluster.nodes[1].resume();
    cluster.wait_until("it is a member again", |cluster| cluster.members(&cluster.nodes[0]).len() == 3);
    second.ack(1, 3, true);
    publisher.publish(3..4);
    assert_eq!(take(&mut second, 1), new(3..4), "the first one waits");
}
