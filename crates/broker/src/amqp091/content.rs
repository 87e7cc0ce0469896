//! Content frames on their way in: method, header, bodies (specification 2.3.5).

use bytes::Bytes;
use leveret_amqp091::ReplyCode;

use super::error::{ProtocolError, Result};
use crate::partial::PartialBytes;

/// What a channel is in the middle of.
#[derive(Debug, Default)]
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
#[derive(Debug)]
pub(crate) struct Body {
    pub properties: Box<[u8]>,
    size: usize,
    received: PartialBytes,
}

impl Body {
    /// A body of `size` bytes, checked against the limit by the caller.
    ///
    /// # Errors
    /// When the connection's unfinished messages hold too much.
    pub(crate) fn new(properties: &[u8], size: usize, mut received: PartialBytes) -> Result<Self> {
        received.charge(properties.len() as u64)?;
        Ok(Self { properties: properties.into(), size, received })
    }

    /// Adds a frame's payload. True when the body is complete.
    pub(crate) fn add(&mut self, chunk: &[u8]) -> Result<bool> {
        let have = self.received.len() + chunk.len();
        if have > self.size {
            return Err(ProtocolError::new(
                ReplyCode::FrameError,
                format!(
                    "content body of {have} bytes is longer than the {} bytes that its header announced",
                    self.size
                ),
            ));
        }
        self.received.add(chunk)?;
        Ok(have == self.size)
    }

    /// The complete body.
    pub(crate) fn finish(self) -> (Box<[u8]>, Bytes) {
        (self.properties, Bytes::from(self.received.finish()))
    }
}
