//! A broker without threads, sockets or a clock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leveret_broker::authenticate::Anybody;
use leveret_broker::streams::StoreId;
use leveret_broker::{Broker, Connection, Now, Peer, Protocol, Settings, Setup, Wake};
use leveret_log::{Lane, MemoryDisk, Next, Options};
use leveret_metrics::Counters;
use leveret_model::{Arguments, Bind, Command, DeclareQueue, DestinationName, PutUser, SetPermissions, Value};
use leveret_session_amqp10::Amqp10Protocol;
use leveret_session_amqp091::Amqp091Protocol;

use super::{Client, WINDOW};
use crate::count::count;
use crate::{NOW_MS, QUEUE};

/// Most bytes in one read of a socket.
const READ_MAX: usize = 32 << 10;
/// Waits of the log for more records up to this long end at once, in nanoseconds.
const COMPANY_NS: u64 = 10_000_000;

/// A waker without effect: all connections are polled in turn.
pub(crate) struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// A broker on a disk in memory, with one durable queue.
pub(crate) struct Stage {
    pub(crate) broker: Arc<Broker>,
    disk: MemoryDisk,
    pub(crate) now: Now,
    /// Whether the broker's work is counted.
    pub(crate) counts: bool,
    /// The clock that measures turns; it stands still while instructions are counted.
    pub(crate) clock: fn() -> Duration,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let mut settings = Settings::default();
        // So that publishers never wait for credit.
        settings.link_credit.start = 10 * WINDOW as u32;
        Self::with(settings)
    }

    /// A broker with these settings.
    pub(crate) fn with(settings: Settings) -> Self {
        let disk = MemoryDisk::new();
        let now = Now { monotonic: 1_000_000_000, wall_ms: NOW_MS };
        let counters = vec![Arc::new(Counters::default())];
        let protocols: Vec<Arc<dyn Protocol>> = vec![Arc::new(Amqp091Protocol), Arc::new(Amqp10Protocol)];
        let (broker, _) = Broker::recover(
            &disk,
            Options::default(),
            Setup { settings, protocols, authenticator: Arc::new(Anybody), counters },
            now,
        )
        .expect("an empty disk");
        let mut stage = Self { broker, disk, now, counts: false, clock: || Duration::ZERO };
        for command in furniture() {
            stage.broker.bootstrap(vec![command], stage.now).expect("the command is accepted");
            stage.write();
            stage.broker.registry.publish();
        }
        stage
    }

    /// Writes pending data to the disk. Returns whether there was any.
    pub(crate) fn write(&mut self) -> bool {
        let mut wrote = false;
        loop {
            match self.call(|| self.broker.next_job(StoreId::FIRST, Lane::Commit, self.now)).expect("the log works") {
                Next::Run(id, job) => {
                    wrote = true;
                    let result = job.run(&self.disk);
                    self.call(|| {
                        drop(job);
                        self.broker.complete(StoreId::FIRST, id, result, self.now)
                    })
                    .expect("the log works");
                }
                Next::At(at) if at < self.now.monotonic + COMPANY_NS => {
                    self.now.monotonic = self.now.monotonic.max(at);
                }
                Next::At(_) | Next::Idle => return wrote,
            }
        }
    }

    /// Runs a part of the broker's work.
    pub(crate) fn call<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.counts { count(work) } else { work() }
    }
}

/// Creates a vhost, a user with all permissions in it, and the queue with its bindings.
fn furniture() -> [Command; 6] {
    let bind = |source: &str, key: &str, arguments| {
        Command::Bind(Bind {
            vhost: "/".into(),
            source: source.into(),
            destination: DestinationName::Queue(QUEUE.into()),
            routing_key: key.as_bytes().into(),
            arguments,
            connection: None,
        })
    };
    let all = || ".*".into();
    [
        Command::CreateVhost { name: "/".into() },
        Command::PutUser(PutUser {
            name: "guest".into(),
            password_hash: None,
            hashing_algorithm: "rabbit_password_hashing_sha256".into(),
            tags: Vec::new(),
        }),
        Command::SetPermissions(SetPermissions {
            user: "guest".into(),
            vhost: "/".into(),
            configure: all(),
            write: all(),
            read: all(),
        }),
        Command::DeclareQueue(DeclareQueue::durable("/".into(), QUEUE.into(), Arguments::default())),
        bind("amq.topic", "sensor.#", Arguments::default()),
        bind("amq.headers", "", Arguments::from_iter([("kind", Value::from("invoice"))])),
    ]
}

/// A client and its connection.
pub(super) struct Line<C> {
    pub(super) client: C,
    connection: Connection,
    unread: Vec<u8>,
    answers: Vec<u8>,
}

impl<C: Client> Line<C> {
    pub(super) fn new(stage: &Stage, port: u16, client: C) -> Self {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let peer = Peer::new(address(port), address(5672));
        let connection = stage.broker.accept(&stage.broker.protocols, peer, Arc::new(Nobody), 0, stage.now);
        Self { client, connection, unread: Vec::new(), answers: Vec::new() }
    }

    /// Passes bytes between client and connection in both directions until both are done.
    pub(super) fn step(&mut self, stage: &Stage) {
        let Self { client, connection, unread, answers } = self;
        let mut moved = true;
        while moved {
            unread.append(client.output());
            let read = unread.len().min(READ_MAX);
            moved = connection.wants_read() && read > 0;
            if moved {
                let used = stage.call(|| connection.receive(&unread[..read], stage.now));
                unread.drain(..used);
            }
            stage.call(|| connection.turn(stage.now));
            let output = connection.output();
            let written = output.len();
            if written > 0 {
                answers.extend_from_slice(&output.pending()[..written]);
                stage.call(|| output.written(written));
                let used = client.receive(answers);
                answers.drain(..used);
                moved = true;
            }
        }
    }
}
