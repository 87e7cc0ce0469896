//! A client of the stream protocol that makes one request at a time and waits for each answer: for traces whose order matters.

use leveret_stream_protocol::{OffsetSpec, ResponseCode, key};
use leveret_strict_client::stream::StreamEvent;

use super::Heard;
use crate::backlog;
use crate::failure::{Check, Failure};
use crate::link;
use crate::world::World;

/// Id of a script's subscription.
const SUBSCRIPTION: u8 = 0;

/// A scripted client.
pub struct StreamScript {
    /// Index of its link.
    pub link: usize,
    /// Events that came while another one was waited for.
    backlog: Vec<Heard>,
}

impl StreamScript {
    /// Connects, and logs in.
    ///
    /// # Errors
    /// The broker doesn't answer, or breaks a rule.
    pub fn start(world: &mut World) -> Result<Self, Failure> {
        let link = world.connect(link::End::Stream(Box::default()));
        let mut script = Self { link, backlog: Vec::new() };
        script.event(world, |event| matches!(event, StreamEvent::Connected).then_some(()))?;
        Ok(script)
    }

    /// Runs the world until the wanted event comes; other events are kept for later.
    ///
    /// # Errors
    /// It never comes, or the broker ends the connection.
    pub fn until<T>(&mut self, world: &mut World, mut wanted: impl FnMut(&Heard) -> Option<T>) -> Result<T, Failure> {
        let link = self.link;
        let heard = |world: &mut World| world.links[link].stream().heard();
        backlog::until(world, &mut self.backlog, heard, |heard| match heard {
            Heard::Event(event @ (StreamEvent::Closed { .. } | StreamEvent::Refused { .. })) => {
                Err(Failure::new(Check::Protocol, format!("refused: {event:?}")))
            }
            heard => Ok(wanted(heard)),
        })
    }

    fn event<T>(&mut self, world: &mut World, mut wanted: impl FnMut(&StreamEvent) -> Option<T>) -> Result<T, Failure> {
        self.until(world, |heard| match heard {
            Heard::Event(event) => wanted(event),
            Heard::Chunk { .. } => None,
        })
    }

    fn answered(&mut self, world: &mut World, wanted: u16) -> Result<(), Failure> {
        let code = self.event(world, |event| match event {
            StreamEvent::Answered { key, code } if *key == wanted => Some(*code),
            _ => None,
        })?;
        match code {
            ResponseCode::Ok => Ok(()),
            code => Err(Failure::new(Check::Answered, format!("command {wanted} was answered with {code:?}"))),
        }
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// It is refused, or like [`StreamScript::until`].
    pub fn create(&mut self, world: &mut World, stream: &str, arguments: &[(&str, &str)]) -> Result<(), Failure> {
        world.links[self.link].stream().client.create(stream, arguments.iter().copied());
        self.answered(world, key::CREATE)
    }

    /// Joins a group of a stream, and doesn't answer what it is told then.
    ///
    /// # Errors
    /// It is refused, or like [`StreamScript::until`].
    pub fn join(&mut self, world: &mut World, stream: &str, group: &str) -> Result<(), Failure> {
        world.links[self.link].stream().client.join(SUBSCRIPTION, stream, group);
        self.answered(world, key::SUBSCRIBE)
    }

    /// Waits until its subscription becomes active.
    ///
    /// # Errors
    /// Like [`StreamScript::until`].
    pub fn active(&mut self, world: &mut World) -> Result<(), Failure> {
        self.event(world, |event| matches!(event, StreamEvent::Activity { active: true, .. }).then_some(()))
    }

    /// Declares a publisher, with a name unless that is empty.
    ///
    /// # Errors
    /// It is refused, or like [`StreamScript::until`].
    pub fn publisher(&mut self, world: &mut World, id: u8, name: &str, stream: &str) -> Result<(), Failure> {
        world.links[self.link].stream().client.declare_publisher(id, name, stream);
        self.answered(world, key::DECLARE_PUBLISHER)
    }

    /// Waits until a message of a publisher is confirmed, and so all before it.
    ///
    /// # Errors
    /// One is refused, or like [`StreamScript::until`].
    pub fn confirmed(&mut self, world: &mut World, of: u8, id: u64) -> Result<(), Failure> {
        self.event(world, |event| match event {
            StreamEvent::Confirmed { publisher, last, .. } if *publisher == of && *last >= id => Some(()),
            _ => None,
        })
    }

    /// The last id that a named publisher has in a stream.
    ///
    /// # Errors
    /// It is refused, or like [`StreamScript::until`].
    pub fn sequence(&mut self, world: &mut World, name: &str, stream: &str) -> Result<u64, Failure> {
        world.links[self.link].stream().client.query_publisher(name, stream);
        let (code, sequence) = self.event(world, |event| match event {
            StreamEvent::Sequence { code, sequence } => Some((*code, *sequence)),
            _ => None,
        })?;
        match code {
            ResponseCode::Ok => Ok(sequence),
            code => Err(Failure::new(Check::Answered, format!("a publisher's sequence was answered with {code:?}"))),
        }
    }

    /// The offset that is stored under a name.
    ///
    /// # Errors
    /// Another refusal than that there is none, or like [`StreamScript::until`].
    pub fn stored_offset(&mut self, world: &mut World, name: &str, stream: &str) -> Result<Option<u64>, Failure> {
        world.links[self.link].stream().client.query_offset(name, stream);
        let (code, offset) = self.event(world, |event| match event {
            StreamEvent::StoredOffset { code, offset } => Some((*code, *offset)),
            _ => None,
        })?;
        match code {
            ResponseCode::Ok => Ok(Some(offset)),
            ResponseCode::NoOffset => Ok(None),
            code => Err(Failure::new(Check::Answered, format!("a stored offset was answered with {code:?}"))),
        }
    }

    /// Reads `count` messages from the beginning of a stream on, and at most the rest of the last one's chunk. Each with its offset.
    ///
    /// # Errors
    /// It is refused, or like [`StreamScript::until`].
    pub fn read(&mut self, world: &mut World, stream: &str, count: usize) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
        world.links[self.link].stream().client.subscribe(SUBSCRIPTION, stream, OffsetSpec::First, 3);
        self.answered(world, key::SUBSCRIBE)?;
        let mut found = Vec::new();
        while found.len() < count {
            let (first, messages) = self.until(world, |heard| match heard {
                Heard::Chunk { first, messages, .. } => Some((*first, messages.clone())),
                Heard::Event(_) => None,
            })?;
            found.extend((first..).zip(messages));
            world.links[self.link].stream().client.credit(SUBSCRIPTION, 1);
        }
        world.links[self.link].stream().client.unsubscribe(SUBSCRIPTION);
        self.answered(world, key::UNSUBSCRIBE)?;
        Ok(found)
    }
}
