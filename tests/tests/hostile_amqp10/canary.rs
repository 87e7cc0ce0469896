//! Another client on the node, which must not be affected.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use leveret_tests::PATIENCE;
use leveret_tests::amqp10::Amqp10;
use leveret_tests::node::{Node, Options};
pub(crate) use leveret_tests::wire::declare_durable as declare;

/// Publishes durable messages with outcomes and consumes them, one after the other, until stopped.
pub(crate) struct Canary {
    songs: Receiver<u32>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u32>>,
}

impl Canary {
    /// Starts it, with a queue of its own.
    pub(crate) fn start(address: SocketAddr) -> Self {
        const QUEUE: &str = "hostile.canary";
        declare(address, QUEUE);
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, songs) = channel();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut client = Amqp10::open(address);
            client.sender(0, &format!("/queues/{QUEUE}"));
            client.receiver(1, &format!("/queues/{QUEUE}"), 10);
            let mut sung = 0u32;
            while !stopped.load(Ordering::Acquire) {
                client.publish_accepted(0, &sung.to_be_bytes());
                let message = client.receive(1);
                assert_eq!(message.data(), sung.to_be_bytes(), "every message arrives once and in order");
                client.accept(&message);
                client.grant(1, 10);
                // Processed outcomes, and flows.
                client.backlog.clear();
                sung += 1;
                // The receiver may be gone if the test has failed.
                let _ = sender.send(sung);
            }
            client.barrier(leveret_tests::amqp10::CHANNEL);
            client.close();
            sung
        });
        Self { songs, stop, thread: Some(thread) }
    }

    /// Asserts that it is working: waits for two more messages, the second of which was published after this call.
    pub(crate) fn sings(&self, after: &str) {
        while self.songs.try_recv().is_ok() {}
        for _ in 0..2 {
            self.songs
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|error| panic!("the canary is silent after {after}: {error}"));
        }
    }

    /// Stops it, and asserts that every message arrived.
    pub(crate) fn ends(mut self) {
        self.stop.store(true, Ordering::Release);
        let sung = self.thread.take().expect("it runs").join().expect("the canary is well");
        println!("the canary sang {sung} times");
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// A node with a canary.
pub(crate) fn stage(options: Options) -> (Node, Canary) {
    let node = Node::start(options);
    let canary = Canary::start(node.amqp());
    canary.sings("the beginning");
    (node, canary)
}

/// Ends a test: asserts that the canary is working and that conservation holds.
pub(crate) fn finish(node: &Node, canary: Canary) {
    canary.sings("all of it");
    canary.ends();
    leveret_tests::conservation::check(&node.http());
}

/// Asserts that a node's memory grew by at most this many MiB since it was `before`.
pub(crate) fn assert_grown(node: &Node, before: u64, mib: u64, what: &str) {
    let grown = node.resident_bytes_within(before + (mib << 20)).saturating_sub(before);
    println!("{what}: {} KiB more", grown >> 10);
    assert!(grown <= mib << 20, "{what}: {} KiB more than before, at most {mib} MiB expected", grown >> 10);
}
