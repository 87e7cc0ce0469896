//! What the node and its vhosts counted a moment ago: one timer for all of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leveret_metrics::Totals;
use parking_lot::Mutex;

use crate::api::Api;

/// How often the node's counts are noted.
const STEP: Duration = Duration::from_secs(1);
/// A rate is over so many steps.
const WINDOW: usize = 5;

/// See the module.
#[derive(Default)]
pub(crate) struct Sampler {
    recent: Mutex<VecDeque<Sample>>,
}

#[derive(Clone)]
struct Sample {
    at: Instant,
    node: Totals,
    vhosts: HashMap<Arc<str>, Totals>,
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

    fn before(&self, now: Totals, read: impl Fn(&Sample) -> Option<Totals>) -> (Totals, f64) {
        let recent = self.recent.lock();
        let found = recent.iter().find_map(|sample| Some((read(sample)?, sample.at.elapsed().as_secs_f64())));
        found.unwrap_or((now, 0.0))
    }

    fn add(&self, sample: Sample) {
        let mut recent = self.recent.lock();
        recent.push_back(sample);
        while recent.len() > WINDOW {
            recent.pop_front();
        }
    }
}

impl Api {
    /// Notes what the node and its vhosts count, once a second, as long as it is awaited.
    pub async fn sample(self) {
        loop {
            let broker = self.broker();
            let topology = self.topology();
            let vhosts = topology.vhosts().map(|vhost| (vhost.clone(), broker.totals_in(vhost)));
            let vhosts = vhosts.filter(|(_, totals)| *totals != Totals::default()).collect();
            self.sampler().add(Sample { at: Instant::now(), node: broker.totals(), vhosts });
            tokio::time::sleep(STEP).await;
        }
    }
}
