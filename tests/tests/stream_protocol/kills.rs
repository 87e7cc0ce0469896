//! SIGKILL: confirmed messages are there, once and in order, and names and offsets go on where they were.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex};
use std::{io, thread};

use leveret_tests::PATIENCE;
use leveret_tests::node::Node;
use leveret_tests::stream::{OffsetSpec, StreamClient};

use super::{bodies, finish, node, numbered, texts};

/// Publishers of a kill loop. Those with an even number have a name.
const PUBLISHERS: u8 = 8;
/// Messages of a publisher that aren't confirmed, at most.
const WINDOW: u64 = 400;
/// Messages of one frame.
const FRAME: u64 = 20;
/// Confirms of a run of the broker before it is killed.
const CONFIRMS: u64 = 2_000;

#[test]
fn a_name_sends_again_after_a_kill_and_nothing_is_there_twice() {
    let Some(mut node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "orders", "s");
    client.publish(1, numbered(1..=500));
    client.wait("some confirms", |client| !client.confirmed.is_empty());
    let confirmed = client.confirmed[&1].len() as u64;
    node.kill();
    node.restart();

    let mut client = StreamClient::open(node.streams());
    client.publisher(1, "orders", "s");
    let last = client.last_id("orders", "s");
    assert!((confirmed..=500).contains(&last), "{last} of {confirmed} confirmed");
    client.publish(1, numbered(confirmed + 1..=600));
    client.confirms();
    assert_eq!(bodies(node.streams(), "s", 600), texts(1..=600));
    client.close();
    finish(&node);
}

#[test]
fn stored_offsets_and_the_end_of_a_stream_survive_a_kill() {
    let Some(mut node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    client.publish(1, numbered(0..=99));
    client.confirms();
    client.store_offset("app", "s", 41);
    // The confirm of a later message is one of the offset as well.
    client.publish(1, numbered(100..=100));
    client.confirms();
    node.kill();
    node.restart();

    let mut client = StreamClient::open(node.streams());
    assert_eq!(client.stored_offset("app", "s"), Ok(41));
    client.subscribe(1, "s", OffsetSpec::Offset(42), 100);
    client.read_to(1, 101);
    let read = client.subscriptions[&1].bodies_from(42);
    assert!(read.iter().map(|(offset, _)| *offset).eq(42..=100));
    client.publisher(1, "", "s");
    client.publish(1, numbered(101..=101));
    client.confirms();
    client.read_to(1, 102);
    client.close();
    finish(&node);
}

/// The run of the broker, for the one that kills it.
#[derive(Default)]
struct Progress {
    /// Clients that are connected, and confirms.
    state: Mutex<(usize, u64)>,
    changed: Condvar,
}

impl Progress {
    fn connected(&self) {
        self.state.lock().expect("no panic").0 += 1;
        self.changed.notify_all();
    }

    fn confirmed(&self, count: usize) {
        self.state.lock().expect("no panic").1 += count as u64;
        self.changed.notify_all();
    }

    /// Waits until all clients work: one that logs in when the broker goes would fail.
    fn wait(&self) {
        let state = self.state.lock().expect("no panic");
        let is_early = |state: &mut (usize, u64)| state.0 <= usize::from(PUBLISHERS) || state.1 < CONFIRMS;
        let (state, end) = self.changed.wait_timeout_while(state, PATIENCE, is_early).expect("no panic");
        assert!(!end.timed_out(), "{} clients, {} confirms", state.0, state.1);
    }
}

/// A publisher of a kill loop, over all runs of the broker.
#[derive(Default)]
struct Sender {
    /// The last message that was sent.
    sent: u64,
    /// Messages confirmed, in order.
    confirmed: Vec<u64>,
}

fn name_of(publisher: u8) -> String {
    if publisher.is_multiple_of(2) { format!("name {publisher}") } else { String::new() }
}

fn body_of(publisher: u8, run: u32, id: u64) -> String {
    format!("{publisher} {run} {id}")
}

/// Publishes until the socket fails. A name goes on behind its last confirmed message, others send new ones.
fn publish(sender: &mut Sender, progress: &Progress, address: SocketAddr, publisher: u8, run: u32) -> io::Result<()> {
    let mut client = StreamClient::open(address);
    client.publisher(publisher, &name_of(publisher), "s");
    progress.connected();
    let mut next = match name_of(publisher).is_empty() {
        true => sender.sent + 1,
        false => sender.confirmed.last().map_or(1, |last| last + 1),
    };
    loop {
        client.try_publish(publisher, (next..next + FRAME).map(|id| (id, body_of(publisher, run, id))))?;
        next += FRAME;
        sender.sent = sender.sent.max(next - 1);
        loop {
            let confirmed = std::mem::take(client.confirmed.entry(publisher).or_default());
            progress.confirmed(confirmed.len());
            sender.confirmed.extend(confirmed);
            client.nothing_refused();
            let open = next - 1 - sender.confirmed.last().copied().unwrap_or(0);
            if open < WINDOW {
                break;
            }
            client.try_wait(|client| !client.confirmed[&publisher].is_empty())?;
        }
    }
}

/// Reads from the first message on until the socket fails: the client checks that offsets are dense.
fn follow(progress: &Progress, address: SocketAddr) -> io::Result<()> {
    let mut client = StreamClient::open(address);
    client.subscribe(1, "s", OffsetSpec::First, 10);
    progress.connected();
    loop {
        client.try_wait(|client| !client.subscriptions[&1].chunks.is_empty())?;
        client.subscriptions.get_mut(&1).expect("it is there").chunks.clear();
        if client.subscriptions[&1].credit < 5 {
            client.try_grant(1, 5)?;
        }
    }
}

fn kill_loop(mut node: Node, runs: u32) {
    StreamClient::open(node.streams()).create("s");
    let mut senders: Vec<Sender> = (0..PUBLISHERS).map(|_| Sender::default()).collect();
    for run in 0..runs {
        let (address, progress) = (node.streams(), Progress::default());
        thread::scope(|scope| {
            for (publisher, sender) in (0..).zip(&mut senders) {
                let progress = &progress;
                scope.spawn(move || {
                    publish(sender, progress, address, publisher, run).expect_err("the broker was killed")
                });
            }
            scope.spawn(|| follow(&progress, address).expect_err("the broker was killed"));
            progress.wait();
            node.kill();
        });
        node.restart();
    }
    judge(&node, &senders);
    finish(&node);
}

fn judge(node: &Node, senders: &[Sender]) {
    let mut client = StreamClient::open(node.streams());
    let end = u64::try_from(client.statistic("s", "committed_offset") + 1).expect("a number");
    let mut stored: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
    for body in bodies(node.streams(), "s", end) {
        let mut numbers = body.split(' ');
        let publisher = numbers.next().and_then(|number| number.parse().ok()).expect("a publisher");
        let id = numbers.nth(1).and_then(|number| number.parse().ok()).expect("an id");
        stored.entry(publisher).or_default().push(id);
    }
    for (publisher, sender) in (0..).zip(senders) {
        let ids = &stored[&publisher];
        assert!(ids.is_sorted_by(|a, b| a < b), "publisher {publisher}: twice, or out of order");
        let missing: Vec<_> = sender.confirmed.iter().filter(|id| ids.binary_search(id).is_err()).take(5).collect();
        assert!(missing.is_empty(), "publisher {publisher}: {missing:?} were confirmed and aren't there");
        let name = name_of(publisher);
        if !name.is_empty() {
            let last = *ids.last().expect("a message");
            assert!(ids.iter().copied().eq(1..=last), "publisher {publisher}: every message of a name is there");
            assert_eq!(client.last_id(&name, "s"), last, "publisher {publisher}");
        }
    }
    client.close();
}

#[test]
fn confirmed_messages_of_many_publishers_survive_kills() {
    let Some(node) = node() else { return };
    kill_loop(node, 3);
}

#[test]
#[ignore = "longer than others: make -C tests soak"]
fn confirmed_messages_of_many_publishers_survive_50_kills() {
    let Some(node) = node() else { return };
    kill_loop(node, 50);
}
