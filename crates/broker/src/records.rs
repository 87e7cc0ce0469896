//! Kinds of the control records that stand in the log beside messages and settles.

/// In a queue's log: which numbers were handed out before a clean stop. A little-endian number, all below it may have been
/// delivered.
pub const CONTROL_DELIVERED_BELOW: u8 = 1;

/// In the metadata log: a model command.
pub const CONTROL_MODEL_COMMAND: u8 = 1;
