//! Packets of all types.

use crate::acks::{Ack, AckKind, SubAck, UnsubAck};
use crate::connack::ConnAck;
use crate::connect::Connect;
use crate::ending::{Auth, Disconnect};
use crate::error::Decoded;
use crate::kind::PacketKind;
use crate::publish::Publish;
use crate::raw::RawPacket;
use crate::subscribe::Subscribe;
use crate::unsubscribe::Unsubscribe;
use crate::version::Version;
use crate::wire::FieldReader;

/// A packet, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// CONNECT.
    Connect(Connect<'a>),
    /// CONNACK.
    ConnAck(ConnAck<'a>),
    /// PUBLISH.
    Publish(Publish<'a>),
    /// PUBACK, PUBREC, PUBREL or PUBCOMP.
    Ack(Ack<'a>),
    /// SUBSCRIBE.
    Subscribe(Subscribe<'a>),
    /// SUBACK.
    SubAck(SubAck<'a>),
    /// UNSUBSCRIBE.
    Unsubscribe(Unsubscribe<'a>),
    /// UNSUBACK.
    UnsubAck(UnsubAck<'a>),
    /// PINGREQ.
    PingReq,
    /// PINGRESP.
    PingResp,
    /// DISCONNECT.
    Disconnect(Disconnect<'a>),
    /// AUTH.
    Auth(Auth<'a>),
}

impl<'a> Packet<'a> {
    /// Decodes a packet of a connection of this version. A CONNECT says its version itself.
    ///
    /// # Errors
    /// It isn't well-formed.
    #[inline]
    pub fn decode(raw: &RawPacket<'a>, version: Version) -> Decoded<Self> {
        Ok(match raw.kind {
            PacketKind::Publish => Self::Publish(Publish::decode(raw, version)?),
            PacketKind::PubAck => Self::Ack(Ack::decode(AckKind::PubAck, raw, version)?),
            PacketKind::PubRec => Self::Ack(Ack::decode(AckKind::PubRec, raw, version)?),
            PacketKind::PubRel => Self::Ack(Ack::decode(AckKind::PubRel, raw, version)?),
            PacketKind::PubComp => Self::Ack(Ack::decode(AckKind::PubComp, raw, version)?),
            PacketKind::Connect => Self::Connect(Connect::decode(raw)?),
            PacketKind::ConnAck => Self::ConnAck(ConnAck::decode(raw, version)?),
            PacketKind::Subscribe => Self::Subscribe(Subscribe::decode(raw, version)?),
            PacketKind::SubAck => Self::SubAck(SubAck::decode(raw, version)?),
            PacketKind::Unsubscribe => Self::Unsubscribe(Unsubscribe::decode(raw, version)?),
            PacketKind::UnsubAck => Self::UnsubAck(UnsubAck::decode(raw, version)?),
            PacketKind::PingReq => {
                FieldReader::new(raw.kind, raw.content).finish()?;
                Self::PingReq
            }
            PacketKind::PingResp => {
                FieldReader::new(raw.kind, raw.content).finish()?;
                Self::PingResp
            }
            PacketKind::Disconnect => Self::Disconnect(Disconnect::decode(raw, version)?),
            PacketKind::Auth => Self::Auth(Auth::decode(raw, version)?),
        })
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        match self {
            Self::Connect(packet) => packet.encode(out),
            Self::ConnAck(packet) => packet.encode(version, out),
            Self::Publish(packet) => packet.encode(version, out),
            Self::Ack(packet) => packet.encode(version, out),
            Self::Subscribe(packet) => packet.encode(version, out),
            Self::SubAck(packet) => packet.encode(version, out),
            Self::Unsubscribe(packet) => packet.encode(version, out),
            Self::UnsubAck(packet) => packet.encode(version, out),
            Self::PingReq => out.extend_from_slice(&[(PacketKind::PingReq as u8) << 4, 0]),
            Self::PingResp => out.extend_from_slice(&[(PacketKind::PingResp as u8) << 4, 0]),
            Self::Disconnect(packet) => packet.encode(version, out),
            Self::Auth(packet) => packet.encode(out),
        }
    }
}
