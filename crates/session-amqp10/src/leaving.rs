//! The progress of ends that take several turns.

use leveret_model::QueueId;

use super::error::Failure;

/// The progress of a connection's end.
#[derive(Clone, Copy, Default)]
pub(crate) enum Leaving {
    /// It isn't ending, or it has ended.
    #[default]
    No,
    /// Sessions from this channel on are left.
    Sessions { next: usize },
    /// Exclusive queues from this id on are left.
    Queues { next: QueueId },
}

impl Leaving {
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self, Self::No)
    }
}

/// A link that we detach, and the error that is sent when it has ended.
pub(super) struct FailedLink {
    pub channel: u16,
    pub handle: u32,
    pub failure: Failure,
}
