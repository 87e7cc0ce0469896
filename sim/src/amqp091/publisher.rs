//! A client of AMQP 0-9-1 that publishes without waiting for confirms, and notes when each came: for traces in which other clients act
//! meanwhile.

use leveret_amqp091::{FieldTable, Properties};
use leveret_strict_client::amqp091::Publication;

use super::Heard;
use super::script::{CHANNEL, Script};
use crate::body::body;
use crate::failure::{Check, Failure};
use crate::ledger::{MessageId, Stamp};
use crate::world::World;

/// The publisher's knowledge of a message.
#[derive(Clone, Copy, Debug)]
pub struct PublishedMessage {
    /// When it was published.
    pub published: Stamp,
    /// Wall time at that moment, in milliseconds.
    pub published_ms: u64,
    /// When its confirm came; `Stamp::MAX` until then.
    pub confirmed: Stamp,
    /// Wall time at that moment, in milliseconds.
    pub confirmed_ms: u64,
}

impl PublishedMessage {
    /// Whether it has to be there after a crash at this moment.
    #[must_use]
    pub fn is_promised(&self, at: Stamp) -> bool {
        self.confirmed <= at
    }
}

/// A publisher.
pub struct PipelinedPublisher {
    link: usize,
    /// The messages, by id.
    pub known: Vec<PublishedMessage>,
    /// Moments, and the latest wall time of each in milliseconds.
    times: Vec<(Stamp, u64)>,
    /// The ids of those that it published, in order.
    published: Vec<MessageId>,
    unconfirmed: usize,
}

impl PipelinedPublisher {
    /// Connects, and asks for confirms.
    ///
    /// # Errors
    /// The broker doesn't answer, or breaks a rule.
    pub fn start(world: &mut World) -> Result<Self, Failure> {
        let script = Script::start(world)?;
        world.links[script.link].amqp091().client.confirm_select(CHANNEL);
        script.reply(world, "confirm.select-ok")?;
        Ok(Self { link: script.link, known: Vec::new(), times: Vec::new(), published: Vec::new(), unconfirmed: 0 })
    }

    /// A new message, which this client or another one publishes. Returns its id.
    pub fn note(&mut self, world: &World) -> MessageId {
        self.known.push(PublishedMessage {
            published: world.disk.count(),
            published_ms: world.clock.now().wall_ms,
            confirmed: Stamp::MAX,
            confirmed_ms: u64::MAX,
        });
        self.known.len() as MessageId - 1
    }

    /// Publishes a new message, and returns its id.
    pub fn publish(
        &mut self,
        world: &mut World,
        to: (&str, &str),
        headers: &FieldTable,
        persistent: bool,
        length: usize,
    ) -> MessageId {
        let id = self.note(world);
        self.send(world, id, to, (headers, persistent), length);
        id
    }

    /// Publishes the message with this id, which may have been published before.
    pub fn send(
        &mut self,
        world: &mut World,
        id: MessageId,
        (exchange, key): (&str, &str),
        (headers, persistent): (&FieldTable, bool),
        length: usize,
    ) {
        let headers = headers.encoded();
        let mut properties = Vec::new();
        let mode = if persistent { 2 } else { 1 };
        Properties { delivery_mode: Some(mode), headers: Some(headers.as_table()), ..Properties::default() }
            .encode(&mut properties);
        let body = body(id, length);
        let message = Publication::to(exchange.as_bytes(), key.as_bytes(), &body).with(&properties);
        world.links[self.link].amqp091().client.publish(CHANNEL, message);
        self.published.push(id);
        self.unconfirmed += 1;
    }

    /// The message with this id was confirmed.
    pub fn confirmed(&mut self, world: &World, id: MessageId) {
        let known = &mut self.known[id as usize];
        known.confirmed = known.confirmed.min(world.disk.count());
        known.confirmed_ms = known.confirmed_ms.min(world.clock.now().wall_ms);
    }

    /// Makes a step of the world, and notes the confirms that came. False if nothing can move.
    ///
    /// # Errors
    /// A broken rule, or a message is refused.
    pub fn step(&mut self, world: &mut World) -> Result<bool, Failure> {
        let moved = world.step()?;
        let (at, wall_ms) = (world.disk.count(), world.clock.now().wall_ms);
        self.times.pop_if(|(last, _)| *last == at);
        self.times.push((at, wall_ms));
        self.listen(world)?;
        Ok(moved)
    }

    /// Notes the confirms that came while others made steps.
    ///
    /// # Errors
    /// A message is refused.
    pub fn listen(&mut self, world: &mut World) -> Result<(), Failure> {
        for heard in world.links[self.link].amqp091().heard() {
            match heard {
                Heard::Confirmed { first, last, positive: true, .. } => {
                    for tag in first..=last {
                        self.confirmed(world, self.published[tag as usize - 1]);
                        self.unconfirmed -= 1;
                    }
                }
                other => return Err(Failure::new(Check::Protocol, format!("the publisher gets {other:?}"))),
            }
        }
        Ok(())
    }

    /// The wall time of a moment in milliseconds.
    ///
    /// # Panics
    /// If nothing was done by then.
    #[must_use]
    pub fn wall_ms(&self, at: Stamp) -> u64 {
        let latest = self.times.iter().rfind(|(stamp, _)| *stamp <= at).or(self.times.first());
        latest.expect("steps were made").1
    }

    /// Makes steps until this event comes to the client of another link.
    ///
    /// # Errors
    /// As [`PipelinedPublisher::step`], or it never comes.
    pub fn step_until<T>(
        &mut self,
        world: &mut World,
        link: usize,
        mut wanted: impl FnMut(Heard) -> Option<T>,
    ) -> Result<T, Failure> {
        loop {
            let mut events = world.links[link].amqp091().heard().into_iter();
            while let Some(heard) = events.next() {
                if let Heard::ChannelClosed(_, reason) | Heard::ConnectionClosed(reason) = &heard {
                    return Err(Failure::new(Check::Protocol, format!("closed: {} {}", reason.code, reason.text)));
                }
                if let Some(found) = wanted(heard) {
                    world.links[link].amqp091().put_back(events);
                    return Ok(found);
                }
            }
            if !self.step(world)? {
                return Err(Failure::new(Check::Answered, "an answer never came"));
            }
        }
    }

    /// Makes steps until everything is confirmed.
    ///
    /// # Errors
    /// As [`PipelinedPublisher::step`], or a confirm never comes.
    pub fn rest(&mut self, world: &mut World) -> Result<(), Failure> {
        while self.unconfirmed > 0 {
            if !self.step(world)? {
                return Err(Failure::new(
                    Check::Answered,
                    format!("{} messages are never confirmed", self.unconfirmed),
                ));
            }
        }
        Ok(())
    }
}
