//! The way of changes from the threads of a node to the thread of its placements.

use std::collections::VecDeque;

use leveret_broker::registry::{MetadataLeader, PlacedAnswer, PlacedRequest};
use parking_lot::Mutex;

/// A request with the function that gets its answer.
pub(super) type PortRequest = (PlacedRequest, Box<dyn FnOnce(PlacedAnswer) + Send>);

/// A function that is called once this node has caught up with the others, or can't.
pub(super) type CaughtUp = Box<dyn FnOnce(bool) + Send>;

/// The way of changes to the thread of the placements.
pub struct MetadataPort {
    asked: Mutex<VecDeque<PortRequest>>,
    behind: Mutex<Vec<CaughtUp>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for MetadataPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MetadataPort")
    }
}

impl MetadataPort {
    /// A port; `wake` has the other thread call [`super::Metadata::take_asked`].
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        MetadataPort { asked: Mutex::default(), behind: Mutex::default(), wake: Box::new(wake) }
    }

    pub(super) fn next(&self) -> Option<PortRequest> {
        self.asked.lock().pop_front()
    }

    /// Everybody who asked to catch up since the last call.
    pub(super) fn behind(&self) -> Vec<CaughtUp> {
        std::mem::take(&mut *self.behind.lock())
    }

    pub(super) fn is_behind(&self) -> bool {
        !self.behind.lock().is_empty()
    }
}

impl MetadataLeader for MetadataPort {
    fn ask(&self, request: PlacedRequest, answer: Box<dyn FnOnce(PlacedAnswer) + Send>) {
        self.asked.lock().push_back((request, answer));
        (self.wake)();
    }

    fn catch_up(&self, answer: Box<dyn FnOnce(bool) + Send>) {
        self.behind.lock().push(answer);
        (self.wake)();
    }
}
