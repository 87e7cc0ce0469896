//! CONNACK (MQTT 5, 3.2).

use crate::connect::put_properties;
use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;
use crate::properties::{Place, PropertyList};
use crate::raw::RawPacket;
use crate::reason::ReasonCode;
use crate::version::Version;
use crate::wire::{FieldReader, put_packet};

const KIND: PacketKind = PacketKind::ConnAck;

/// The answer to a CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// Whether the server has a session of the client.
    pub session_present: bool,
    /// The reason code. Before MQTT 5 it is one that [`ReasonCode::connect_return_code`] knows.
    pub reason: ReasonCode,
    /// The properties.
    pub properties: PropertyList<'a>,
}

impl<'a> ConnAck<'a> {
    pub(crate) fn decode(raw: &RawPacket<'a>, version: Version) -> Decoded<Self> {
        let mut reader = FieldReader::new(KIND, raw.content);
        let flags = reader.u8("connect acknowledge flags")?;
        let code = reader.u8("reason code")?;
        if flags > 1 {
            return Err(DecodeError::Code { kind: KIND, code: flags });
        }
        let reason = match version.has_properties() {
            true => ReasonCode(code),
            false => of_return_code(code).ok_or(DecodeError::Code { kind: KIND, code })?,
        };
        let properties = PropertyList::read_in(version, &mut reader, Place::Packet(KIND))?;
        reader.finish()?;
        // [MQTT-3.2.2-6]: a refusal doesn't speak of a session.
        if reason != ReasonCode::SUCCESS && flags == 1 {
            return Err(DecodeError::Code { kind: KIND, code });
        }
        let session_present = flags == 1 && version > Version::V310;
        Ok(Self { session_present, reason, properties })
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        put_packet(out, (KIND as u8) << 4, |out| {
            let code = if version.has_properties() { self.reason.0 } else { self.reason.connect_return_code() };
            // MQTT 3.1 has no such flag.
            let session_present = self.session_present && version > Version::V310;
            out.extend_from_slice(&[u8::from(session_present), code]);
            put_properties(out, version, self.properties);
        });
    }
}

fn of_return_code(code: u8) -> Option<ReasonCode> {
    Some(match code {
        0 => ReasonCode::SUCCESS,
        1 => ReasonCode::UNSUPPORTED_PROTOCOL_VERSION,
        2 => ReasonCode::CLIENT_IDENTIFIER_NOT_VALID,
        3 => ReasonCode::SERVER_UNAVAILABLE,
        4 => ReasonCode::BAD_USER_NAME_OR_PASSWORD,
        5 => ReasonCode::NOT_AUTHORIZED,
        _ => return None,
    })
}
