//! A message over AMQP 1.0 as most are: with nothing to refuse it for, nor anything to store beside its bytes.

use leveret_amqp10::message::PlainMessage;

use crate::envelope::{Encoding, Envelope};
use crate::overlay::Overlay;
use crate::stored::StoredMessage;

/// A [`PlainMessage`] that comes in, on a link with an address of its own: where it goes depends on that, and on its headers
/// if it [has some](Self::has_headers).
#[derive(Debug, Clone, Copy)]
pub struct Plain<'a>(PlainMessage<'a>);

impl<'a> Plain<'a> {
    /// The message, if it is one; none of it is copied.
    #[inline]
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        PlainMessage::read(payload).map(Self)
    }

    /// From the header; false without one.
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.0.header.durable.unwrap_or(false)
    }

    /// Whether a headers exchange has something to look at.
    #[inline]
    pub fn has_headers(&self) -> bool {
        self.0.has_application_properties
    }

    /// As [`Incoming::stored`](super::Incoming::stored).
    #[inline]
    pub fn stored(&self, exchange: &'a [u8], routing_key: &'a [u8], received_ms: u64) -> StoredMessage<'a> {
        let header = &self.0.header;
        StoredMessage {
            encoding: Encoding::Amqp10,
            envelope: Envelope {
                durable: self.is_durable(),
                priority: header.priority,
                exchange,
                routing_key,
                received_ms,
                expiry_ms: header.ttl.map_or(0, |ttl| Envelope::expiry(received_ms, ttl.into())),
            },
            overlay: Overlay::default(),
            properties: &[],
            body: self.0.bare,
        }
    }
}
