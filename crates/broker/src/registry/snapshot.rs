//! The part of the control plane that routing and lookups see.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use leveret_model::{ExchangeId, Queue, QueueId, Topology};
use leveret_routing::Router;

use super::TRACE_EXCHANGE;
use crate::exchange_counters::ExchangeCounters;
use crate::queue_handle::QueueRef;
use crate::reply_to::ReplyTargets;

/// From this number of queues on, they aren't looked up one by one and, for a route, not looked at themselves: each look waits for
/// memory.
pub(crate) const MANY_QUEUES: usize = 1000;
/// Above this share of all queues (1 in 8), a scan of all beats looking each one up.
const SCAN_SHARE: usize = 8;

/// An immutable snapshot of everything that routing and lookups need.
#[derive(Clone)]
pub struct Snapshot {
    /// Objects, users, permissions.
    pub topology: Arc<Topology>,
    /// The routing tables.
    pub router: Router,
    /// The queues themselves.
    pub queues: imbl::OrdMap<QueueId, QueueRef>,
    /// Counters of exchanges.
    pub exchanges: imbl::HashMap<ExchangeId, Arc<ExchangeCounters>>,
    /// Requesters that wait for answers without a queue. Not part of the snapshot's state: the same in all of them.
    pub replies: Arc<ReplyTargets>,
    /// The vhosts that are traced, until the node stops.
    pub traced: Arc<BTreeSet<Arc<str>>>,
    /// Grows with every published change.
    pub generation: u64,
}

impl Snapshot {
    /// The queue with this name.
    pub fn queue(&self, vhost: &str, name: &str) -> Option<&QueueRef> {
        self.queues.get(&self.topology.queue(vhost, name)?.id)
    }

    /// Whether messages of a vhost are to be traced: something has to be bound for their copies.
    pub fn traces(&self, vhost: &str) -> bool {
        self.traced.contains(vhost) && self.router.has_bindings(vhost, TRACE_EXCHANGE)
    }

    /// The queues of `vhosts` in this range, by name in each vhost, or in descending order if `reverse`.
    pub fn queues_in(&self, vhosts: &[&str], range: Range<usize>, reverse: bool) -> Vec<QueueRef> {
        let infos = vhosts.iter().flat_map(|vhost| self.topology.queues(vhost));
        let find = |info: &Arc<Queue>| self.queues.get(&info.id).cloned();
        match reverse {
            false => infos.skip(range.start).take(range.len()).filter_map(find).collect(),
            true => infos.rev().skip(range.start).take(range.len()).filter_map(find).collect(),
        }
    }

    /// The queues of these vhosts, by name in each.
    pub fn queues_of<'a>(&self, vhosts: impl IntoIterator<Item = &'a str>) -> Vec<QueueRef> {
        let infos = vhosts.into_iter().flat_map(|vhost| self.topology.queues(vhost));
        let mut wanted: Vec<(QueueId, usize)> = infos.enumerate().map(|(at, info)| (info.id, at)).collect();
        wanted.sort_unstable();
        let mut found = vec![None; wanted.len()];
        let mut places = wanted.iter().peekable();
        let ids: Vec<QueueId> = wanted.iter().map(|(id, _)| *id).collect();
        self.each_queue(&ids, |id, queue| {
            while places.next_if(|(other, _)| *other < id).is_some() {}
            if let Some((_, at)) = places.next() {
                found[*at] = Some(queue.clone());
            }
        });
        found.into_iter().flatten().collect()
    }

    /// Visits the queues with these ids that exist; the ids are in ascending order.
    pub(crate) fn each_queue(&self, ids: &[QueueId], mut visit: impl FnMut(QueueId, &QueueRef)) {
        if ids.len() < MANY_QUEUES || ids.len() < self.queues.len() / SCAN_SHARE {
            for id in ids {
                if let Some(queue) = self.queues.get(id) {
                    visit(*id, queue);
                }
            }
            return;
        }
        // Looking up 100,000 queues one by one takes three times as long as a scan of all.
        let mut wanted = ids.iter().peekable();
        for (id, queue) in self.queues.range(ids[0]..) {
            while wanted.next_if(|other| *other < id).is_some() {}
            if wanted.next_if(|other| *other == id).is_some() {
                visit(*id, queue);
            }
        }
    }
}
