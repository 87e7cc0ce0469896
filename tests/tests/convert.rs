//! Queues that are converted to another type while clients use them: nothing is lost, doubled or reordered, and a kill leaves the
//! queue as one type or the other, complete. `LEVERET_KILL_ROUNDS` is the number of kills (8).

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options, run};
use leveret_tests::random::Random;
use leveret_tests::wire::{Wire, method, publish};
use serde_json::{Value, json};

/// Most unconfirmed publishes.
const WINDOW: u64 = 20;

fn declare(http: &Http) {
    let queue = json!({"durable": true, "arguments": {"x-queue-type": "classic"}});
    assert_eq!(http.put("/api/queues/%2F/q", &queue).expect("an answer").status, 201);
    let binding = json!({"routing_key": "k", "arguments": {}});
    assert_eq!(http.post("/api/bindings/%2F/e/amq.direct/q/q", &binding).expect("an answer").status, 201);
}

fn convert(http: &Http, to: &str) -> std::io::Result<u16> {
    Ok(http.post("/api/queues/%2F/q/convert", &json!({"type": to, "arguments": {}}))?.status)
}

/// The numbers of messages that a publisher sent, and that were confirmed: up to these.
#[derive(Default)]
struct Progress {
    sent: AtomicU64,
    confirmed: AtomicU64,
    is_over: AtomicBool,
}

/// Publishes numbered messages until the node is killed or the end is asked for.
fn publish_on(address: SocketAddr, progress: &Progress) {
    let mut wire = Wire::open(address);
    wire.confirm_select(1);
    let (begin, mut tag) = (progress.sent.load(Ordering::SeqCst), 0);
    while !progress.is_over.load(Ordering::SeqCst) {
        let number = progress.sent.fetch_add(1, Ordering::SeqCst);
        let message = publish(1, "amq.direct", "k", number.to_string().as_bytes(), true, true);
        if wire.socket.write_all(&message).is_err() {
            return;
        }
        while number + 1 - begin > tag + WINDOW {
            let Ok(frame) = wire.next_frame() else { return };
            assert_eq!(frame.method(), Some(method::BASIC_ACK), "{:?}", frame.reason());
            tag = frame.arguments().long_long();
            progress.confirmed.store(begin + tag, Ordering::SeqCst);
        }
    }
}

/// Takes all messages, and checks that every confirmed one is there once and in order.
fn check_content(http: &Http, from: u64, progress: &Progress) {
    let get = json!({"count": 1_000_000, "ackmode": "ack_requeue_false", "encoding": "auto"});
    let got = http.post("/api/queues/%2F/q/get", &get).expect("an answer").json();
    let number = |message: &Value| message["payload"].as_str().and_then(|text| text.parse::<u64>().ok());
    let numbers: Vec<u64> = got.as_array().expect("messages").iter().filter_map(number).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "out of order or doubled: {numbers:?}");
    let (confirmed, sent) = (progress.confirmed.load(Ordering::SeqCst), progress.sent.load(Ordering::SeqCst));
    let missing: Vec<u64> = (from..confirmed).filter(|number| numbers.binary_search(number).is_err()).collect();
    assert!(missing.is_empty(), "confirmed and lost: {missing:?}");
    assert!(numbers.iter().all(|number| (from..sent).contains(number)), "from another round: {numbers:?}");
}

#[test]
fn a_kill_leaves_a_queue_of_one_type_with_all_messages() {
    if is_given() {
        return;
    }
    let rounds: usize = std::env::var("LEVERET_KILL_ROUNDS").map_or(8, |rounds| rounds.parse().expect("a number"));
    // Small files, so that checkpoints are made in every round.
    let mut node = Node::start(Options::new().set("debug.wal_file_bytes", 256 << 10));
    declare(&node.http());
    let mut random = Random::new(0xc0de);
    let (mut converted, mut from) = (0, 0);
    let progress = Progress::default();
    for _ in 0..rounds {
        progress.is_over.store(false, Ordering::SeqCst);
        let (address, http) = (node.amqp(), node.http());
        thread::scope(|scope| {
            scope.spawn(|| publish_on(address, &progress));
            let until = progress.confirmed.load(Ordering::SeqCst) + 100 + random.below(1_000) as u64;
            let converter = scope.spawn(|| {
                let mut count = 0;
                for to in ["quorum", "classic"].into_iter().cycle() {
                    match convert(&http, to) {
                        Ok(status) => assert_eq!(status, 200),
                        Err(_) => return count,
                    }
                    count += 1;
                }
                count
            });
            while progress.confirmed.load(Ordering::SeqCst) < until {
                thread::yield_now();
            }
            node.kill();
            progress.is_over.store(true, Ordering::SeqCst);
            converted += converter.join().expect("every conversion is accepted");
        });
        node.restart();
        let http = node.http();
        let queue = http.get("/api/queues/%2F/q").expect("an answer").json();
        assert!(["classic", "quorum"].contains(&queue["type"].as_str().unwrap_or("")), "{queue}");
        let bindings = http.get("/api/bindings/%2F/e/amq.direct/q/q").expect("an answer").json();
        assert_eq!(bindings.as_array().map(Vec::len), Some(1), "{bindings}");
        check_content(&http, from, &progress);
        from = progress.sent.load(Ordering::SeqCst);
    }
    conservation::check(&node.http());
    assert!(node.terminate().success());
    println!("{rounds} kills, {converted} conversions, {from} messages");
    assert!(converted >= rounds, "{converted} conversions");
}

#[test]
fn the_command_converts_and_says_why_it_cannot() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let http = node.http();
    declare(&http);
    let directory = node.directory().to_string_lossy().into_owned();
    let ctl = |arguments: &[&str]| {
        let mut all = vec!["ctl", "--data-dir", &directory];
        all.extend(arguments);
        run(&all)
    };
    let kind = || http.get("/api/queues/%2F/q").expect("an answer").json()["type"].as_str().map(str::to_owned);
    let (code, output, error) = ctl(&["convert_queue", "q", "--type", "quorum", "--dry-run"]);
    assert_eq!((code, kind().as_deref()), (0, Some("classic")), "{output}{error}");
    assert!(output.contains("Queue 'q' can be converted from classic to quorum"), "{output}");
    let (code, output, error) =
        ctl(&["convert_queue", "q", "--type", "quorum", "--arguments", r#"{"x-delivery-limit": 5}"#]);
    assert_eq!((code, kind().as_deref()), (0, Some("quorum")), "{output}{error}");
    let arguments = http.get("/api/queues/%2F/q").expect("an answer").json()["arguments"].clone();
    assert_eq!(arguments, json!({"x-queue-type": "quorum", "x-delivery-limit": 5}));
    let (code, _, error) = ctl(&["convert_queue", "q", "--type", "stream"]);
    assert_eq!(code, 69, "{error}");
    assert!(error.contains("streams can't be converted yet"), "{error}");
    let (code, _, error) = ctl(&["convert_queue", "none", "--type", "quorum"]);
    assert_eq!(code, 65, "{error}");
    let (code, _, error) = ctl(&["convert_queue", "q", "--type", "quorum", "--arguments", "[1"]);
    assert_eq!(code, 65, "{error}");
}
