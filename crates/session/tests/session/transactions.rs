//! Limits on what a client makes a transaction hold by settling its deliveries one by one.

use std::net::SocketAddr;
use std::sync::Arc;

use allocation_counter::measure;
use leveret_amqp10::message::write_value_raw;
use leveret_amqp10::performative::Attach;
use leveret_amqp10::transaction::{Coordinator, Declare, Discharge, TransactionRequest};
use leveret_amqp10::{DeliveryState, Outcome, Role, Serial, Source, TargetArchetype};
use leveret_amqp091::FieldTable;
use leveret_broker::{Connection, Peer, Settings};
use leveret_strict_client::amqp10::{Client, Event, Options, Send, SessionOptions, State};
use leveret_strict_client::amqp091::{Client as Client091, Consume, Event as Event091, Publication, QueueDeclare};

use crate::stage::{Nobody, Stage, Told};

const CHANNEL: u16 = 0;
const CONTROL: u32 = 0;
const CONSUMER: u32 = 1;
const MESSAGES: u32 = 1000;

/// Puts `count` messages into the queue `work`, whose dead letters go to `dead`. Returns the link that published them.
fn filled(stage: &mut Stage, count: u32) -> usize {
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.declare_queue(1, b"dead", QueueDeclare::default(), &FieldTable::new());
    let to_dead = FieldTable::new().with("x-dead-letter-exchange", "").with("x-dead-letter-routing-key", "dead");
    client.declare_queue(1, b"work", QueueDeclare::default(), &to_dead);
    for _ in 0..count {
        client.publish(1, Publication::to_queue(b"work", b"body"));
    }
    stage.settle();
    link
}

/// A client with a session, a coordinator and a consumer of `work`.
struct Settler {
    client: Client,
    connection: Connection,
    delivered: Vec<Serial>,
    /// Deliveries that the broker settled: their number, the number of dispositions, and the outcome.
    answered: Vec<(u32, u32, Option<State>)>,
    outcome: Option<State>,
    ended: Option<String>,
    /// Largest memory cost of one read.
    peak: u64,
}

impl Settler {
    fn connect(stage: &mut Stage) -> Self {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let peer = Peer::new(address(50_001), address(5672));
        let mut settler = Self {
            client: Client::new(Options::default()),
            connection: stage.broker.accept(&stage.broker.protocols, peer, Arc::new(Nobody), 0, stage.now),
            delivered: Vec::new(),
            answered: Vec::new(),
            outcome: None,
            ended: None,
            peak: 0,
        };
        settler.run(stage);
        settler.client.begin(CHANNEL, SessionOptions::default());
        settler.run(stage);
        let control = Attach {
            name: "control",
            handle: CONTROL,
            role: Role::Sender,
            source: Some(Source::default()),
            target: Some(TargetArchetype::Coordinator(Coordinator::default())),
            initial_delivery_count: Some(0),
            ..Attach::default()
        };
        settler.client.attach(CHANNEL, &control);
        settler.client.attach_receiver(CHANNEL, CONSUMER, "consumer", "/queues/work", false);
        settler.run(stage);
        settler.client.grant(CHANNEL, CONSUMER, 2 * MESSAGES, false);
        settler.run(stage);
        settler
    }

    /// Runs both sides until neither has anything left to send.
    fn run(&mut self, stage: &mut Stage) {
        loop {
            let input = std::mem::take(self.client.output());
            let mut used = 0;
            let info = measure(|| {
                used = self.connection.receive(&input, stage.now);
                self.connection.turn(stage.now);
            });
            assert_eq!(used, input.len());
            self.peak = self.peak.max(info.bytes_max);
            let worked = stage.disk_work();
            stage.settle();
            self.connection.turn(stage.now);
            let output = self.connection.output();
            let (count, answers) = (output.len(), output.pending().to_vec());
            output.written(count);
            let mut events = Vec::new();
            self.client.receive(&answers, &mut events).expect("the broker keeps to the specification");
            events.into_iter().for_each(|event| self.note(event));
            if input.is_empty() && answers.is_empty() && !worked {
                return;
            }
        }
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Delivered(delivery) => self.delivered.push(delivery.delivery_id),
            Event::Disposition { role: Role::Receiver, state, .. } => self.outcome = state,
            Event::Disposition { first, last, state, .. } => self.answered.push((first.0, last.0, state)),
            Event::Ended { error, .. } => self.ended = error.map(|error| error.condition),
            _ => {}
        }
    }

    fn request(&mut self, stage: &mut Stage, request: &TransactionRequest<'_>) -> State {
        let mut payload = Vec::new();
        write_value_raw(&mut payload, |out| request.encode(out));
        self.client.send(CHANNEL, CONTROL, b"tag", &payload, &Send::default()).expect("there is credit");
        self.run(stage);
        self.outcome.take().expect("the coordinator's answer")
    }

    fn declare(&mut self, stage: &mut Stage) -> Vec<u8> {
        match self.request(stage, &TransactionRequest::Declare(Declare::default())) {
            State::Declared { txn_id } => txn_id,
            other => panic!("declared expected: {other:?}"),
        }
    }

    fn discharge(&mut self, stage: &mut Stage, txn_id: &[u8]) {
        let outcome = self.request(stage, &TransactionRequest::Discharge(Discharge { txn_id, fail: false }));
        assert_eq!(outcome, State::Accepted);
    }

    /// Sends one disposition for each of the deliveries.
    fn settle_each(&mut self, stage: &mut Stage, txn_id: &[u8], ids: &[Serial], outcome: Outcome<'_>) {
        let state = Some(DeliveryState::Transactional { txn_id, outcome: Some(outcome) });
        ids.iter().for_each(|id| self.client.dispose(CHANNEL, *id, *id, false, state));
        self.run(stage);
    }
}

#[test]
fn rejections_one_by_one_hold_no_more_than_a_range() {
    let mut stage = Stage::new();
    filled(&mut stage, MESSAGES);
    let mut settler = Settler::connect(&mut stage);
    let ids = settler.delivered.clone();
    assert_eq!(ids.len(), MESSAGES as usize);
    let txn = settler.declare(&mut stage);
    settler.peak = 0;
    settler.settle_each(&mut stage, &txn, &ids, Outcome::Rejected { error: None });
    settler.discharge(&mut stage, &txn);
    // If each rejection waited for the moves of all, they would take 8 MB.
    assert!(settler.peak < 512 << 10, "{} bytes", settler.peak);
    assert_eq!(settler.answered, [(0, MESSAGES - 1, Some(State::Rejected(None)))]);
}

#[test]
fn deliveries_settled_in_transactions_are_limited() {
    let mut stage = Stage::with(Settings { unsettled_max: 4, ..Settings::default() });
    filled(&mut stage, 12);
    let mut settler = Settler::connect(&mut stage);
    // Discharged transactions no longer count.
    let txn = settler.declare(&mut stage);
    let ids = std::mem::take(&mut settler.delivered);
    settler.settle_each(&mut stage, &txn, &ids[..3], Outcome::Accepted);
    settler.discharge(&mut stage, &txn);
    let (one, other) = (settler.declare(&mut stage), settler.declare(&mut stage));
    let ids = std::mem::take(&mut settler.delivered);
    assert_eq!(ids.len(), 3);
    settler.settle_each(&mut stage, &one, &ids[..2], Outcome::Accepted);
    settler.settle_each(&mut stage, &other, &ids[2..], Outcome::Accepted);
    assert_eq!(settler.ended, None);
    let ids = std::mem::take(&mut settler.delivered);
    settler.settle_each(&mut stage, &other, &ids[..2], Outcome::Accepted);
    assert_eq!(settler.ended.as_deref(), Some("amqp:resource-limit-exceeded"));
    // Neither transaction took effect: 3 of 12 are gone.
    let link = stage.connect();
    stage.links[link].client.consume(1, b"work", b"", Consume::default(), &FieldTable::new());
    stage.settle();
    let told = stage.links[link].told();
    assert_eq!(told.iter().filter(|told| matches!(told, Told::Delivered { .. })).count(), 9);
}

/// Allocations of a commit over AMQP 0-9-1, where `settle` is called for each delivery.
fn allocations_of_commit(settle: impl Fn(&mut Client091, u64)) -> u64 {
    let mut stage = Stage::new();
    let at = filled(&mut stage, MESSAGES);
    let client = &mut stage.links[at].client;
    client.tx_select(1);
    client.consume(1, b"work", b"", Consume::default(), &FieldTable::new());
    stage.settle();
    let client = &mut stage.links[at].client;
    (1..=u64::from(MESSAGES)).for_each(|tag| settle(client, tag));
    stage.settle();
    let link = &mut stage.links[at];
    link.told();
    link.client.tx_commit(1);
    let commit = std::mem::take(link.client.output());
    let info = measure(|| {
        link.connection.receive(&commit, stage.now);
    });
    stage.settle();
    assert_eq!(stage.links[at].told(), [Told::Event(Event091::Reply { channel: 1, method: "tx.commit-ok" })]);
    info.count_total
}

#[test]
fn rejections_of_amqp091_become_one_move_together() {
    let acks = allocations_of_commit(|client, tag| client.ack(1, tag, false));
    let rejections = allocations_of_commit(|client, tag| client.nack(1, tag, false, false));
    assert!(rejections < acks + u64::from(MESSAGES / 4), "{rejections} allocations, {acks} of acknowledgements");
}
