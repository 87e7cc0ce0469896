//! A client of AMQP 1.0 that makes one request at a time and waits for each answer: for traces whose order matters.

use leveret_amqp10::message::write_value_raw;
use leveret_amqp10::performative::Attach;
use leveret_amqp10::transaction::{Coordinator, Declare, Discharge, TransactionRequest};
use leveret_amqp10::{Role, Serial, Source, TargetArchetype};
use leveret_strict_client::amqp10::{Event, Options, Send, SessionOptions, State};

use super::{End, Heard, Received};
use crate::backlog::{self, STEPS_MAX};
use crate::failure::{Check, Failure};
use crate::link;
use crate::world::World;

/// The channel that a script uses.
pub const CHANNEL: u16 = 0;

/// A scripted client.
pub struct Script {
    /// Index of its link.
    pub link: usize,
    /// Events that came while another one was waited for.
    backlog: Vec<Heard>,
}

impl Script {
    /// Connects, and begins a session.
    ///
    /// # Errors
    /// The broker doesn't answer, or breaks a rule.
    pub fn start(world: &mut World) -> Result<Self, Failure> {
        let link = world.connect(link::End::Amqp10(Box::new(End::new(Options::default()))));
        let mut script = Self { link, backlog: Vec::new() };
        script.event(world, |event| matches!(event, Event::Opened { .. }).then_some(()))?;
        world.links[link].amqp10().client.begin(CHANNEL, SessionOptions::default());
        script.event(world, |event| matches!(event, Event::Begun { .. }).then_some(()))?;
        Ok(script)
    }

    /// Runs the world until the wanted event comes; other events are kept for later.
    ///
    /// # Errors
    /// It never comes, or the broker ends a link, the session or the connection.
    pub fn until<T>(&mut self, world: &mut World, mut wanted: impl FnMut(&Heard) -> Option<T>) -> Result<T, Failure> {
        let link = self.link;
        let heard = |world: &mut World| world.links[link].amqp10().heard();
        backlog::until(world, &mut self.backlog, heard, |heard| match heard {
            Heard::Event(
                event @ (Event::Closed { .. } | Event::Ended { .. } | Event::Detached { by_peer: true, .. }),
            ) => Err(Failure::new(Check::Protocol, format!("ended: {event:?}"))),
            heard => Ok(wanted(heard)),
        })
    }

    fn event<T>(&mut self, world: &mut World, mut wanted: impl FnMut(&Event) -> Option<T>) -> Result<T, Failure> {
        self.until(world, |heard| match heard {
            Heard::Event(event) => wanted(event),
            Heard::Delivered(_) => None,
        })
    }

    fn attached(&mut self, world: &mut World, wanted: u32) -> Result<(), Failure> {
        self.event(world, |event| matches!(event, Event::Attached { handle, .. } if *handle == wanted).then_some(()))
    }

    /// Attaches a sender.
    ///
    /// # Errors
    /// Like [`Script::until`].
    pub fn sender(&mut self, world: &mut World, handle: u32, address: &str) -> Result<(), Failure> {
        let client = &mut world.links[self.link].amqp10().client;
        client.attach_sender(CHANNEL, handle, &format!("sender {handle}"), Some(address));
        self.attached(world, handle)
    }

    /// Attaches a receiver, which has no credit yet.
    ///
    /// # Errors
    /// Like [`Script::until`].
    pub fn receiver(&mut self, world: &mut World, handle: u32, address: &str) -> Result<(), Failure> {
        let client = &mut world.links[self.link].amqp10().client;
        client.attach_receiver(CHANNEL, handle, &format!("receiver {handle}"), address, false);
        self.attached(world, handle)
    }

    /// Attaches a link that controls transactions.
    ///
    /// # Errors
    /// Like [`Script::until`].
    pub fn coordinator(&mut self, world: &mut World, handle: u32) -> Result<(), Failure> {
        let attach = Attach {
            name: "coordinator",
            handle,
            role: Role::Sender,
            source: Some(Source::default()),
            target: Some(TargetArchetype::Coordinator(Coordinator::default())),
            initial_delivery_count: Some(0),
            ..Attach::default()
        };
        world.links[self.link].amqp10().client.attach(CHANNEL, &attach);
        self.attached(world, handle)
    }

    /// Sends a message as soon as there is credit and room. Returns the delivery-id.
    ///
    /// # Errors
    /// There never is any, or like [`Script::until`].
    pub fn send(
        &mut self,
        world: &mut World,
        handle: u32,
        payload: &[u8],
        options: &Send<'_>,
    ) -> Result<Serial, Failure> {
        for number in 0..STEPS_MAX {
            let client = &mut world.links[self.link].amqp10().client;
            if let Some(id) = client.send(CHANNEL, handle, &number.to_be_bytes(), payload, options) {
                return Ok(id);
            }
            if !world.step()? {
                break;
            }
        }
        Err(Failure::new(Check::Answered, format!("handle {handle} never got credit")))
    }

    /// Waits until the broker settles a delivery, sent or received. Returns the state in its disposition.
    ///
    /// # Errors
    /// Like [`Script::until`].
    pub fn settled(&mut self, world: &mut World, of: Role, id: Serial) -> Result<Option<State>, Failure> {
        // A disposition may be about several deliveries, so it is kept for the others.
        for _ in 0..STEPS_MAX {
            self.backlog.extend(world.links[self.link].amqp10().heard());
            for heard in &self.backlog {
                if let Heard::Event(Event::Disposition { role, first, last, settled: true, state, .. }) = heard
                    && *role == of
                    && id.is_within(*first, *last)
                {
                    return Ok(state.clone());
                }
            }
            if !world.step()? {
                break;
            }
        }
        Err(Failure::new(Check::Answered, format!("delivery {id} was never settled")))
    }

    /// Whether the broker has settled a delivery, by the events received so far.
    #[must_use]
    pub fn is_settled(&mut self, world: &mut World, of: Role, id: Serial) -> bool {
        self.backlog.extend(world.links[self.link].amqp10().heard());
        self.backlog.iter().any(|heard| {
            matches!(heard, Heard::Event(Event::Disposition { role, first, last, settled: true, .. })
                if *role == of && id.is_within(*first, *last))
        })
    }

    /// Takes the next message of a receiver's queue; it stays unsettled.
    ///
    /// # Errors
    /// There is none, or like [`Script::until`].
    pub fn receive(&mut self, world: &mut World, handle: u32) -> Result<Received, Failure> {
        world.links[self.link].amqp10().client.grant(CHANNEL, handle, 1, false);
        self.until(world, |heard| match heard {
            Heard::Delivered(received) if received.handle == handle => Some(received.clone()),
            _ => None,
        })
    }

    fn request(
        &mut self,
        world: &mut World,
        handle: u32,
        request: &TransactionRequest<'_>,
    ) -> Result<Option<State>, Failure> {
        let mut payload = Vec::new();
        write_value_raw(&mut payload, |out| request.encode(out));
        let id = self.send(world, handle, &payload, &Send::default())?;
        self.settled(world, Role::Receiver, id)
    }

    /// Declares a transaction; returns its id.
    ///
    /// # Errors
    /// It is refused, or like [`Script::until`].
    pub fn declare(&mut self, world: &mut World, coordinator: u32) -> Result<Vec<u8>, Failure> {
        match self.request(world, coordinator, &TransactionRequest::Declare(Declare::default()))? {
            Some(State::Declared { txn_id }) => Ok(txn_id),
            other => Err(Failure::new(Check::Protocol, format!("declare was answered with {other:?}"))),
        }
    }

    /// Discharges a transaction, and waits until that is accepted.
    ///
    /// # Errors
    /// It isn't accepted, or like [`Script::until`].
    pub fn discharge(&mut self, world: &mut World, coordinator: u32, txn_id: &[u8], fail: bool) -> Result<(), Failure> {
        match self.request(world, coordinator, &TransactionRequest::Discharge(Discharge { txn_id, fail }))? {
            Some(State::Accepted) => Ok(()),
            other => Err(Failure::new(Check::Protocol, format!("discharge was answered with {other:?}"))),
        }
    }
}
