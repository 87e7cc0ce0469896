//! UNSUBSCRIBE (MQTT 5, 3.10).

use crate::connect::put_properties;
use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;
use crate::properties::{Place, PropertyList};
use crate::raw::RawPacket;
use crate::topic;
use crate::version::Version;
use crate::wire::{FieldReader, put_packet, put_sized};

const KIND: PacketKind = PacketKind::Unsubscribe;

/// A client ends subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// The packet identifier.
    pub packet_id: u16,
    /// The properties.
    pub properties: PropertyList<'a>,
    /// The topic filters, one at least.
    pub topics: Topics<'a>,
}

/// Topic filters, as encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topics<'a>(&'a [u8]);

impl<'a> Unsubscribe<'a> {
    pub(crate) fn decode(raw: &RawPacket<'a>, version: Version) -> Decoded<Self> {
        let mut reader = FieldReader::new(KIND, raw.content);
        let packet_id = reader.packet_id()?;
        let properties = PropertyList::read_in(version, &mut reader, Place::Packet(KIND))?;
        let topics = Topics(reader.rest());
        if reader.is_empty() {
            return Err(DecodeError::NoTopicFilter { kind: KIND });
        }
        let mut number = 0;
        while !reader.is_empty() {
            number += 1;
            let filter = reader.string("topic filter")?;
            topic::check_filter(filter).map_err(|why| DecodeError::TopicFilter { kind: KIND, number, why })?;
        }
        Ok(Self { packet_id, properties, topics })
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let filters: Vec<&str> = self.topics.iter().collect();
        encode_unsubscribe(out, version, self.packet_id, self.properties, &filters);
    }
}

impl<'a> Topics<'a> {
    /// The filters, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut reader = FieldReader::new(KIND, self.0);
        std::iter::from_fn(move || match reader.is_empty() {
            true => None,
            // They were checked when the packet was decoded.
            false => reader.string("topic filter").ok(),
        })
    }
}

/// Appends an UNSUBSCRIBE.
pub fn encode_unsubscribe(
    out: &mut Vec<u8>,
    version: Version,
    packet_id: u16,
    properties: PropertyList<'_>,
    filters: &[&str],
) {
    put_packet(out, (KIND as u8) << 4 | 2, |out| {
        out.extend_from_slice(&packet_id.to_be_bytes());
        put_properties(out, version, properties);
        filters.iter().for_each(|filter| put_sized(out, filter.as_bytes()));
    });
}
