//! The form of session records: the bodies of messages in the ledger of sessions, whose routing keys are client ids (big endian):
//!
//! | size | field |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | kind |
//! | 2 | packet identifier, or 0 |
//! | | kind 1, *received*: 4, seconds for which the session outlives its connection |
//! | | kind 2, *released*: 8, number of the message in its queue; 4, as above |
//! | | kind 3, *away*: 8, wall time in milliseconds at which the session ends; 0 is never |
//! | | kind 4, *will*: 4, as above; 4, delay in seconds; 1, QoS; 1, retain; 2 + n, user; 2 + n, topic; 4 + n, properties; n, payload |
//! | | kind 5, *end of session*: nothing |
//! | | kinds 129 to 132, *end* of 1 to 4: nothing |

use std::sync::Arc;

use leveret_message::overlay::Overlay;
use leveret_message::{BatchBuilder, Encoding, Envelope, StoredMessage};
use leveret_mqtt::{PropertyList, QoS};

use super::stored_will::StoredWill;

const VERSION: u8 = 1;
const RECEIVED: u8 = 1;
const RELEASED: u8 = 2;
const AWAY: u8 = 3;
const WILL: u8 = 4;
const SESSION_OVER: u8 = 5;
/// Added to a kind, it ends the record of that kind.
const OVER: u8 = 0x80;

/// The key of a record, apart from the client id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RecordSlot {
    /// A message of QoS 2 came and isn't released.
    Received(u16),
    /// PUBREC came for a message, and PUBCOMP hasn't.
    Released(u16),
    /// The client is away.
    Away,
    /// The will of a connected client.
    Will,
}

/// A will and what its publication needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecordedWill {
    pub will: StoredWill,
    pub user: Arc<str>,
    pub session_expiry_s: u32,
}

/// A record of a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SessionRecord {
    Received {
        id: u16,
        session_expiry_s: u32,
    },
    Released {
        id: u16,
        number: u64,
        session_expiry_s: u32,
    },
    Away {
        until_ms: u64,
    },
    Will(Box<RecordedWill>),
    /// The record of this slot isn't in force any more.
    Over(RecordSlot),
    /// The session is over, except for a will.
    SessionOver,
}

impl SessionRecord {
    /// The slot that it fills, unless it empties some.
    pub(crate) fn slot(&self) -> Option<RecordSlot> {
        match self {
            Self::Received { id, .. } => Some(RecordSlot::Received(*id)),
            Self::Released { id, .. } => Some(RecordSlot::Released(*id)),
            Self::Away { .. } => Some(RecordSlot::Away),
            Self::Will(_) => Some(RecordSlot::Will),
            Self::Over(_) | Self::SessionOver => None,
        }
    }

    /// Adds it to a batch.
    pub(crate) fn push(&self, client_id: &str, builder: &mut BatchBuilder, now_ms: u64) {
        let mut body = vec![VERSION];
        let mut begin = |kind: u8, id: u16| {
            body.push(kind);
            body.extend(id.to_be_bytes());
        };
        match self {
            Self::Received { id, session_expiry_s } => {
                begin(RECEIVED, *id);
                body.extend(session_expiry_s.to_be_bytes());
            }
            Self::Released { id, number, session_expiry_s } => {
                begin(RELEASED, *id);
                body.extend(number.to_be_bytes());
                body.extend(session_expiry_s.to_be_bytes());
            }
            Self::Away { until_ms } => {
                begin(AWAY, 0);
                body.extend(until_ms.to_be_bytes());
            }
            Self::Will(recorded) => {
                begin(WILL, 0);
                recorded.write(&mut body);
            }
            Self::Over(slot) => match slot {
                RecordSlot::Received(id) => begin(OVER | RECEIVED, *id),
                RecordSlot::Released(id) => begin(OVER | RELEASED, *id),
                RecordSlot::Away => begin(OVER | AWAY, 0),
                RecordSlot::Will => begin(OVER | WILL, 0),
            },
            Self::SessionOver => begin(SESSION_OVER, 0),
        }
        let envelope =
            Envelope { durable: true, routing_key: client_id.as_bytes(), received_ms: now_ms, ..Envelope::default() };
        // An MQTT message without a publisher, of QoS 1.
        let head = [QoS::AtLeastOnce.bits(), 0, 0];
        let overlay = Overlay::new(&[]);
        builder.push_message(&StoredMessage {
            encoding: Encoding::Mqtt,
            envelope,
            overlay,
            properties: &head,
            body: &body,
        });
    }

    /// The record as a batch of its own.
    pub(crate) fn batch(&self, client_id: &str, now_ms: u64) -> BatchBuilder {
        let mut builder = BatchBuilder::default();
        self.push(client_id, &mut builder, now_ms);
        builder
    }

    /// Reads the client id and the record of a message; `None` if it has another form.
    pub(crate) fn read<'a>(message: &StoredMessage<'a>) -> Option<(&'a str, Self)> {
        let client_id = std::str::from_utf8(message.envelope.routing_key).ok()?;
        let mut reader = Reader(message.body);
        if reader.byte()? != VERSION {
            return None;
        }
        let (kind, id) = (reader.byte()?, reader.u16()?);
        let record = match kind {
            RECEIVED => Self::Received { id, session_expiry_s: reader.u32()? },
            RELEASED => Self::Released { id, number: reader.u64()?, session_expiry_s: reader.u32()? },
            AWAY => Self::Away { until_ms: reader.u64()? },
            WILL => Self::Will(Box::new(RecordedWill::read(&mut reader)?)),
            SESSION_OVER => Self::SessionOver,
            _ => Self::Over(match kind.checked_sub(OVER)? {
                RECEIVED => RecordSlot::Received(id),
                RELEASED => RecordSlot::Released(id),
                AWAY => RecordSlot::Away,
                WILL => RecordSlot::Will,
                _ => return None,
            }),
        };
        reader.0.is_empty().then_some((client_id, record))
    }
}

impl RecordedWill {
    fn write(&self, body: &mut Vec<u8>) {
        let will = &self.will;
        body.extend(self.session_expiry_s.to_be_bytes());
        body.extend(will.delay_s.to_be_bytes());
        body.extend([will.qos.bits(), will.retain.into()]);
        for text in [&*self.user, &*will.topic] {
            // Neither is longer: names and topics have 65,535 bytes on the wire at most.
            body.extend((text.len() as u16).to_be_bytes());
            body.extend_from_slice(text.as_bytes());
        }
        body.extend((will.properties.len() as u32).to_be_bytes());
        body.extend_from_slice(&will.properties);
        body.extend_from_slice(&will.payload);
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (session_expiry_s, delay_s) = (reader.u32()?, reader.u32()?);
        let (qos, retain) = (QoS::of(reader.byte()?)?, reader.byte()? != 0);
        let user = reader.text()?.into();
        let topic = reader.text()?.into();
        let length = reader.u32()? as usize;
        let properties = reader.bytes(length)?;
        PropertyList::of_publish(properties).ok()?;
        let payload = std::mem::take(&mut reader.0);
        let will = StoredWill { topic, qos, retain, properties: properties.into(), payload: payload.into(), delay_s };
        Some(Self { will, user, session_expiry_s })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.u16()?;
        std::str::from_utf8(self.bytes(length.into())?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<SessionRecord> {
        let will = StoredWill {
            topic: "a.b/c".into(),
            qos: QoS::ExactlyOnce,
            retain: true,
            properties: Box::default(),
            payload: (*b"gone").into(),
            delay_s: 5,
        };
        let mut all = vec![
            SessionRecord::Received { id: 7, session_expiry_s: u32::MAX },
            SessionRecord::Released { id: 65_535, number: 1 << 40, session_expiry_s: 10 },
            SessionRecord::Away { until_ms: 1_700_000_000_000 },
            SessionRecord::Will(Box::new(RecordedWill { will, user: "guest".into(), session_expiry_s: 9 })),
            SessionRecord::SessionOver,
        ];
        all.extend(
            [RecordSlot::Received(7), RecordSlot::Released(65_535), RecordSlot::Away, RecordSlot::Will]
                .map(SessionRecord::Over),
        );
        all
    }

    #[test]
    fn records_come_back_as_they_were() {
        for record in all() {
            let batch = record.batch("client", 5).finish();
            let stored = batch.message(0).view();
            assert_eq!(SessionRecord::read(&stored), Some(("client", record)));
        }
    }

    #[test]
    fn damaged_records_are_recognised() {
        for record in all() {
            let batch = record.batch("client", 5).finish();
            let stored = batch.message(0).view();
            let payload = if matches!(record, SessionRecord::Will(_)) { 4 } else { 0 };
            for length in 0..stored.body.len() - payload {
                assert_eq!(SessionRecord::read(&StoredMessage { body: &stored.body[..length], ..stored }), None);
            }
            let mut other = stored.body.to_vec();
            other[0] = 2;
            assert_eq!(SessionRecord::read(&StoredMessage { body: &other, ..stored }), None, "of another version");
            let mut other = stored.body.to_vec();
            other[1] = 99;
            assert_eq!(SessionRecord::read(&StoredMessage { body: &other, ..stored }), None, "of another kind");
        }
    }
}
