//! Fast path for most messages from streams: those that are nothing but a body.
//!
//! A stream stores every message in its form of AMQP 1.0, so that receivers over AMQP 0-9-1 get all of them converted.

use crate::annotations::X_STREAM_OFFSET;
use crate::envelope::Envelope;
use crate::stored::StoredMessage;

const HEADERS: u16 = 1 << 13;
const DELIVERY_MODE: u16 = 1 << 12;
const PRIORITY: u16 = 1 << 11;
/// Bytes of the longest property list here.
const PROPERTIES_BYTES_MAX: usize = 48;

/// The body of a message that has no properties, application properties, annotations, footer and overlay, and whose body is one
/// data section.
#[inline]
pub(super) fn body_of<'a>(message: &StoredMessage<'a>) -> Option<&'a [u8]> {
    if !message.properties.is_empty() || !message.overlay.is_empty() || message.envelope.expiry_ms != 0 {
        return None;
    }
    match message.body {
        [0x00, 0x53, 0x75, 0xa0, size, data @ ..] if data.len() == usize::from(*size) => Some(data),
        [0x00, 0x53, 0x75, 0xb0, a, b, c, d, data @ ..]
            if data.len() as u64 == u32::from_be_bytes([*a, *b, *c, *d]).into() =>
        {
            Some(data)
        }
        _ => None,
    }
}

/// Property flags and list of such a message, whose receiver gets no stamps besides an offset in its stream.
#[inline]
pub(super) fn properties(envelope: &Envelope<'_>, stream_offset: Option<u64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(PROPERTIES_BYTES_MAX);
    let mode = super::properties::delivery_mode(envelope.durable, stream_offset.is_some());
    let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
    let flags = flag(stream_offset.is_some(), HEADERS)
        | flag(mode.is_some(), DELIVERY_MODE)
        | flag(envelope.priority.is_some(), PRIORITY);
    out.extend_from_slice(&flags.to_be_bytes());
    if let Some(offset) = stream_offset {
        // A table: its length, the name, the letter of a signed number of 64 bits, and the number.
        let name = X_STREAM_OFFSET.as_bytes();
        out.extend_from_slice(&[0, 0, 0, name.len() as u8 + 10, name.len() as u8]);
        out.extend_from_slice(name);
        out.push(b'l');
        out.extend_from_slice(&offset.to_be_bytes());
    }
    out.extend(mode);
    out.extend(envelope.priority);
    out
}

#[cfg(test)]
mod tests {
    use leveret_amqp10::message::write_data;

    use super::super::{by_hub, to_amqp091};
    use super::*;
    use crate::deliver::Delivery;
    use crate::envelope::Encoding;

    #[test]
    fn plain_messages_are_converted_as_others_are() {
        for (durable, priority) in [(true, None), (false, None), (true, Some(9)), (false, Some(0))] {
            for (length, stream_offset) in [(0, None), (255, Some(0)), (256, Some(1 << 40)), (5, None)] {
                let mut body = Vec::new();
                write_data(&mut body, &vec![7; length]);
                let envelope = Envelope { durable, priority, ..Envelope::default() };
                let message =
                    StoredMessage { encoding: Encoding::Amqp10, envelope, body: &body, ..StoredMessage::default() };
                let delivery = Delivery { stream_offset, ..Delivery::default() };
                assert!(body_of(&message).is_some());
                assert_eq!(to_amqp091(&message, &delivery), by_hub(&message, &delivery));
                let changes: [StoredMessage<'_>; 3] = [
                    StoredMessage { body: &body[1..], ..message },
                    StoredMessage { body: &body[..body.len() - 1], ..message },
                    StoredMessage { envelope: Envelope { expiry_ms: 1, ..envelope }, ..message },
                ];
                assert!(changes.iter().all(|message| body_of(message).is_none()));
            }
        }
    }

    #[test]
    fn a_broken_message_of_a_stream_has_its_offset() {
        let mut body = Vec::new();
        write_data(&mut body, b"cut");
        let (encoding, body) = (Encoding::Amqp10, &body[..body.len() - 1]);
        let message = StoredMessage { encoding, body, ..StoredMessage::default() };
        let delivery = Delivery { stream_offset: Some(7), ..Delivery::default() };
        let delivered = to_amqp091(&message, &delivery);
        let headers = leveret_amqp091::headers(&delivered.properties).expect("headers");
        assert_eq!(headers.lookup(X_STREAM_OFFSET), Some(leveret_amqp091::Value::I64(7)));
        assert_eq!(*delivered.body, *body, "the bytes as they are");
    }
}
