//! DISCONNECT and AUTH (MQTT 5, 3.14 and 3.15).

use crate::connect::put_properties;
use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;
use crate::properties::{Place, PropertyList};
use crate::raw::RawPacket;
use crate::reason::ReasonCode;
use crate::version::Version;
use crate::wire::{FieldReader, put_packet};

/// The end of a connection. Before MQTT 5 only clients send it, and it means success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// The reason code.
    pub reason: ReasonCode,
    /// The properties.
    pub properties: PropertyList<'a>,
}

/// A step of extended authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Auth<'a> {
    /// The reason code.
    pub reason: ReasonCode,
    /// The properties.
    pub properties: PropertyList<'a>,
}

/// A reason code and properties, each of which may be left out.
fn read<'a>(raw: &RawPacket<'a>) -> Decoded<(ReasonCode, PropertyList<'a>)> {
    let mut reader = FieldReader::new(raw.kind, raw.content);
    let mut reason = ReasonCode::SUCCESS;
    let mut properties = PropertyList::NONE;
    if !reader.is_empty() {
        reason = ReasonCode(reader.u8("reason code")?);
        if !reader.is_empty() {
            properties = PropertyList::read(&mut reader, Place::Packet(raw.kind))?;
        }
    }
    reader.finish()?;
    Ok((reason, properties))
}

fn write(kind: PacketKind, reason: ReasonCode, properties: PropertyList<'_>, out: &mut Vec<u8>) {
    let head = (kind as u8) << 4;
    match (reason, properties.is_empty()) {
        (ReasonCode::SUCCESS, true) => out.extend_from_slice(&[head, 0]),
        (_, true) => out.extend_from_slice(&[head, 1, reason.0]),
        (_, false) => put_packet(out, head, |out| {
            out.push(reason.0);
            put_properties(out, Version::V50, properties);
        }),
    }
}

impl<'a> Disconnect<'a> {
    /// One with a reason, without properties.
    pub fn of(reason: ReasonCode) -> Self {
        Self { reason, properties: PropertyList::NONE }
    }

    pub(crate) fn decode(raw: &RawPacket<'a>, version: Version) -> Decoded<Self> {
        if !version.has_properties() {
            FieldReader::new(raw.kind, raw.content).finish()?;
            return Ok(Self::of(ReasonCode::SUCCESS));
        }
        let (reason, properties) = read(raw)?;
        let code = reason.0;
        let is_known = matches!(code, 0 | 4 | 0x80..=0xa2) && reason != ReasonCode::CLIENT_IDENTIFIER_NOT_VALID;
        match is_known {
            true => Ok(Self { reason, properties }),
            false => Err(DecodeError::Code { kind: raw.kind, code }),
        }
    }

    /// Appends the packet. Before MQTT 5 it is empty.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        match version.has_properties() {
            true => write(PacketKind::Disconnect, self.reason, self.properties, out),
            false => out.extend_from_slice(&[(PacketKind::Disconnect as u8) << 4, 0]),
        }
    }
}

impl<'a> Auth<'a> {
    pub(crate) fn decode(raw: &RawPacket<'a>, version: Version) -> Decoded<Self> {
        if !version.has_properties() {
            return Err(DecodeError::NotInVersion { kind: raw.kind });
        }
        let (reason, properties) = read(raw)?;
        match reason {
            ReasonCode::SUCCESS | ReasonCode::CONTINUE_AUTHENTICATION | ReasonCode::RE_AUTHENTICATE => {
                Ok(Self { reason, properties })
            }
            _ => Err(DecodeError::Code { kind: raw.kind, code: reason.0 }),
        }
    }

    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write(PacketKind::Auth, self.reason, self.properties, out);
    }
}
