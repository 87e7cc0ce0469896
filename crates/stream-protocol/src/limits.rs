//! Limits of the wire format.

/// Bit 15 of a key: set in responses.
pub const RESPONSE_BIT: u16 = 0x8000;

/// Bytes of the size field before a frame. The size doesn't count them.
pub const SIZE_FIELD: usize = 4;

/// Smallest size of a frame: key and version.
pub const FRAME_MIN: u32 = 4;

/// Longest string, in bytes: lengths are signed numbers of 16 bits, and -1 is null.
pub const STRING_MAX: usize = 32_767;

/// Bytes before a message in an entry: bit 31 is clear, the other bits are the size of the message.
pub const ENTRY_HEAD: usize = 4;

/// Bytes before the messages of a sub-batch in an entry: one with bit 7 set and the compression in bits 4 to 6, two of
/// the number of messages, four of the uncompressed size, four of the size.
pub const BATCH_HEAD: usize = 11;

/// Reference of a leader in the answer to a metadata query if there is none.
pub const NO_LEADER: u16 = 0xFFFF;
