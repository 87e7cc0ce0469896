//! Recent samples of the counters of the node and its vhosts, for rates.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use leveret_metrics::Totals;
use leveret_model::MemberNumber;
use parking_lot::Mutex;

/// Number of intervals that a rate is computed over.
const WINDOW: usize = 5;

/// The recent samples.
#[derive(Default)]
pub(crate) struct Sampler {
    recent: Mutex<VecDeque<Sample>>,
}

/// Counters of the node's log on the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DiskWork {
    /// Syncs; each is one write, too.
    pub(crate) syncs: u64,
    pub(crate) bytes_written: u64,
}

/// Bytes that went over the links to a member of the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LinkBytes {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The counters at one moment.
#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) node: Totals,
    /// Ready and unacknowledged messages of all queues.
    pub(crate) queues: (u64, u64),
    pub(crate) disk: DiskWork,
    pub(crate) vhosts: HashMap<Arc<str>, Totals>,
    pub(crate) links: BTreeMap<MemberNumber, LinkBytes>,
}

impl Sampler {
    /// The node's counters in the oldest recent sample, and its age in seconds.
    pub(crate) fn node_before(&self, now: &Totals) -> (Totals, f64) {
        self.before(*now, |sample| Some(sample.node))
    }

    /// A vhost's counters in the oldest recent sample, and its age in seconds.
    pub(crate) fn vhost_before(&self, vhost: &str, now: &Totals) -> (Totals, f64) {
        self.before(*now, |sample| sample.vhosts.get(vhost).copied())
    }

    /// Ready and unacknowledged messages of all queues in the oldest recent sample, and its age in seconds.
    pub(crate) fn queues_before(&self, now: (u64, u64)) -> ((u64, u64), f64) {
        self.before(now, |sample| Some(sample.queues))
    }

    /// The log's counters in the oldest recent sample, and its age in seconds.
    pub(crate) fn disk_before(&self, now: DiskWork) -> (DiskWork, f64) {
        self.before(now, |sample| Some(sample.disk))
    }

    /// The bytes over the links to a member in the oldest recent sample, and its age in seconds.
    pub(crate) fn link_before(&self, member: MemberNumber, now: LinkBytes) -> (LinkBytes, f64) {
        self.before(now, |sample| sample.links.get(&member).copied())
    }

    fn before<T>(&self, now: T, read: impl Fn(&Sample) -> Option<T>) -> (T, f64) {
        let recent = self.recent.lock();
        let found = recent.iter().find_map(|sample| Some((read(sample)?, sample.at.elapsed().as_secs_f64())));
        found.unwrap_or((now, 0.0))
    }

    pub(crate) fn add(&self, sample: Sample) {
        let mut recent = self.recent.lock();
        recent.push_back(sample);
        while recent.len() > WINDOW {
            recent.pop_front();
        }
    }
}
