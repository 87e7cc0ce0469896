//! Two connections under random interleavings: an ok means that its effect has happened, and a confirmed message is
//! found unless a later operation removes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::FieldTable;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::{Check, Failure};
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::{Client, Consume, Publication, QueueDeclare};

const SEEDS: u64 = 120;
const STEPS_MAX: u32 = 1_000_000;
const QUEUE: &str = "q";

fn client<'a>(world: &'a mut World, script: &Script) -> &'a mut Client {
    &mut world.links[script.link].amqp091().client
}

fn heard(world: &mut World, script: &Script) -> Vec<Heard> {
    world.links[script.link].amqp091().heard()
}

fn declare(world: &mut World, script: &Script, flags: QueueDeclare) {
    client(world, script).declare_queue(CHANNEL, QUEUE.as_bytes(), flags, &FieldTable::new());
}

fn broken(text: String) -> Failure {
    Failure::new(Check::Answered, text)
}

/// A publisher with confirms and `mandatory`, which publishes one message at a time.
struct Publisher {
    script: Script,
    next: u64,
    waits: bool,
    was_returned: bool,
    /// Messages that were confirmed and not returned.
    confirmed: BTreeSet<u64>,
}

impl Publisher {
    fn start(world: &mut World) -> Result<Self, Failure> {
        let script = Script::start(world)?;
        client(world, &script).confirm_select(CHANNEL);
        script.reply(world, "confirm.select-ok")?;
        Ok(Self { script, next: 0, waits: false, was_returned: false, confirmed: BTreeSet::new() })
    }

    fn go_on(&mut self, world: &mut World, wants_more: bool) {
        for heard in heard(world, &self.script) {
            match heard {
                Heard::Returned => self.was_returned = true,
                Heard::Confirmed { .. } => {
                    if !std::mem::take(&mut self.was_returned) {
                        self.confirmed.insert(self.next);
                    }
                    self.next += 1;
                    self.waits = false;
                }
                _ => {}
            }
        }
        if !self.waits && wants_more {
            let (properties, body) = (properties(self.next, true), body(self.next, 20));
            client(world, &self.script)
                .publish(CHANNEL, Publication::to_queue(QUEUE.as_bytes(), &body).with(&properties).mandatory());
            self.waits = true;
        }
    }
}

/// Repeatedly deletes the queue if it is empty, and takes out the messages that it finds.
fn delete_while_somebody_publishes(seed: u64) -> Result<(u64, u64), Failure> {
    let (mut world, _) = World::start(Arc::new(SimDisk::new()), small_log(), seed)?;
    let world = &mut world;
    let mut publisher = Publisher::start(world)?;
    let script = Script::start(world)?;
    let mut taken = BTreeSet::new();
    let (mut deleted, mut refused) = (0, 0);
    let mut steps = 0;
    for _ in 0..12 {
        declare(world, &script, QueueDeclare { durable: true, ..QueueDeclare::default() });
        let mut done = false;
        while !done {
            let wants_more = world.random.below(30) == 0;
            publisher.go_on(world, wants_more);
            for heard in heard(world, &script) {
                match heard {
                    Heard::Declared(..) | Heard::Empty(_) => {
                        client(world, &script).delete_empty_queue(CHANNEL, QUEUE.as_bytes())
                    }
                    Heard::Removed(..) => {
                        deleted += 1;
                        done = true;
                    }
                    Heard::ChannelClosed(_, reason) => {
                        if reason.code != 406 || !reason.text.contains("not empty") {
                            return Err(broken(format!("{} {}", reason.code, reason.text)));
                        }
                        refused += 1;
                        client(world, &script).open_channel(CHANNEL);
                    }
                    Heard::Reply(_, "channel.open-ok") => client(world, &script).get(CHANNEL, QUEUE.as_bytes(), true),
                    Heard::Got(received) => {
                        taken.insert(body::id(&received.content.body).expect("one of ours"));
                        client(world, &script).get(CHANNEL, QUEUE.as_bytes(), true);
                    }
                    _ => {}
                }
            }
            world.step()?;
            steps += 1;
            if steps > STEPS_MAX {
                return Err(broken("an answer never came".into()));
            }
        }
    }
    while publisher.waits {
        publisher.go_on(world, false);
        world.step()?;
    }
    declare(world, &script, QueueDeclare { durable: true, ..QueueDeclare::default() });
    script.until(world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))?;
    for received in script.drain(world, QUEUE)? {
        taken.insert(body::id(&received.content.body).expect("one of ours"));
    }
    match publisher.confirmed.difference(&taken).next() {
        Some(lost) => {
            Err(broken(format!("message {lost} was confirmed, and went with a queue that was said to be empty")))
        }
        None => Ok((deleted, refused)),
    }
}

#[test]
fn a_queue_deleted_as_empty_takes_no_confirmed_message() {
    let (mut deleted, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let (some, others) =
            delete_while_somebody_publishes(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        deleted += some;
        refused += others;
    }
    assert!(deleted > SEEDS && refused > SEEDS, "{deleted} deleted, {refused} refused: nothing was tried");
}

/// Consumes, publishes and asks for the queue's contents, on one channel, while another connection is active.
fn consume_publish_get(seed: u64, durable: bool) -> Result<(), Failure> {
    let (mut world, _) = World::start(Arc::new(SimDisk::new()), small_log(), seed)?;
    let world = &mut world;
    let (script, other) = (Script::start(world)?, Script::start(world)?);
    let flags = QueueDeclare { durable, auto_delete: true, ..QueueDeclare::default() };
    for round in 0..10u64 {
        declare(world, &script, flags);
        script.until(world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))?;
        client(world, &script).consume(
            CHANNEL,
            QUEUE.as_bytes(),
            b"tag",
            Consume { no_ack: true, ..Consume::default() },
            &FieldTable::new(),
        );
        script.until(world, |heard| matches!(heard, Heard::Consumer(_)).then_some(()))?;
        let persistent = world.random.below(2) == 0;
        let (properties, body) = (properties(round, persistent), body(round, 20));
        client(world, &script).publish(CHANNEL, Publication::to_queue(QUEUE.as_bytes(), &body).with(&properties));
        client(world, &script).get(CHANNEL, QUEUE.as_bytes(), true);
        let (mut delivered, mut answered) = (false, false);
        script.until(world, |heard| {
            match heard {
                Heard::Got(_) => return Some(Err(broken("a get was given what a consumer waited for".into()))),
                Heard::Delivered(_) => delivered = true,
                Heard::Empty(_) => answered = true,
                _ => {}
            }
            (delivered && answered).then_some(Ok(()))
        })??;
        client(world, &script).cancel(CHANNEL, b"tag");
        script.until(world, |heard| matches!(heard, Heard::Consumer(_)).then_some(()))?;
        // Its last consumer has ended: the queue is gone for every connection.
        declare(world, &other, QueueDeclare { passive: true, ..flags });
        let mut closed = None;
        while closed.is_none() {
            for heard in heard(world, &other) {
                match heard {
                    Heard::ChannelClosed(_, reason) => closed = Some(reason.code),
                    Heard::Declared(..) => return Err(broken("an auto-delete queue outlived cancel-ok".into())),
                    _ => {}
                }
            }
            world.step()?;
        }
        assert_eq!(closed, Some(404));
        client(world, &other).open_channel(CHANNEL);
        other.reply(world, "channel.open-ok")?;
    }
    Ok(())
}

#[test]
fn consume_ok_and_cancel_ok_come_after_their_effect() {
    for seed in 0..SEEDS {
        for durable in [true, false] {
            consume_publish_get(seed, durable).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        }
    }
}
