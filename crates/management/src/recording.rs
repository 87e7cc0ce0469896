//! Takes samples of the counters of node and vhosts every second, less often of everything with a history, and notes events.

use std::time::{Duration, Instant};

use leveret_broker::queue_handle::Counts;
use leveret_broker::{AlarmSource, QueueCount};
use leveret_metrics::Totals;
use leveret_model::Topology;
use serde_json::json;

use crate::api::Api;
use crate::history::Subject;
use crate::sampling::Sample;
use crate::statistics::{self, Lengths};
use crate::stream::make_way;
use crate::timeline::{NodeNumbers, QueueNumbers, STEP_MS};
use crate::{connections, exchanges, links, nodes, overview, process, queues};

/// Interval of samples of the node's counters.
const STEP: Duration = Duration::from_secs(1);
/// Number of these intervals between samples for histories.
const PAST_STEPS: u64 = 5;
/// Number of these intervals between samples for the timeline.
const TIMELINE_STEPS: u64 = STEP_MS / 1000;
/// Queues that are sampled before others may use the thread.
const QUEUES_AT_A_STRETCH: usize = 1024;
/// Connections that close within one interval and are many ...
const MANY_CLOSED: u64 = 20;
/// ... if they are this part, 1 in 5, of those that were open.
const MANY_OF: u64 = 5;

/// The state at the last look, which events are differences from.
struct Seen {
    alarms: [bool; 2],
    opened: u64,
    closed: u64,
    clock_set: u64,
}

impl Api {
    /// Takes samples of the counters of node and vhosts every second, and less often for histories, as long as it is
    /// awaited.
    pub async fn sample(self) {
        let mut seen = Seen { alarms: [false; 2], opened: 0, closed: 0, clock_set: 0 };
        for second in 0u64.. {
            let broker = self.broker();
            let topology = self.topology();
            let vhosts = topology.vhosts().map(|vhost| (vhost.clone(), broker.totals_in(vhost)));
            let vhosts = vhosts.filter(|(_, totals)| *totals != Totals::default()).collect();
            let queues = broker.queue_metrics.sums().gauges;
            let queues = (queues.ready, queues.unacknowledged);
            let disk = nodes::disk_work(&self);
            let links = links::bytes(&self);
            self.sampler().add(Sample { at: Instant::now(), node: broker.totals(), queues, disk, vhosts, links });
            if second % PAST_STEPS == 0 {
                self.sample_past(&topology).await;
            }
            self.note_events(&mut seen);
            if second % TIMELINE_STEPS == 0 {
                self.sample_timeline().await;
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// Notes alarms, many closed connections and a clock that was set.
    fn note_events(&self, seen: &mut Seen) {
        let alarms = &self.broker().alarms;
        for (source, was) in AlarmSource::ALL.into_iter().zip(&mut seen.alarms) {
            let is = alarms.is_raised(source);
            if std::mem::replace(was, is) != is {
                self.happened(if is { "alarm_raised" } else { "alarm_cleared" }, source.name());
            }
        }
        let totals = self.broker().totals();
        let (opened, closed) = (totals.connections_opened, totals.connections_closed);
        let open = seen.opened.saturating_sub(seen.closed);
        let ended = closed.saturating_sub(seen.closed);
        if ended >= MANY_CLOSED && ended * MANY_OF >= open {
            self.happened("mass_disconnect", &format!("{ended} of {open} connections"));
        }
        (seen.opened, seen.closed) = (opened, closed);
        let (clock_set, last) = self.broker().wall.steps();
        if clock_set > seen.clock_set
            && let Some(step) = last
        {
            self.happened("clock_set", &format!("{:+.3} s", step.by_ms() as f64 / 1000.0));
        }
        seen.clock_set = clock_set;
    }

    /// Takes a sample of the node and of each queue that has counted anything.
    async fn sample_timeline(&self) {
        let (broker, now) = (self.broker(), self.node().clock().now());
        let (totals, sums) = (broker.totals(), broker.queue_metrics.sums().gauges);
        let sizes = [
            sums.ready,
            sums.unacknowledged,
            broker.connection_count() as u64,
            process::resident_memory_bytes(),
            process::disk_free_bytes(self.data_directory()),
        ];
        let counted = [
            totals.published,
            totals.all_delivered_ack() + totals.all_delivered_no_ack(),
            totals.all_acked(),
            totals.all_redelivered(),
            totals.connections_closed,
        ];
        self.timeline().add_node(NodeNumbers { sizes, counted }, now);
        let snapshot = broker.registry.snapshot_full();
        for (at, queue) in snapshot.queues.values().enumerate() {
            if at % QUEUES_AT_A_STRETCH == 0 {
                make_way();
                tokio::task::yield_now().await;
            }
            let gauges = queue.gauges();
            if !gauges.counted {
                continue;
            }
            let Some(counts) = queue.look(Counts) else { continue };
            let total = |count| counts.total(count);
            let counted =
                [total(QueueCount::Publish), counts.handed_out(), total(QueueCount::Ack), total(QueueCount::Redeliver)];
            let numbers = QueueNumbers { lengths: [gauges.ready, gauges.unacknowledged], counted };
            self.timeline().add_queue(&queue.info().vhost, &queue.info().name, numbers, now);
        }
        self.timeline().tidy(now.wall_ms, |vhost, name| snapshot.queue(vhost, name).is_some());
    }

    async fn sample_past(&self, topology: &Topology) {
        let (histories, now) = (self.histories(), self.node().clock().now());
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
                Subject::Queue(vhost, name) => {
                    snapshot.queue(vhost, name).map(|queue| queues::usual(self, queue).into())
                }
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
