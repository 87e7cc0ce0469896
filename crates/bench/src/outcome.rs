//! The result of a round, from both sides and from the broker's process and metrics.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::BenchError;
use crate::measured::{Consumed, Published, histogram};
use crate::metrics_endpoint::{Metrics, SyncTimes};
use crate::perf::Counting;
use crate::process::Memory;
use crate::series::Sample;
use crate::settings::{Course, Durability, Settings};
use crate::tally::Tally;
use crate::target::TargetBroker;

/// The measurements of a round, or of one half of it.
pub(crate) struct RoundOutcome {
    /// The settings; `messages_each` is the actual number if publishers stopped by the clock.
    pub(crate) settings: Settings,
    /// The row or scenario, with the half.
    pub(crate) name: String,
    pub(crate) broker: String,
    /// Messages published, or consumed if none are published. The copies of one count as one.
    pub(crate) messages: u64,
    /// Deliveries including copies, or messages published if none are delivered. Figures per message refer to this
    /// number.
    pub(crate) delivered: u64,
    /// Messages dropped by a full queue by design.
    pub(crate) dropped: u64,
    /// Time until the last publisher was done.
    pub(crate) send_time: Option<Duration>,
    /// Time until the last message was received.
    pub(crate) receive_time: Option<Duration>,
    pub(crate) latency: Histogram<u64>,
    pub(crate) confirm_latency: Histogram<u64>,
    pub(crate) publisher_cpu: Duration,
    pub(crate) consumer_cpu: Duration,
    pub(crate) broker_cpu: Option<Duration>,
    pub(crate) memory: Option<Memory>,
    /// Whether the peak is that of this round rather than of the process's life.
    pub(crate) peak_is_fresh: bool,
    pub(crate) syncs: Option<f64>,
    /// Reads from and writes to sockets, as counted by Leveret; including files if counted by `perf`.
    pub(crate) reads: Option<f64>,
    pub(crate) writes: Option<f64>,
    /// Whether syncs, reads and writes were counted by `perf`.
    pub(crate) by_perf: bool,
    /// Durations of the disk's syncs in this round.
    pub(crate) sync_times: Option<SyncTimes>,
    /// The durability requested for the queues, or reported by the node; `its own` for a broker that reports none.
    pub(crate) durability: Option<String>,
    /// Samples over time: about 4 per second, fewer in a long round.
    pub(crate) series: Vec<Sample>,
}

/// The measurements of both sides of a round.
pub(crate) struct Sides {
    pub(crate) published: Vec<Published>,
    pub(crate) consumed: Vec<Consumed>,
    pub(crate) series: Vec<Sample>,
}

/// The part of a round that its outcomes have in common.
pub(crate) struct Measured<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) target: &'a TargetBroker,
    /// The broker's name for itself.
    pub(crate) broker: &'a str,
    pub(crate) tally: &'a Tally,
}

/// A broker's resource usage before a round.
pub(crate) struct Gauge {
    peak_is_fresh: bool,
    metrics: Metrics,
    counting: Option<Counting>,
    cpu: Option<Duration>,
}

impl Gauge {
    pub(crate) fn read(target: &TargetBroker) -> Result<Self, BenchError> {
        let peak_is_fresh = target.processes.reset_peak();
        let metrics = target.scrape()?;
        let counting = target.count_calls(&metrics)?;
        Ok(Self { peak_is_fresh, metrics, counting, cpu: target.processes.cpu_time() })
    }

    /// The usage since then. `half` is appended to the name.
    pub(crate) fn outcome(self, of: &Measured<'_>, half: &str, sides: Sides) -> Result<RoundOutcome, BenchError> {
        let &Measured { settings, target, broker, tally } = of;
        let Sides { published, consumed, series } = sides;
        let cpu = target.processes.cpu_time();
        let memory = target.processes.memory();
        let calls = self.counting.map(Counting::stop).transpose()?;
        let metrics = target.scrape()?;
        let (mut latency, mut confirm_latency) = (histogram(), histogram());
        // Messages that waited for their consumers by design have no latency.
        for one in consumed.iter().filter(|_| settings.course == Course::AtOnce) {
            latency.add(&one.latency).expect("the bounds are the same");
        }
        for one in &published {
            confirm_latency.add(&one.confirm_latency).expect("the bounds are the same");
        }
        let messages = tally.sent();
        let since = |after: Option<f64>, before: Option<f64>| after.zip(before).map(|(after, before)| after - before);
        if settings.max_length.is_some() && !consumed.is_empty() {
            let counted = since(metrics.dropped, self.metrics.dropped).filter(|_| is_leveret(broker));
            check_drops(messages, tally.received(), tally.missing(), counted)?;
        }
        Ok(RoundOutcome {
            name: format!("{}{half}", settings.name),
            broker: format!("{}{broker}", target.label),
            messages,
            delivered: if consumed.is_empty() { messages } else { tally.received() },
            dropped: if consumed.is_empty() { 0 } else { tally.missing() },
            send_time: published.iter().map(|one| one.elapsed).max(),
            receive_time: consumed.iter().map(|one| one.elapsed).max(),
            latency,
            confirm_latency,
            publisher_cpu: published.iter().map(|one| one.cpu).sum(),
            consumer_cpu: consumed.iter().map(|one| one.cpu).sum(),
            broker_cpu: cpu.zip(self.cpu).map(|(after, before)| after.saturating_sub(before)),
            memory,
            peak_is_fresh: self.peak_is_fresh,
            syncs: calls.map(|calls| calls.syncs as f64).or(since(metrics.syncs, self.metrics.syncs)),
            reads: calls.map(|calls| calls.reads as f64).or(since(metrics.reads, self.metrics.reads)),
            writes: calls.map(|calls| calls.writes as f64).or(since(metrics.writes, self.metrics.writes)),
            by_perf: calls.is_some(),
            sync_times: metrics.sync_buckets.since(&self.metrics.sync_buckets),
            durability: durability(settings, broker, metrics.durability),
            series,
            settings: Settings { messages_each: messages.div_ceil(settings.publishers.into()), ..settings.clone() },
        })
    }
}

/// Checks that the missing messages of a load above a queue's limit are those that the queue dropped, as far as the
/// broker counts these.
///
/// # Errors
/// [`BenchError::Void`] if they aren't, or if no message arrived at all.
fn check_drops(messages: u64, received: u64, missing: u64, counted: Option<f64>) -> Result<(), BenchError> {
    if received == 0 && messages > 0 {
        return Err(BenchError::Void(format!("of {messages} messages none was delivered")));
    }
    match counted.map(|counted| counted as u64) {
        Some(counted) if counted != missing => Err(BenchError::Void(format!(
            "of {messages} messages {missing} didn't come, and the broker counted {counted} as dropped by its limit"
        ))),
        _ => Ok(()),
    }
}

/// Whether a broker, judged by its name, knows `x-durability`.
pub(crate) fn is_leveret(broker: &str) -> bool {
    broker.contains("Leveret")
}

fn durability(settings: &Settings, broker: &str, of_the_node: Option<String>) -> Option<String> {
    match settings.durability {
        Some(asked) if is_leveret(broker) => Some(asked.to_string()),
        Some(Durability::Synced | Durability::Os) => Some("its own".into()),
        None => of_the_node,
    }
}

#[cfg(test)]
mod tests {
    use super::check_drops;

    #[test]
    fn missing_messages_must_have_been_dropped() {
        assert!(check_drops(10, 7, 3, Some(3.0)).is_ok());
        assert!(check_drops(10, 7, 3, None).is_ok(), "others don't say");
        let told = check_drops(10, 7, 3, Some(2.0)).unwrap_err().to_string();
        assert!(told.contains("3 didn't come, and the broker counted 2"), "{told}");
        assert!(check_drops(10, 0, 10, Some(10.0)).is_err());
    }
}
