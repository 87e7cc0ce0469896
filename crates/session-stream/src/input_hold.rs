//! The reasons why a connection's input is blocked.

use std::sync::Arc;

use leveret_queue::WaitReason;

use super::questions::AskedCommand;
use leveret_broker::wait_for::WaitFor;

/// The reason why the connection's input is blocked. There is one at a time, since input is handled in order.
#[derive(Default)]
pub(crate) enum InputHold {
    /// Input isn't blocked.
    #[default]
    No,
    /// The answer of a stream or of the control plane comes later.
    Asked(Box<AskedCommand>),
    /// An answer waits until what it tells is durable.
    Durable { wait: WaitFor, answer: DurableAnswer },
    /// Publishes wait for room in the log, for room in the connection's share of bytes on their way to the disk, or until an alarm
    /// clears.
    Publishes { reason: WaitReason },
}

/// The answer to a command that waits until something is durable.
pub(crate) enum DurableAnswer {
    /// A change was made.
    Changed {
        /// The key of the command.
        key: u16,
        correlation: u32,
        /// Streams that it deletes: the client's publishers and subscriptions there are over.
        deleted: Vec<Arc<str>>,
    },
    /// The number of a publisher's last message, behind which it goes on: what it is told to be there mustn't be lost.
    Sequence { correlation: u32, sequence: u64 },
}
