//! Messages that a queue is offered and that it compares with earlier ones.

use leveret_message::ComparedBy;

/// A message that is offered to a queue, as far as it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// Its id, or its publisher with its number.
    pub by: ComparedBy,
    /// When it was received, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Whether it is compared. One that comes back, as a dead letter or because an operator moved it, isn't.
    pub is_compared: bool,
}
