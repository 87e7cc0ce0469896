//! Which permissions each operation takes, over AMQP 0-9-1, AMQP 1.0 and management over AMQP 1.0: every operation is tried with each
//! combination of permissions. The same over HTTP is in the tests of the crate `management`.
//!
//! Not covered: what isn't there to be permitted. Methods that act on what a client has already (acknowledgements, transactions, the
//! end of its own consumers) take no permission, and are listed as such.

use std::collections::BTreeSet;

use leveret_amqp10::value::{OwnedMap, OwnedValue};
use leveret_amqp091::method::{METHODS, exchange};
use leveret_amqp091::{FieldTable, Method, ShortStr};
use leveret_model::{Command, SetPermissions};
use leveret_strict_client::amqp10::{Client as Client10Machine, Event, ManagementRequest};
use leveret_strict_client::amqp091::{Client, Consume, Options, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::Stage;

/// A permission on objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    ConfigureQueue,
    ConfigureExchange,
    WriteQueue,
    WriteExchange,
    ReadQueue,
    ReadExchange,
    /// Write to the default exchange.
    WriteDefault,
}

use Need::{ConfigureExchange, ConfigureQueue, ReadExchange, ReadQueue, WriteDefault, WriteExchange, WriteQueue};

/// An operation, and the permissions that it takes.
struct Case<C> {
    /// The method, or a name for what is done.
    name: &'static str,
    needs: &'static [Need],
    act: fn(&mut C),
}

const DURABLE: QueueDeclare = QueueDeclare { durable: true, passive: false, exclusive: false, auto_delete: false };

fn passive_exchange(client: &mut Client) {
    let (exchange, kind) = (ShortStr::truncated("x"), ShortStr::truncated("topic"));
    let declare = exchange::Declare { exchange, kind, passive: true, nowait: true, ..Default::default() };
    client.send(1, &Method::ExchangeDeclare(declare));
}

fn unbind_exchange(client: &mut Client) {
    let [destination, source, routing_key] = ["y", "x", "k"].map(ShortStr::truncated);
    let unbind = exchange::Unbind { destination, source, routing_key, nowait: true, ..Default::default() };
    client.send(1, &Method::ExchangeUnbind(unbind));
}

/// The methods of AMQP 0-9-1 that take permissions. `q`, `x` and `y` exist.
const METHOD_CASES: &[Case<Client>] = &[
    Case {
        name: "queue.declare",
        needs: &[ConfigureQueue],
        act: |c| c.declare_queue(1, b"q", DURABLE, &FieldTable::new()),
    },
    Case {
        name: "queue.declare",
        needs: &[ConfigureQueue],
        act: |c| c.declare_queue(1, b"q", QueueDeclare { passive: true, ..DURABLE }, &FieldTable::new()),
    },
    Case {
        name: "queue.declare",
        needs: &[ConfigureQueue, ReadQueue, WriteExchange],
        act: |c| c.declare_queue(1, b"qnew", DURABLE, &FieldTable::new().with("x-dead-letter-exchange", "x")),
    },
    Case { name: "queue.delete", needs: &[ConfigureQueue], act: |c| c.delete_queue(1, b"q") },
    Case { name: "queue.purge", needs: &[ReadQueue], act: |c| c.purge_queue(1, b"q") },
    Case {
        name: "queue.bind",
        needs: &[WriteQueue, ReadExchange],
        act: |c| c.bind_queue(1, b"q", b"x", b"k", &FieldTable::new()),
    },
    Case {
        name: "queue.unbind",
        needs: &[WriteQueue, ReadExchange],
        act: |c| c.unbind_queue(1, b"q", b"x", b"k", &FieldTable::new()),
    },
    Case {
        name: "exchange.declare",
        needs: &[ConfigureExchange],
        act: |c| c.declare_exchange(1, b"x", "topic", true, &FieldTable::new()),
    },
    Case { name: "exchange.declare", needs: &[ConfigureExchange], act: passive_exchange },
    Case { name: "exchange.delete", needs: &[ConfigureExchange], act: |c| c.delete_exchange(1, b"x") },
    Case {
        name: "exchange.bind",
        needs: &[WriteExchange, ReadExchange],
        act: |c| c.bind_exchange(1, b"y", b"x", b"k"),
    },
    Case { name: "exchange.unbind", needs: &[WriteExchange, ReadExchange], act: unbind_exchange },
    Case {
        name: "basic.publish",
        needs: &[WriteExchange],
        act: |c| _ = c.publish(1, Publication::to(b"x", b"k", b"m")),
    },
    Case {
        name: "basic.publish",
        needs: &[WriteDefault],
        act: |c| _ = c.publish(1, Publication::to_queue(b"q", b"m")),
    },
    Case { name: "basic.get", needs: &[ReadQueue], act: |c| c.get(1, b"q", true) },
    Case {
        name: "basic.consume",
        needs: &[ReadQueue],
        act: |c| c.consume(1, b"q", b"t", Consume::default(), &FieldTable::new()),
    },
];

/// Methods that take no permission: they open and close, or act on what the channel has.
const FREE_METHODS: &[&str] = &[
    "access.request",
    "basic.ack",
    "basic.cancel",
    "basic.nack",
    "basic.qos",
    "basic.recover",
    "basic.recover-async",
    "basic.reject",
    "channel.close",
    "channel.flow",
    "channel.open",
    "confirm.select",
    "connection.blocked",
    "connection.close",
    "connection.open",
    "connection.secure",
    "connection.start",
    "connection.tune",
    "connection.unblocked",
    "connection.update-secret",
    "tx.commit",
    "tx.rollback",
    "tx.select",
];

/// Methods that only a broker sends: clients that send them are refused whatever their permissions.
const BROKERS_METHODS: &[&str] = &["basic.deliver", "basic.return", "basic.get-empty"];

#[test]
fn every_method_has_its_permissions_in_the_matrix() {
    let known: BTreeSet<&str> = METHOD_CASES.iter().map(|case| case.name).collect();
    let others = METHODS.iter().map(|(_, _, name)| *name).filter(|name| !name.ends_with("-ok"));
    let missing: Vec<&str> = others
        .filter(|name| !known.contains(name) && !FREE_METHODS.contains(name) && !BROKERS_METHODS.contains(name))
        .collect();
    assert!(missing.is_empty(), "without an entry: {missing:?}");
}

/// All permissions.
const ALL: [Need; 7] =
    [ConfigureQueue, ConfigureExchange, WriteQueue, WriteExchange, ReadQueue, ReadExchange, WriteDefault];

/// The sets of permissions that an operation with these needs is tried with: every part of what it needs, alone and with everything
/// that it doesn't need.
fn grants(needs: &[Need]) -> Vec<Vec<Need>> {
    let parts = (0..1 << needs.len()).map(|bits: usize| {
        needs.iter().enumerate().filter(move |(at, _)| bits & (1 << at) != 0).map(|(_, need)| *need)
    });
    let others = || ALL.into_iter().filter(|need| !needs.contains(need));
    parts.flat_map(|part| [part.clone().collect(), part.chain(others()).collect()]).collect()
}

/// Makes the objects, and gives `user` these permissions and no others. `admin` is the link of an administrator.
fn prepare(stage: &mut Stage, admin: usize, granted: &[Need]) {
    let client = &mut stage.links[admin].client;
    client.declare_queue(1, b"q", DURABLE, &FieldTable::new());
    for exchange in [b"x", b"y"] {
        client.declare_exchange(1, exchange, "topic", true, &FieldTable::new());
    }
    client.bind_queue(1, b"q", b"x", b"k", &FieldTable::new());
    stage.settle();
    stage.links[admin].told();
    let has = |need: Need| granted.contains(&need);
    let pattern = |names: &[(Need, &str)]| {
        let names: Vec<&str> = names.iter().filter(|(need, _)| has(*need)).map(|(_, name)| *name).collect();
        if names.is_empty() { "^$".to_owned() } else { format!("^({})$", names.join("|")) }
    };
    stage.command(Command::SetPermissions(SetPermissions {
        user: "user".into(),
        vhost: "/".into(),
        configure: pattern(&[(ConfigureQueue, "q.*"), (ConfigureExchange, "x|y")]),
        write: pattern(&[(WriteQueue, "q.*"), (WriteExchange, "x|y"), (WriteDefault, "amq\\.default")]),
        read: pattern(&[(ReadQueue, "q.*"), (ReadExchange, "x|y")]),
    }));
}

/// A stage with the user `user`, and the link of an administrator.
fn with_user() -> (Stage, usize) {
    let mut stage = Stage::new();
    let admin = stage.connect();
    stage.user("user");
    (stage, admin)
}

fn is_allowed(needs: &[Need], granted: &[Need]) -> bool {
    needs.iter().all(|need| granted.contains(need))
}

#[test]
fn methods_take_the_permissions_of_the_matrix() {
    let (mut stage, admin) = with_user();
    let mut wrong = Vec::new();
    for case in METHOD_CASES {
        for granted in grants(case.needs) {
            prepare(&mut stage, admin, &granted);
            let link = stage.connect_with(Options { user: "user".into(), ..Options::default() });
            (case.act)(&mut stage.links[link].client);
            stage.settle();
            let refusal = stage.links[link].refusal();
            let (allowed, was_allowed) = (is_allowed(case.needs, &granted), refusal.is_none());
            let is_right = was_allowed == allowed && refusal.as_ref().is_none_or(|(code, _)| *code == 403);
            if !is_right {
                wrong.push(format!("{} with {granted:?}: {refusal:?}, expected {allowed}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const MANAGEMENT: u32 = 4;

fn request(client: &mut Client10Machine, method: &str, path: &str, body: &OwnedValue) {
    client.request(CHANNEL, MANAGEMENT, &ManagementRequest { id: 1, method, path, body });
}

fn queue_body() -> OwnedValue {
    Client10Machine::queue_to_declare(true, false, false, OwnedMap::default())
}

fn exchange_body() -> OwnedValue {
    let mut map = OwnedMap::default();
    map.push("type", "topic").push("durable", true);
    OwnedValue::Map(map)
}

fn binding_body() -> OwnedValue {
    let mut map = OwnedMap::default();
    map.push("source", "x")
        .push("destination_queue", "q")
        .push("binding_key", "k")
        .push("arguments", OwnedMap::default());
    OwnedValue::Map(map)
}

/// Links and management requests of AMQP 1.0. Every path of management requests is here but `/auth/tokens`, which takes no permission.
const LINK_CASES: &[Case<Client10Machine>] = &[
    Case {
        name: "receiver",
        needs: &[ReadQueue],
        act: |client| client.attach_receiver(CHANNEL, 0, "receiver", "/queues/q", false),
    },
    Case {
        name: "sender to a queue",
        needs: &[WriteDefault],
        act: |client| client.attach_sender(CHANNEL, 0, "sender", Some("/queues/q")),
    },
    Case {
        name: "sender to an exchange",
        needs: &[WriteExchange],
        act: |client| client.attach_sender(CHANNEL, 0, "sender", Some("/exchanges/x/k")),
    },
    Case {
        name: "PUT queue",
        needs: &[ConfigureQueue],
        act: |client| request(client, "PUT", "/queues/q", &queue_body()),
    },
    Case {
        name: "DELETE queue",
        needs: &[ConfigureQueue],
        act: |client| request(client, "DELETE", "/queues/q", &OwnedValue::Null),
    },
    Case {
        name: "DELETE messages",
        needs: &[ReadQueue],
        act: |client| request(client, "DELETE", "/queues/q/messages", &OwnedValue::Null),
    },
    Case {
        name: "PUT exchange",
        needs: &[ConfigureExchange],
        act: |client| request(client, "PUT", "/exchanges/x", &exchange_body()),
    },
    Case {
        name: "DELETE exchange",
        needs: &[ConfigureExchange],
        act: |client| request(client, "DELETE", "/exchanges/x", &OwnedValue::Null),
    },
    Case {
        name: "POST binding",
        needs: &[WriteQueue, ReadExchange],
        act: |client| request(client, "POST", "/bindings", &binding_body()),
    },
    Case {
        name: "DELETE binding",
        needs: &[WriteQueue, ReadExchange],
        act: |client| request(client, "DELETE", "/bindings/src=x;dstq=q;key=k;args=", &OwnedValue::Null),
    },
];

#[test]
fn links_and_requests_take_the_permissions_of_the_matrix() {
    let (mut stage, admin) = with_user();
    let mut wrong = Vec::new();
    for case in LINK_CASES {
        for granted in grants(case.needs) {
            prepare(&mut stage, admin, &granted);
            let mut client = Client10::connect(&mut stage, "user");
            client.client.attach_management(CHANNEL, MANAGEMENT);
            client.run(&mut stage);
            client.events.clear();
            (case.act)(&mut client.client);
            client.run(&mut stage);
            let status = client.responses.first().map(|response| response.status);
            let refusal = client.refusal();
            let was_allowed = refusal.is_none() && status.is_none_or(|status| status < 300);
            let allowed = is_allowed(case.needs, &granted);
            let is_answered =
                status.is_some() || client.events.iter().any(|event| matches!(event, Event::Attached { .. }));
            if was_allowed != allowed || allowed && !is_answered {
                wrong.push(format!("{} with {granted:?}: {refusal:?} {status:?}, expected {allowed}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
