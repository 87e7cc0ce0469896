//! Power cuts after every change of the disk while messages die and move. Each message is in the queue it came from or
//! in all those it goes to, never in both and never in none. It is in its targets if a receiver of AMQP 1.0 was told
//! that it is settled.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp10::message::write_value_raw;
use leveret_amqp10::transaction::{Discharge, TransactionRequest};
use leveret_amqp10::{DeliveryState, Outcome, Role, Serial};
use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::queue_handle::Status;
use leveret_sim::amqp10;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp10::Send;
use leveret_strict_client::amqp091::{Publication, QueueDeclare};

/// The queue whose rejected messages go to `TARGETS` over an exchange.
const REJECTED: &str = "rejected";
const TARGETS: [&str; 2] = ["d0", "d1"];
/// The queue whose overflowing messages go to `OVERFLOW`.
const SHORT: &str = "short";
const OVERFLOW: &str = "overflow";
const SHORT_LENGTH: i32 = 4;
const MESSAGES: u64 = 60;
/// The handle of a link that controls transactions.
const COORDINATOR: u32 = 1;

/// Number of changes that the disk had seen.
type Stamp = usize;

/// The client's knowledge of message n of each kind.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    published: Stamp,
    confirmed: Stamp,
    rejected: Option<Stamp>,
    /// The broker said that it is settled.
    answered: Option<Stamp>,
}

/// The client that rejects.
enum Consumer {
    Amqp091(Script),
    /// With the deliveries that the broker was asked to settle.
    Amqp10(amqp10::script::Script, Vec<(u64, Serial)>),
}

impl Consumer {
    fn start(world: &mut World, is_amqp10: bool) -> Result<Self, Failure> {
        if !is_amqp10 {
            return Ok(Self::Amqp091(Script::start(world)?));
        }
        let mut script = amqp10::script::Script::start(world)?;
        script.receiver(world, 0, &format!("/queues/{REJECTED}"))?;
        Ok(Self::Amqp10(script, Vec::new()))
    }

    /// Rejects message n, which is the next one.
    fn reject(&mut self, world: &mut World, known: &mut [Known], n: u64) -> Result<(), Failure> {
        match self {
            Self::Amqp091(script) => {
                let received = script.get(world, REJECTED, true)?.expect("it was confirmed");
                assert_eq!(body::id(&received.content.body), Some(n));
                known[n as usize].rejected = Some(world.disk.count());
                world.links[script.link].amqp091().client.nack(CHANNEL, received.tag, false, false);
            }
            Self::Amqp10(script, asked) => {
                let received = script.receive(world, 0)?;
                assert_eq!(body::id(&received.content.body), Some(n));
                known[n as usize].rejected = Some(world.disk.count());
                let (id, state) = (received.delivery_id, DeliveryState::Rejected { error: None });
                world.links[script.link].amqp10().client.dispose(0, id, id, false, Some(state));
                asked.push((n, id));
                if world.random.below(2) == 0 {
                    script.settled(world, Role::Sender, id)?;
                }
            }
        }
        Ok(())
    }

    /// Notes the answers that came.
    fn note(&mut self, world: &mut World, known: &mut [Known]) {
        let Self::Amqp10(script, asked) = self else { return };
        asked.retain(|(n, id)| {
            let is_settled = script.is_settled(world, Role::Sender, *id);
            if is_settled {
                known[*n as usize].answered = Some(world.disk.count());
            }
            !is_settled
        });
    }
}

struct Trace {
    disk: Arc<SimDisk>,
    known: Vec<Known>,
    ready: Stamp,
}

fn table(entries: &[(&str, FieldValue)]) -> FieldTable {
    let mut table = FieldTable::new();
    for (key, value) in entries {
        table.insert(key.as_bytes(), value.clone());
    }
    table
}

fn text(text: &str) -> FieldValue {
    FieldValue::LongString(text.as_bytes().to_vec())
}

fn declare(world: &mut World, script: &Script, queue: &str, arguments: &FieldTable) -> Result<(), Failure> {
    let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
    world.links[script.link].amqp091().client.declare_queue(CHANNEL, queue.as_bytes(), flags, arguments);
    script.until(world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))
}

fn topology(world: &mut World, script: &Script) -> Result<(), Failure> {
    let none = FieldTable::new();
    world.links[script.link].amqp091().client.declare_exchange(CHANNEL, b"dlx", "fanout", true, &none);
    script.reply(world, "exchange.declare-ok")?;
    for queue in TARGETS {
        declare(world, script, queue, &none)?;
        world.links[script.link].amqp091().client.bind_queue(CHANNEL, queue.as_bytes(), b"dlx", b"", &none);
        script.reply(world, "queue.bind-ok")?;
    }
    declare(world, script, OVERFLOW, &none)?;
    declare(world, script, REJECTED, &table(&[("x-dead-letter-exchange", text("dlx"))]))?;
    let short = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(OVERFLOW)),
        ("x-max-length", FieldValue::I32(SHORT_LENGTH)),
    ];
    declare(world, script, SHORT, &table(&short))
}

fn trace(seed: u64, is_amqp10: bool) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    topology(world, &script)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(world, "confirm.select-ok")?;
    let ready = disk.count();
    let mut consumer = Consumer::start(world, is_amqp10)?;
    let mut known: Vec<Known> = Vec::new();
    let mut next = 0;
    for id in 0..MESSAGES {
        let mut know = Known { published: disk.count(), ..Known::default() };
        let length = [20, 700, 5_000, 12_000][world.random.below(4) as usize];
        let mut last = 0;
        for queue in [REJECTED, SHORT] {
            let client = &mut world.links[script.link].amqp091().client;
            last = client.publish(
                CHANNEL,
                Publication::to_queue(queue.as_bytes(), &body(id, length)).with(&properties(id, true)).mandatory(),
            );
        }
        script.until(world, |heard| match heard {
            Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
            _ => None,
        })?;
        know.confirmed = disk.count();
        known.push(know);
        // A few messages are rejected at a time, so that one turn moves several.
        while world.random.below(3) > 0 && next <= id {
            consumer.reject(world, &mut known, next)?;
            next += 1;
            consumer.note(world, &mut known);
        }
        consumer.note(world, &mut known);
    }
    // Everything under way arrives.
    while world.step()? {}
    consumer.note(world, &mut known);
    assert!(!is_amqp10 || known[..next as usize].iter().all(|known| known.answered.is_some()), "not all were answered");
    let snapshot = world.broker.registry.snapshot_full();
    for (queue, dead, ready) in [(REJECTED, next, MESSAGES - next), (SHORT, MESSAGES - 4, 4)] {
        let status = snapshot.queue("/", queue).expect("it was declared").look(Status).expect("it is there");
        let counters = status.conservation;
        assert_eq!((counters.accepted, counters.dead_lettered), (MESSAGES, dead), "{queue}");
        assert_eq!((status.ready, status.moving), (ready, 0), "{queue}");
    }
    Ok(Trace { disk, known, ready })
}

/// The messages of a queue by their numbers.
fn numbers(script: &Script, world: &mut World, queue: &str) -> BTreeSet<u64> {
    let found = script.drain(world, queue).unwrap_or_else(|failure| panic!("{queue}: {failure}"));
    let numbers: Vec<u64> = found.iter().filter_map(|received| body::id(&received.content.body)).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{queue}: out of order, or twice: {numbers:?}");
    for received in &found {
        let id = body::id(&received.content.body).expect("it was counted");
        assert_eq!(received.content.body, body(id, received.content.body.len()), "{queue}: message {id} is damaged");
    }
    numbers.into_iter().collect()
}

/// Checks one moment. Returns how many messages had moved, and how many that were to move hadn't.
fn judge(trace: &Trace, at: Stamp, crashed: SimDisk, seed: u64) -> (u64, u64) {
    let (mut world, _) =
        World::start(Arc::new(crashed), small_log(), seed).unwrap_or_else(|failure| panic!("{failure}"));
    let script = Script::start(&mut world).unwrap_or_else(|failure| panic!("{failure}"));
    let rejected = numbers(&script, &mut world, REJECTED);
    let targets = TARGETS.map(|queue| numbers(&script, &mut world, queue));
    assert_eq!(targets[0], targets[1], "dead letters are in one target and not in the other");
    let short = numbers(&script, &mut world, SHORT);
    // The queue may have been too long still, and its head moves when it is read back.
    while world.step().unwrap_or_else(|failure| panic!("{failure}")) {}
    let overflow = numbers(&script, &mut world, OVERFLOW);
    let (mut moved, mut not_yet) = (0, 0);
    for (id, known) in (0..).zip(&trace.known) {
        for (source, target) in [(&rejected, &targets[0]), (&short, &overflow)] {
            let (here, there) = (source.contains(&id), target.contains(&id));
            assert!(!(here && there), "message {id} is in both places");
            assert!(known.published <= at || !here && !there, "message {id} was never published");
            assert!(known.confirmed > at || here || there, "message {id} is lost");
        }
        let asked = known.rejected.is_some_and(|rejected| rejected <= at);
        assert!(asked || !targets[0].contains(&id), "message {id} moved and nobody rejected it");
        let answered = known.answered.is_some_and(|answered| answered <= at);
        assert!(!answered || targets[0].contains(&id), "message {id} was settled and has not moved");
        if targets[0].contains(&id) {
            moved += 1
        } else if asked {
            not_yet += 1
        }
    }
    (moved, not_yet)
}

fn cut_everywhere(is_amqp10: bool) {
    for seed in [1, 2] {
        let trace = trace(seed, is_amqp10).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let (mut cuts, mut moved, mut not_yet) = (0, 0, 0);
        for (at, moment) in trace.disk.moments().enumerate().filter(|(at, _)| *at >= trace.ready) {
            cuts += 1;
            let crash_seed = seed << 32 | at as u64;
            let crashed = moment.crash(crash_seed);
            let judged = std::panic::catch_unwind(|| judge(&trace, at, crashed, crash_seed));
            let (there, here) = judged.unwrap_or_else(|_| panic!("seed {seed}, power cut after change {at}"));
            moved += there;
            not_yet += here;
        }
        println!("seed {seed}: {cuts} power cuts, {moved} times moved, {not_yet} times not yet");
        assert!(cuts > 100 && moved > 100 && not_yet > 10, "{cuts} cuts, {moved} moved, {not_yet} not yet");
    }
}

#[test]
fn a_dead_letter_is_in_one_place_after_any_power_cut() {
    cut_everywhere(false);
}

#[test]
fn a_dead_letter_answered_over_amqp10_is_there() {
    cut_everywhere(true);
}

/// Dead letters of a queue that failed are found in it after a restart, so their settlement must not be confirmed.
fn fail_before_the_move(in_transaction: bool) {
    let (mut world, _) = World::start(Arc::new(SimDisk::new()), small_log(), 1).unwrap();
    let world = &mut world;
    let script = Script::start(world).unwrap();
    topology(world, &script).unwrap();
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    let client = &mut world.links[script.link].amqp091().client;
    client.publish(
        CHANNEL,
        Publication::to_queue(REJECTED.as_bytes(), &body(0, 20)).with(&properties(0, true)).mandatory(),
    );
    script.until(world, |heard| matches!(heard, Heard::Confirmed { .. }).then_some(())).unwrap();
    let mut receiver = amqp10::script::Script::start(world).unwrap();
    receiver.coordinator(world, COORDINATOR).unwrap();
    receiver.receiver(world, 0, &format!("/queues/{REJECTED}")).unwrap();
    let id = receiver.receive(world, 0).unwrap().delivery_id;
    let rejected = Outcome::Rejected { error: None };
    let mut request = None;
    if in_transaction {
        let txn_id = receiver.declare(world, COORDINATOR).unwrap();
        let state = DeliveryState::Transactional { txn_id: &txn_id, outcome: Some(rejected) };
        world.links[receiver.link].amqp10().client.dispose(0, id, id, false, Some(state));
        let mut payload = Vec::new();
        let discharge = TransactionRequest::Discharge(Discharge { txn_id: &txn_id, fail: false });
        write_value_raw(&mut payload, |out| discharge.encode(out));
        request = Some(receiver.send(world, COORDINATOR, &payload, &Send::default()).unwrap());
    } else {
        world.links[receiver.link].amqp10().client.dispose(0, id, id, false, Some(rejected.into()));
    }
    let queue = world.broker.registry.snapshot_full().queue("/", REJECTED).expect("it was declared").clone();
    while queue.look(Status).expect("it is there").moving == 0 {
        assert!(world.step().unwrap(), "the rejection never came");
    }
    queue.body_owner().fail("a test".into());
    while world.step().unwrap() {}
    assert!(!receiver.is_settled(world, Role::Sender, id));
    assert!(request.is_none_or(|request| !receiver.is_settled(world, Role::Receiver, request)));
    // The outcome of the rest of the transaction can't be known; without a transaction only the link is detached.
    assert_eq!(world.links[receiver.link].amqp10().client.is_open(), !in_transaction);
}

#[test]
fn a_queue_that_fails_leaves_no_rejection_answered() {
    fail_before_the_move(false);
    fail_before_the_move(true);
}
