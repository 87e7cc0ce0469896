//! Numbers of queues by their home in a cluster.

use std::sync::Arc;

use imbl::OrdMap;

use crate::{Home, Queue};

/// The number of queues of each home that has some. A node that is alone has all, and counts none: the count would be one more map that
/// each declaration changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueCounts {
    is_counting: bool,
    by_home: OrdMap<Home, u64>,
}

impl QueueCounts {
    /// Number of queues with a home in the cluster.
    pub(crate) fn of(&self, home: Home) -> u64 {
        self.by_home.get(&home).copied().unwrap_or(0)
    }

    /// The node is in a cluster and has these queues: they are counted from now on.
    pub(crate) fn begin<'a>(&mut self, queues: impl Iterator<Item = &'a Arc<Queue>>) {
        if !self.is_counting {
            self.is_counting = true;
            queues.for_each(|queue| self.add(queue));
        }
    }

    /// Counts a queue that is declared.
    pub(crate) fn add(&mut self, queue: &Queue) {
        if self.is_counting {
            *self.by_home.entry(queue.home).or_default() += 1;
        }
    }

    /// Counts a queue less, which is gone.
    pub(crate) fn remove(&mut self, queue: &Queue) {
        if let Some(count) = self.by_home.get_mut(&queue.home) {
            *count -= 1;
            if *count == 0 {
                self.by_home.remove(&queue.home);
            }
        }
    }
}
