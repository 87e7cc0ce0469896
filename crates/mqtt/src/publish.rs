//! PUBLISH (MQTT 5, 3.3).

use crate::connect::put_properties;
use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;
use crate::properties::{Place, PropertyId, PropertyList};
use crate::qos::QoS;
use crate::raw::RawPacket;
use crate::topic;
use crate::version::Version;
use crate::wire::{FieldReader, put_sized, put_variable, variable_length};

const KIND: PacketKind = PacketKind::Publish;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Whether it was sent before.
    pub dup: bool,
    /// Its quality of service.
    pub qos: QoS,
    /// Whether the server is to keep it, or kept it.
    pub retain: bool,
    /// The topic; empty if a topic alias stands for it.
    pub topic: &'a str,
    /// The packet identifier; 0 with QoS 0.
    pub packet_id: u16,
    /// The properties.
    pub properties: PropertyList<'a>,
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> Publish<'a> {
    /// Decodes a PUBLISH.
    #[inline]
    pub(crate) fn decode(raw: &RawPacket<'a>, version: Version) -> Decoded<Self> {
        let (dup, retain) = (raw.flags & 8 != 0, raw.flags & 1 != 0);
        let qos = QoS::of(raw.flags >> 1 & 3).ok_or(DecodeError::QoS { kind: KIND })?;
        if dup && qos == QoS::AtMostOnce {
            return Err(DecodeError::DuplicateOfQoS0);
        }
        let mut reader = FieldReader::new(KIND, raw.content);
        let topic = reader.string("topic name")?;
        let packet_id = if qos == QoS::AtMostOnce { 0 } else { reader.packet_id()? };
        let properties = PropertyList::read_in(version, &mut reader, Place::Packet(KIND))?;
        let has_alias = topic.is_empty() && properties.number(PropertyId::TopicAlias).is_some();
        if !has_alias {
            topic::check_name(KIND, topic)?;
        }
        Ok(Self { dup, qos, retain, topic, packet_id, properties, payload: reader.rest() })
    }

    /// The number of bytes of the whole packet.
    pub fn encoded_length(&self, version: Version) -> usize {
        let length = self.content_length(version);
        1 + variable_length(u32::try_from(length).unwrap_or(u32::MAX)) + length
    }

    fn content_length(&self, version: Version) -> usize {
        let properties = self.properties.as_bytes().len();
        let id = if self.qos == QoS::AtMostOnce { 0 } else { 2 };
        let before = match version.has_properties() {
            true => variable_length(u32::try_from(properties).unwrap_or(u32::MAX)) + properties,
            false => 0,
        };
        2 + self.topic.len() + id + before + self.payload.len()
    }

    fn head(&self) -> u8 {
        (KIND as u8) << 4 | u8::from(self.dup) << 3 | self.qos.bits() << 1 | u8::from(self.retain)
    }

    /// Appends the packet.
    ///
    /// # Panics
    /// If it is larger than [`PACKET_MAX`](crate::PACKET_MAX).
    #[inline]
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        out.reserve(self.encoded_length(version));
        self.encode_without_payload(self.payload.len(), version, out);
        out.extend_from_slice(self.payload);
    }

    /// Appends the packet up to its payload, of which `payload_length` bytes follow.
    pub fn encode_without_payload(&self, payload_length: usize, version: Version, out: &mut Vec<u8>) {
        let length = self.content_length(version) - self.payload.len() + payload_length;
        out.push(self.head());
        put_variable(out, u32::try_from(length).expect("packet over 256 MiB"));
        put_sized(out, self.topic.as_bytes());
        if self.qos != QoS::AtMostOnce {
            out.extend_from_slice(&self.packet_id.to_be_bytes());
        }
        put_properties(out, version, self.properties);
    }
}
