//! Fast path for most messages of AMQP 1.0: those with nothing to refuse, and nothing to store besides their bytes.

use leveret_amqp10::message::PlainMessage;

use crate::envelope::{Encoding, Envelope};
use crate::overlay::Overlay;
use crate::stored::StoredMessage;

/// A published [`PlainMessage`] on a link with an address of its own. Its route depends on that address, and on its
/// headers if it [has some](Self::has_headers).
#[derive(Debug, Clone, Copy)]
pub struct Plain<'a>(PlainMessage<'a>);

impl<'a> Plain<'a> {
    /// The message, if it is a plain one; nothing is copied.
    #[inline]
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        PlainMessage::read(payload).map(Self)
    }

    /// From the header; false without a header.
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.0.header.durable.unwrap_or(false)
    }

    /// Whether there are headers for a headers exchange.
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
