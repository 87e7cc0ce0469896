//! Nodes that form a cluster, for tests of all kinds.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::node::{Node, Options, binary};

/// The secret that the nodes of a test share.
pub const COOKIE: &str = "the-cookie-of-a-test";

/// The options of so many nodes that name each other, with the net of their loopback addresses, which no other test has.
pub fn options(count: usize) -> (String, Vec<Options>) {
    static TESTS: AtomicU32 = AtomicU32::new(1);
    let (process, test) = (std::process::id(), TESTS.fetch_add(1, Ordering::Relaxed));
    // Two processes of tests, and two tests of a process, differ in one of these.
    let net = format!("127.{}.{}", 1 + process % 250, 1 + (process / 250 * 16 + test) % 250);
    let name = |at: usize| format!("leveret@{net}.{}", at + 1);
    let of = |at: usize| {
        let options = Options::new()
            .set("cluster.listeners.tcp.default", format!("{net}.{}:25672", at + 1))
            .with_variable("RABBITMQ_NODENAME", name(at))
            .with_variable("RABBITMQ_ERLANG_COOKIE", COOKIE);
        let listed = |options: Options, other: usize| {
            options.set(&format!("cluster_formation.classic_config.nodes.{}", other + 1), name(other))
        };
        (0..count).fold(options, listed)
    };
    (net.clone(), (0..count).map(of).collect())
}

/// Starts nodes with these options together.
///
/// # Panics
/// If one doesn't start.
pub fn start(options: Vec<Options>) -> Vec<Node> {
    let starting: Vec<_> = options.into_iter().map(|one| thread::spawn(move || Node::start(one))).collect();
    starting.into_iter().map(|one| one.join().expect("the node starts")).collect()
}

/// The running members as a node sees them.
pub fn members(node: &Node) -> Vec<String> {
    // A node restarts when it joins, or is joined first, and may have no users yet.
    let nodes = node.http().get("/api/nodes").map(|answer| answer.json()).unwrap_or_default();
    let running = nodes.as_array().into_iter().flatten().filter(|node| node["running"] == true);
    running.map(|node| node["name"].as_str().expect("a name").to_owned()).collect()
}

/// Runs one of RabbitMQ's tools on the node of a data directory. Returns its exit status and what it printed.
///
/// # Panics
/// If it can't be run, or doesn't print text.
pub fn tool(directory: &Path, name: &str, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(binary());
    command.arg(name).args(words).env("LEVERET_DATA_DIR", directory);
    let output = command.env_remove("RABBITMQ_NODENAME").output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("no signal"), text(output.stdout) + &text(output.stderr))
}

/// Waits until each of the nodes sees all of them.
///
/// # Panics
/// If that takes longer than [`PATIENCE`].
pub fn wait_until_formed(nodes: &[Node]) {
    let deadline = Instant::now() + PATIENCE;
    while !nodes.iter().all(|node| members(node).len() == nodes.len()) {
        assert!(Instant::now() < deadline, "all are members: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}
