//! Takes samples of the counters of node and vhosts every second, and less often of everything with a history.

use std::time::{Duration, Instant};

use leveret_metrics::Totals;
use leveret_model::Topology;
use serde_json::json;

use crate::api::Api;
use crate::history::Subject;
use crate::sampling::Sample;
use crate::statistics::{self, Lengths};
use crate::{connections, exchanges, nodes, overview, queues};

/// Interval of samples of the node's counters.
const STEP: Duration = Duration::from_secs(1);
/// Number of these intervals between samples for histories.
const PAST_STEPS: u64 = 5;

impl Api {
    /// Takes samples of the counters of node and vhosts every second, and less often for histories, as long as it is
    /// awaited.
    pub async fn sample(self) {
        for second in 0u64.. {
            let broker = self.broker();
            let topology = self.topology();
            let vhosts = topology.vhosts().map(|vhost| (vhost.clone(), broker.totals_in(vhost)));
            let vhosts = vhosts.filter(|(_, totals)| *totals != Totals::default()).collect();
            let queues = broker.queue_metrics.sums().gauges;
            let queues = (queues.ready, queues.unacknowledged);
            self.sampler().add(Sample { at: Instant::now(), node: broker.totals(), queues, vhosts });
            if second % PAST_STEPS == 0 {
                self.sample_past(&topology).await;
            }
            tokio::time::sleep(STEP).await;
        }
    }

    async fn sample_past(&self, topology: &Topology) {
        let (histories, now) = (self.histories(), self.node().clock().now().wall_ms);
        let lengths = Lengths::of_node(self);
        histories.add(Subject::Overview, &overview::counted(self, &lengths), now);
        histories.add(Subject::Node, &nodes::view(self), now);
        for vhost in topology.vhosts() {
            let mut shown = [json!({"name": vhost})];
            statistics::add_to_vhosts(self, &mut shown, None);
            // A vhost without any activity has no counters yet.
            if shown[0].get("messages").is_some() {
                histories.add(Subject::Vhost(vhost.clone()), &shown[0], now);
            }
        }
        let watched = histories.watched(now);
        let snapshot = self.broker().registry.snapshot_full();
        for subject in &watched {
            let shown = match subject {
                Subject::Queue(vhost, name) => snapshot.queue(vhost, name).map(|queue| queues::usual(self, queue)),
                Subject::Exchange(vhost, name) => {
                    let found = snapshot.topology.exchange(vhost, name);
                    found.map(|exchange| exchanges::view(self, &snapshot, exchange))
                }
                _ => continue,
            };
            match shown {
                Some(body) => histories.add(subject.clone(), &body, now),
                None => histories.forget(|gone| gone == subject),
            }
        }
        histories.forget(|subject| matches!(subject, Subject::Vhost(name) if topology.vhost(name).is_none()));
        connections::sample(self, &watched, now).await;
    }
}
