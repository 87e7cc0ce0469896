//! PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK (MQTT 5, 3.4 to 3.7, 3.9, 3.11).

use crate::connect::put_properties;
use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;
use crate::properties::{Place, PropertyList};
use crate::raw::RawPacket;
use crate::reason::ReasonCode;
use crate::version::Version;
use crate::wire::{FieldReader, put_packet};

/// A step of the acknowledgement of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AckKind {
    /// PUBACK.
    PubAck,
    /// PUBREC.
    PubRec,
    /// PUBREL.
    PubRel,
    /// PUBCOMP.
    PubComp,
}

impl AckKind {
    fn packet(self) -> PacketKind {
        match self {
            Self::PubAck => PacketKind::PubAck,
            Self::PubRec => PacketKind::PubRec,
            Self::PubRel => PacketKind::PubRel,
            Self::PubComp => PacketKind::PubComp,
        }
    }

    /// Whether such a packet has this reason code.
    fn has(self, reason: ReasonCode) -> bool {
        let is_common = matches!(
            reason,
            ReasonCode::SUCCESS
                | ReasonCode::NO_MATCHING_SUBSCRIBERS
                | ReasonCode::UNSPECIFIED_ERROR
                | ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR
                | ReasonCode::NOT_AUTHORIZED
                | ReasonCode::TOPIC_NAME_INVALID
                | ReasonCode::PACKET_IDENTIFIER_IN_USE
                | ReasonCode::QUOTA_EXCEEDED
                | ReasonCode::PAYLOAD_FORMAT_INVALID
        );
        match self {
            Self::PubAck | Self::PubRec => is_common,
            Self::PubRel | Self::PubComp => {
                matches!(reason, ReasonCode::SUCCESS | ReasonCode::PACKET_IDENTIFIER_NOT_FOUND)
            }
        }
    }
}

/// PUBACK, PUBREC, PUBREL or PUBCOMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Which of them.
    pub kind: AckKind,
    /// The packet identifier of the message.
    pub packet_id: u16,
    /// The reason code; success before MQTT 5.
    pub reason: ReasonCode,
    /// The properties.
    pub properties: PropertyList<'a>,
}

impl<'a> Ack<'a> {
    /// One of success, without properties.
    pub fn success(kind: AckKind, packet_id: u16) -> Self {
        Self { kind, packet_id, reason: ReasonCode::SUCCESS, properties: PropertyList::NONE }
    }

    pub(crate) fn decode(kind: AckKind, raw: &RawPacket<'a>, version: Version) -> Decoded<Self> {
        let mut reader = FieldReader::new(raw.kind, raw.content);
        let packet_id = reader.packet_id()?;
        let mut this = Self::success(kind, packet_id);
        // The reason code may be left out if it is a success without properties, and so may the length of no properties.
        if version.has_properties() && !reader.is_empty() {
            let code = reader.u8("reason code")?;
            this.reason = ReasonCode(code);
            if !kind.has(this.reason) {
                return Err(DecodeError::Code { kind: raw.kind, code });
            }
            if !reader.is_empty() {
                this.properties = PropertyList::read(&mut reader, Place::Packet(raw.kind))?;
            }
        }
        reader.finish()?;
        Ok(this)
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let kind = self.kind.packet();
        let head = (kind as u8) << 4 | kind.flags().unwrap_or_default();
        let [high, low] = self.packet_id.to_be_bytes();
        if !version.has_properties() || self.reason == ReasonCode::SUCCESS && self.properties.is_empty() {
            out.extend_from_slice(&[head, 2, high, low]);
        } else if self.properties.is_empty() {
            out.extend_from_slice(&[head, 3, high, low, self.reason.0]);
        } else {
            put_packet(out, head, |out| {
                out.extend_from_slice(&[high, low, self.reason.0]);
                put_properties(out, version, self.properties);
            });
        }
    }
}

/// The answer to a SUBSCRIBE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// The packet identifier of the SUBSCRIBE.
    pub packet_id: u16,
    /// The properties.
    pub properties: PropertyList<'a>,
    /// A code for each filter, in their order: the granted QoS, or a failure (0x80 before MQTT 5).
    pub codes: &'a [u8],
}

/// The answer to an UNSUBSCRIBE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsubAck<'a> {
    /// The packet identifier of the UNSUBSCRIBE.
    pub packet_id: u16,
    /// The properties.
    pub properties: PropertyList<'a>,
    /// A code for each filter, in their order; none before MQTT 5.
    pub codes: &'a [u8],
}

fn read<'a>(raw: &RawPacket<'a>, version: Version) -> Decoded<(u16, PropertyList<'a>, &'a [u8])> {
    let mut reader = FieldReader::new(raw.kind, raw.content);
    let packet_id = reader.packet_id()?;
    let properties = PropertyList::read_in(version, &mut reader, Place::Packet(raw.kind))?;
    Ok((packet_id, properties, reader.rest()))
}

impl<'a> SubAck<'a> {
    pub(crate) fn decode(raw: &RawPacket<'a>, version: Version) -> Decoded<Self> {
        let (packet_id, properties, codes) = read(raw, version)?;
        let is_known = |code: u8| code <= 2 || code == 0x80 || version.has_properties() && code > 0x80;
        match codes.iter().find(|code| !is_known(**code)) {
            Some(code) => Err(DecodeError::Code { kind: raw.kind, code: *code }),
            None => Ok(Self { packet_id, properties, codes }),
        }
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        put_packet(out, (PacketKind::SubAck as u8) << 4, |out| {
            out.extend_from_slice(&self.packet_id.to_be_bytes());
            put_properties(out, version, self.properties);
            match version.has_properties() {
                true => out.extend_from_slice(self.codes),
                // MQTT 3.1.1 has one failure.
                false => out.extend(self.codes.iter().map(|code| if *code > 2 { 0x80 } else { *code })),
            }
        });
    }
}

impl<'a> UnsubAck<'a> {
    pub(crate) fn decode(raw: &RawPacket<'a>, version: Version) -> Decoded<Self> {
        let (packet_id, properties, codes) = read(raw, version)?;
        if !version.has_properties() && !codes.is_empty() {
            let count = crate::wire::saturate(codes.len());
            return Err(DecodeError::Excess { kind: raw.kind, count });
        }
        Ok(Self { packet_id, properties, codes })
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        put_packet(out, (PacketKind::UnsubAck as u8) << 4, |out| {
            out.extend_from_slice(&self.packet_id.to_be_bytes());
            put_properties(out, version, self.properties);
            if version.has_properties() {
                out.extend_from_slice(self.codes);
            }
        });
    }
}
