//! The stored form of one message: a fixed head, the envelope, the properties, the body.
//!
//! Byte table (little endian), the payload of a message record in docs/storage.md:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | encoding: 1 = AMQP 0-9-1 |
//! | 1 | 1 | version of the encoding: 1 |
//! | 2 | 1 | flags: bit 0 durable |
//! | 3 | 1 | priority |
//! | 4 | 1 | length of the exchange name |
//! | 5 | 1 | length of the routing key |
//! | 6 | 2 | reserved, zero (further routing keys) |
//! | 8 | 8 | expiry, milliseconds since the Unix epoch, 0 = none |
//! | 16 | 4 | length of the properties |
//! | 20 | 4 | length of the body |
//! | 24 | | exchange, routing key, properties, body |
//!
//! For AMQP 0-9-1 the properties are the content header's property flags and list as received
//! (specification 4.2.6.1).

use thiserror::Error;

/// Bytes before the exchange name.
pub const FIXED_HEAD: usize = 24;
/// The encoding tag of a message published over AMQP 0-9-1.
pub const ENCODING_AMQP091: u8 = 1;
const VERSION: u8 = 1;
const FLAG_DURABLE: u8 = 1;

/// Where a message came in and how long it may live: immutable once published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Survives a restart when it lies in a durable queue.
    pub durable: bool,
    /// 0 to 255, as the publisher gave it.
    pub priority: u8,
    /// Name of the exchange it was published to; empty for the default exchange.
    pub exchange: &'a [u8],
    /// At most 255 bytes, not necessarily UTF-8.
    pub routing_key: &'a [u8],
    /// Absolute wall time in milliseconds since the Unix epoch; 0 means never.
    pub expiry_ms: u64,
}

/// A stored message, parsed in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredMessage<'a> {
    /// See [`Envelope`].
    pub envelope: Envelope<'a>,
    /// Property flags and list of the content header as the publisher sent them.
    pub properties: &'a [u8],
    /// The body, byte for byte.
    pub body: &'a [u8],
}

/// Bytes that are not a stored message: the disk's fault, since only this crate writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StoredError {
    /// The bytes end before the lengths in the head say so.
    #[error("stored message is {have} bytes long, its head asks for {need}")]
    Truncated {
        /// Bytes there.
        have: usize,
        /// Bytes wanted.
        need: usize,
    },
    /// Written by a newer version or damaged.
    #[error("stored message has unknown encoding {encoding} version {version}")]
    UnknownEncoding {
        /// Byte 0.
        encoding: u8,
        /// Byte 1.
        version: u8,
    },
}

/// Appends everything but the body; the caller appends `body_length` bytes or keeps them beside.
///
/// # Panics
/// When a name is over 255 bytes or a length over 4 GiB: the codec has capped both.
pub fn encode_head(out: &mut Vec<u8>, envelope: &Envelope<'_>, properties: &[u8], body_length: usize) {
    let exchange_length = u8::try_from(envelope.exchange.len()).expect("exchange name over 255 bytes");
    let key_length = u8::try_from(envelope.routing_key.len()).expect("routing key over 255 bytes");
    let properties_length = u32::try_from(properties.len()).expect("properties over 4 GiB");
    let body_length = u32::try_from(body_length).expect("body over 4 GiB");
    let mut head = [0u8; FIXED_HEAD];
    head[0] = ENCODING_AMQP091;
    head[1] = VERSION;
    head[2] = if envelope.durable { FLAG_DURABLE } else { 0 };
    head[3] = envelope.priority;
    head[4] = exchange_length;
    head[5] = key_length;
    head[8..16].copy_from_slice(&envelope.expiry_ms.to_le_bytes());
    head[16..20].copy_from_slice(&properties_length.to_le_bytes());
    head[20..24].copy_from_slice(&body_length.to_le_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(envelope.exchange);
    out.extend_from_slice(envelope.routing_key);
    out.extend_from_slice(properties);
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

impl<'a> StoredMessage<'a> {
    /// Parses head and body that lie together.
    ///
    /// # Errors
    /// [`StoredError`] when the bytes are too short or of an unknown encoding.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, StoredError> {
        let (head_length, body_length) = lengths(bytes)?;
        let need = head_length + body_length;
        if bytes.len() < need {
            return Err(StoredError::Truncated { have: bytes.len(), need });
        }
        Ok(Self::from_parts(&bytes[..head_length], &bytes[head_length..need]))
    }

    /// Views a head and a body that lie apart. The head was checked or written by this crate.
    pub(crate) fn from_parts(head: &'a [u8], body: &'a [u8]) -> Self {
        let exchange_end = FIXED_HEAD + head[4] as usize;
        let key_end = exchange_end + head[5] as usize;
        let mut expiry = [0u8; 8];
        expiry.copy_from_slice(&head[8..16]);
        Self {
            envelope: Envelope {
                durable: head[2] & FLAG_DURABLE != 0,
                priority: head[3],
                exchange: &head[FIXED_HEAD..exchange_end],
                routing_key: &head[exchange_end..key_end],
                expiry_ms: u64::from_le_bytes(expiry),
            },
            properties: &head[key_end..],
            body,
        }
    }
}

/// Length of the head (fixed part, names, properties) and of the body of a stored message.
///
/// # Errors
/// [`StoredError`] when the head itself is cut or of an unknown encoding; the body may be missing.
pub fn lengths(bytes: &[u8]) -> Result<(usize, usize), StoredError> {
    if bytes.len() < FIXED_HEAD {
        return Err(StoredError::Truncated { have: bytes.len(), need: FIXED_HEAD });
    }
    if bytes[0] != ENCODING_AMQP091 || bytes[1] != VERSION {
        return Err(StoredError::UnknownEncoding { encoding: bytes[0], version: bytes[1] });
    }
    let head = FIXED_HEAD + bytes[4] as usize + bytes[5] as usize + u32_at(bytes, 16);
    if bytes.len() < head {
        return Err(StoredError::Truncated { have: bytes.len(), need: head });
    }
    Ok((head, u32_at(bytes, 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Envelope<'static> {
        Envelope { durable: true, priority: 7, exchange: b"amq.topic", routing_key: b"a.\xff", expiry_ms: 99 }
    }

    #[test]
    fn what_is_encoded_is_parsed_again() {
        let mut bytes = Vec::new();
        encode_head(&mut bytes, &envelope(), b"\x10\x00\x02", 5);
        bytes.extend_from_slice(b"hello");
        let message = StoredMessage::parse(&bytes).unwrap();
        assert_eq!(message.envelope, envelope());
        assert_eq!(message.properties, b"\x10\x00\x02");
        assert_eq!(message.body, b"hello");
    }

    #[test]
    fn every_cut_is_an_error_and_no_panic() {
        let mut bytes = Vec::new();
        encode_head(&mut bytes, &envelope(), b"\x00\x00", 3);
        bytes.extend_from_slice(b"abc");
        for end in 0..bytes.len() {
            assert!(StoredMessage::parse(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn an_unknown_version_is_named() {
        let mut bytes = Vec::new();
        encode_head(&mut bytes, &envelope(), b"", 0);
        bytes[1] = 9;
        let error = StoredMessage::parse(&bytes).unwrap_err();
        assert_eq!(error, StoredError::UnknownEncoding { encoding: 1, version: 9 });
    }
}
