//! The most that a turn of a consumer takes.

/// The most that a turn of a consumer takes: a number of messages, and about so many bytes, but one message at least.
#[derive(Debug, Clone, Copy)]
pub struct Portion {
    /// Number of messages.
    pub messages: u32,
    /// Body bytes.
    pub bytes: u64,
}
