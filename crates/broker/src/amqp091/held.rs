//! Input that is held back: the connection isn't read until what it waits for has come.

use std::sync::Arc;

use leveret_log::Position;
use smallvec::SmallVec;

use crate::queue_handle::{QueueHandle, QueueRef};

/// Why the connection's input waits. One at a time, since input is handled in order.
#[derive(Default)]
pub(crate) enum Held {
    /// It doesn't.
    #[default]
    No,
    /// A change of the control plane, or a purge, becomes durable; then it is answered.
    Durable { position: Position, answer: Answer },
    /// The log takes no publishes for now, or this connection has enough on its way to the disk. These queues
    /// show it.
    LogRoom { queues: SmallVec<[QueueRef; 2]> },
    /// A message is being read from disk for `basic.get`.
    Get { channel: u16, queue: QueueRef, no_ack: bool },
}

impl Held {
    /// Ends the wait; queues that showed it don't any more.
    pub(crate) fn end(&mut self) -> Self {
        let held = std::mem::take(self);
        if let Self::LogRoom { queues } = &held {
            queues.iter().for_each(QueueHandle::publisher_released);
        }
        held
    }
}

/// The answer to a method that had to become durable first.
pub(crate) enum Answer {
    /// `nowait`.
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
}
