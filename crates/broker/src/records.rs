//! Kinds of control records, which the log has beside messages and settles.

/// In a queue's log: the numbers that were handed out before a clean stop. A little-endian number; all lower numbers may have
/// been delivered.
pub const CONTROL_DELIVERED_BELOW: u8 = 1;

/// In a queue's log: how often messages were delivered, and how often that failed. Runs as in
/// [`leveret_queue::AttemptRun::encode`].
pub const CONTROL_ATTEMPTS: u8 = 2;

/// In the metadata log: a model command.
pub const CONTROL_MODEL_COMMAND: u8 = 1;
