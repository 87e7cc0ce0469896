//! The reason why the connection's input is blocked.

use leveret_broker::wait_for::WaitFor;
use leveret_queue::WaitReason;

use super::changing::{Changing, Then};

/// The reason why the connection's input is blocked. There is one at a time, since input is handled in order.
#[derive(Default)]
pub(crate) enum MqttHold {
    /// Input isn't blocked.
    #[default]
    No,
    /// Another connection has the client id.
    Claim,
    /// A ledger is being read or declared. With a SUBSCRIBE or PUBLISH, the packet is handled again.
    Ledger,
    /// The outcome of a change comes later.
    Asked(Box<Changing>),
    /// Something follows once this is durable.
    Durable(Box<(WaitFor, Then)>),
    /// Publishes wait for room in the log, for room in the connection's share of bytes on their way to the disk, or until an alarm
    /// clears.
    Publishes(WaitReason),
    /// The body of the last message is being written to a file of its own.
    Body,
}
