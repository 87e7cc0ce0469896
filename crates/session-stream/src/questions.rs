//! Commands that wait for a stream or for the control plane.

use std::sync::Arc;

use leveret_broker::asked::Later;
use leveret_broker::queue_handle::{NoConsumer, StreamEnd, StreamQueueRef};
use leveret_broker::registry::{ChangeOutcome, ChangesOutcome};
use leveret_broker::ticket::Awaited;
use leveret_queue::{ConsumerId, Scan};
use leveret_session::early_signals::EarlySignals;
use leveret_stream_protocol::key;

/// A command that waits for its answer.
pub(crate) enum AskedCommand {
    /// One that changes the control plane.
    Change { change: LateChange, changing: Changing },
    /// `Subscribe`.
    Subscribe { answer: Later<Result<(), NoConsumer>>, subscribing: Box<Subscribing>, early: EarlySignals },
    /// A question to a stream.
    Look { correlation: u32, looking: Looking },
}

/// A question to a stream, for a command.
pub(crate) enum Looking {
    /// `QueryOffset`.
    Offset(Later<Option<u64>>),
    /// `ResolveOffsetSpec`.
    Resolve(Later<Option<(u64, Box<Scan>)>>),
    /// `StreamStats`.
    Stats(Later<Option<StreamEnd>>),
    /// `QueryPublisherSequence`.
    Sequence(Later<(Option<u64>, Awaited)>),
}

/// The answer to it.
pub(crate) enum Looked {
    Offset(Option<u64>),
    Resolve(Option<(u64, Box<Scan>)>),
    Stats(Option<StreamEnd>),
    Sequence((Option<u64>, Awaited)),
}

impl Looking {
    /// The answer, if it has come.
    pub(crate) fn take(&self) -> Option<Looked> {
        Some(match self {
            Self::Offset(answer) => Looked::Offset(answer.take()?),
            Self::Resolve(answer) => Looked::Resolve(answer.take()?),
            Self::Stats(answer) => Looked::Stats(answer.take()?),
            Self::Sequence(answer) => Looked::Sequence(answer.take()?),
        })
    }
}

/// A subscription that its stream was asked for.
pub(crate) struct Subscribing {
    pub correlation: u32,
    pub id: u8,
    pub credit: u16,
    pub stream: Arc<str>,
    pub queue: StreamQueueRef,
    pub consumer: ConsumerId,
}

/// The command whose change was asked for.
pub(crate) struct Changing {
    /// The key of the command.
    pub key: u16,
    pub correlation: u32,
    /// Streams that it deletes.
    pub deleted: Vec<Arc<str>>,
}

/// An outcome that comes later.
pub(crate) enum LateChange {
    One(Later<ChangeOutcome>),
    All(Later<ChangesOutcome>),
}

impl Changing {
    /// The command as the specification calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self.key {
            key::CREATE => "Create",
            key::DELETE => "Delete",
            key::CREATE_SUPER_STREAM => "CreateSuperStream",
            _ => "DeleteSuperStream",
        }
    }
}
