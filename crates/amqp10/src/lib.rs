//! The AMQP 1.0 codec: slices in, slices out.
//!
//! Decoding borrows from the input and allocates nothing; encoding appends to a `Vec<u8>` that the caller reuses, in
//! the smallest encoding. Every size, count and depth that the peer sends is checked once, when a performative or
//! message is decoded, so that reading a decoded value later can't fail. Every legal encoding of a type is accepted.
//!
//! This crate must not know: connections, sessions, links and their states, sockets, clocks, queues. It checks
//! whether bytes are well-formed, never whether they are allowed at this moment.
//!
//! ```
//! use leveret_amqp10::performative::Flow;
//! use leveret_amqp10::{FrameKind, Performative, decode_frame, encode_performative};
//!
//! let flow = Flow { incoming_window: 400, handle: Some(0), link_credit: Some(200), ..Flow::default() };
//! let mut out = Vec::new();
//! encode_performative(&mut out, 1, &flow.into());
//! let (frame, used) = decode_frame(&out, 65_536).unwrap().unwrap();
//! assert_eq!((frame.kind, frame.channel, used), (FrameKind::Amqp, 1, out.len()));
//! assert_eq!(Performative::decode(frame.body).unwrap(), (flow.into(), &[][..]));
//! ```

mod composite;
pub mod condition;
mod delivery_state;
pub mod descriptor;
mod error;
mod error_value;
mod field;
pub mod filter;
mod frame;
pub mod message;
pub mod performative;
mod plain_fields;
pub mod sasl;
mod serial;
mod settle_mode;
mod symbol;
pub mod terminus;
pub mod transaction;
pub mod value;
mod wire;

pub use delivery_state::{DeliveryState, Outcome};
pub use error::{DecodeError, Problem};
pub use error_value::Error;
pub use frame::{
    FRAME_HEADER_SIZE, FRAME_MIN_SIZE, Frame, FrameKind, FrameStart, HEADER_AMQP, HEADER_SASL, begin_frame,
    decode_frame, encode_empty, encode_performative, end_frame,
};
pub use performative::{Performative, encode_transfer};
pub use sasl::SaslFrame;
pub use serial::Serial;
pub use settle_mode::{ReceiverSettleMode, Role, SenderSettleMode};
pub use symbol::{Symbol, Symbols};
pub use terminus::{Source, Target, TargetArchetype};
pub use transaction::Coordinator;
pub use value::{MapRef, OwnedValue, Value};
