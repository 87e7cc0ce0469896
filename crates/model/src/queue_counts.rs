//! Numbers of queues by the member of a cluster that has them.

use std::sync::Arc;

use imbl::OrdMap;

use crate::{Home, MemberNumber, Queue};

/// The number of queues of each member that has some. A node that is alone has all, and counts none: the count would be one more map that
/// each declaration changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueCounts {
    is_counting: bool,
    by_member: OrdMap<MemberNumber, u64>,
}

impl QueueCounts {
    /// Number of queues of a member of the cluster.
    pub(crate) fn of(&self, member: MemberNumber) -> u64 {
        self.by_member.get(&member).copied().unwrap_or(0)
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
            let Home::Owner(member) = queue.home;
            *self.by_member.entry(member).or_default() += 1;
        }
    }

    /// Counts a queue less, which is gone.
    pub(crate) fn remove(&mut self, queue: &Queue) {
        let Home::Owner(member) = queue.home;
        if let Some(count) = self.by_member.get_mut(&member) {
            *count -= 1;
            if *count == 0 {
                self.by_member.remove(&member);
            }
        }
    }
}
