use std::net::SocketAddr;
use std::sync::Arc;

use leveret_broker::authenticate::Anybody;
use leveret_broker::streams::StoreId;
use leveret_broker::{Authenticate, Broker, Connection, Now, Peer, Protocol, Settings, Setup, Wake};
use leveret_log::{Disk, Lane, MemoryDisk, Next, Options};
use leveret_metrics::Counters;
use leveret_model::{Command, PutUser, SetPermissions};
use leveret_session_amqp10::Amqp10Protocol;
use leveret_session_amqp091::Amqp091Protocol;
use leveret_strict_client::amqp091::{Client, Event, Options as ClientOptions};

/// Turns after which a stage that isn't quiet never will be.
pub(crate) const TURNS_MAX: usize = 10_000;

/// A notifier that does nothing: the stage polls every connection in turn, so no wake-ups are needed.
pub(crate) struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// A message that a client received. Bytes that the client only lends are copied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    Event(Event),
    Delivered { routing_key: String, properties: Vec<u8>, body: String },
}

/// A client with the connection that it talks to.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) connection: Connection,
    /// Bytes that the connection didn't take yet.
    unread: Vec<u8>,
    answers: Vec<u8>,
    told: Vec<Told>,
    /// Whether the client reads the connection's output.
    pub(crate) reads: bool,
    /// Bytes that the connection has written.
    pub(crate) received: usize,
}

impl Link {
    /// The messages that the client received since the last call.
    pub(crate) fn told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// Code and text of the close of channel or connection that it received since the last call.
    pub(crate) fn refusal(&mut self) -> Option<(u16, String)> {
        self.told().into_iter().find_map(|told| match told {
            Told::Event(Event::ChannelClosed { reason, .. } | Event::ConnectionClosed(reason)) => {
                Some((reason.code, reason.text))
            }
            _ => None,
        })
    }

    /// True if bytes went either way.
    pub(crate) fn step(&mut self, now: Now) -> bool {
        let before = (self.unread.len(), self.answers.len(), self.received);
        let output = std::mem::take(self.client.output());
        let mut moved = !output.is_empty();
        self.unread.extend_from_slice(&output);
        if self.connection.wants_read() && !self.unread.is_empty() {
            let used = self.connection.receive(&self.unread, now);
            self.unread.drain(..used);
        }
        let held = !self.connection.wants_read();
        // Work that ends in this turn may have appended something.
        moved |= self.connection.is_ending();
        self.connection.turn(now);
        moved |= held && self.connection.wants_read();
        let bytes = self.connection.output();
        let count = if self.reads { bytes.len() } else { 0 };
        self.received += count;
        self.answers.extend_from_slice(&bytes.pending()[..count]);
        if count > 0 {
            bytes.written(count);
        }
        let mut events = Vec::new();
        let used = self.client.receive(&self.answers, &mut events).expect("the broker keeps to the specification");
        self.answers.drain(..used);
        moved |= !events.is_empty();
        for event in events {
            self.told.push(match event {
                Event::Delivered(delivery) => Told::Delivered {
                    routing_key: String::from_utf8_lossy(self.client.bytes(delivery.routing_key)).into_owned(),
                    properties: self.client.bytes(delivery.properties).to_vec(),
                    body: String::from_utf8_lossy(self.client.bytes(delivery.body)).into_owned(),
                },
                other => Told::Event(other),
            });
        }
        moved || self.connection.wants_turn() || before != (self.unread.len(), self.answers.len(), self.received)
    }
}

/// A broker on an in-memory disk.
pub(crate) struct Stage {
    pub(crate) broker: Arc<Broker>,
    pub(crate) now: Now,
    pub(crate) links: Vec<Link>,
    /// Reads of stored messages so far.
    pub(crate) reads: usize,
    /// Whether queues' late answers wait, and all other work that is left for their home core.
    pub(crate) holds_answers: bool,
    disk: MemoryDisk,
    peers: u16,
}

impl Stage {
    /// A broker with the user `guest`, who may do anything in the vhost `/`.
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::with_backend(settings, Arc::new(Anybody))
    }

    /// A broker whose logins this backend checks.
    pub(crate) fn with_backend(settings: Settings, authenticator: Arc<dyn Authenticate>) -> Self {
        let disk = MemoryDisk::new();
        let now = Now { monotonic: 1_000_000_000, wall_ms: 1_700_000_000_000 };
        let counters = vec![Arc::new(Counters::default())];
        let protocols: Vec<Arc<dyn Protocol>> = vec![Arc::new(Amqp091Protocol), Arc::new(Amqp10Protocol)];
        let (broker, _) =
            Broker::recover(&disk, Options::default(), Setup { settings, protocols, authenticator, counters }, now)
                .expect("an empty disk");
        let mut stage = Self { broker, now, links: Vec::new(), reads: 0, holds_answers: false, disk, peers: 0 };
        stage.command(Command::CreateVhost { name: "/".into() });
        stage.user("guest");
        stage
    }

    /// Carries out a change of the control plane at once.
    pub(crate) fn command(&mut self, command: Command) {
        self.broker.bootstrap(vec![command], self.now).expect("the command is accepted");
        self.settle();
    }

    /// Makes a user with all permissions.
    pub(crate) fn user(&mut self, name: &str) {
        self.command(Command::PutUser(PutUser {
            name: name.into(),
            password_hash: None,
            hashing_algorithm: "rabbit_password_hashing_sha256".into(),
            tags: Vec::new(),
        }));
        self.command(Command::SetPermissions(SetPermissions {
            user: name.into(),
            vhost: "/".into(),
            configure: ".*".into(),
            write: ".*".into(),
            read: ".*".into(),
        }));
    }

    /// Connects `guest` and opens channel 1; returns the number of the link.
    pub(crate) fn connect(&mut self) -> usize {
        self.connect_with(ClientOptions::default())
    }

    pub(crate) fn connect_with(&mut self, options: ClientOptions) -> usize {
        let at = self.dial(options);
        assert_eq!(self.links[at].told().last(), Some(&Told::Event(Event::Connected)));
        self.links[at].client.open_channel(1);
        self.settle();
        self.links[at].told();
        at
    }

    /// Begins a connection, even if it will be refused.
    pub(crate) fn dial(&mut self, options: ClientOptions) -> usize {
        self.peers += 1;
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let peer = Peer::new(address(40_000 + self.peers), address(5672));
        let connection = self.broker.accept(&self.broker.protocols, peer, Arc::new(Nobody), 0, self.now);
        self.links.push(Link {
            client: Client::new(options),
            connection,
            unread: Vec::new(),
            answers: Vec::new(),
            told: Vec::new(),
            reads: true,
            received: 0,
        });
        self.settle();
        self.links.len() - 1
    }

    /// Runs everything until no work is left. The clock advances only when the log asks for it.
    pub(crate) fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut moved = self.disk_work();
            for link in &mut self.links {
                moved |= link.step(self.now);
            }
            if !moved {
                return;
            }
        }
        panic!("the stage never comes to rest");
    }

    /// Removes all files whose names begin with `prefix`.
    pub(crate) fn lose_files(&self, prefix: &str) {
        for name in self.disk.list().expect("names").iter().filter(|name| name.starts_with(prefix)) {
            self.disk.remove(name).expect("it is there");
        }
    }

    /// Advances the clock in steps of a tenth of a second.
    pub(crate) fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.now.monotonic += 100_000_000;
            self.now.wall_ms += 100;
            self.settle();
        }
    }

    pub(crate) fn disk_work(&mut self) -> bool {
        self.log_work() | self.other_work()
    }

    fn log_work(&mut self) -> bool {
        let mut worked = false;
        for lane in [Lane::Commit, Lane::Background] {
            loop {
                match self.broker.next_job(StoreId::FIRST, lane, self.now).expect("the log works") {
                    Next::Run(id, job) => {
                        let result = job.run(&self.disk);
                        self.broker.complete(StoreId::FIRST, id, result, self.now).expect("the log works");
                        worked = true;
                    }
                    // The log waits a moment to coalesce writes, unnoticed by anything else.
                    Next::At(at) if at < self.now.monotonic + 10_000_000 => {
                        self.now.monotonic = self.now.monotonic.max(at);
                    }
                    Next::At(_) | Next::Idle => break,
                }
            }
        }
        worked
    }

    /// Carries out the oldest waiting read, and nothing else.
    #[track_caller]
    pub(crate) fn read_one(&mut self) {
        self.broker.next_read().expect("one waits").run(&self.disk, self.now);
    }

    /// Runs the broker's other work while its log is in the middle of a write.
    pub(crate) fn other_work(&mut self) -> bool {
        let mut worked = false;
        while let Some(job) = self.broker.next_body_job() {
            job.run(&self.disk).expect("the disk works");
            worked = true;
        }
        while let Some(job) = self.broker.next_read() {
            job.run(&self.disk, self.now);
            self.reads += 1;
            worked = true;
        }
        if !self.holds_answers && self.broker.has_deferred_work(0, self.now) {
            self.broker.deferred_turn(0, self.now);
            worked = true;
        }
        worked
    }
}
