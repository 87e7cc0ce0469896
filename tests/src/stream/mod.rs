//! A client of the stream protocol on a blocking socket, which checks what it receives: confirms name messages that were sent, chunks
//! have the checksum and the counts of their header, offsets are dense, and no chunk comes without credit.

mod chunk;
mod connection;
mod requests;
mod subscription;

pub use chunk::{Compression, ReceivedChunk, body_of, data, entry_of, sub_batch};
pub use connection::{Closed, Login, StreamClient};
pub use leveret_stream_protocol::{OffsetSpec, ResponseCode};
pub use subscription::Subscription;

/// The number of a code.
pub fn number(code: ResponseCode) -> u16 {
    code.into()
}

/// The code of success.
pub const OK: u16 = ResponseCode::Ok as u16;
