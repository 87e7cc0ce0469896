//! Nodes with replicas of queues, whose placement is committed by a list instead of an engine.

use std::ops::Range;
use std::sync::Arc;

use leveret_broker::authenticate::Anybody;
use leveret_broker::queue_handle::{Audience, QueueRef};
use leveret_broker::replicas::PlacedReplicas;
use leveret_broker::streams::StoreId;
use leveret_broker::ticket::{StreamId, Ticket};
use leveret_broker::wait_for::WaitFor;
use leveret_broker::{Broker, Now, Settings, Setup};
use leveret_log::{Lane, Next, Options};
use leveret_message::{BatchBuilder, BatchPart, StoredMessage};
use leveret_model::{
    AppliedEntry, Arguments, Command, DeclareQueue, Limits, MemberNumber, Model, Permit, PlacementNumber, PutMember,
    Value,
};
use leveret_queue::{ConsumerFlow, ConsumerMode, ConsumerOptions, Link};

use crate::disk::SimDisk;
use crate::random::Random;

/// The placement of all queues.
pub const PLACEMENT: PlacementNumber = PlacementNumber(1);
/// The queues.
pub const QUEUES: [&str; 2] = ["q", "r"];
/// The one of which only one consumer is active.
pub const SINGLE: usize = 1;
/// The prefetch of [`consumer`].
pub const PREFETCH: u32 = 7;

/// The number of a member.
#[must_use]
pub fn number_of(at: usize) -> MemberNumber {
    MemberNumber(at as u16)
}

/// The metadata of three nodes with two quorum queues in one placement.
fn metadata() -> Vec<u8> {
    let mut model = Model::default();
    model.set_limits(Limits { placements_per_node: 1, ..Limits::default() });
    let submit = |model: &mut Model, command| drop(model.submit(Permit::system(), command).expect("is accepted"));
    for (name, node_id) in [("one", 7), ("two", 8), ("three", 9)] {
        let member = PutMember { name: name.into(), node_id, boot: 1, nonce: 1, addresses: Vec::new() };
        submit(&mut model, Command::PutMember(member));
    }
    submit(&mut model, Command::CreateVhost { name: "/".into() });
    for name in QUEUES {
        let is_single = Value::Bool(name == QUEUES[SINGLE]);
        let arguments =
            Arguments::default().with("x-queue-type", "quorum".into()).with("x-single-active-consumer", is_single);
        submit(&mut model, Command::DeclareQueue(DeclareQueue::durable("/".into(), name.into(), arguments)));
    }
    model.snapshot()
}

/// Options of a consumer that acknowledges. The link tells it of its messages.
#[must_use]
pub fn consumer(link: Arc<dyn Link>) -> ConsumerOptions {
    ConsumerOptions {
        link,
        key: 5,
        tag: "c".into(),
        channel: "".into(),
        automatic_ack: false,
        flow: ConsumerFlow::Prefetch(PREFETCH),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
        filter: None,
        stream: None,
        timeout_ms: None,
        user: "".into(),
        arguments: Arguments::default(),
    }
}

/// A node of three.
pub struct PlacedMember {
    at: usize,
    /// The number of its start.
    boot: u64,
    disk: SimDisk,
    /// The broker.
    pub broker: Arc<Broker>,
}

impl PlacedMember {
    /// A node that knows the queues.
    ///
    /// # Panics
    /// If it doesn't start.
    #[must_use]
    pub fn new(at: usize, now: &mut Now) -> Self {
        let this = Self::start(at, 1, SimDisk::new(), *now);
        this.broker.registry.replace(&metadata(), AppliedEntry::default(), now.monotonic).expect("it can be read");
        this.broker.streams.announce();
        for _ in 0..20 {
            now.monotonic += 100_000_000;
            this.work(now);
        }
        this
    }

    /// The node after a power cut.
    #[must_use]
    pub fn crashed(&self, seed: u64, now: Now) -> Self {
        Self::start(self.at, self.boot + 1, self.disk.crash(seed), now)
    }

    fn start(at: usize, boot: u64, disk: SimDisk, now: Now) -> Self {
        // Each start has a secret of its own, by which its publishes are known.
        let mut name_secret = Settings::default().name_secret;
        name_secret[..8].copy_from_slice(&now.monotonic.to_le_bytes());
        // It is known of each consumer whether it is there: no time has to be waited for.
        let consumer_disconnected_timeout_ms = u64::MAX;
        let settings = Settings {
            member: number_of(at),
            boot,
            name_secret,
            consumer_disconnected_timeout_ms,
            ..Settings::default()
        };
        let setup =
            Setup { settings, protocols: Vec::new(), authenticator: Arc::new(Anybody), counters: vec![Arc::default()] };
        let log =
            Options { file_bytes: 64 << 10, buffer_bytes: 256 << 10, reserve_bytes: 16 << 10, ..Options::default() };
        let broker = Broker::recover(&disk, log, setup, now).expect("it starts").0;
        Self { at, boot, disk, broker }
    }

    /// Its replicas.
    #[must_use]
    pub fn replicas(&self) -> Arc<PlacedReplicas> {
        self.broker.placements.replicas().clone()
    }

    /// The index of the entry that it applies next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.replicas().state(PLACEMENT).applied.map_or(0, |(_, index)| index + 1)
    }

    /// Runs the next job of a lane of its log. Returns whether there was one.
    ///
    /// # Panics
    /// If the log stops.
    pub fn job(&self, lane: Lane, now: &mut Now) -> bool {
        match self.broker.next_job(StoreId::FIRST, lane, *now).expect("the log works") {
            Next::Run(id, job) => {
                let done = job.run(&self.disk);
                drop(job);
                self.broker.complete(StoreId::FIRST, id, done, *now).expect("the log works");
                true
            }
            Next::At(at) if at > now.monotonic && at < now.monotonic + 10_000_000 => {
                now.monotonic = at;
                true
            }
            Next::At(_) | Next::Idle => false,
        }
    }

    /// Does everything that is to be done.
    pub fn work(&self, now: &mut Now) {
        // One lane may wait for the other.
        while self.job(Lane::Commit, now) | self.job(Lane::Background, now) {}
        self.serve(now);
    }

    /// Reads what is to be read.
    pub fn serve(&self, now: &mut Now) {
        while self.broker.deferred_turn(0, *now) {}
        while let Some(read) = self.broker.next_read() {
            // A read waits for what was applied.
            self.make_durable(self.replicas().last(PLACEMENT), now);
            read.run(&self.disk, *now);
        }
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        let reached = self.broker.streams.reached(StreamId::LOCAL);
        ticket.is_nothing() || reached.is_some_and(|reached| reached.have(ticket.place(), false))
    }

    /// Works until a record of its own log is on the disk.
    pub fn make_durable(&self, ticket: Ticket, now: &mut Now) {
        while !self.is_durable(ticket) {
            self.replicas().hurry(ticket);
            self.broker.streams.announce();
            now.monotonic += 1_000_000;
            self.work(now);
        }
    }

    /// Publishes messages with these numbers to one of its queues, as a client does: each body is its number and less than `most` bytes.
    /// Returns the condition under which they are confirmed.
    pub fn publish(&self, numbers: Range<u64>, most: u64, random: &mut Random, now: Now) -> WaitFor {
        let mut builder = BatchBuilder::default();
        for number in numbers {
            let mut body = number.to_le_bytes().to_vec();
            body.resize(8 + random.below(most) as usize, 1);
            builder.push_message(&StoredMessage { body: &body, ..StoredMessage::default() });
        }
        let batch = Arc::new(builder.finish());
        let queue = self.queue(random.below(2) as usize);
        let published = queue.publish(BatchPart::whole(&batch), true, Audience::Alone, now.monotonic);
        self.broker.streams.announce();
        let mut wait = WaitFor::default();
        wait.and_publish(published.awaited, &published.acceptance);
        wait
    }

    /// One of [`QUEUES`].
    ///
    /// # Panics
    /// If the node doesn't know it.
    #[must_use]
    pub fn queue(&self, at: usize) -> QueueRef {
        self.broker.registry.snapshot().queue("/", QUEUES[at]).expect("it is known").clone()
    }
}
