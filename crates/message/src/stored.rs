//! The stored form of one message: a fixed head, the envelope, the overlay, the properties, the body.
//!
//! Byte table (little endian), the payload of a message record in docs/storage.md:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | encoding: 1 = AMQP 0-9-1, 2 = AMQP 1.0, 3 = MQTT, from 128 on one that another crate brings |
//! | 1 | 1 | version of this form: 2 |
//! | 2 | 1 | flags: bit 0 durable, bit 1 has a priority, bit 2 has an overlay, bit 3 has a time of delivery, bit 4 failed in quorum queues in which it died, bit 5 compared with earlier messages |
//! | 3 | 1 | priority |
//! | 4 | 1 | length of the exchange name |
//! | 5 | 1 | length of the routing key |
//! | 6 | 6 | received, milliseconds since the Unix epoch |
//! | 12 | 6 | expiry, milliseconds since the Unix epoch, 0 = none |
//! | 18 | 4 | length of the properties |
//! | 22 | 4 | length of the body |
//! | 26 | | exchange, routing key |
//! | | 4 | with bit 2: length of the overlay |
//! | | | overlay, properties, body |

use thiserror::Error;

use crate::delivery_time;
use crate::envelope::{
    ENCODING_AMQP10, ENCODING_AMQP091, ENCODING_MQTT, ENCODINGS, Encoding, Envelope, ForeignId, TIME_MS_MAX,
};
use crate::overlay::{ComparedBy, Keys, Overlay, take_sized};

/// Length of the file id that replaces a body in a file of its own; such a body is always longer.
pub const BODY_FILE_BYTES: usize = 8;
/// Bytes before the exchange name.
pub const FIXED_HEAD: usize = 26;
const VERSION: u8 = 2;
const FLAG_DURABLE: u8 = 1;
const FLAG_PRIORITY: u8 = 2;
const FLAG_OVERLAY: u8 = 4;
/// Its annotations or headers say before which time it isn't to be delivered: few do, and the others aren't searched.
const FLAG_DELIVERY_TIME: u8 = 8;
/// Its overlay says how often its delivery failed before.
const FLAG_FAILURES: u8 = 16;
/// Its overlay has that by which its queue compared it with earlier messages.
const FLAG_COMPARED: u8 = 32;

/// A stored message, parsed in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredMessage<'a> {
    /// The encoding of properties and body.
    pub encoding: Encoding,
    /// The envelope.
    pub envelope: Envelope<'a>,
    /// Deaths and further routing keys.
    pub overlay: Overlay<'a>,
    /// The properties, see [`Encoding`].
    pub properties: &'a [u8],
    /// The body as received, see [`Encoding`].
    pub body: &'a [u8],
}

/// The bytes are not a stored message. Since only this crate writes them, the disk is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StoredError {
    /// There are fewer bytes than the lengths in the head require.
    #[error("stored message is {have} bytes long, its head asks for {need}")]
    Truncated {
        /// Number of bytes.
        have: usize,
        /// Number of bytes required.
        need: usize,
    },
    /// They were written by a newer version or are damaged.
    #[error("stored message has unknown encoding {encoding} version {version}")]
    UnknownEncoding {
        /// Byte 0.
        encoding: u8,
        /// Byte 1.
        version: u8,
    },
}

/// Appends everything except the body, whose length `body_length` is recorded; the caller appends that many bytes or
/// keeps them separately.
///
/// # Panics
/// If a name is over 255 bytes, a length over 4 GiB or a time over 48 bits: the codecs have capped them.
pub fn encode_head(out: &mut Vec<u8>, message: &StoredMessage<'_>, body_length: usize) {
    encode_head_with(out, message, body_length, |out| {
        if !message.overlay.is_empty() {
            out.extend_from_slice(message.overlay.as_bytes());
        }
    });
}

/// As [`encode_head`], with the overlay that `write` appends instead of the message's.
pub(crate) fn encode_head_with(
    out: &mut Vec<u8>,
    message: &StoredMessage<'_>,
    body_length: usize,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let envelope = &message.envelope;
    assert!(envelope.received_ms <= TIME_MS_MAX && envelope.expiry_ms <= TIME_MS_MAX, "time over 48 bits");
    let start = out.len();
    out.extend_from_slice(&[0; FIXED_HEAD]);
    // Written in place: a copy of bytes that were just written in smaller stores would stall the processor.
    let head = out.last_chunk_mut::<FIXED_HEAD>().expect("they were appended");
    head[0] = match message.encoding {
        Encoding::Amqp091 => ENCODING_AMQP091,
        Encoding::Amqp10 => ENCODING_AMQP10,
        Encoding::Mqtt => ENCODING_MQTT,
        Encoding::Foreign(id) => id.number(),
    };
    head[1] = VERSION;
    head[2] = if envelope.durable { FLAG_DURABLE } else { 0 };
    if let Some(priority) = envelope.priority {
        head[2] |= FLAG_PRIORITY;
        head[3] = priority;
    }
    head[4] = u8::try_from(envelope.exchange.len()).expect("exchange name over 255 bytes");
    head[5] = u8::try_from(envelope.routing_key.len()).expect("routing key over 255 bytes");
    head[6..12].copy_from_slice(&envelope.received_ms.to_le_bytes()[..6]);
    head[12..18].copy_from_slice(&envelope.expiry_ms.to_le_bytes()[..6]);
    let properties_length = u32::try_from(message.properties.len()).expect("properties over 4 GiB");
    head[18..22].copy_from_slice(&properties_length.to_le_bytes());
    let body_length = u32::try_from(body_length).expect("body over 4 GiB");
    head[22..26].copy_from_slice(&body_length.to_le_bytes());
    // Most messages have one name and nothing else, and appending an empty slice takes as long as appending a name.
    if !envelope.exchange.is_empty() {
        out.extend_from_slice(envelope.exchange);
    }
    out.extend_from_slice(envelope.routing_key);
    let overlay = out.len();
    write(out);
    if out.len() > overlay {
        let length = u32::try_from(out.len() - overlay).expect("overlay over 4 GiB");
        out.splice(overlay..overlay, length.to_le_bytes());
        let written = Overlay::new(&out[overlay + 4..]);
        let mut flags = FLAG_OVERLAY;
        if written.failures() > 0 {
            flags |= FLAG_FAILURES;
        }
        if delivery_time::of_parts(message.encoding, written, message.properties).is_some() {
            flags |= FLAG_DELIVERY_TIME;
        }
        out[start + 2] |= flags;
    } else if delivery_time::of_publisher(message.encoding, message.properties).is_some() {
        out[start + 2] |= FLAG_DELIVERY_TIME;
    }
    if !message.properties.is_empty() {
        out.extend_from_slice(message.properties);
    }
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

fn u48_at(bytes: &[u8], at: usize) -> u64 {
    let mut wide = [0u8; 8];
    wide[..6].copy_from_slice(&bytes[at..at + 6]);
    u64::from_le_bytes(wide)
}

impl<'a> StoredMessage<'a> {
    /// Parses head and body that are contiguous.
    ///
    /// # Errors
    /// [`StoredError`] if the bytes are too short or of an unknown encoding.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, StoredError> {
        let (head_length, body_length) = lengths(bytes)?;
        let need = head_length + body_length;
        if bytes.len() < need {
            return Err(StoredError::Truncated { have: bytes.len(), need });
        }
        Ok(Self::from_parts(&bytes[..head_length], &bytes[head_length..need]))
    }

    /// Parses the head of a message whose body is missing, or replaced by its file's id.
    ///
    /// # Errors
    /// As [`lengths`].
    pub fn parse_head(bytes: &'a [u8]) -> Result<Self, StoredError> {
        let (head, _) = lengths(bytes)?;
        Ok(Self::from_parts(&bytes[..head], &[]))
    }

    /// Parses a head and a body that are stored separately. The head was checked or written by this crate.
    pub(crate) fn from_parts(head: &'a [u8], body: &'a [u8]) -> Self {
        let exchange_end = FIXED_HEAD + head[4] as usize;
        let key_end = exchange_end + head[5] as usize;
        let (overlay, properties) = if head[2] & FLAG_OVERLAY == 0 {
            (&[][..], &head[key_end..])
        } else {
            take_sized(&head[key_end..]).expect("checked with the lengths")
        };
        Self {
            encoding: ENCODINGS[usize::from(head[0])],
            envelope: Envelope {
                durable: head[2] & FLAG_DURABLE != 0,
                priority: (head[2] & FLAG_PRIORITY != 0).then_some(head[3]),
                exchange: &head[FIXED_HEAD..exchange_end],
                routing_key: &head[exchange_end..key_end],
                received_ms: u48_at(head, 6),
                expiry_ms: u48_at(head, 12),
            },
            overlay: Overlay::new(overlay),
            properties,
            body,
        }
    }

    /// All routing keys: the envelope's, the further ones, and those that no receiver may see.
    pub fn routing_keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let further: (Keys<'a>, Keys<'a>) = if self.overlay.is_empty() {
            Default::default()
        } else {
            (self.overlay.further_keys(), self.overlay.blind_keys())
        };
        std::iter::once(self.envelope.routing_key).chain(further.0).chain(further.1)
    }
}

/// The times at which a stored message was received and at which it expires by its own time to live, see
/// [`Envelope`]; 0 means never. Its lengths were checked.
pub fn times(bytes: &[u8]) -> (u64, u64) {
    (u48_at(bytes, 6), u48_at(bytes, 12))
}

/// The traits that few stored messages have, and that some of these have: each head is looked at once for all of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadTraits {
    /// The flags of all heads.
    flags: u8,
    any_expiry: bool,
}

impl HeadTraits {
    /// Takes in a stored message. Its lengths were checked.
    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let head = bytes.first_chunk::<FIXED_HEAD>().expect("it has a head");
        self.flags |= head[2];
        self.any_expiry |= head[12..18] != [0; 6];
    }

    /// Whether some message has a time to live of its own.
    #[inline]
    pub(crate) fn any_expiry(self) -> bool {
        self.any_expiry
    }

    /// Whether some message has a priority.
    #[inline]
    pub(crate) fn any_priority(self) -> bool {
        self.flags & FLAG_PRIORITY != 0
    }

    /// Whether some message has a time before which it isn't to be delivered.
    #[inline]
    pub(crate) fn any_delivery_time(self) -> bool {
        self.flags & FLAG_DELIVERY_TIME != 0
    }

    /// Whether the delivery of some message failed in a quorum queue in which it died.
    #[inline]
    pub(crate) fn any_failures(self) -> bool {
        self.flags & FLAG_FAILURES != 0
    }
}

/// The publisher's priority of a stored message, if it has one. Its lengths were checked.
pub fn priority(bytes: &[u8]) -> Option<u8> {
    (bytes[2] & FLAG_PRIORITY != 0).then_some(bytes[3])
}

/// The time before which a stored message isn't to be delivered, in milliseconds since the Unix epoch; none if it was over when the
/// message was received, so that it has no effect later either, whatever the clock says then. Its lengths were checked.
pub fn delivery_ms(bytes: &[u8]) -> Option<u64> {
    if !has_delivery_time(bytes) {
        return None;
    }
    let message = StoredMessage::parse_head(bytes).ok()?;
    let due_ms = delivery_time::of_parts(message.encoding, message.overlay, message.properties);
    due_ms.filter(|due_ms| *due_ms > message.envelope.received_ms)
}

/// How often the delivery of a stored message failed in the quorum queues in which it died. Its lengths were checked.
pub fn failures(bytes: &[u8]) -> u32 {
    match has_failures(bytes) {
        false => 0,
        true => StoredMessage::parse_head(bytes).map_or(0, |message| message.overlay.failures()),
    }
}

/// Whether that happened. Its lengths were checked.
pub(crate) fn has_failures(bytes: &[u8]) -> bool {
    bytes[2] & FLAG_FAILURES != 0
}

/// By what its queue compared a stored message with earlier ones, if it did. Its lengths were checked.
pub fn compared_by(bytes: &[u8]) -> Option<ComparedBy> {
    if bytes[2] & FLAG_COMPARED == 0 {
        return None;
    }
    StoredMessage::parse_head(bytes).ok()?.overlay.compared_by()
}

/// Says in the head of a stored message that its overlay has that.
pub(crate) fn mark_compared(head: &mut [u8]) {
    head[2] |= FLAG_COMPARED;
}

/// Whether a stored message has such a time. Its lengths were checked.
pub(crate) fn has_delivery_time(bytes: &[u8]) -> bool {
    bytes[2] & FLAG_DELIVERY_TIME != 0
}

/// Sets the time at which a stored message was received, at which its time to live begins. Its lengths were checked.
pub(crate) fn receive_at(bytes: &mut [u8], now_ms: u64) {
    let (received_ms, expiry_ms) = times(bytes);
    let expiry_ms = match expiry_ms {
        0 => 0,
        expiry_ms => Envelope::expiry(now_ms, expiry_ms.saturating_sub(received_ms)),
    };
    assert!(now_ms <= TIME_MS_MAX && expiry_ms <= TIME_MS_MAX, "time over 48 bits");
    bytes[6..12].copy_from_slice(&now_ms.to_le_bytes()[..6]);
    bytes[12..18].copy_from_slice(&expiry_ms.to_le_bytes()[..6]);
}

/// Sets the length of the body in the head of a stored message, and returns it.
#[inline]
pub(crate) fn set_body_length(head: &mut [u8], length: usize) -> u32 {
    let length = u32::try_from(length).expect("body over 4 GiB");
    head[22..26].copy_from_slice(&length.to_le_bytes());
    length
}

/// Whether two messages look the same to a receiver at the same moment, apart from their bodies: their heads, which
/// were checked, differ in nothing but the time of receipt and the length of the body.
#[inline]
pub(crate) fn tell_the_same(one: &[u8], other: &[u8]) -> bool {
    let (Some((fixed, rest)), Some((other_fixed, other_rest))) =
        (one.split_first_chunk::<FIXED_HEAD>(), other.split_first_chunk::<FIXED_HEAD>())
    else {
        return false;
    };
    fixed[..6] == other_fixed[..6] && fixed[12..22] == other_fixed[12..22] && rest == other_rest
}

/// Length of the head (everything before the body) and of the body of a stored message.
///
/// # Errors
/// [`StoredError`] if the head itself is cut or of an unknown encoding; the body may be missing.
pub fn lengths(bytes: &[u8]) -> Result<(usize, usize), StoredError> {
    let enough = |need: usize| {
        if bytes.len() < need { Err(StoredError::Truncated { have: bytes.len(), need }) } else { Ok(()) }
    };
    enough(FIXED_HEAD)?;
    let is_known = matches!(bytes[0], ENCODING_AMQP091 | ENCODING_AMQP10 | ENCODING_MQTT | ForeignId::MIN..);
    if !is_known || bytes[1] != VERSION {
        return Err(StoredError::UnknownEncoding { encoding: bytes[0], version: bytes[1] });
    }
    let mut head = FIXED_HEAD + bytes[4] as usize + bytes[5] as usize;
    if bytes[2] & FLAG_OVERLAY != 0 {
        enough(head + 4)?;
        head += 4 + u32_at(bytes, head);
    }
    head += u32_at(bytes, 18);
    enough(head)?;
    Ok((head, u32_at(bytes, 22)))
}

/// The file id that a record has in place of a body in a file of its own.
pub fn encode_body_file(id: u64) -> [u8; BODY_FILE_BYTES] {
    id.to_le_bytes()
}

/// Whether a stored message was published over AMQP 1.0, by its head.
pub fn is_amqp10(head: &[u8]) -> bool {
    head.first() == Some(&ENCODING_AMQP10)
}

/// The id of the body's file and the lengths of head and body, if `bytes` are a head followed by such an id.
///
/// # Errors
/// As [`lengths`].
pub fn body_file(bytes: &[u8]) -> Result<Option<(u64, usize, usize)>, StoredError> {
    let (head, body) = lengths(bytes)?;
    let id = bytes[head..].try_into().ok().filter(|_| body != BODY_FILE_BYTES).map(u64::from_le_bytes);
    Ok(id.map(|id| (id, head, body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::encode_keys;

    fn envelope() -> Envelope<'static> {
        Envelope {
            durable: true,
            priority: Some(7),
            exchange: b"amq.topic",
            routing_key: b"a.\xff",
            received_ms: TIME_MS_MAX - 1,
            expiry_ms: TIME_MS_MAX,
        }
    }

    fn encoded(message: &StoredMessage<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_head(&mut bytes, message, message.body.len());
        bytes.extend_from_slice(message.body);
        bytes
    }

    #[test]
    fn an_encoded_message_is_parsed_again() {
        let mut overlay = Vec::new();
        encode_keys(&mut overlay, [&b"second"[..]], [&b"third"[..]]);
        for encoding in [Encoding::Amqp091, Encoding::Amqp10] {
            for overlay in [Overlay::default(), Overlay::new(&overlay)] {
                for priority in [None, Some(0), Some(255)] {
                    let envelope = Envelope { priority, ..envelope() };
                    let properties = b"\x10\x00\x02";
                    let message = StoredMessage { encoding, envelope, overlay, properties, body: b"hello" };
                    assert_eq!(StoredMessage::parse(&encoded(&message)).unwrap(), message);
                }
            }
        }
        let overlay = Overlay::new(&overlay);
        let message = StoredMessage { envelope: envelope(), overlay, ..StoredMessage::default() };
        assert_eq!(message.routing_keys().collect::<Vec<_>>(), [&b"a.\xff"[..], b"second", b"third"]);
    }

    #[test]
    fn every_truncation_is_an_error_and_no_panic() {
        let mut overlay = Vec::new();
        encode_keys(&mut overlay, [&b"second"[..]], []);
        let overlay = Overlay::new(&overlay);
        let properties = b"\x00\x00";
        let message = StoredMessage { envelope: envelope(), overlay, properties, body: b"abc", ..Default::default() };
        let bytes = encoded(&message);
        for end in 0..bytes.len() {
            assert!(StoredMessage::parse(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn an_unknown_version_is_named() {
        let mut bytes = encoded(&StoredMessage::default());
        bytes[1] = 9;
        let error = StoredMessage::parse(&bytes).unwrap_err();
        assert_eq!(error, StoredError::UnknownEncoding { encoding: 1, version: 9 });
    }
}
