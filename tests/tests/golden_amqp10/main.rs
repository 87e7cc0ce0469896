//! Scripts of AMQP 1.0 frames, whose answers are compared with RabbitMQ's frame by frame.
//!
//! The recorded answers are in tests/golden/amqp10-frames.json (`make golden` renews them). Differences are listed in
//! tests/allow/amqp10-frames.txt with the reason: an entry names the script and the frames that differ.

mod compare;
mod flows;
mod links;
mod opening;
mod play;
mod script;
mod sessions;
mod settling;
mod transactions;
mod transfers;

use std::collections::BTreeMap;
use std::env;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use leveret_tests::broker::{Broker, is_another, is_given};
use leveret_tests::node::Options;
use leveret_tests::wire::{Wire, Writer, method};
use leveret_tests::{PATIENCE, allow};
use serde_json::{Value, json};

use script::{QUEUE, Script};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/amqp10-frames.json");
/// The restricted user's permissions to configure, write and read; on RabbitMQ it is also the user's name and
/// password.
const RESTRICTED: &str = "golden10";
const PERMISSIONS: [&str; 3] = ["^golden10", "^golden10[.]write", "^golden10[.]read"];
/// A queue whose address contains escapes.
const ESCAPED: &str = "golden10.a b/c";
/// Longest silence of a RabbitMQ while it is recorded.
const SILENCE: Duration = Duration::from_secs(3);

fn scripts() -> Vec<Script> {
    [
        opening::scripts(),
        sessions::scripts(),
        links::scripts(),
        transfers::scripts(),
        flows::scripts(),
        settling::scripts(),
        transactions::scripts(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The objects that scripts find: a queue that is new and empty each time, and shared fixtures.
struct Stage {
    wire: Wire,
}

impl Stage {
    fn new(address: SocketAddr) -> Self {
        let mut stage = Self { wire: Wire::open(address) };
        stage.declare("golden10.full", 0, &[("x-overflow", "reject-publish")], &[("x-max-length", 0)]);
        stage.declare(ESCAPED, 0, &[], &[]);
        for right in ["golden10.read", "golden10.write"] {
            stage.declare(right, 0, &[], &[]);
        }
        // Exclusive: bit 2.
        stage.declare("golden10.exclusive", 4, &[], &[]);
        let mut arguments = Writer::new();
        // Durable and internal: bits 1 and 3.
        arguments.put_short(0).put_short_string("golden10.internal").put_short_string("direct");
        arguments.put_octet(0b1010).put_empty_table();
        stage.wire.call(1, method::EXCHANGE_DECLARE, &arguments, method::EXCHANGE_DECLARE_OK);
        stage
    }

    fn declare(&mut self, name: &str, flags: u8, texts: &[(&str, &str)], numbers: &[(&str, i32)]) {
        let mut table = Writer::new();
        for (key, text) in texts {
            table.put_short_string(key).put_octet(b'S').put_long_string(text.as_bytes());
        }
        for (key, number) in numbers {
            table.put_short_string(key).put_octet(b'I').put(&number.to_be_bytes());
        }
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(name).put_octet(flags | 2).put_long_string(table.bytes());
        self.wire.call(1, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK);
    }

    fn renew_queue(&mut self) {
        self.delete(QUEUE);
        self.declare(QUEUE, 0, &[], &[]);
    }

    fn delete(&mut self, queue: &str) {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(queue).put_octet(0);
        self.wire.call(1, method::QUEUE_DELETE, &arguments, (50, 41));
    }
}

/// A broker, and the parameters of reading its answers.
#[derive(Clone, Copy)]
struct Asked<'a> {
    address: SocketAddr,
    /// The restricted user's address and name.
    restricted: (SocketAddr, &'a str),
    /// Longer silence is recorded as such.
    patience: Duration,
    /// Number of attempts for a script that meets silence. About one connection in a hundred to RabbitMQ gets no
    /// answer to its open; with Leveret none may.
    tries: usize,
}

impl Asked<'_> {
    fn play(&self, script: &Script, mut before: impl FnMut()) -> (String, Vec<String>) {
        let (address, user) = if script.restricted { self.restricted } else { (self.address, "guest") };
        let mut play = || {
            before();
            play::play(address, user, &script.steps, self.patience)
        };
        let mut lines = play();
        for _ in 1..self.tries {
            if lines.iter().any(|line| line == play::SILENCE) {
                lines = play();
            }
        }
        if script.without_flows {
            lines.retain(|line| play::first_word(line) != "flow");
        }
        (script.name.to_owned(), lines)
    }

    /// The answers to all scripts. Scripts that need [`QUEUE`] take turns, the others run concurrently: a refused
    /// login takes seconds.
    fn answers(&self) -> BTreeMap<String, Vec<String>> {
        const THREADS: usize = 8;
        let (with_queue, others): (Vec<_>, Vec<_>) = scripts().into_iter().partition(Script::needs_queue);
        let count = with_queue.len() + others.len();
        let mut addresses = vec![self.address, self.restricted.0];
        addresses.dedup();
        let mut stages: Vec<Stage> = addresses.into_iter().map(Stage::new).collect();
        let last = stages.len() - 1;
        let mut answers = thread::scope(|scope| {
            let part = |at| others.iter().skip(at).step_by(THREADS);
            let threads: Vec<_> = (0..THREADS)
                .map(|at| scope.spawn(move || part(at).map(|script| self.play(script, || ())).collect::<Vec<_>>()))
                .collect();
            let mut answers = BTreeMap::new();
            for script in &with_queue {
                let stage = &mut stages[if script.restricted { last } else { 0 }];
                answers.extend([self.play(script, || stage.renew_queue())]);
            }
            for thread in threads {
                answers.extend(thread.join().expect("a thread of scripts"));
            }
            answers
        });
        assert_eq!(answers.len(), count, "two scripts have the same name");
        for mut stage in stages {
            stage.delete(ESCAPED);
            stage.wire.close();
        }
        compare::begin_once(&mut answers);
        answers
    }
}

/// Records RabbitMQ's answers. `RECORD_GOLDEN` is the date; `LEVERET_TEST_URI` and `LEVERET_TEST_HTTP_URI` give its
/// address.
fn record(date: &str) {
    assert!(is_another(), "LEVERET_TEST_URI says which RabbitMQ is recorded");
    let broker = Broker::start();
    let http = broker.http();
    let version = http.get("/api/overview").expect("an overview").json()["rabbitmq_version"].clone();
    let [configure, write, read] = PERMISSIONS;
    let user = json!({ "password": RESTRICTED, "tags": "" });
    let permissions = json!({ "configure": configure, "write": write, "read": read });
    for (path, body) in
        [(format!("/api/users/{RESTRICTED}"), user), (format!("/api/permissions/%2F/{RESTRICTED}"), permissions)]
    {
        let status = http.put(&path, &body).expect("an answer").status;
        assert!(status < 300, "{path}: {status}");
    }
    let asked = Asked { address: broker.amqp(), restricted: (broker.amqp(), RESTRICTED), patience: SILENCE, tries: 3 };
    let golden = json!({ "broker": "RabbitMQ", "version": version, "date": date, "answers": asked.answers() });
    std::fs::write(GOLDEN, serde_json::to_string_pretty(&golden).expect("JSON") + "\n").expect("written");
    let _ = http.delete(&format!("/api/users/{RESTRICTED}"));
    broker.finish("golden10");
}

#[test]
fn frames_are_answered_as_rabbitmq_answers_them() {
    if let Ok(date) = env::var("RECORD_GOLDEN") {
        record(&date);
        return;
    }
    if is_given() {
        return;
    }
    let golden = std::fs::read_to_string(GOLDEN).expect("the recorded answers");
    let golden: Value = serde_json::from_str(&golden).expect("JSON");
    let [configure, write, read] = PERMISSIONS;
    let options = || Options::new().set("link_credit.adaptive", false);
    let restricted = Broker::start_with(
        options()
            .set("default_permissions.configure", configure)
            .set("default_permissions.write", write)
            .set("default_permissions.read", read),
    );
    let broker = Broker::start_with(options());
    let allowed = allow::parse(include_str!("../../allow/amqp10-frames.txt"));
    let (mut passed, mut failed) = (Vec::new(), Vec::new());
    let asked =
        Asked { address: broker.amqp(), restricted: (restricted.amqp(), "guest"), patience: PATIENCE, tries: 1 };
    for (name, ours) in asked.answers() {
        let theirs: Vec<String> = golden["answers"][&name]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        assert!(!theirs.is_empty(), "{name} isn't recorded: run make golden");
        let differences = compare::differences(&name, &theirs, &ours);
        if differences.iter().any(|difference| !allowed.contains_key(difference)) {
            println!(
                "{name}\n  RabbitMQ: {}\n  Leveret:  {}",
                theirs.join("\n            "),
                ours.join("\n            ")
            );
        }
        if differences.is_empty() {
            passed.push(name);
        }
        failed.extend(differences);
    }
    let wrong = allow::judge(&allowed, &passed, &failed);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    restricted.finish("golden10");
    broker.finish("golden10");
}
