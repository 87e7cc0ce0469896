//! A node with a client, and the reasons that it gives.

use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, Writer, method, method_frame, publish};
use leveret_tests::{PATIENCE, conservation};
use serde_json::{Value, json};

/// Bits of `basic.nack`.
const REQUEUE: u8 = 0b10;

pub(crate) struct Staged {
    pub(crate) node: Node,
    pub(crate) wire: Wire,
    confirms: bool,
}

impl Staged {
    pub(crate) fn new() -> Self {
        Self::with(Options::new())
    }

    pub(crate) fn with(options: Options) -> Self {
        let node = Node::start(options);
        let wire = Wire::open(node.amqp());
        Self { node, wire, confirms: false }
    }

    pub(crate) fn http(&self) -> Http {
        self.node.http()
    }

    /// Creates an object over HTTP.
    pub(crate) fn put(&self, path: &str, body: Value) {
        let answer = self.http().put(&format!("/api/{path}"), &body).expect("an answer");
        assert!(matches!(answer.status, 201 | 204), "{path}: {} {}", answer.status, answer.body);
    }

    /// Declares a durable queue with these arguments.
    pub(crate) fn queue(&self, name: &str, arguments: Value) {
        self.put(&format!("queues/%2F/{name}"), json!({"durable": true, "arguments": arguments}));
    }

    /// Publishes messages to a queue, and waits for their confirms.
    pub(crate) fn publish(&mut self, queue: &str, messages: u64) {
        if !self.confirms {
            self.wire.confirm_select(1);
            self.confirms = true;
        }
        for _ in 0..messages {
            self.wire.send(&publish(1, "", queue, b"message", false, true));
        }
        self.wire.confirms(messages);
    }

    /// Publishes a message with these properties to a queue.
    pub(crate) fn put_message(&self, queue: &str, properties: Value) {
        let message = json!({
            "properties": properties, "routing_key": queue, "payload": "message", "payload_encoding": "string",
        });
        let routed = self.http().post("/api/exchanges/%2F/amq.default/publish", &message).expect("an answer");
        assert_eq!(routed.json()["routed"], true, "{queue}");
    }

    /// Starts a consumer with this prefetch, and takes so many deliveries. Returns their tags.
    pub(crate) fn consume(&mut self, queue: &str, prefetch: u16, deliveries: usize) -> Vec<u64> {
        self.wire.prefetch(1, prefetch);
        self.wire.consume(1, queue, false);
        (0..deliveries).map(|_| self.wire.delivery().0).collect()
    }

    /// Waits until the object has a reason of this code whose sentence has this text. Returns the reason.
    pub(crate) fn says(&self, path: &str, code: &str, text: &str) -> Value {
        says(&self.http(), path, code, text)
    }

    /// As [`Staged::says`], while the client repeats a step.
    pub(crate) fn says_while(&mut self, path: &str, code: &str, text: &str, step: impl FnMut(&mut Wire)) -> Value {
        let (http, mut step) = (self.http(), step);
        let wanted = [path, code, text].map(str::to_owned);
        let watcher = thread::spawn(move || says(&http, &wanted[0], &wanted[1], &wanted[2]));
        while !watcher.is_finished() {
            step(&mut self.wire);
        }
        watcher.join().expect("it is said")
    }

    /// Waits until something holds.
    pub(crate) fn wait_until(&self, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "it takes too long");
            pause();
        }
    }

    /// The codes of an object's reasons.
    pub(crate) fn codes(&self, path: &str) -> Vec<String> {
        let object = self.http().get(&format!("/api/{path}")).expect("an answer").json();
        let reasons = object["why"].as_array().cloned().unwrap_or_default();
        reasons.iter().filter_map(|reason| reason["code"].as_str().map(str::to_owned)).collect()
    }

    pub(crate) fn ends(self) {
        drop(self.wire);
        conservation::check(&self.node.http());
    }
}

/// Gives a delivery back: to its queue, or to the dead-letter exchange.
pub(crate) fn nack(wire: &mut Wire, tag: u64, requeue: bool) {
    let mut arguments = Writer::new();
    arguments.put_long_long(tag).put_octet(if requeue { REQUEUE } else { 0 });
    wire.send(&method_frame(1, method::BASIC_NACK, &arguments));
}

/// Rejects a message, which counts as a failure: it goes back to its queue, or to the dead-letter exchange.
pub(crate) fn reject(wire: &mut Wire, tag: u64, requeue: bool) {
    let mut arguments = Writer::new();
    arguments.put_long_long(tag).put_octet(u8::from(requeue));
    wire.send(&method_frame(1, method::BASIC_REJECT, &arguments));
}

/// A moment between two steps of a client: the state results from events inside the node, and over HTTP it can only be polled.
pub(crate) fn pause() {
    thread::sleep(Duration::from_millis(10));
}

fn says(http: &Http, path: &str, code: &str, text: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let json = http.get(&format!("/api/{path}")).expect("an answer").json();
        let objects = if json.is_array() { json.as_array().cloned().unwrap_or_default() } else { vec![json.clone()] };
        let reasons = objects.iter().filter_map(|object| object["why"].as_array()).flatten();
        let of_code: Vec<&Value> = reasons.filter(|reason| reason["code"] == *code).collect();
        let said = of_code.iter().find(|reason| reason["text"].as_str().is_some_and(|said| said.contains(text)));
        if let Some(reason) = said {
            // The sentence and its parts are the same.
            let parts = reason["parts"].as_array().cloned().unwrap_or_default();
            let part = |part: &Value| part.as_str().or_else(|| part["name"].as_str()).map(str::to_owned);
            let joined: String = parts.iter().filter_map(part).collect();
            assert_eq!(reason["text"], joined, "{reason}");
            assert!(["bad", "warn", "note"].iter().any(|name| reason["severity"] == **name), "{reason}");
            assert!(reason["short"].as_str().is_some_and(|short| !short.is_empty()), "{reason}");
            return (**reason).clone();
        }
        assert!(Instant::now() < deadline, "{path}: {code} doesn't say {text:?}: {of_code:?} in {json}");
        pause();
    }
}
