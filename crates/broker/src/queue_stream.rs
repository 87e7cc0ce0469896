//! The stream that a queue's records are appended to.

use std::ops::Deref;
use std::sync::Arc;

use leveret_log::{GroupId, Wait};

use crate::replicas::PlacedStream;
use crate::streams::{CommitStream, ControlRecord, LocalStream, Record, StreamRef};
use crate::ticket::Ticket;

/// The stream that takes the records of a queue on this node. As a commit stream it is waited for.
#[derive(Clone)]
pub enum QueueStream {
    /// A log of this disk.
    Log(Arc<LocalStream>),
    /// A placement that this node leads.
    Placement(Arc<PlacedStream>),
}

impl Deref for QueueStream {
    type Target = dyn CommitStream;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Log(log) => &**log,
            Self::Placement(placement) => &**placement,
        }
    }
}

impl QueueStream {
    /// It as one of any commit streams.
    pub fn shared(&self) -> StreamRef {
        match self {
            Self::Log(log) => log.clone(),
            Self::Placement(placement) => placement.clone(),
        }
    }

    /// The log, if it is one: only a log takes the chunks of streams, and references to shared messages.
    #[inline]
    pub(crate) fn log(&self) -> Option<&Arc<LocalStream>> {
        match self {
            Self::Log(log) => Some(log),
            Self::Placement(_) => None,
        }
    }

    /// The placement, if it is one: only a placement knows the publishes of writers.
    pub(crate) fn placement(&self) -> Option<&PlacedStream> {
        match self {
            Self::Log(_) => None,
            Self::Placement(placement) => Some(placement),
        }
    }

    /// Appends a record. The caller may hold one queue's lock; it calls [`CommitStream::announce`] after releasing it.
    #[inline]
    pub(crate) fn append(&self, record: Record<'_>, wait: Wait) -> Ticket {
        match self {
            Self::Log(log) => log.append(record, wait),
            Self::Placement(placement) => placement.append(record, wait),
        }
    }

    /// Appends a control record.
    pub(crate) fn append_control(&self, record: ControlRecord<'_>, wait: Wait) -> Ticket {
        match self {
            Self::Log(log) => log.append_control(record, wait),
            Self::Placement(placement) => placement.append_control(record, wait),
        }
    }

    /// Appends a record as part of a group, which the first one begins.
    pub(crate) fn append_in(&self, group: &mut Option<GroupId>, record: Record<'_>) -> Ticket {
        match self {
            Self::Log(log) => log.append_in(group, record),
            Self::Placement(placement) => placement.append_in(group, record),
        }
    }

    /// Closes a group: all of it takes effect once the ticket is durable. `None` if the group is empty.
    pub(crate) fn commit_group(&self, group: GroupId, wait: Wait) -> Option<Ticket> {
        match self {
            Self::Log(log) => log.commit_group(group, wait),
            Self::Placement(placement) => Some(placement.commit_group(wait)),
        }
    }
}
