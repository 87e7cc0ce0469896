//! A client of AMQP 0-9-1 that makes one request at a time and waits for each answer: for traces whose order matters.

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::QueueDeclare;

use super::{Heard, Received};
use crate::backlog::STEPS_MAX;
use crate::failure::{Check, Failure};
use crate::link::End;
use crate::world::World;

/// The channel that a script uses.
pub const CHANNEL: u16 = 1;

/// A scripted client.
pub struct Script {
    /// Index of its link.
    pub link: usize,
}

impl Script {
    /// Connects, and opens a channel.
    ///
    /// # Errors
    /// The broker doesn't answer, or breaks a rule.
    pub fn start(world: &mut World) -> Result<Self, Failure> {
        let script = Self { link: world.connect(End::Amqp091(Box::default())) };
        script.until(world, |heard| matches!(heard, Heard::Connected).then_some(()))?;
        world.links[script.link].amqp091().client.open_channel(CHANNEL);
        script.reply(world, "channel.open-ok")?;
        Ok(script)
    }

    /// Runs the world until the wanted event comes.
    ///
    /// # Errors
    /// It never comes, or a channel is closed.
    pub fn until<T>(&self, world: &mut World, mut wanted: impl FnMut(Heard) -> Option<T>) -> Result<T, Failure> {
        for _ in 0..STEPS_MAX {
            for heard in world.links[self.link].amqp091().heard() {
                if let Heard::ChannelClosed(_, reason) | Heard::ConnectionClosed(reason) = &heard {
                    return Err(Failure::new(Check::Protocol, format!("closed: {} {}", reason.code, reason.text)));
                }
                if let Some(found) = wanted(heard) {
                    return Ok(found);
                }
            }
            if !world.step()? {
                break;
            }
        }
        Err(Failure::new(Check::Answered, "an answer never came"))
    }

    /// Waits for a reply without values.
    ///
    /// # Errors
    /// Like [`Script::until`].
    pub fn reply(&self, world: &mut World, name: &str) -> Result<(), Failure> {
        self.until(world, |heard| matches!(heard, Heard::Reply(_, reply) if reply == name).then_some(()))
    }

    /// Declares a durable queue.
    ///
    /// # Errors
    /// Like [`Script::until`].
    pub fn declare(&self, world: &mut World, queue: &str, arguments: &FieldTable) -> Result<(), Failure> {
        let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
        world.links[self.link].amqp091().client.declare_queue(CHANNEL, queue.as_bytes(), flags, arguments);
        self.until(world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))
    }

    /// Takes a message out of a queue; it stays unacknowledged with `acknowledged`.
    ///
    /// # Errors
    /// Like [`Script::until`].
    pub fn get(&self, world: &mut World, queue: &str, acknowledged: bool) -> Result<Option<Received>, Failure> {
        world.links[self.link].amqp091().client.get(CHANNEL, queue.as_bytes(), !acknowledged);
        self.until(world, |heard| match heard {
            Heard::Got(received) => Some(Some(received)),
            Heard::Empty(_) => Some(None),
            _ => None,
        })
    }

    /// Takes out all messages of a queue.
    ///
    /// # Errors
    /// Like [`Script::until`].
    pub fn drain(&self, world: &mut World, queue: &str) -> Result<Vec<Received>, Failure> {
        let mut all = Vec::new();
        while let Some(received) = self.get(world, queue, false)? {
            all.push(received);
        }
        Ok(all)
    }
}
