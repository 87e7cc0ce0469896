//! The codec of MQTT 3.1, 3.1.1 and 5: works on bytes in memory, without I/O.
//!
//! Decoding borrows from the input and allocates nothing; encoding appends to a `Vec<u8>` that the caller reuses. A packet is
//! checked as a whole when it is decoded: afterwards its properties and topic filters are read without errors. Both directions
//! are decoded and encoded by the same code, so a client in a test is as strict as the server.
//!
//! A packet may begin anywhere in the bytes that a transport brings: [`next_packet`] cuts the first one off, and says how many
//! bytes it took. Nothing is kept between calls. Its limit is the caller's, so that a client that hasn't logged in may send less.
//!
//! This crate must not depend on connections, sessions, queues, sockets or clocks. It checks whether bytes are well-formed, never
//! whether a packet is allowed in the present state.
//!
//! ```
//! use leveret_mqtt::{Packet, QoS, Version, next_packet};
//!
//! // A PUBLISH of "hi" to a/b, and the first byte of the next packet.
//! let input = [0x30, 7, 0, 3, b'a', b'/', b'b', b'h', b'i', 0xc0];
//! let (raw, used) = next_packet(&input, 65_536).unwrap().unwrap();
//! assert_eq!(used, 9);
//! let Packet::Publish(publish) = Packet::decode(&raw, Version::V311).unwrap() else { panic!("is a PUBLISH") };
//! assert_eq!((publish.topic, publish.qos, publish.payload), ("a/b", QoS::AtMostOnce, &b"hi"[..]));
//! ```
#![forbid(unsafe_code)]

mod acks;
mod connack;
mod connect;
mod ending;
mod error;
mod kind;
mod packet;
pub mod properties;
mod publish;
mod qos;
mod raw;
mod reason;
mod subscribe;
pub mod topic;
mod unsubscribe;
mod version;
mod wire;

pub use acks::{Ack, AckKind, SubAck, UnsubAck};
pub use connack::ConnAck;
pub use connect::{Connect, Will};
pub use ending::{Auth, Disconnect};
pub use error::DecodeError;
pub use kind::PacketKind;
pub use packet::Packet;
pub use properties::{Property, PropertyId, PropertyList, PropertyWriter};
pub use publish::Publish;
pub use qos::QoS;
pub use raw::{PACKET_MAX, RawPacket, next_packet};
pub use reason::ReasonCode;
pub use subscribe::{Filters, RetainHandling, Subscribe, SubscribeWriter, SubscriptionOptions, TopicFilter};
pub use unsubscribe::{Topics, Unsubscribe, encode_unsubscribe};
pub use version::Version;
