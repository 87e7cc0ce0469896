//! Several nodes that form a cluster: one metadata, whichever node is asked.

mod formed;

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::node::{Node, Options};
use serde_json::Value;

/// The secret that the nodes of a test share.
const COOKIE: &str = "the-cookie-of-a-test";

/// The nodes of a test, each with a loopback address of its own, which no other test has.
pub(crate) struct Cluster {
    net: String,
    pub(crate) nodes: Vec<Node>,
}

impl Cluster {
    /// The options of so many nodes that name each other.
    fn options(count: usize) -> (String, Vec<Options>) {
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

    /// Nodes that start together and form a cluster.
    pub(crate) fn start(count: usize) -> Self {
        let (net, options) = Self::options(count);
        let starting: Vec<_> = options.into_iter().map(|one| thread::spawn(move || Node::start(one))).collect();
        let nodes = starting.into_iter().map(|one| one.join().expect("the node starts")).collect();
        let cluster = Self { net, nodes };
        cluster.wait_until("all are members", |cluster| {
            cluster.nodes.iter().all(|node| cluster.members(node).len() == cluster.nodes.len())
        });
        cluster
    }

    /// The name of a node.
    pub(crate) fn name(&self, at: usize) -> String {
        format!("leveret@{}.{}", self.net, at + 1)
    }

    /// The running members as a node sees them.
    pub(crate) fn members(&self, node: &Node) -> Vec<String> {
        let nodes = node.http().get("/api/nodes").expect("an answer").json();
        let running = nodes.as_array().expect("a list").iter().filter(|node| node["running"] == true);
        running.map(|node| node["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Waits until something holds.
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The names of queues as a node lists them.
    pub(crate) fn queues(&self, at: usize) -> Vec<String> {
        let listed = self.nodes[at].http().get("/api/queues?columns=name").expect("an answer").json();
        let name = |queue: &Value| queue["name"].as_str().expect("a name").to_owned();
        listed.as_array().expect("a list").iter().map(name).collect()
    }
}
