//! Where messages stand that are part of a group: behind its commit record, once that is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::place::{Place, Watermarks};

/// The group is open; it has no place yet.
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

    /// None while the group is open.
    pub fn get(&self) -> Option<Place> {
        Some(self.0.load(Ordering::Acquire)).filter(|number| *number != OPEN).map(Place::new)
    }
}

/// Where submitted messages stand.
#[derive(Debug, Clone, Copy)]
pub enum Placement<'a> {
    /// Nowhere, since they are volatile: they are applied at once, or after the durable ones that came before them.
    Volatile,
    /// At this place of the queue's commit stream.
    At(Place),
    /// In a group: they, and all that come after them, wait until it is closed and its commit record durable.
    In(&'a Arc<GroupPlace>),
}

/// What pending messages wait for.
#[derive(Debug, Clone)]
pub(crate) enum Awaited {
    At(Place),
    Group(Arc<GroupPlace>),
}

impl Awaited {
    /// None while it is a group that is open.
    pub(crate) fn place(&self) -> Option<Place> {
        match self {
            Self::At(place) => Some(*place),
            Self::Group(group) => group.get(),
        }
    }

    /// Whether it is written, or durable if it is a group's.
    pub(crate) fn is_reached(&self, reached: Watermarks) -> bool {
        match self {
            Self::At(place) => reached.have(*place, true),
            Self::Group(group) => group.get().is_some_and(|place| reached.have(place, false)),
        }
    }
}
