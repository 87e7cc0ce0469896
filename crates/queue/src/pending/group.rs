//! Places of messages that are part of a group: the place of its commit record, once that is appended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::place::{Place, Watermarks};

/// Marks a group that is open and has no place yet.
const OPEN: u64 = u64::MAX;

/// Place of a group's commit record, shared by all queues that the group puts messages into: all of one stream.
#[derive(Debug)]
pub struct GroupPlace(AtomicU64);

impl Default for GroupPlace {
    fn default() -> Self {
        Self(AtomicU64::new(OPEN))
    }
}

impl GroupPlace {
    /// The commit record is appended. The queues have to be applied once it is durable.
    pub fn close(&self, place: Place) {
        self.0.store(place.number(), Ordering::Release);
    }

    /// The place; `None` while the group is open.
    pub fn get(&self) -> Option<Place> {
        Some(self.0.load(Ordering::Acquire)).filter(|number| *number != OPEN).map(Place::new)
    }
}

/// The place of submitted messages.
#[derive(Debug, Clone, Copy)]
pub enum Placement<'a> {
    /// None, since they are volatile: they are applied at once, or after the durable ones that came before them.
    Volatile,
    /// At this place of the queue's commit stream.
    At(Place),
    /// In a group: they, and all that come after them, wait until it is closed and its commit record durable.
    In(&'a Arc<GroupPlace>),
}

/// The place of a submitted chunk of a stream, which is always logged.
#[derive(Debug, Clone, Copy)]
pub enum ChunkPlacement<'a> {
    /// At this place of the stream's commit stream.
    At(Place),
    /// In the record of the chunk before it, which is at this place.
    Joined(Place),
    /// In a group: it, and all that come after it, wait until that is closed and its commit record durable.
    In(&'a Arc<GroupPlace>),
}

/// The condition that pending messages wait for.
#[derive(Debug, Clone)]
pub(crate) enum Awaited {
    At(Place),
    Group(Arc<GroupPlace>),
}

impl Awaited {
    /// The place; `None` for a group that is still open.
    pub(crate) fn place(&self) -> Option<Place> {
        match self {
            Self::At(place) => Some(*place),
            Self::Group(group) => group.get(),
        }
    }

    /// Whether the place is written, or durable in case of a group.
    pub(crate) fn is_reached(&self, reached: Watermarks) -> bool {
        match self {
            Self::At(place) => reached.have(*place, true),
            Self::Group(group) => group.get().is_some_and(|place| reached.have(place, false)),
        }
    }
}
