//! SUBSCRIBE (MQTT 5, 3.8).

use crate::connect::put_properties;
use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;
use crate::properties::{Place, PropertyList};
use crate::qos::QoS;
use crate::raw::RawPacket;
use crate::topic;
use crate::version::Version;
use crate::wire::{FieldReader, put_length_before, put_sized};

const KIND: PacketKind = PacketKind::Subscribe;
const NO_LOCAL: u8 = 1 << 2;
const RETAIN_AS_PUBLISHED: u8 = 1 << 3;
const RESERVED: u8 = 0b1100_0000;

/// When a new subscription gets the messages that the server keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RetainHandling {
    /// Always.
    #[default]
    Send,
    /// If the subscription is new.
    SendIfNew,
    /// Never.
    DontSend,
}

/// The options of a subscription (3.8.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SubscriptionOptions {
    /// The highest QoS that the client wants.
    pub qos: QoS,
    /// Whether the client doesn't get its own messages.
    pub no_local: bool,
    /// Whether messages keep their retain flag.
    pub retain_as_published: bool,
    /// When it gets kept messages.
    pub retain_handling: RetainHandling,
}

impl SubscriptionOptions {
    fn decode(options: u8, version: Version) -> Decoded<Self> {
        let error = |why| DecodeError::SubscriptionOptions { options, why };
        let qos = QoS::of(options & 3).ok_or(error("QoS 3"))?;
        if !version.has_properties() {
            return match options & !3 {
                0 => Ok(Self { qos, ..Self::default() }),
                _ => Err(error("reserved bits are set (MQTT 3.1.1, [MQTT-3.8.3-4])")),
            };
        }
        if options & RESERVED != 0 {
            return Err(error("reserved bits are set [MQTT-3.8.3-5]"));
        }
        let retain_handling = match options >> 4 & 3 {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            2 => RetainHandling::DontSend,
            _ => return Err(error("retain handling 3 (3.8.3.1)")),
        };
        let (no_local, retain_as_published) = (options & NO_LOCAL != 0, options & RETAIN_AS_PUBLISHED != 0);
        Ok(Self { qos, no_local, retain_as_published, retain_handling })
    }

    /// The options as a byte.
    pub fn bits(self) -> u8 {
        self.qos.bits()
            | if self.no_local { NO_LOCAL } else { 0 }
            | if self.retain_as_published { RETAIN_AS_PUBLISHED } else { 0 }
            | (self.retain_handling as u8) << 4
    }

    /// The options in a byte that [`bits`](Self::bits) gave.
    pub fn of_bits(bits: u8) -> Option<Self> {
        Self::decode(bits, Version::V50).ok()
    }
}

/// A topic filter with its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicFilter<'a> {
    /// The filter, valid.
    pub filter: &'a str,
    /// Its options.
    pub options: SubscriptionOptions,
}

/// A client asks for subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// The packet identifier.
    pub packet_id: u16,
    /// The properties.
    pub properties: PropertyList<'a>,
    /// The topic filters, one at least.
    pub filters: Filters<'a>,
}

/// Topic filters with options, as encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filters<'a> {
    bytes: &'a [u8],
    version: Version,
}

impl<'a> Subscribe<'a> {
    pub(crate) fn decode(raw: &RawPacket<'a>, version: Version) -> Decoded<Self> {
        let mut reader = FieldReader::new(KIND, raw.content);
        let packet_id = reader.packet_id()?;
        let properties = PropertyList::read_in(version, &mut reader, Place::Packet(KIND))?;
        let filters = Filters { bytes: reader.rest(), version };
        if reader.is_empty() {
            return Err(DecodeError::NoTopicFilter { kind: KIND });
        }
        let mut number = 0;
        while !reader.is_empty() {
            number += 1;
            let TopicFilter { filter, options } = next(&mut reader, version)?;
            topic::check_filter(filter).map_err(|why| DecodeError::TopicFilter { kind: KIND, number, why })?;
            if options.no_local && topic::shared(filter).is_some() {
                let why = "no local on a shared subscription [MQTT-3.8.3-4]";
                return Err(DecodeError::SubscriptionOptions { options: options.bits(), why });
            }
        }
        Ok(Self { packet_id, properties, filters })
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let mut writer = SubscribeWriter::begin(out, version, self.packet_id, self.properties);
        self.filters.iter().for_each(|filter| writer.filter(filter.filter, filter.options));
        writer.end();
    }
}

fn next<'a>(reader: &mut FieldReader<'a>, version: Version) -> Decoded<TopicFilter<'a>> {
    let filter = reader.string("topic filter")?;
    let options = reader.u8("subscription options")?;
    Ok(TopicFilter { filter, options: SubscriptionOptions::decode(options, version)? })
}

impl<'a> Filters<'a> {
    /// The filters, in their order.
    pub fn iter(&self) -> impl Iterator<Item = TopicFilter<'a>> + use<'a> {
        let mut reader = FieldReader::new(KIND, self.bytes);
        let version = self.version;
        std::iter::from_fn(move || match reader.is_empty() {
            true => None,
            // They were checked when the packet was decoded.
            false => next(&mut reader, version).ok(),
        })
    }
}

/// Appends a SUBSCRIBE, filter by filter.
pub struct SubscribeWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> SubscribeWriter<'a> {
    /// Begins the packet.
    pub fn begin(out: &'a mut Vec<u8>, version: Version, packet_id: u16, properties: PropertyList<'_>) -> Self {
        out.push((KIND as u8) << 4 | 2);
        let start = out.len();
        out.extend_from_slice(&packet_id.to_be_bytes());
        put_properties(out, version, properties);
        Self { out, start }
    }

    /// Adds a filter.
    pub fn filter(&mut self, filter: &str, options: SubscriptionOptions) {
        put_sized(self.out, filter.as_bytes());
        self.out.push(options.bits());
    }

    /// Ends the packet.
    pub fn end(self) {
        put_length_before(self.out, self.start);
    }
}
