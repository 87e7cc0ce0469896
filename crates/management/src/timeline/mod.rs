//! The last hours of the node and of each queue, minute by minute, and what happened meanwhile.
//!
//! It is kept in memory up to a limit, and in a file while the node is down after a clean stop. Unlike [`crate::history`], which
//! samples an object from the first request for it on, it is there when somebody looks for the first time.

mod events;
mod file;
mod series;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use leveret_broker::{Nanos, Now};
use parking_lot::Mutex;

use events::Events;
pub(crate) use events::TimelineEvent;
use series::{Series, sample_bytes};

/// Length of a step, in milliseconds.
pub(crate) const STEP_MS: u64 = 60_000;
/// Minutes that queues' samples are kept for: six hours.
const QUEUE_MINUTES: u32 = 6 * 60;
/// Minutes that the node's samples are kept for: a day.
const NODE_MINUTES: u32 = 24 * 60;
/// Memory for all samples of queues. With those that are kept when it is full, the oldest go first.
const BYTES_MAX: usize = 48 << 20;
/// Memory that a queue with any sample takes beside them, about.
const QUEUE_BYTES: usize = 256;
/// Minutes that are given up at once when memory is full.
const FORGET_MINUTES: u32 = 15;

/// The columns of a queue: lengths, then rates per second.
pub(crate) const QUEUE_COLUMNS: [&str; 6] =
    ["messages_ready", "messages_unacknowledged", "publish", "deliver_get", "ack", "redeliver"];
/// The columns of the node: sizes, then rates per second.
pub(crate) const NODE_COLUMNS: [&str; 10] = [
    "messages_ready",
    "messages_unacknowledged",
    "connections",
    "mem_used",
    "disk_free",
    "publish",
    "deliver_get",
    "ack",
    "redeliver",
    "connections_closed",
];
const QUEUE_LENGTHS: usize = 2;
const NODE_LENGTHS: usize = 5;
const QUEUE_RATES: usize = QUEUE_COLUMNS.len() - QUEUE_LENGTHS;
const NODE_RATES: usize = NODE_COLUMNS.len() - NODE_LENGTHS;

/// The numbers of a queue at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueNumbers {
    pub(crate) lengths: [u64; QUEUE_LENGTHS],
    /// Counts so far; the samples have rates of them.
    pub(crate) counted: [u64; QUEUE_RATES],
}

/// The numbers of the node at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeNumbers {
    pub(crate) sizes: [u64; NODE_LENGTHS],
    /// Counts so far; the samples have rates of them.
    pub(crate) counted: [u64; NODE_RATES],
}

/// Vhost and name of a queue.
type QueueName = (Arc<str>, Arc<str>);

/// All of it.
#[derive(Default)]
pub(crate) struct Timeline {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    node: Option<Past<NODE_RATES>>,
    queues: HashMap<QueueName, Past<QUEUE_RATES>>,
    /// Samples of all queues.
    samples: usize,
    events: Events,
}

struct Past<const N: usize> {
    series: Series,
    /// Time and counts of the last look; none after a start of the node, whose counts begin anew.
    last: Option<(Nanos, [u64; N])>,
}

impl<const N: usize> Past<N> {
    fn new(series: Series) -> Self {
        Self { series, last: None }
    }

    /// Adds a sample.
    fn add(&mut self, now: Now, lengths: &[u64], counted: [u64; N]) {
        let mut values: Vec<f32> = lengths.iter().map(|length| *length as f32).collect();
        let rates = match self.last.replace((now.monotonic, counted)) {
            Some((then, before)) if now.monotonic > then => {
                let seconds = ((now.monotonic - then) as f64 / 1e9) as f32;
                std::array::from_fn(|at| counted[at].saturating_sub(before[at]) as f32 / seconds)
            }
            _ => [0.0; N],
        };
        values.extend(rates);
        self.series.add(minute(now.wall_ms), &values, lengths.len());
    }
}

fn minute(now_ms: u64) -> u32 {
    u32::try_from(now_ms / STEP_MS).unwrap_or(u32::MAX)
}

impl Timeline {
    /// Adds a sample of the node.
    pub(crate) fn add_node(&self, numbers: NodeNumbers, now: Now) {
        let mut kept = self.kept.lock();
        let past = kept.node.get_or_insert_with(|| Past::new(Series::new(NODE_COLUMNS.len())));
        past.add(now, &numbers.sizes, numbers.counted);
        past.series.forget_before(minute(now.wall_ms).saturating_sub(NODE_MINUTES));
    }

    /// Adds a sample of a queue.
    pub(crate) fn add_queue(&self, vhost: &Arc<str>, name: &Arc<str>, numbers: QueueNumbers, now: Now) {
        let mut kept = self.kept.lock();
        let past = kept.queues.entry((vhost.clone(), name.clone()));
        let past = past.or_insert_with(|| Past::new(Series::new(QUEUE_COLUMNS.len())));
        let before = past.series.len();
        past.add(now, &numbers.lengths, numbers.counted);
        let after = past.series.len();
        kept.samples = kept.samples + after - before;
    }

    /// Forgets what is too old or of queues that are gone, and the oldest if there is too much.
    pub(crate) fn tidy(&self, now_ms: u64, is_there: impl Fn(&str, &str) -> bool) {
        let mut kept = self.kept.lock();
        let mut before = minute(now_ms).saturating_sub(QUEUE_MINUTES);
        loop {
            let Kept { queues, samples, .. } = &mut *kept;
            queues.retain(|(vhost, name), past| {
                *samples -= past.series.forget_before(before);
                let stays = past.series.len() > 0 && is_there(vhost, name);
                if !stays {
                    *samples -= past.series.len();
                }
                stays
            });
            if kept.bytes() <= BYTES_MAX || before >= minute(now_ms) {
                return;
            }
            before += FORGET_MINUTES;
        }
    }

    /// The samples of the node within a range of minutes.
    pub(crate) fn node(&self, range: RangeInclusive<u32>) -> Vec<(u32, Vec<f32>)> {
        self.kept.lock().node.as_ref().map_or_else(Vec::new, |past| past.series.within(range).collect())
    }

    /// The samples of a queue within a range of minutes.
    pub(crate) fn queue(&self, vhost: &str, name: &str, range: RangeInclusive<u32>) -> Vec<(u32, Vec<f32>)> {
        let kept = self.kept.lock();
        let past = kept.queues.get(&(vhost.into(), name.into()));
        past.map_or_else(Vec::new, |past| past.series.within(range).collect())
    }

    /// Notes an event.
    pub(crate) fn happened(&self, event: TimelineEvent) {
        self.kept.lock().events.add(event);
    }

    /// The events within a range of milliseconds, oldest first.
    pub(crate) fn events(&self, range: RangeInclusive<u64>) -> Vec<TimelineEvent> {
        self.kept.lock().events.within(range)
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        self.samples * sample_bytes(QUEUE_COLUMNS.len()) + self.queues.len() * QUEUE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 60 * STEP_MS;
    const START: u64 = 30_000_000 * STEP_MS;

    fn at(ms: u64) -> Now {
        Now { monotonic: ms * 1_000_000, wall_ms: START + ms }
    }

    fn numbers(ready: u64, published: u64) -> QueueNumbers {
        QueueNumbers { lengths: [ready, 0], counted: [published, 0, 0, 0] }
    }

    #[test]
    fn a_queue_has_rates_between_its_samples() {
        let (timeline, vhost, name) = (Timeline::default(), "/".into(), "q".into());
        for (at, ready, published) in [(0, 5, 1000), (1, 5, 1000), (2, 65, 1060), (3, 65, 1060), (4, 65, 1060)] {
            timeline.add_queue(&vhost, &name, numbers(ready, published), self::at(at * STEP_MS));
        }
        let first = minute(START);
        let samples = timeline.queue("/", "q", 0..=u32::MAX);
        let seen: Vec<_> = samples.iter().map(|(at, values)| (at - first, values[0], values[2])).collect();
        assert_eq!(seen, [(0, 5.0, 0.0), (2, 65.0, 1.0), (3, 65.0, 0.0)]);
        assert!(timeline.queue("/", "other", 0..=u32::MAX).is_empty());
    }

    #[test]
    fn rates_and_samples_go_on_when_the_clock_is_set() {
        let timeline = Timeline::default();
        let start = minute(START);
        let steps = [(0, 0), (1, 1), (2, 2), (3, 602), (4, 603), (5, 5), (6, 6)];
        for (passed, shown) in steps {
            let now = Now { monotonic: passed * 60_000_000_000, wall_ms: START + shown * STEP_MS };
            timeline.add_queue(&"/".into(), &"q".into(), numbers(passed, passed * 60), now);
        }
        let samples = timeline.queue("/", "q", 0..=u32::MAX);
        let seen: Vec<_> = samples.iter().map(|(at, values)| (at - start, values[0], values[2])).collect();
        assert_eq!(seen, [(0, 0.0, 0.0), (1, 1.0, 1.0), (2, 2.0, 1.0), (5, 5.0, 1.0), (6, 6.0, 1.0)]);
        assert_eq!(timeline.kept.lock().samples, seen.len());
    }

    #[test]
    fn old_samples_and_deleted_queues_are_forgotten() {
        let timeline = Timeline::default();
        let add = |name: &str, at: u64, ready: u64| {
            timeline.add_queue(&"/".into(), &name.into(), numbers(ready, 0), self::at(at));
        };
        add("old", 0, 1);
        add("gone", 7 * HOUR, 1);
        add("there", 0, 1);
        add("there", 7 * HOUR, 2);
        timeline.tidy(START + 7 * HOUR, |_, name| name != "gone");
        let count = |name: &str| timeline.queue("/", name, 0..=u32::MAX).len();
        assert_eq!((count("old"), count("gone"), count("there")), (0, 0, 1));
        assert_eq!(timeline.kept.lock().samples, 1);
    }

    #[test]
    fn memory_has_a_limit_and_the_oldest_go_first() {
        let timeline = Timeline::default();
        let queues: u64 = 12_000;
        for at in 0..180 {
            for queue in 0..queues {
                timeline.add_queue(&"/".into(), &queue.to_string().into(), numbers(at, 0), self::at(at * STEP_MS));
            }
        }
        assert!(timeline.kept.lock().bytes() > BYTES_MAX);
        timeline.tidy(START + 180 * STEP_MS, |_, _| true);
        let kept = timeline.kept.lock();
        assert!(kept.bytes() <= BYTES_MAX && kept.bytes() > BYTES_MAX / 2, "{}", kept.bytes());
        drop(kept);
        let left = timeline.queue("/", "0", 0..=u32::MAX);
        assert_eq!(left.last().map(|(_, values)| values[0]), Some(179.0));
        assert!(left[0].1[0] > 0.0);
    }
}
