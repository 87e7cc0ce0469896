//! The figures of a cluster's metadata: three processes on this machine beside one that is alone, in turns.
//!
//! Nothing here fails because of a figure. Each line says how busy the machine was, and how long its disk takes for a sync.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::node::{Node, Options, new_directory};
use leveret_tests::wire::{Wire, publish};
use serde_json::{Value, json};

use crate::Cluster;
use crate::partitions::leader;

/// Connections that declare at a given rate.
const CONNECTIONS: usize = 32;
/// Declarations a second.
const RATE: u64 = 1000;
/// Seconds of each measurement with declarations.
const SECONDS: u64 = 5;
/// Measurements of each kind; the median counts.
const TURNS: usize = 3;
/// Longest time for what is waited for.
const LONG: Duration = Duration::from_secs(300);

/// The median of some values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A quantile of times, in milliseconds.
fn quantile(sorted: &[Duration], of_thousand: usize) -> f64 {
    sorted[(sorted.len() * of_thousand / 1000).min(sorted.len() - 1)].as_secs_f64() * 1000.0
}

/// How busy the machine is, and how long a sync of 4 KiB takes.
fn machine() -> String {
    let directory = new_directory();
    let mut file = File::create(directory.path().join("sync")).expect("a file");
    let sync = |_| {
        file.write_all(&[1; 4096]).expect("room");
        let began = Instant::now();
        file.sync_data().expect("a sync");
        began.elapsed().as_secs_f64() * 1000.0
    };
    let took = median((0..200).map(sync).collect());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown").to_owned();
    format!("load average {load}, sync {took:.2} ms")
}

/// CPU seconds of nodes.
fn cpu(nodes: &[Node]) -> f64 {
    nodes.iter().map(|node| node.cpu_ticks() as f64 / 100.0).sum()
}

/// A counter of all nodes together, by its name; 0 where it isn't.
fn counted(nodes: &[Node], name: &str) -> f64 {
    let value = |node: &Node| -> f64 {
        let text = node.prometheus().get("/metrics").expect("metrics").body;
        let is_it = |line: &&str| line.starts_with(name) && line[name.len()..].starts_with([' ', '{']);
        let values = text.lines().filter(is_it).filter_map(|line| line.rsplit_once(' '));
        values.map(|(_, value)| value.parse::<f64>().unwrap_or(0.0)).sum()
    };
    nodes.iter().map(value).sum()
}

/// Names that no queue has had.
fn new_name() -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    format!("measured-{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

/// Declares at a rate for some seconds. Returns the times from the intended sends to the answers, in order.
fn declare_at_rate(node: &Node) -> Vec<Duration> {
    let wires: Vec<Wire> = (0..CONNECTIONS).map(|_| Wire::open(node.amqp())).collect();
    let (next, began) = (AtomicU64::new(0), Instant::now() + Duration::from_millis(200));
    let mut all = thread::scope(|scope| {
        let declare = |mut wire: Wire| {
            let (next, mut took) = (&next, Vec::new());
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= RATE * SECONDS {
                        wire.close();
                        return took;
                    }
                    let intended = began + Duration::from_secs(at) / RATE as u32;
                    thread::sleep(intended.saturating_duration_since(Instant::now()));
                    let _ = wire.declare(1, &new_name(), true);
                    took.push(intended.elapsed());
                }
            })
        };
        let threads: Vec<_> = wires.into_iter().map(declare).collect();
        threads.into_iter().flat_map(|one| one.join().expect("it declares")).collect::<Vec<_>>()
    });
    all.sort();
    all
}

/// Declares as fast as is answered. Returns declarations a second.
fn declare_at_once(node: &Node, connections: usize) -> f64 {
    let wires: Vec<Wire> = (0..connections).map(|_| Wire::open(node.amqp())).collect();
    let (count, began) = (AtomicU64::new(0), Instant::now());
    thread::scope(|scope| {
        for mut wire in wires {
            let count = &count;
            scope.spawn(move || {
                while began.elapsed() < Duration::from_secs(SECONDS) {
                    let _ = wire.declare(1, &new_name(), true);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                wire.close();
            });
        }
    });
    count.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// The nodes of a measurement: three of a cluster, and one that is alone.
fn started() -> (Cluster, Vec<Node>) {
    (Cluster::start(3), vec![Node::start(Options::new())])
}

/// Waits until nodes have nothing more to do: the files of a log are written in full after the start.
fn wait_until_quiet(nodes: &[Node]) {
    let deadline = Instant::now() + LONG;
    loop {
        let before = cpu(nodes);
        thread::sleep(Duration::from_secs(1));
        let share = (cpu(nodes) - before) / nodes.len() as f64;
        if share <= 0.02 || Instant::now() > deadline {
            return;
        }
    }
}

fn declarations() {
    let (cluster, alone) = started();
    wait_until_quiet(&alone);
    wait_until_quiet(&cluster.nodes);
    let leads = leader(&cluster).expect("a leader");
    let mut of_one = Vec::new();
    let mut of_three = Vec::new();
    for turn in 0..TURNS {
        let measure = |nodes: &[Node], at: usize, what: &str, costs: &mut Vec<f64>| {
            let (syncs, before) = (counted(nodes, "leveret_cluster_entry_log_syncs_total"), cpu(nodes));
            let took = declare_at_rate(&nodes[at]);
            let cost = (cpu(nodes) - before) * 1e6 / took.len() as f64;
            let syncs = counted(nodes, "leveret_cluster_entry_log_syncs_total") - syncs;
            costs.push(cost);
            println!(
                "{RATE} declares a second at {what}: p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms; {cost:.0} µs of CPU of all nodes, {:.2} \
                 syncs of entries each; {}",
                quantile(&took, 500),
                quantile(&took, 990),
                quantile(&took, 999),
                syncs / took.len() as f64,
                machine(),
            );
        };
        measure(&alone, 0, "one node", &mut of_one);
        let at = (leads + turn) % 3;
        let what = if at == leads { "the leader of three" } else { "another one of three" };
        measure(&cluster.nodes, at, what, &mut of_three);
    }
    println!("CPU of a declare: {:.2} times that of one node", median(of_three) / median(of_one));
    for connections in [8, 64, 256] {
        let of_one = declare_at_once(&alone[0], connections);
        let mut line = format!("declares at once over {connections} connections: one node {of_one:.0} a second");
        for (at, what) in [(leads, "the leader of three"), ((leads + 1) % 3, "another one")] {
            let _ = write!(line, ", {what} {:.0}", declare_at_once(&cluster.nodes[at], connections));
        }
        println!("{line}; {}", machine());
    }
}

/// Definitions with so many queues.
fn definitions(prefix: &str, count: usize) -> Value {
    let queue = |number| json!({"name": format!("{prefix}-{number}"), "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}});
    json!({"queues": (0..count).map(queue).collect::<Vec<_>>()})
}

/// The number of queues that a node knows.
fn queue_count(node: &Node) -> u64 {
    let page = node.http().get("/api/queues?page=1&page_size=1&columns=name");
    page.map(|answer| answer.json()["total_count"].as_u64().unwrap_or(0)).unwrap_or(0)
}

fn wait_for_queues(nodes: &[Node], count: u64) {
    let deadline = Instant::now() + LONG;
    while nodes.iter().any(|node| queue_count(node) < count) {
        assert!(Instant::now() < deadline, "queues aren't everywhere within {LONG:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn import_of(nodes: &[Node], at: usize, prefix: &str, count: usize) -> f64 {
    let before = queue_count(&nodes[at]);
    let definitions = definitions(prefix, count);
    let began = Instant::now();
    // An import may take longer than the client's patience: what counts is that the queues are there.
    let answer = nodes[at].http().post("/api/definitions", &definitions);
    if let Ok(answer) = &answer {
        assert!(answer.status < 300, "{}", answer.body);
    }
    let answered = began.elapsed().as_secs_f64();
    wait_for_queues(nodes, before + count as u64);
    if answer.is_ok() { answered } else { began.elapsed().as_secs_f64() }
}

fn imports() {
    const COUNT: usize = 50_000;
    let mut ratios = Vec::new();
    for turn in 0..TURNS {
        let (cluster, alone) = started();
        let at = (leader(&cluster).expect("a leader") + turn) % 3;
        let one = (import_of(&alone, 0, "imported", COUNT), cpu(&alone));
        let before = cpu(&cluster.nodes);
        let three = (import_of(&cluster.nodes, at, "imported", COUNT), cpu(&cluster.nodes) - before);
        ratios.push(three.0 / one.0);
        println!(
            "import of {COUNT} queues: one node {:.2} s ({:.2} s of CPU), three nodes {:.2} s ({:.2} s of CPU of all); {}",
            one.0,
            one.1,
            three.0,
            three.1,
            machine()
        );
    }
    println!("import into three nodes: {:.2} times the time of one", median(ratios));
}

fn joins() {
    const COUNT: usize = 100_000;
    let cluster = Cluster::alone(3);
    cluster.well(1, &["join_cluster", &cluster.name(0)]);
    cluster.wait_until("two are members", |cluster| (0..2).all(|at| cluster.members(&cluster.nodes[at]).len() == 2));
    let _ = import_of(&cluster.nodes[..2], 0, "joined", COUNT);
    let mut times = Vec::new();
    for _ in 0..TURNS {
        let began = Instant::now();
        cluster.well(2, &["join_cluster", &cluster.name(0)]);
        let answered = began.elapsed().as_secs_f64();
        wait_for_queues(&cluster.nodes[2..], COUNT as u64);
        let took = began.elapsed().as_secs_f64();
        times.push(took);
        println!(
            "a node joins a cluster with {COUNT} queues: {took:.2} s (the command {answered:.2} s); {}",
            machine()
        );
        cluster.well(2, &["reset"]);
        cluster.wait_until("it is alone", |cluster| cluster.members(&cluster.nodes[2]).len() == 1);
        cluster.wait_until("it is forgotten", |cluster| cluster.members(&cluster.nodes[0]).len() == 2);
    }
    println!("a node joins: {:.2} s", median(times));
}

fn idle() {
    const SECONDS: u64 = 20;
    let (cluster, alone) = started();
    wait_until_quiet(&alone);
    wait_until_quiet(&cluster.nodes);
    let nodes: Vec<(&Node, &str)> = alone
        .iter()
        .map(|node| (node, "one node"))
        .chain(cluster.nodes.iter().map(|node| (node, "one of three")))
        .collect();
    let before: Vec<u64> = nodes.iter().map(|(node, _)| node.cpu_ticks()).collect();
    thread::sleep(Duration::from_secs(SECONDS));
    for ((node, what), before) in nodes.iter().zip(before) {
        let percent = (node.cpu_ticks() - before) as f64 / SECONDS as f64;
        println!("idle, {what}: {:.1} MB, {percent:.2} % of a core; {}", node.resident_bytes() as f64 / 1e6, machine());
    }
}

/// Queues of the lists that are measured.
const LISTED: usize = 10_000;
/// Requests of a list, in turns with those to the other broker.
const REQUESTS: usize = 15;

/// Lists of 10,000 queues, of which each of three nodes has a third, beside one node that has all of them.
fn lists() {
    let cluster = Cluster::start_with(3, |options| options.set("queue_leader_locator", "balanced"));
    let alone = Node::start(Options::new());
    for node in [&cluster.nodes[0], &alone] {
        let wires: Vec<Wire> = (0..CONNECTIONS).map(|_| Wire::open(node.amqp())).collect();
        thread::scope(|scope| {
            for (at, mut wire) in wires.into_iter().enumerate() {
                scope.spawn(move || {
                    for number in (at..LISTED).step_by(CONNECTIONS) {
                        let _ = wire.declare(1, &format!("q{number:05}"), true);
                    }
                    wire.close();
                });
            }
        });
    }
    cluster.wait_until("all are known", |cluster| (0..3).all(|at| cluster.queues(at).len() == LISTED));
    let paths = [
        ("whole", "/api/queues"),
        ("page of 100 by name", "/api/queues?page=1&page_size=100&sort=name"),
        ("page of 100 by messages", "/api/queues?page=1&page_size=100&sort=messages&sort_reverse=true"),
        ("page 50 of 100 by name", "/api/queues?page=50&page_size=100&sort=name"),
    ];
    for (what, path) in paths {
        let (mut of_one, mut of_three, mut late) = (Vec::new(), Vec::new(), 0);
        for turn in 0..REQUESTS {
            for (node, times) in [(&alone, &mut of_one), (&cluster.nodes[turn % 3], &mut of_three)] {
                let began = Instant::now();
                let answer = node.http().get(path).expect("an answer");
                times.push(began.elapsed().as_secs_f64() * 1000.0);
                assert!(answer.status == 200, "{what}: {}", answer.body);
                late += usize::from(answer.body.contains("missing_nodes"));
            }
        }
        let (of_one, of_three) = (median(of_one), median(of_three));
        println!(
            "list of {LISTED} queues, {what}: one node {of_one:.1} ms, three {of_three:.1} ms, {:.2} times, {late} of {REQUESTS} without a node that was \
             late; {}",
            of_three / of_one,
            machine()
        );
    }
}

/// Bytes of a message for clients, and the number of those that a client gets that reads nothing.
const UNREAD_BYTES: usize = 16 << 10;
const UNREAD: u64 = 20_000;

/// A client of one node that reads nothing of what a queue of another one has for it, beside another consumer of the same link.
fn client_that_reads_nothing() {
    let cluster = Cluster::start(3);
    let mut owner = Wire::open(cluster.nodes[0].amqp());
    for queue in ["unread", "read"] {
        owner.declare(1, queue, true);
    }
    cluster.wait_until("both are known", |cluster| cluster.queues(1).len() == 2);
    cluster.wait_until("they are reached", |cluster| crate::elsewhere::is_reached(cluster, 1, "read"));
    let fill = |queue: &str, count: u64, bytes: usize| {
        let mut wire = Wire::open(cluster.nodes[0].amqp());
        let body = vec![7; bytes];
        wire.publish_all(count, 500, |_| publish(1, "", queue, &body, false, true));
        wire.close();
    };
    let read = |count: u64| {
        fill("read", count, 1024);
        let mut wire = Wire::open(cluster.nodes[1].amqp());
        let began = Instant::now();
        wire.consume(1, "read", true);
        (0..count).for_each(|_| drop(wire.delivery()));
        let rate = count as f64 / began.elapsed().as_secs_f64();
        wire.close();
        rate
    };
    fill("unread", UNREAD, UNREAD_BYTES);
    let _ = read(20_000);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut most = [0.0f64; 2];
    for _ in 0..5 {
        without.push(read(20_000));
        let memory = |at: usize| cluster.nodes[at].resident_bytes() as f64 / 1e6;
        let before = [memory(0), memory(1)];
        let mut unread = Wire::open(cluster.nodes[1].amqp());
        unread.consume(1, "unread", true);
        thread::sleep(Duration::from_millis(500));
        with.push(read(20_000));
        for at in 0..2 {
            most[at] = most[at].max(memory(at) - before[at]);
        }
        // Messages that it got, or were on their way, are lost with a client that acknowledges by taking: the rest is for the next one.
        drop(unread);
    }
    println!(
        "a client that reads nothing of {} MB on another node: at most {:.1} MB more at the queue's node and {:.1} MB at the client's;          another consumer {:.0} messages a second without it, {:.0} with it; {}",
        UNREAD * UNREAD_BYTES as u64 / 1_000_000,
        most[0],
        most[1],
        median(without),
        median(with),
        machine(),
    );
}

#[test]
#[ignore = "takes minutes, and measures: make cluster-measures"]
fn figures_of_the_metadata_of_three_nodes() {
    let wanted = std::env::var("LEVERET_MEASURES").unwrap_or_default();
    let all: [(&str, fn()); 6] = [
        ("declare", declarations),
        ("import", imports),
        ("join", joins),
        ("idle", idle),
        ("lists", lists),
        ("reads-nothing", client_that_reads_nothing),
    ];
    for (name, measure) in all {
        if wanted.is_empty() || wanted.split_whitespace().any(|word| word == name) {
            measure();
        }
    }
}
