//! Counts of the node and its vhosts a moment ago.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use leveret_metrics::Totals;
use parking_lot::Mutex;

/// A rate is over so many steps.
const WINDOW: usize = 5;

/// See the module.
#[derive(Default)]
pub(crate) struct Sampler {
    recent: Mutex<VecDeque<Sample>>,
}

/// Counts at one moment.
#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) node: Totals,
    /// Ready and unacknowledged messages of all queues.
    pub(crate) queues: (u64, u64),
    pub(crate) vhosts: HashMap<Arc<str>, Totals>,
}

impl Sampler {
    /// The node's counts a moment ago, and how many seconds that is.
    pub(crate) fn node_before(&self, now: &Totals) -> (Totals, f64) {
        self.before(*now, |sample| Some(sample.node))
    }

    /// A vhost's counts a moment ago, and how many seconds that is.
    pub(crate) fn vhost_before(&self, vhost: &str, now: &Totals) -> (Totals, f64) {
        self.before(*now, |sample| sample.vhosts.get(vhost).copied())
    }

    /// Ready and unacknowledged messages of all queues a moment ago, and how many seconds that is.
    pub(crate) fn queues_before(&self, now: (u64, u64)) -> ((u64, u64), f64) {
        self.before(now, |sample| Some(sample.queues))
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
