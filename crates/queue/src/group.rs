//! Where messages stand that are part of a group: behind its commit record, once that is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Position;

/// The group is open; it has no position yet.
const OPEN: Position = Position::MAX;

/// Position of a group's commit record, shared by all queues that the group puts messages into.
#[derive(Debug)]
pub struct GroupPosition(AtomicU64);

impl Default for GroupPosition {
    fn default() -> Self {
        Self(AtomicU64::new(OPEN))
    }
}

impl GroupPosition {
    /// The commit record is appended. The queues have to be applied once it is durable.
    pub fn close(&self, position: Position) {
        self.0.store(position, Ordering::Release);
    }

    /// None while the group is open.
    pub fn position(&self) -> Option<Position> {
        Some(self.0.load(Ordering::Acquire)).filter(|position| *position != OPEN)
    }
}

/// Where submitted messages stand.
#[derive(Debug, Clone, Copy)]
pub enum Placement<'a> {
    /// Nowhere, since they are volatile: they are applied at once, or after the durable ones that came before them.
    Volatile,
    /// At this position of the commit stream.
    At(Position),
    /// In a group: they, and all that come after them, wait until it is closed and its commit record durable.
    In(&'a Arc<GroupPosition>),
}

/// What pending messages wait for.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    At(Position),
    Group(Arc<GroupPosition>),
}

impl Place {
    /// None while it is a group that is open.
    pub(crate) fn position(&self) -> Option<Position> {
        match self {
            Self::At(position) => Some(*position),
            Self::Group(group) => group.position(),
        }
    }

    /// Whether it is written, or durable if it is a group's.
    pub(crate) fn is_reached(&self, written: Position, durable: Position) -> bool {
        let reached = match self {
            Self::At(_) => written,
            Self::Group(_) => durable,
        };
        self.position().is_some_and(|position| position <= reached)
    }
}
