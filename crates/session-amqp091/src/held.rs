//! Input that is held back: the connection isn't read until what it waits for has come.

use std::sync::Arc;

use leveret_queue::{QueueWait, WaitReason};
use smallvec::SmallVec;

use super::session::Session;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

/// Why the connection's input waits. One at a time, since input is handled in order.
#[derive(Default)]
pub(crate) enum Held {
    /// It doesn't.
    #[default]
    No,
    /// A change of the control plane, a purge or a transaction becomes durable; then it is answered.
    Durable { wait: WaitFor, answer: Answer },
    /// Publishes wait: for room in the log or on its way to the disk, or until an alarm clears. These queues show
    /// it.
    Publishes { reason: WaitReason, queues: SmallVec<[QueueRef; 2]> },
    /// So much of a body that comes is on its way to its file that the disk has to catch up.
    Upload,
    /// The body of the last publish is being written to a file of its own.
    Body,
    /// The answer to `basic.get` begins when the first piece of its body has been read.
    Content,
    /// What this connection published isn't in its queues yet, and it asks what is in one.
    OwnPublishes,
    /// A message is being read from disk for `basic.get`.
    Get { channel: u16, queue: QueueRef, no_ack: bool },
}

impl Session {
    /// Holds input back; listings show it.
    pub(crate) fn hold(&mut self, held: Held, now: Now) {
        let reason = match &held {
            Held::Publishes { reason, .. } => Some(*reason),
            Held::Upload | Held::Body => Some(WaitReason::BodyFile),
            _ => None,
        };
        if let Some(reason) = reason {
            self.client.outbox.set_wait(Some(QueueWait { reason, since: now.monotonic }));
        }
        self.held = held;
    }

    /// Ends the wait; queues that showed it don't any more.
    pub(crate) fn end_hold(&mut self) -> Held {
        let held = std::mem::take(&mut self.held);
        if matches!(held, Held::Publishes { .. } | Held::Upload | Held::Body) {
            self.client.outbox.set_wait(None);
        }
        if let Held::Publishes { reason, queues } = &held {
            queues.iter().for_each(|queue| queue.publisher_released(*reason));
        }
        held
    }

    /// The broker closes this channel: what the client asked on it before isn't answered any more. Input goes on only
    /// when the change that it waits for is durable.
    pub(crate) fn withhold_answer(&mut self, number: u16) {
        match &mut self.held {
            Held::Get { channel, .. } if *channel == number => self.held = Held::No,
            Held::Durable { answer, .. } if answer.channel() == Some(number) => *answer = Answer::Nothing,
            _ => {}
        }
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
    /// Where it goes.
    fn channel(&self) -> Option<u16> {
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
