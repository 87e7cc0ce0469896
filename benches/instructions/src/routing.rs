//! Routes from an exchange and a routing key to queues, without the sessions' cache.

use std::hint::black_box;

use leveret_model::{Arguments, Bind, Command, DeclareQueue, DestinationName, HashProperty, Model, Permit, Value};
use leveret_routing::{Header, Headers, NoHeaders, Router, Routes};

use crate::count::count;
use crate::{MESSAGES, QUEUE};

const VHOST: &str = "/";

struct Tables {
    model: Model,
    router: Router,
}

impl Tables {
    fn new() -> Self {
        let model = Model::new();
        let router = Router::new(model.topology());
        Self { model, router }
    }

    fn submit(&mut self, command: Command) {
        let submitted = self.model.submit(Permit::system(), command).expect("it is accepted");
        self.router.apply_all(&submitted.changes);
    }

    fn queue(&mut self, name: &str) {
        self.submit(Command::DeclareQueue(DeclareQueue::durable(VHOST.into(), name.into(), Arguments::default())));
    }

    /// A queue with a binding.
    fn bind(&mut self, exchange: &str, queue: &str, key: &str, arguments: Arguments) {
        self.queue(queue);
        self.submit(Command::Bind(Bind {
            vhost: VHOST.into(),
            source: exchange.into(),
            destination: DestinationName::Queue(queue.into()),
            routing_key: key.as_bytes().into(),
            arguments,
            connection: None,
        }));
    }

    /// Counts the routing of messages, each of which goes to `queues` queues.
    fn count(&self, exchange: &str, key: &str, headers: &dyn Headers, queues: usize) -> u64 {
        count(|| {
            for _ in 0..MESSAGES {
                let mut routes = Routes::new();
                let key = black_box(key).as_bytes();
                self.router.route(VHOST, black_box(exchange), key, headers, &mut routes).expect("there is one");
                assert_eq!(black_box(routes).len(), queues);
            }
        });
        MESSAGES
    }
}

pub(crate) fn default() -> u64 {
    let mut tables = Tables::new();
    (0..100).for_each(|at| tables.queue(&format!("queue-{at}")));
    tables.queue(QUEUE);
    tables.count("", QUEUE, &NoHeaders, 1)
}

pub(crate) fn direct() -> u64 {
    let mut tables = Tables::new();
    for at in 0..100 {
        tables.bind("amq.direct", &format!("queue-{at}"), &format!("key-{at}"), Arguments::default());
    }
    tables.count("amq.direct", "key-50", &NoHeaders, 1)
}

pub(crate) fn fanout() -> u64 {
    let mut tables = Tables::new();
    (0..10).for_each(|at| tables.bind("amq.fanout", &format!("queue-{at}"), "", Arguments::default()));
    tables.count("amq.fanout", "key", &NoHeaders, 10)
}

/// Bindings of three words, some with wildcards; four of them match.
pub(crate) fn topic() -> u64 {
    let mut tables = Tables::new();
    for at in 0..997 {
        tables.bind("amq.topic", &format!("queue-{at}"), &format!("sensor.{at}.value"), Arguments::default());
    }
    for (at, key) in ["sensor.#", "sensor.*.value", "#.value"].iter().enumerate() {
        tables.bind("amq.topic", &format!("every-{at}"), key, Arguments::default());
    }
    tables.count("amq.topic", "sensor.500.value", &NoHeaders, 4)
}

/// A message with two headers.
struct Given;

impl Headers for Given {
    fn lookup(&self, name: &str) -> Option<Header<'_>> {
        match name {
            "region" => Some(Header::String(b"europe")),
            "kind" => Some(Header::String(b"invoice")),
            _ => None,
        }
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn property(&self, _: HashProperty) -> Option<Header<'_>> {
        None
    }
}

/// One of ten bindings matches.
pub(crate) fn headers() -> u64 {
    let mut tables = Tables::new();
    for (at, kind) in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "invoice"].iter().enumerate() {
        let wanted = [("region", Value::from("europe")), ("kind", Value::from(*kind))];
        tables.bind("amq.headers", &format!("queue-{at}"), "", Arguments::from_iter(wanted));
    }
    tables.count("amq.headers", "", &Given, 1)
}
