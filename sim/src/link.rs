//! A connection: the client's end of one protocol, the broker's side of it, and the bytes between them.

use leveret_strict_client::Violation;

use crate::event_hash::EventHash;
use crate::failure::{Check, Failure};
use crate::random::Random;
use crate::task::Task;
use crate::{amqp10, amqp091, stream_protocol};

/// A client by its protocol.
pub enum End {
    /// AMQP 0-9-1.
    Amqp091(Box<amqp091::End>),
    /// AMQP 1.0.
    Amqp10(Box<amqp10::End>),
    /// The stream protocol.
    Stream(Box<stream_protocol::StreamEnd>),
}

impl End {
    fn output(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Amqp091(end) => end.client.output(),
            Self::Amqp10(end) => end.client.output(),
            Self::Stream(end) => end.client.output(),
        }
    }

    fn receive(&mut self, input: &[u8]) -> Result<usize, Violation> {
        match self {
            Self::Amqp091(end) => end.receive(input),
            Self::Amqp10(end) => end.receive(input),
            Self::Stream(end) => end.receive(input),
        }
    }
}

/// A connection with both of its ends.
pub struct Link {
    end: End,
    /// The broker's side.
    pub task: Task,
    inbox: Vec<u8>,
    alive: bool,
}

impl Link {
    /// A new client over a task.
    #[must_use]
    pub fn new(end: End, task: Task) -> Self {
        Self { end, task, inbox: Vec::new(), alive: true }
    }

    /// The client of AMQP 0-9-1.
    ///
    /// # Panics
    /// If it speaks another protocol.
    pub fn amqp091(&mut self) -> &mut amqp091::End {
        match &mut self.end {
            End::Amqp091(end) => end,
            End::Amqp10(_) | End::Stream(_) => panic!("a client of another protocol"),
        }
    }

    /// The client of AMQP 1.0.
    ///
    /// # Panics
    /// If it speaks another protocol.
    pub fn amqp10(&mut self) -> &mut amqp10::End {
        match &mut self.end {
            End::Amqp10(end) => end,
            End::Amqp091(_) | End::Stream(_) => panic!("a client of another protocol"),
        }
    }

    /// The client of the stream protocol.
    ///
    /// # Panics
    /// If it speaks another protocol.
    pub fn stream(&mut self) -> &mut stream_protocol::StreamEnd {
        match &mut self.end {
            End::Stream(end) => end,
            End::Amqp091(_) | End::Amqp10(_) => panic!("a client of another protocol"),
        }
    }

    /// False after [`Link::close`].
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.alive
    }

    /// Closes the socket.
    pub fn close(&mut self, now: leveret_broker::Now) {
        self.alive = false;
        self.task.drop_connection(now);
    }

    /// Whether the broker has ended the connection.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.task.has_ended()
    }

    /// Whether the client has bytes for the broker, and there is room.
    pub fn can_send(&mut self) -> bool {
        self.alive && !self.task.has_ended() && !self.end.output().is_empty() && !self.task.input.is_full()
    }

    /// Whether there are bytes from the broker.
    #[must_use]
    pub fn can_receive(&self) -> bool {
        self.alive && !self.task.output.is_empty()
    }

    /// Whether nothing is under way in either direction.
    pub fn is_quiet(&mut self) -> bool {
        self.end.output().is_empty() && self.task.input.is_empty() && self.task.output.is_empty()
    }

    /// Moves some bytes to the broker.
    pub fn send(&mut self, random: &mut Random) {
        let output = self.end.output();
        let count = self.task.input.write(output, random);
        output.drain(..count);
    }

    /// Receives some bytes from the broker.
    ///
    /// # Errors
    /// The broker broke a rule of the protocol.
    pub fn receive(&mut self, random: &mut Random, hash: &mut EventHash) -> Result<(), Failure> {
        self.task.output.read(&mut self.inbox, random);
        let used =
            self.end.receive(&self.inbox).map_err(|violation| Failure::new(Check::Protocol, violation.to_string()))?;
        self.inbox.drain(..used);
        hash.note(used as u64);
        Ok(())
    }
}
