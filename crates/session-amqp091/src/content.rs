//! Incoming content frames: method, header, bodies (specification 2.3.5).

use bytes::Bytes;
use leveret_amqp091::ReplyCode;

use super::error::{ProtocolError, Result};
use super::run::{Arriving, Prepared};
use leveret_broker::bodies::BodyFile;
use leveret_broker::partial::{PartialBytes, PartialMessages};

/// The part of a content that a channel expects next.
#[derive(Default)]
pub(crate) enum Incoming {
    /// A method; no content has begun.
    #[default]
    Method,
    /// The header of a `basic.publish`.
    Header(Publish),
    /// The rest of the body.
    Body(Publish, Body),
}

/// The method of a publish.
#[derive(Debug)]
pub(crate) struct Publish {
    pub exchange: Box<[u8]>,
    pub routing_key: Box<[u8]>,
    pub mandatory: bool,
}

impl Publish {
    /// The message of this publish on `channel`, with these properties.
    pub(crate) fn arriving<'a>(&'a self, channel: u16, properties: &'a [u8]) -> Arriving<'a> {
        let Self { exchange, routing_key, mandatory } = self;
        Arriving { channel, exchange, routing_key, mandatory: *mandatory, properties }
    }
}

/// A body that comes in parts.
pub(crate) struct Body {
    pub properties: Box<[u8]>,
    size: usize,
    have: usize,
    received: Received,
}

/// The place of the parts that have come.
pub(crate) enum Received {
    /// In memory.
    Memory(PartialBytes),
    /// On their way to a body file. The message was routed when its header came.
    File(Box<BodyFile>, Box<Prepared>),
    /// Dropped: the message has no queue and isn't returned.
    Dropped(Box<Prepared>),
}

/// A complete body.
pub(crate) struct Whole {
    pub properties: Box<[u8]>,
    pub received: WholeBody,
}

/// The place of a complete body.
pub(crate) enum WholeBody {
    Memory(Bytes),
    File(Box<BodyFile>, Box<Prepared>),
    /// Dropped, with its size in bytes.
    Dropped(u64, Box<Prepared>),
}

impl Body {
    /// A body of `size` bytes, checked against the limit by the caller.
    ///
    /// # Errors
    /// The connection's unfinished messages hold too much.
    pub(crate) fn new(properties: &[u8], size: usize, all: &PartialMessages) -> Result<Self> {
        let mut received = all.begin();
        received.charge(properties.len() as u64)?;
        Ok(Self { properties: properties.into(), size, have: 0, received: Received::Memory(received) })
    }

    /// A body whose bytes aren't kept in memory.
    pub(crate) fn elsewhere(properties: &[u8], size: usize, received: Received) -> Self {
        Self { properties: properties.into(), size, have: 0, received }
    }

    /// Adds a frame's payload. True when the body is complete.
    pub(crate) fn add(&mut self, chunk: &[u8], all: &PartialMessages) -> Result<bool> {
        self.have += chunk.len();
        if self.have > self.size {
            return Err(ProtocolError::new(
                ReplyCode::FrameError,
                format!(
                    "content body of {} bytes is longer than the {} bytes that its header announced",
                    self.have, self.size
                ),
            ));
        }
        match &mut self.received {
            Received::Memory(bytes) => bytes.add(chunk)?,
            Received::File(file, _) => file.add(chunk, all)?,
            Received::Dropped(_) => {}
        }
        Ok(self.have == self.size)
    }

    /// The complete body.
    pub(crate) fn finish(self) -> Whole {
        let received = match self.received {
            Received::Memory(bytes) => WholeBody::Memory(Bytes::from(bytes.finish())),
            Received::File(mut file, prepared) => {
                file.finish();
                WholeBody::File(file, prepared)
            }
            Received::Dropped(prepared) => WholeBody::Dropped(self.size as u64, prepared),
        };
        Whole { properties: self.properties, received }
    }
}
