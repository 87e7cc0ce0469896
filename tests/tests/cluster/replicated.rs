//! Quorum queues with members on several nodes.

use std::cell::Cell;
use std::collections::BTreeSet;

use leveret_tests::amqp10::Amqp10;
use leveret_tests::node::Node;
use leveret_tests::wire::{Confirmed, Wire, publish};
use serde_json::{Value, json};

use crate::Cluster;

/// Three nodes, and a quorum queue that all know, with a leader.
pub(crate) fn with_queue(name: &str) -> Cluster {
    with_queue_of(name, 0)
}

/// The same with a queue that this node is to lead.
fn with_queue_of(name: &str, leader_at: usize) -> Cluster {
    let cluster = Cluster::start(3);
    declare(&cluster, leader_at, name);
    for at in 0..3 {
        cluster.wait_until("it has a leader", |cluster| leader(cluster, at, name).is_some());
    }
    cluster
}

pub(crate) fn declare(cluster: &Cluster, at: usize, name: &str) {
    let body = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
    let answer = cluster.nodes[at].http().put(&format!("/api/queues/%2F/{name}"), &body).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
}

pub(crate) fn shown(cluster: &Cluster, at: usize, name: &str) -> Option<Value> {
    let answer = cluster.nodes[at].http().get(&format!("/api/queues/%2F/{name}")).ok()?;
    (answer.status == 200).then(|| answer.json())
}

/// The index of the node that leads a queue, as a node says.
pub(crate) fn leader(cluster: &Cluster, at: usize, name: &str) -> Option<usize> {
    let leader = shown(cluster, at, name)?["leader"].as_str()?.to_owned();
    (0..cluster.nodes.len()).find(|at| cluster.name(*at) == leader)
}

/// The same, once the node knows it.
pub(crate) fn known_leader(cluster: &Cluster, at: usize, name: &str) -> usize {
    let known = Cell::new(None);
    cluster.wait_until("the leader is known", |cluster| {
        known.set(leader(cluster, at, name));
        known.get().is_some()
    });
    known.get().expect("it is known")
}

/// A connection that publishes numbers with confirms.
pub(crate) struct NumberPublisher {
    wire: Wire,
    queue: String,
    confirmed: Confirmed,
    sent: u64,
}

impl NumberPublisher {
    /// One that publishes to the queue `q`.
    pub(crate) fn open(cluster: &Cluster, at: usize) -> Self {
        Self::to(cluster, at, "q")
    }

    pub(crate) fn to(cluster: &Cluster, at: usize, queue: &str) -> Self {
        let mut wire = Wire::open(cluster.nodes[at].amqp());
        wire.confirm_select(1);
        Self { wire, queue: queue.to_owned(), confirmed: Confirmed::default(), sent: 0 }
    }

    fn send(&mut self, number: u32) {
        self.wire.send(&publish(1, "", &self.queue, &number.to_be_bytes(), false, true));
        self.sent += 1;
    }

    /// Waits until all are confirmed.
    fn confirms(&mut self) {
        while self.confirmed.count() < self.sent {
            self.confirmed.wait(&mut self.wire);
        }
    }

    pub(crate) fn publish(&mut self, numbers: impl IntoIterator<Item = u32>) {
        numbers.into_iter().for_each(|number| self.send(number));
        self.confirms();
    }
}

pub(crate) fn number(body: &[u8]) -> u32 {
    u32::from_be_bytes(body.try_into().expect("a number"))
}

#[test]
fn a_quorum_queue_has_members_on_three_nodes_and_serves_all() {
    let cluster = with_queue("q");
    let shown = shown(&cluster, 1, "q").expect("it is shown");
    let members: BTreeSet<&str> =
        shown["members"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(members.len(), 3, "{shown}");
    assert_eq!(shown["online"].as_array().map(Vec::len), Some(3), "{shown}");
    for at in 0..3 {
        NumberPublisher::open(&cluster, at).publish(0..300);
        let mut consumer = Wire::open(cluster.nodes[(at + 1) % 3].amqp());
        consumer.prefetch(1, 20);
        consumer.consume(1, "q", false);
        for expected in 0..300 {
            let (tag, redelivered, body) = consumer.delivery();
            assert_eq!((redelivered, number(&body)), (false, expected));
            consumer.ack(1, tag, false);
        }
        cluster.wait_until("all are settled", |cluster| Wire::open(cluster.nodes[0].amqp()).message_count(1, "q") == 0);
    }
}

#[test]
fn clients_do_not_notice_the_loss_of_a_leader() {
    let mut cluster = with_queue("q");
    let leader_at = known_leader(&cluster, 0, "q");
    let (one, other) = ((leader_at + 1) % 3, (leader_at + 2) % 3);
    let mut publisher = NumberPublisher::open(&cluster, one);
    publisher.publish(0..200);
    let mut consumer = Wire::open(cluster.nodes[other].amqp());
    consumer.prefetch(1, 10);
    consumer.consume(1, "q", false);
    let (tag, _, first) = consumer.delivery();
    assert_eq!(number(&first), 0);
    consumer.ack(1, tag, false);
    cluster.nodes[leader_at].kill();
    // Each is confirmed, none is refused.
    publisher.publish(200..300);
    // The consumer goes on under its tag. What it gets twice is flagged, and nothing is missing.
    let mut seen = BTreeSet::from([0]);
    while seen.len() < 300 {
        let (tag, redelivered, body) = consumer.delivery();
        assert!(seen.insert(number(&body)) || redelivered, "{} came again without a flag", number(&body));
        consumer.ack(1, tag, false);
    }
    assert_eq!(seen, (0..300).collect());
    // A node that was away catches up, and clients use it.
    cluster.nodes[leader_at].restart();
    let mut again = NumberPublisher::open(&cluster, leader_at);
    again.publish(300..310);
    for expected in 300..310 {
        let (tag, _, body) = consumer.delivery();
        assert_eq!(number(&body), expected);
        consumer.ack(1, tag, false);
    }
    // It would take what is published last.
    drop(consumer);
    let next = known_leader(&cluster, one, "q");
    cluster.nodes[next].kill();
    let at = [leader_at, one, other].into_iter().find(|at| *at != next).expect("two run");
    let mut last = NumberPublisher::open(&cluster, at);
    last.publish(310..320);
    let mut consumer = Wire::open(cluster.nodes[at].amqp());
    consumer.consume(1, "q", false);
    let mut seen = BTreeSet::new();
    while seen.len() < 10 {
        seen.extend(Some(number(&consumer.delivery().2)).filter(|number| *number >= 310));
    }
}

#[test]
fn publishes_during_changes_of_the_leader_are_carried_out_once() {
    let mut cluster = with_queue_of("q", 1);
    let mut publisher = NumberPublisher::open(&cluster, 0);
    for round in 0..3u32 {
        let leader_at = known_leader(&cluster, 0, "q");
        let from = round * 400;
        for number in from..from + 400 {
            publisher.send(number);
            if number == from + 200 && leader_at != 0 {
                cluster.nodes[leader_at].kill();
            }
        }
        publisher.confirms();
        if leader_at != 0 {
            cluster.nodes[leader_at].restart();
        }
        cluster.wait_until("it has a leader", |cluster| leader(cluster, 0, "q").is_some());
    }
    cluster.wait_until("none is missing, and none is there twice", |cluster| {
        Wire::open(cluster.nodes[1].amqp()).message_count(1, "q") == 1200
    });
    let mut consumer = Wire::open(cluster.nodes[1].amqp());
    consumer.consume(1, "q", false);
    for expected in 0..1200 {
        assert_eq!(number(&consumer.delivery().2), expected);
    }
}

#[test]
fn a_minority_confirms_nothing_and_loses_nothing() {
    let mut cluster = with_queue("q");
    let mut publisher = NumberPublisher::open(&cluster, 0);
    publisher.publish(0..10);
    cluster.nodes[1].kill();
    cluster.nodes[2].kill();
    for number in 10..20u32 {
        publisher.send(number);
    }
    cluster.wait_until("it has no leader", |cluster| shown(cluster, 0, "q").is_some_and(|shown| shown["leader"] == ""));
    let list = cluster.nodes[0].http().get("/api/queues").expect("an answer").json();
    assert_eq!(list.as_array().map(Vec::len), Some(1), "it is in lists: {list}");
    let purged = cluster.nodes[0].http().delete("/api/queues/%2F/q/contents").expect("an answer");
    assert!(purged.status != 204 && purged.body.contains("has no leader"), "{} {}", purged.status, purged.body);
    cluster.nodes[1].restart();
    publisher.confirms();
    let mut consumer = Wire::open(cluster.nodes[0].amqp());
    assert_eq!(consumer.message_count(1, "q"), 20);
}

/// Consumes the messages below this number, which are ready, and acknowledges them.
fn settle_below(cluster: &Cluster, at: usize, limit: u32) -> Vec<u32> {
    let mut consumer = Wire::open(cluster.nodes[at].amqp());
    consumer.prefetch(1, 200);
    consumer.consume(1, "q", false);
    let mut settled = Vec::new();
    loop {
        let (tag, _, body) = consumer.delivery();
        if number(&body) >= limit {
            break;
        }
        settled.push(number(&body));
        consumer.ack(1, tag, false);
    }
    consumer.close();
    settled
}

#[test]
fn a_quorum_queue_survives_a_restart_of_all_nodes() {
    let mut cluster = with_queue("q");
    NumberPublisher::open(&cluster, 1).publish(0..500);
    let mut published = 500;
    let count = |cluster: &Cluster, at: usize| Wire::open(cluster.nodes[at].amqp()).message_count(1, "q");
    let term = |cluster: &Cluster| rows(cluster, 0, "q").first().map(|row| row["Term"].clone());
    for round in 0..2u32 {
        (0..3).for_each(|at| cluster.nodes[at].kill());
        (0..3).for_each(|at| cluster.nodes[at].restart());
        // Until a leader is elected, a passive declaration answers 0.
        cluster.wait_until("all are there", |cluster| count(cluster, 2) == published - 100 * round);
        let limit = 100 * (round + 1);
        let mut is_first = true;
        loop {
            let before = term(&cluster);
            let settled = settle_below(&cluster, 2, limit);
            assert!(!is_first || settled.iter().copied().eq(100 * round..limit), "{settled:?}");
            cluster.wait_until("they are settled", |cluster| count(cluster, 0) == published - limit);
            // Acknowledgements aren't confirmed, but whatever comes behind them at the leader is.
            NumberPublisher::open(&cluster, 1).publish(published..published + 1);
            published += 1;
            if before == term(&cluster) {
                break;
            }
            // On a slow machine another member leads by now, to which those on their way are unknown.
            is_first = false;
        }
    }
}

#[test]
fn a_queue_is_purged_and_deleted_through_any_node() {
    let cluster = with_queue("q");
    NumberPublisher::open(&cluster, 1).publish(0..50);
    let answer = cluster.nodes[2].http().delete("/api/queues/%2F/q/contents").expect("an answer");
    assert_eq!(answer.status, 204, "{}", answer.body);
    assert_eq!(Wire::open(cluster.nodes[0].amqp()).message_count(1, "q"), 0);
    let mut consumers: Vec<_> = cluster.nodes.iter().map(|node| Amqp10::open(node.amqp())).collect();
    consumers.iter_mut().for_each(|consumer| consumer.receiver(1, "/queues/q", 10));
    let answer = cluster.nodes[1].http().delete("/api/queues/%2F/q").expect("an answer");
    assert_eq!(answer.status, 204, "{}", answer.body);
    for mut consumer in consumers {
        assert_eq!(consumer.error().condition, "amqp:resource-deleted");
    }
    declare(&cluster, 2, "q");
    assert_eq!(Wire::open(cluster.nodes[0].amqp()).message_count(1, "q"), 0);
}

/// The publisher's node has published to the earlier leader, and has nothing open when that is lost.
#[test]
fn a_lone_publish_behind_a_change_of_the_leader_is_confirmed() {
    let mut cluster = with_queue("q");
    let leader_at = known_leader(&cluster, 0, "q");
    let other = (leader_at + 1) % 3;
    let mut publisher = NumberPublisher::open(&cluster, other);
    publisher.publish(0..10);
    cluster.nodes[leader_at].kill();
    cluster.wait_until("another one leads", |cluster| leader(cluster, other, "q").is_some_and(|at| at != leader_at));
    publisher.publish(10..11);
}

#[test]
fn credit_is_exact_although_the_leader_changes() {
    let mut cluster = with_queue("q");
    let leader_at = known_leader(&cluster, 0, "q");
    let (one, other) = ((leader_at + 1) % 3, (leader_at + 2) % 3);
    NumberPublisher::open(&cluster, one).publish(0..60);
    let mut receiver = Amqp10::open(cluster.nodes[other].amqp());
    receiver.receiver(1, "/queues/q", 0);
    receiver.grant(1, 20);
    (0..20).for_each(|_| drop(receiver.receive(1)));
    cluster.nodes[leader_at].kill();
    cluster.wait_until("another one leads", |cluster| leader(cluster, other, "q").is_some_and(|at| at != leader_at));
    // Its credit was used up: it gets nothing before it grants more.
    receiver.barrier(0);
    assert_eq!(receiver.waiting(0, 1), 0, "a message came without credit");
    receiver.grant(1, 7);
    (0..7).for_each(|_| drop(receiver.receive(1)));
    receiver.barrier(0);
    assert_eq!(receiver.waiting(0, 1), 0, "a message came without credit");
}

#[test]
fn the_members_of_a_queue_are_shown_with_their_positions() {
    let cluster = with_queue("q");
    NumberPublisher::open(&cluster, 1).publish(0..10);
    // Nodes tell each other their positions: those of the other members are shown a moment later.
    cluster.wait_until("the leader, two followers and a position are shown", |cluster| {
        let answer = cluster.nodes[2].http().get("/api/queues/quorum/%2F/q/status").expect("an answer");
        let rows = answer.json();
        let rows = rows.as_array().expect("a list");
        let count = |state: &str| rows.iter().filter(|row| row["Raft State"] == state).count();
        (count("leader"), count("follower")) == (1, 2)
            && rows.iter().any(|row| row["Last Log Index"].as_u64() > Some(0))
    });
    // The metadata, and the placements that the leader's node is to lead.
    cluster.wait_until("metrics have the placements", |cluster| {
        let metrics = cluster.nodes[2].prometheus().get("/metrics/per-object").expect("metrics").body;
        assert!(!metrics.contains("rabbitmq_raft_commit_index{vhost"), "a replicated queue has no log of its own");
        metrics.lines().filter(|line| line.starts_with("rabbitmq_raft_commit_index{placement=")).count() > 8
    });
}

#[test]
fn a_member_that_is_forgotten_leaves_its_queues() {
    let mut cluster = with_queue("q");
    NumberPublisher::open(&cluster, 0).publish(0..100);
    cluster.nodes[2].kill();
    let gone = cluster.name(2);
    cluster.wait_until("it is seen", |cluster| cluster.members(&cluster.nodes[0]).len() == 2);
    cluster.well(0, &["forget_cluster_node", &gone]);
    cluster.wait_until("it left", |cluster| {
        shown(cluster, 1, "q").is_some_and(|queue| queue["members"].as_array().is_some_and(|all| all.len() == 2))
    });
    NumberPublisher::open(&cluster, 1).publish(100..200);
    assert_eq!(Wire::open(cluster.nodes[0].amqp()).message_count(1, "q"), 200);
}

/// The members of a queue with their positions, as a node says.
fn rows(cluster: &Cluster, at: usize, name: &str) -> Vec<Value> {
    let path = format!("/api/queues/quorum/%2F/{name}/status");
    let rows = cluster.nodes[at].http().get(&path).map(|answer| answer.json()).unwrap_or_default();
    rows.as_array().cloned().unwrap_or_default()
}

/// Waits until a member of a queue votes, and has every entry that the leader has.
pub(crate) fn wait_until_whole(cluster: &Cluster, at: usize, name: &str) {
    let member = cluster.name(at);
    cluster.wait_until("the member has everything", |cluster| {
        let Some(leader) = leader(cluster, at, name) else { return false };
        let rows = rows(cluster, leader, name);
        let last = |name: &str| {
            let row = rows.iter().find(|row| row["Node Name"] == name && row["Membership"] == "voter")?;
            row["Last Log Index"].as_u64().filter(|last| *last > 0)
        };
        last(&member).is_some() && last(&member) == last(&cluster.name(leader))
    });
}

/// Has a member lead a queue.
pub(crate) fn make_leader(cluster: &Cluster, at: usize, name: &str) {
    let (path, body) = (format!("/api/queues/quorum/%2F/{name}/replicas/leader"), json!({"node": cluster.name(at)}));
    cluster.wait_until("it leads", |cluster| {
        leader(cluster, at, name) == Some(at)
            || cluster.nodes[at].http().put(&path, &body).is_ok_and(|answer| answer.status == 204)
                && leader(cluster, at, name) == Some(at)
    });
}

/// Reads all messages of the queue `q`, which are ready, and settles them.
pub(crate) fn read_all(cluster: &Cluster, at: usize, count: usize) -> Vec<u32> {
    let mut consumer = Wire::open(cluster.nodes[at].amqp());
    consumer.consume(1, "q", false);
    let mut read = Vec::new();
    while read.len() < count {
        let (tag, _, body) = consumer.delivery();
        read.push(number(&body[..4]));
        consumer.ack(1, tag, false);
    }
    consumer.close();
    read
}

#[test]
fn a_member_that_lags_too_far_behind_gets_the_state() {
    let mut cluster = Cluster::start_with(3, |options| options.set("cluster.catch_up_bytes", "1MiB"));
    declare(&cluster, 0, "q");
    cluster.wait_until("it has a leader", |cluster| leader(cluster, 0, "q").is_some());
    let mut publisher = NumberPublisher::open(&cluster, 0);
    publisher.publish(0..100);
    cluster.nodes[2].kill();
    // An entry each.
    (100..400).for_each(|number| publisher.publish(number..number + 1));
    // Some are gone by then, and some are large.
    assert_eq!(read_all(&cluster, 1, 50), (0..50).collect::<Vec<_>>());
    let large = |number: u32| [&number.to_be_bytes()[..], &vec![7; 200_000]].concat();
    for number in 400..410 {
        publisher.wire.send(&publish(1, "", "q", &large(number), false, true));
        publisher.sent += 1;
    }
    publisher.confirms();
    let is_purged = |row: &Value| row["Snapshot Index"].as_u64() > Some(300);
    cluster.wait_until("entries are purged", |cluster| rows(cluster, 0, "q").iter().any(is_purged));
    cluster.nodes[2].restart();
    assert!(cluster.nodes[2].wait_for_line("its queues were completed by another member"));
    wait_until_whole(&cluster, 2, "q");
    publisher.publish(410..420);
    cluster.nodes[0].kill();
    make_leader(&cluster, 2, "q");
    assert_eq!(read_all(&cluster, 2, 370), (50..420).collect::<Vec<_>>());
    // Messages that came so are kept as all others.
    let mut publisher = NumberPublisher::open(&cluster, 2);
    publisher.publish(420..430);
    cluster.nodes[2].kill();
    cluster.nodes[2].restart();
    wait_until_whole(&cluster, 2, "q");
    make_leader(&cluster, 2, "q");
    assert_eq!(read_all(&cluster, 2, 10), (420..430).collect::<Vec<_>>());
}

#[test]
fn a_lost_member_is_replaced() {
    let (net, mut options) = Cluster::options(4);
    let last = options.pop().expect("four");
    let nodes = Cluster::started(options);
    let mut cluster = Cluster { net, nodes };
    cluster.wait_until("all are members", |cluster| cluster.nodes.iter().all(|node| cluster.members(node).len() == 3));
    declare(&cluster, 0, "q");
    cluster.wait_until("it has a leader", |cluster| leader(cluster, 0, "q").is_some());
    let mut publisher = NumberPublisher::open(&cluster, 0);
    publisher.publish(0..200);
    assert_eq!(read_all(&cluster, 1, 20), (0..20).collect::<Vec<_>>());
    cluster.nodes[2].kill();
    cluster.wait_until("it is seen", |cluster| cluster.members(&cluster.nodes[0]).len() == 2);
    cluster.well(0, &["forget_cluster_node", &cluster.name(2)]);
    publisher.publish(200..210);
    cluster.nodes.push(Node::start(last));
    wait_until_whole(&cluster, 3, "q");
    publisher.publish(210..220);
    // The new member and one of the others are a majority.
    cluster.nodes[0].kill();
    make_leader(&cluster, 3, "q");
    assert_eq!(read_all(&cluster, 3, 200), (20..220).collect::<Vec<_>>());
    let shown = shown(&cluster, 3, "q").expect("it is shown");
    let members: BTreeSet<&str> =
        shown["members"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let names = [0, 1, 3].map(|at| cluster.name(at));
    assert_eq!(members, names.iter().map(String::as_str).collect());
}

/// Kills nodes at random while clients publish and consume, and looks at what became of every message. `KILLS` says how often.
#[test]
fn no_confirmed_message_is_lost_by_kills() {
    let kills: u32 = std::env::var("KILLS").ok().map_or(4, |kills| kills.parse().expect("a number"));
    let mut cluster = with_queue("q");
    let mut random = u64::from(std::process::id()) | 1;
    let (mut confirmed, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut take = |consumer: &mut Wire| {
        let (tag, redelivered, body) = consumer.delivery();
        assert!(seen.insert(number(&body)) || redelivered, "{} came again without a flag", number(&body));
        consumer.ack(1, tag, false);
        seen.len()
    };
    for round in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let victim = (random >> 33) as usize % 3;
        let (one, other) = ((victim + 1) % 3, (victim + 2) % 3);
        let mut publisher = NumberPublisher::open(&cluster, one);
        let mut consumer = Wire::open(cluster.nodes[other].amqp());
        consumer.prefetch(1, 50);
        consumer.consume(1, "q", false);
        let numbers = round * 300..(round + 1) * 300;
        for number in numbers.clone() {
            publisher.send(number);
            if number == numbers.start + 150 {
                cluster.nodes[victim].kill();
            }
        }
        publisher.confirms();
        confirmed.extend(numbers);
        (0..200).for_each(|_| _ = take(&mut consumer));
        consumer.close();
        cluster.nodes[victim].restart();
        cluster.wait_until("all are there", |cluster| cluster.members(&cluster.nodes[victim]).len() == 3);
    }
    let mut consumer = Wire::open(cluster.nodes[0].amqp());
    consumer.consume(1, "q", false);
    while take(&mut consumer) < confirmed.len() {}
    assert_eq!(seen, confirmed);
}

#[test]
fn a_node_without_a_replica_finds_the_leader() {
    let mut cluster = Cluster::start(4);
    declare(&cluster, 0, "q");
    let members = |cluster: &Cluster| {
        let shown = shown(cluster, 0, "q").expect("it is shown");
        let names = shown["members"].as_array().expect("a list").clone();
        (0..4).filter(|at| names.iter().any(|name| *name == cluster.name(*at))).collect::<Vec<_>>()
    };
    let without = (0..4).find(|at| !members(&cluster).contains(at)).expect("three of four are members");
    let mut publisher = NumberPublisher::open(&cluster, without);
    publisher.publish(0..100);
    let leader_at = known_leader(&cluster, members(&cluster)[0], "q");
    cluster.nodes[leader_at].kill();
    publisher.publish(100..200);
    let mut consumer = Wire::open(cluster.nodes[without].amqp());
    assert_eq!(consumer.message_count(1, "q"), 200);
    consumer.consume(1, "q", false);
    for expected in 0..200 {
        assert_eq!(number(&consumer.delivery().2), expected);
    }
}
