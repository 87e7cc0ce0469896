//! Leaderships that are handed over by command.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use leveret_tests::wire::Wire;
use serde_json::{Value, json};

use crate::Cluster;
use crate::replicated::{NumberPublisher, declare, known_leader, leader, number, shown, wait_until_whole, with_queue};

/// Has a member lead the queue `q`, and waits until all know it.
fn transfer(cluster: &Cluster, to: usize) {
    let name = cluster.name(to);
    let (exit, text) = cluster.tool("queues", (to + 1) % 3, &["transfer_leadership", "q", &name]);
    assert_eq!(exit, 0, "{text}");
    for at in 0..3 {
        cluster.wait_until("it leads", |cluster| leader(cluster, at, "q") == Some(to));
    }
}

#[test]
fn nothing_comes_again_when_a_leadership_is_handed_over() {
    const MESSAGES: u32 = 200;
    // A long run asks for more.
    let transfers = std::env::var("LEVERET_TRANSFERS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let cluster = with_queue("q");
    let (tell, told) = mpsc::channel();
    // A consumer on each node, whose messages are held for a while, and a publisher that goes on.
    let consumers: Vec<_> = (0..3)
        .map(|at| {
            let mut consumer = Wire::open(cluster.nodes[at].amqp());
            consumer.prefetch(1, 40);
            consumer.consume(1, "q", false);
            let tell = tell.clone();
            thread::spawn(move || {
                let mut unacknowledged = 0;
                loop {
                    let (tag, redelivered, body) = consumer.delivery();
                    unacknowledged += 1;
                    let number = number(&body);
                    if tell.send((number, redelivered)).is_err() || number == u32::MAX {
                        // The end of its connection returns what is for the others.
                        return consumer.ack(1, tag, true);
                    }
                    if unacknowledged == 15 {
                        consumer.ack(1, tag, true);
                        unacknowledged = 0;
                    }
                }
            })
        })
        .collect();
    let mut publisher = NumberPublisher::open(&cluster, 0);
    let first = known_leader(&cluster, 0, "q");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let mut rounds = 0;
            while !is_over.load(Ordering::SeqCst) {
                publisher.publish(rounds * MESSAGES..(rounds + 1) * MESSAGES);
                rounds += 1;
            }
            (publisher, rounds * MESSAGES)
        });
        for round in 0..transfers {
            transfer(&cluster, (first + 1 + round) % 3);
        }
        is_over.store(true, Ordering::SeqCst);
        let (mut publisher, published) = publishing.join().expect("all are confirmed");
        let seen: Vec<_> = told.iter().take(published as usize).collect();
        let flagged = seen.iter().filter(|(_, redelivered)| *redelivered).count();
        println!("{transfers} changes of the leader, {published} messages, {flagged} flagged as redelivered");
        // Messages that were on their way to another node at the change, at most the consumers' prefetch.
        assert!(flagged <= transfers * 3 * 40, "{flagged} are flagged");
        let numbers: BTreeSet<u32> = seen.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers.len(), seen.len(), "each came once");
        // These let the consumers end.
        (0..3).for_each(|_| publisher.publish([u32::MAX]));
    });
    consumers.into_iter().for_each(|consumer| consumer.join().expect("it takes all"));
    cluster.wait_until("nothing is left", |cluster| shown(cluster, 0, "q").is_some_and(|shown| shown["messages"] == 0));
}

#[test]
fn leaderships_that_cannot_be_handed_over_stay() {
    let mut cluster = with_queue("q");
    let leads = known_leader(&cluster, 0, "q");
    let other = (leads + 1) % 3;
    let said = |cluster: &Cluster, to: &str| cluster.tool("queues", other, &["transfer_leadership", "q", to]);
    let (exit, text) = said(&cluster, &cluster.name(leads));
    assert_eq!(exit, 69, "{text}");
    assert!(text.contains("The target node is already the leader of this queue"), "{text}");
    let (exit, text) = said(&cluster, "leveret@nowhere");
    assert_eq!(exit, 69, "{text}");
    assert!(text.contains("unknown_member"), "{text}");
    // A member that doesn't run: the leader goes on.
    let down = (leads + 2) % 3;
    cluster.nodes[down].kill();
    let (exit, text) = said(&cluster, &cluster.name(down));
    assert_eq!(exit, 69, "{text}");
    assert!(text.contains("doesn't have all entries") || text.contains("can't be reached"), "{text}");
    NumberPublisher::open(&cluster, other).publish(0..10);
    assert_eq!(leader(&cluster, other, "q"), Some(leads));
}

#[test]
fn rebalance_gives_each_placement_to_its_first_member() {
    let mut cluster = Cluster::start_with(3, |options| options.set("cluster.return_leaders", "off"));
    declare(&cluster, 0, "q");
    let leads = known_leader(&cluster, 0, "q");
    let all = |cluster: &Cluster, at: usize| -> Vec<Option<String>> {
        let listed = cluster.nodes[at].http().get("/api/queues?columns=name,leader").expect("an answer").json();
        let of = |queue: &Value| queue["leader"].as_str().map(str::to_owned);
        listed.as_array().expect("a list").iter().map(of).collect()
    };
    let http = cluster.nodes[leads].http();
    for extra in 0..6 {
        let queue = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
        assert_eq!(http.put(&format!("/api/queues/%2F/extra-{extra}"), &queue).expect("an answer").status, 201);
    }
    let there = Some(cluster.name(leads));
    cluster.wait_until("it leads all", |cluster| all(cluster, leads).iter().all(|of| *of == there));
    // Its leaderships are elsewhere after a restart, and come back on demand.
    cluster.nodes[leads].terminate();
    cluster.nodes[leads].restart();
    wait_until_whole(&cluster, leads, "q");
    cluster.wait_until("all have leaders", |cluster| {
        let all = all(cluster, leads);
        all.len() == 7 && all.iter().all(Option::is_some)
    });
    assert!(all(&cluster, leads).iter().all(|of| *of != there), "{:?}", all(&cluster, leads));
    cluster.wait_until("it leads all again", |cluster| {
        let (exit, text) = cluster.tool("queues", (leads + 1) % 3, &["rebalance", "all"]);
        assert_eq!(exit, 0, "{text}");
        all(cluster, leads).iter().all(|of| *of == there)
    });
}

#[test]
fn leaderships_go_back_to_a_node_that_was_away() {
    let mut cluster = Cluster::start_with(3, |options| options.set("cluster.return_leaders", "1s"));
    // One on each node.
    for (at, name) in ["q", "two", "three"].into_iter().enumerate() {
        declare(&cluster, at, name);
    }
    for at in 0..3 {
        cluster.wait_until("each leads one", |cluster| {
            ["q", "two", "three"].into_iter().enumerate().all(|(leads, name)| leader(cluster, at, name) == Some(leads))
        });
    }
    ["q", "two", "three"].into_iter().for_each(|name| wait_until_whole(&cluster, 0, name));
    // A leadership that was given by hand stays, although the node that is to lead is there all the time.
    transfer(&cluster, 1);
    let mut publisher = NumberPublisher::open(&cluster, 0);
    publisher.publish(0..20);
    cluster.nodes[2].terminate();
    cluster.wait_until("another one leads", |cluster| leader(cluster, 0, "three").is_some_and(|at| at != 2));
    cluster.nodes[2].restart();
    cluster.wait_until("it leads again", |cluster| (0..3).all(|at| leader(cluster, at, "three") == Some(2)));
    assert!((0..3).all(|at| leader(&cluster, at, "q") == Some(1)), "{:?}", leader(&cluster, 0, "q"));
    let line = format!("is led by node {} again", cluster.name(2));
    assert!((0..2).any(|at| cluster.nodes[at].log().contains(&line)));
    // The node that gave it away forgets so with its restart.
    cluster.nodes[0].kill();
    cluster.nodes[0].restart();
    cluster.wait_until("it leads again", |cluster| (0..3).all(|at| leader(cluster, at, "q") == Some(0)));
}
