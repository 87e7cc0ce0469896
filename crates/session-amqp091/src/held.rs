//! Blocked input: the connection isn't read until the event that it waits for.

use std::sync::Arc;

use leveret_queue::WaitReason;

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::wait_for::WaitFor;

/// The reason why the connection's input is blocked. There is one at a time, since input is handled in order.
#[derive(Default)]
pub(crate) enum InputHold {
    /// Input isn't blocked.
    #[default]
    No,
    /// A change of the control plane, a purge or a transaction has to become durable before it is answered.
    Durable { wait: WaitFor, answer: Answer },
    /// Publishes wait for room in the log, for room in the connection's share of bytes on their way to the disk, or
    /// until an alarm clears.
    Publishes { reason: WaitReason },
    /// Too many bytes of an incoming body are on their way to its file; the disk has to catch up.
    Upload,
    /// The body of the last publish is being written to a file of its own.
    Body,
    /// The answer to `basic.get` begins when the first piece of its body has been read.
    Content,
    /// The next frame belongs to a channel that waits for its queue.
    Asked,
}

/// The answer to a method that had to become durable first.
pub(crate) enum Answer {
    /// No answer (`nowait`).
    Nothing,
    QueueDeclareOk {
        channel: u16,
        queue: Arc<str>,
        messages: u32,
        consumers: u32,
    },
    QueueDeleteOk {
        channel: u16,
        deleted: Vec<QueueRef>,
    },
    QueueBindOk {
        channel: u16,
    },
    QueueUnbindOk {
        channel: u16,
    },
    QueuePurgeOk {
        channel: u16,
        messages: u32,
    },
    ExchangeDeclareOk {
        channel: u16,
    },
    ExchangeDeleteOk {
        channel: u16,
    },
    ExchangeBindOk {
        channel: u16,
    },
    ExchangeUnbindOk {
        channel: u16,
    },
    TxCommitOk {
        channel: u16,
    },
    BasicCancelOk {
        channel: u16,
        tag: Arc<[u8]>,
    },
    ChannelCloseOk {
        channel: u16,
    },
    ConnectionCloseOk,
}

impl Answer {
    /// The channel that ends with it.
    pub(super) fn ends(&self) -> Option<u16> {
        match self {
            Self::ChannelCloseOk { channel } => Some(*channel),
            _ => None,
        }
    }

    /// The channel that the answer is sent on.
    pub(super) fn channel(&self) -> Option<u16> {
        match self {
            Self::Nothing | Self::ConnectionCloseOk | Self::ChannelCloseOk { .. } => None,
            Self::QueueDeclareOk { channel, .. }
            | Self::QueueDeleteOk { channel, .. }
            | Self::QueueBindOk { channel }
            | Self::QueueUnbindOk { channel }
            | Self::QueuePurgeOk { channel, .. }
            | Self::ExchangeDeclareOk { channel }
            | Self::ExchangeDeleteOk { channel }
            | Self::ExchangeBindOk { channel }
            | Self::ExchangeUnbindOk { channel }
            | Self::TxCommitOk { channel }
            | Self::BasicCancelOk { channel, .. } => Some(*channel),
        }
    }
}
