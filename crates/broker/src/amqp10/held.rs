//! Input that is held back: the connection isn't read until what it waits for has come.

use leveret_log::Position;

/// Why the connection's input waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Held {
    /// It doesn't.
    #[default]
    No,
    /// The frame at its head declared something that becomes durable at this position; then it is handled again.
    Again { position: Position },
    /// The log takes no publishes for now, or this connection has enough on its way to the disk.
    LogRoom,
}
