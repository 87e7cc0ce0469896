//! The AMQP 0-9-1 codec: works on bytes in memory, without I/O.
//!
//! Decoding borrows from the input and allocates nothing; encoding appends to a `Vec<u8>` that the caller reuses.
//! Every length, count and depth that the peer sends is checked once, when a method or content header is decoded, so
//! that reading a decoded value later can't fail. RabbitMQ's protocol extensions (confirms, `basic.nack`, exchange
//! bindings, RabbitMQ's letters for field types) are included.
//!
//! This crate must not depend on connections, channels and their states, sockets, clocks or queues. It checks whether
//! bytes are well-formed, never whether a method is allowed in the present state.
//!
//! ```
//! use leveret_amqp091::{FrameKind, Method, decode_frame, encode_method, method::channel};
//!
//! let mut out = Vec::new();
//! encode_method(&mut out, 1, &Method::ChannelFlow(channel::Flow { active: true }));
//! let (frame, used) = decode_frame(&out, 131_072).unwrap().unwrap();
//! assert_eq!((frame.kind, frame.channel, used), (FrameKind::Method, 1, out.len()));
//! assert_eq!(Method::decode(frame.payload).unwrap().name(), "channel.flow");
//! ```

mod content;
mod error;
mod field_table;
mod frame;
pub mod method;
mod properties;
mod reply_code;
mod short_str;
mod table;
mod value;
mod wire;

pub use content::{ContentHeader, delivery_mode, expiration, headers, priority};
pub use error::DecodeError;
pub use field_table::{EncodedTable, FieldTable, FieldValue};
pub use frame::{
    FRAME_END, FRAME_HEADER_SIZE, FRAME_MIN_SIZE, FRAME_OVERHEAD, Frame, FrameKind, HEADER_OVERHEAD, PROTOCOL_HEADER,
    decode_frame, encode_body, encode_body_with, encode_content_body, encode_deliver, encode_header, encode_heartbeat,
    encode_method,
};
pub use method::Method;
pub use properties::Properties;
pub use reply_code::ReplyCode;
pub use short_str::{ShortStr, TooLong};
pub use table::{DEPTH_MAX, Table, TableIter};
pub use value::{Array, ArrayIter, Decimal, Value};
