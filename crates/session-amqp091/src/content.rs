//! Content frames on their way in: method, header, bodies (specification 2.3.5).

use bytes::Bytes;
use leveret_amqp091::ReplyCode;

use super::error::{ProtocolError, Result};
use super::publish::Prepared;
use leveret_broker::bodies::BodyFile;
use leveret_broker::partial::{PartialBytes, PartialMessages};

/// What a channel is in the middle of.
#[derive(Default)]
pub(crate) enum Incoming {
    /// Methods.
    #[default]
    Method,
    /// A `basic.publish` whose header has not come.
    Header(Publish),
    /// A header whose body isn't complete.
    Body(Publish, Body),
}

/// The method of a publish.
#[derive(Debug)]
pub(crate) struct Publish {
    pub exchange: Box<[u8]>,
    pub routing_key: Box<[u8]>,
    pub mandatory: bool,
}

/// A body in parts.
pub(crate) struct Body {
    pub properties: Box<[u8]>,
    size: usize,
    have: usize,
    received: Received,
}

/// Where the parts of a body are.
pub(crate) enum Received {
    /// Here.
    Memory(PartialBytes),
    /// On their way to a file of its own. Its message was routed when its header came.
    File(Box<BodyFile>, Box<Prepared>),
    /// Nowhere: the message has no queue, and nobody wants it back.
    Dropped(Box<Prepared>),
}

/// A body that has come in whole.
pub(crate) struct Whole {
    pub properties: Box<[u8]>,
    pub received: WholeBody,
}

/// Where it is.
pub(crate) enum WholeBody {
    Memory(Bytes),
    File(Box<BodyFile>, Box<Prepared>),
    /// So many bytes.
    Dropped(u64, Box<Prepared>),
}

impl Body {
    /// A body of `size` bytes, checked against the limit by the caller.
    ///
    /// # Errors
    /// When the connection's unfinished messages hold too much.
    pub(crate) fn new(properties: &[u8], size: usize, all: &PartialMessages) -> Result<Self> {
        let mut received = all.begin();
        received.charge(properties.len() as u64)?;
        Ok(Self { properties: properties.into(), size, have: 0, received: Received::Memory(received) })
    }

    /// One whose bytes don't stay here.
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
