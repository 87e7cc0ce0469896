//! Several nodes that form a cluster: one metadata, whichever node is asked.

mod bad_input;
mod by_hand;
mod clocks;
mod elsewhere;
mod elsewhere_streams;
mod failures;
mod formed;
mod held;
mod leadership;
mod lookups;
mod measures;
mod mqtt;
mod name_server;
mod older;
mod operators;
mod outcomes;
mod page_sessions;
mod partitions;
mod recorded;
mod replicated;
mod shown;
mod single_active;
mod spread;
mod total_queue;
mod transfers;

use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::cluster::{self, COOKIE};
use leveret_tests::node::{Node, Options};
use serde_json::Value;

/// The nodes of a test, each with a loopback address of its own, which no other test has.
pub(crate) struct Cluster {
    net: String,
    pub(crate) nodes: Vec<Node>,
}

impl Cluster {
    /// The options of so many nodes that name each other.
    pub(crate) fn options(count: usize) -> (String, Vec<Options>) {
        cluster::options(count)
    }

    /// Nodes that are alone, and can be joined.
    pub(crate) fn alone(count: usize) -> Self {
        let (net, options) = Self::options(count);
        let alone = |options: Options| {
            let key = |other| format!("cluster_formation.classic_config.nodes.{}", other + 1);
            Node::start((0..count).fold(options, |options, other| options.without(&key(other))))
        };
        Self { net, nodes: options.into_iter().map(alone).collect() }
    }

    /// Nodes that start together and form a cluster.
    pub(crate) fn start(count: usize) -> Self {
        Self::start_with(count, |options| options)
    }

    /// The same with further options.
    pub(crate) fn start_with(count: usize, with: impl Fn(Options) -> Options) -> Self {
        Self::start_each(count, |_, options| with(options))
    }

    /// The same with options of each node.
    pub(crate) fn start_each(count: usize, with: impl Fn(usize, Options) -> Options) -> Self {
        let (net, options) = Self::options(count);
        let options = options.into_iter().enumerate().map(|(at, options)| with(at, options));
        let nodes = Self::started(options.collect());
        cluster::wait_until_formed(&nodes);
        Self { net, nodes }
    }

    /// Nodes with these options, which start together.
    pub(crate) fn started(options: Vec<Options>) -> Vec<Node> {
        cluster::start(options)
    }

    /// The address of a node's host.
    pub(crate) fn host(&self, at: usize) -> String {
        format!("{}.{}", self.net, at + 1)
    }

    /// The name of a node.
    pub(crate) fn name(&self, at: usize) -> String {
        format!("leveret@{}", self.host(at))
    }

    /// The running members as a node sees them.
    pub(crate) fn members(&self, node: &Node) -> Vec<String> {
        cluster::members(node)
    }

    /// Runs `rabbitmqctl` on a node. Returns its exit status and what it printed.
    pub(crate) fn ctl(&self, at: usize, words: &[&str]) -> (i32, String) {
        self.tool("ctl", at, words)
    }

    /// Runs one of RabbitMQ's tools in the same way.
    pub(crate) fn tool(&self, name: &str, at: usize, words: &[&str]) -> (i32, String) {
        cluster::tool(self.nodes[at].directory(), name, words)
    }

    /// The same for a command that has to succeed.
    pub(crate) fn well(&self, at: usize, words: &[&str]) -> String {
        let (exit, text) = self.ctl(at, words);
        assert_eq!(exit, 0, "{words:?}: {text}");
        text
    }

    /// Waits until something holds.
    pub(crate) fn wait_until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
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
