//! The codec of RabbitMQ's stream protocol (port 5552): works on bytes in memory, without I/O.
//!
//! Decoding borrows from the input and allocates nothing; encoding appends to a `Vec<u8>` that the caller reuses. Every
//! length and count that the peer sends is checked when a command is decoded, so that reading a decoded value later
//! can't fail. Only the messages of a publish are checked one by one, by the iterator that reads them.
//!
//! This crate must not depend on connections, streams, sockets, clocks or the format of chunks beyond the head of an
//! entry. It checks whether bytes are well-formed, never whether a command is allowed in the present state.
//!
//! ```
//! use leveret_stream_protocol::{OffsetSpec, Request, ResponseCode, answers, key, next_frame};
//!
//! // credit 10 for subscription 3
//! let input = [0, 0, 0, 7, 0, 9, 0, 1, 3, 0, 10];
//! let (frame, used) = next_frame(&input, 0).unwrap().unwrap();
//! assert_eq!(used, input.len());
//! assert!(matches!(Request::decode(&frame), Ok(Request::Credit { subscription: 3, credit: 10 })));
//!
//! let mut out = Vec::new();
//! answers::response(&mut out, key::CREATE, 7, ResponseCode::StreamAlreadyExists);
//! assert_eq!(out, [0, 0, 0, 10, 0x80, 13, 0, 1, 0, 0, 0, 7, 0, 5]);
//! ```

pub mod answers;
pub mod client;
mod code;
mod confirms;
mod error;
mod frame;
pub mod key;
pub mod limits;
mod lists;
mod offset;
mod publish;
mod request;
mod wire;

pub use answers::StreamMetadata;
pub use code::ResponseCode;
pub use confirms::Confirms;
pub use error::{DecodeError, FrameError};
pub use frame::{Frame, next_frame};
pub use lists::{Pairs, Strings, Versions};
pub use offset::OffsetSpec;
pub use publish::{Publish, PublishedMessage, PublishedMessages};
pub use request::Request;
