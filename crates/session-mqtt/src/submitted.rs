//! A message on its way in.

use leveret_mqtt::{AckKind, PropertyList, QoS, ReasonCode};

use super::confirming::Acknowledged;

/// A message that the client published, or its will.
#[derive(Clone, Copy)]
pub(crate) struct Submitted<'a> {
    pub topic: &'a str,
    pub qos: QoS,
    pub retain: bool,
    pub properties: PropertyList<'a>,
    pub payload: &'a [u8],
    /// Its packet identifier; 0 if it isn't acknowledged.
    pub packet_id: u16,
    /// Whether it is a will.
    pub is_will: bool,
    /// Whether it is a will whose record ends with it.
    pub ends_will: bool,
}

impl Submitted<'_> {
    /// Its acknowledgement with this reason, if it has one.
    pub(crate) fn ack(&self, reason: ReasonCode) -> Option<Acknowledged> {
        let kind = if self.qos == QoS::ExactlyOnce { AckKind::PubRec } else { AckKind::PubAck };
        (self.packet_id != 0).then_some(Acknowledged { packet_id: self.packet_id, kind, reason })
    }
}
