//! Records of measurements.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::describe::describe;
use super::record::{Asked, Bucket, Figures, Machine, Percentiles, Record, SampleRecord, SyncTime};
use crate::metrics_endpoint::SyncTimes;
use crate::outcome::RoundOutcome;
use crate::series;
use crate::settings::Protocol;

/// Number of points of a latency curve between 50 % and 75 %, between 75 % and 87.5 %, and so on.
const CURVE_POINTS_PER_HALF: u32 = 4;

impl Record {
    /// The record of a measured round.
    pub(crate) fn of(outcome: &RoundOutcome, round: u32, machine: &Machine) -> Self {
        let settings = &outcome.settings;
        let (target, broker) = target_and_broker(&outcome.broker);
        Self {
            scenario: outcome.name.clone(),
            round,
            target,
            broker,
            protocol: protocol_name(settings.protocol).into(),
            durability: if settings.durable {
                outcome.durability.as_deref().map(short_durability)
            } else {
                Some("transient".into())
            },
            machine: machine.clone(),
            asked: Asked {
                description: describe(settings),
                messages: Some(outcome.messages),
                delivered: Some(outcome.delivered),
                queues: Some(settings.queues),
                publishers: Some(settings.publishers),
                consumers: Some(settings.consumers),
                rate: settings.rate,
                max_length: settings.max_length,
                size: Some(settings.size),
                confirm_window: Some(settings.confirm_window),
                prefetch: Some(settings.prefetch),
                ack_every: Some(settings.ack_every),
                durable: Some(settings.durable),
            },
            figures: figures(outcome),
            latency_curve_us: curve(&outcome.latency),
            sync_histogram: outcome.sync_times.as_ref().map(buckets).unwrap_or_default(),
            series: outcome.series.iter().map(sample).collect(),
            ..Self::default()
        }
    }

    /// The record of a void round, or of one that couldn't run.
    pub(crate) fn void(scenario: &str, round: u32, target: String, reason: String, machine: &Machine) -> Self {
        Self {
            scenario: scenario.to_owned(),
            round,
            target,
            machine: machine.clone(),
            void: Some(reason.trim_start_matches("the run is void: ").to_owned()),
            ..Self::default()
        }
    }
}

fn figures(outcome: &RoundOutcome) -> Figures {
    let messages = outcome.messages as f64;
    // A message to many queues costs the broker work for each of them.
    let delivered = outcome.delivered as f64;
    if messages == 0.0 || delivered == 0.0 {
        // Without deliveries there are no figures per message.
        return Figures { dropped: Some(outcome.dropped), ..Figures::default() };
    }
    // A load that is too short for the kernel's ticks has no CPU figure.
    let broker_cpu = outcome.broker_cpu.filter(|cpu| !cpu.is_zero()).map(|cpu| cpu.as_secs_f64());
    Figures {
        dropped: Some(outcome.dropped),
        sent_per_second: outcome.send_time.map(|time| messages / time.as_secs_f64()),
        received_per_second: outcome.receive_time.map(|time| delivered / time.as_secs_f64()),
        rate_at_end: rate_at_end(outcome),
        latency_us: percentiles(&outcome.latency),
        confirm_latency_us: percentiles(&outcome.confirm_latency),
        broker_cpu_seconds_per_million: broker_cpu.map(|seconds| seconds * 1e6 / delivered),
        messages_per_broker_cpu_second: broker_cpu.map(|seconds| delivered / seconds),
        resident_bytes: outcome.memory.map(|memory| memory.resident),
        resident_bytes_max: outcome.memory.map(|memory| memory.resident_max),
        resident_max_is_of_this_round: outcome.memory.map(|_| outcome.peak_is_fresh),
        syncs: outcome.syncs,
        syncs_per_message: outcome.syncs.map(|syncs| syncs / delivered),
        reads_per_message: outcome.reads.map(|reads| reads / delivered),
        writes_per_message: outcome.writes.map(|writes| writes / delivered),
        calls_were_counted_by_perf: outcome.writes.map(|_| outcome.by_perf),
        sync_us: outcome.sync_times.as_ref().and_then(sync_time),
        publisher_cpu_ns_per_message: nanos(outcome.publisher_cpu, messages),
        consumer_cpu_ns_per_message: nanos(outcome.consumer_cpu, delivered),
    }
}

/// The final rate of receiving, or of sending if nothing is received. With a fixed rate it tells nothing about the
/// broker.
fn rate_at_end(outcome: &RoundOutcome) -> Option<f64> {
    if outcome.settings.rate.is_some() {
        return None;
    }
    let count = |sample: &series::Sample| if outcome.receive_time.is_some() { sample.received } else { sample.sent };
    let end = outcome.receive_time.or(outcome.send_time)?;
    series::rate_at_end(&outcome.series, end.as_secs_f64(), count)
}

/// `None` if that half didn't run.
fn nanos(cpu: Duration, messages: f64) -> Option<f64> {
    (!cpu.is_zero()).then(|| cpu.as_nanos() as f64 / messages)
}

/// The durability without Leveret's explanation in parentheses.
fn short_durability(durability: &str) -> String {
    durability.split_once(" (").map_or(durability, |(short, _)| short).to_owned()
}

/// Converts to microseconds; `None` beyond the last bound.
fn micros_of(seconds: f64) -> Option<f64> {
    seconds.is_finite().then_some(seconds * 1e6)
}

/// `None` if there were no syncs.
fn sync_time(times: &SyncTimes) -> Option<SyncTime> {
    let at = |percentile| times.percentile(percentile).and_then(micros_of);
    times.percentile(50.0).map(|_| SyncTime { p50: at(50.0), p99: at(99.0), max: at(100.0) })
}

fn buckets(times: &SyncTimes) -> Vec<Bucket> {
    let bucket = |(bound, count): &(f64, f64)| Bucket { at_most_us: micros_of(*bound), count: *count };
    times.buckets.iter().map(bucket).collect()
}

fn sample(sample: &series::Sample) -> SampleRecord {
    let series::Sample { seconds, sent, received, resident, latency_p99 } = *sample;
    SampleRecord {
        seconds,
        sent,
        received,
        resident_bytes: resident,
        latency_p99_us: latency_p99.map(|nanos| nanos as f64 / 1e3),
    }
}

/// Splits `A: RabbitMQ 4.3.0` into target and broker.
pub(crate) fn target_and_broker(name: &str) -> (String, Option<String>) {
    let labelled = name.split_once(": ").filter(|(label, _)| ["A", "B"].contains(label));
    let (label, broker) = labelled.unwrap_or(("A", name));
    (label.to_owned(), Some(broker.to_owned()).filter(|broker| !broker.is_empty()))
}

/// The protocol's name in its specification.
pub(crate) fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Amqp091 => "AMQP 0-9-1",
        Protocol::Amqp10 => "AMQP 1.0",
        Protocol::Stream => "streams",
    }
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

fn percentiles(histogram: &Histogram<u64>) -> Option<Percentiles> {
    let at = |percentile| micros(histogram.value_at_percentile(percentile));
    (!histogram.is_empty()).then(|| Percentiles {
        p50: at(50.0),
        p75: at(75.0),
        p95: at(95.0),
        p99: at(99.0),
        p999: at(99.9),
        max: micros(histogram.max()),
    })
}

fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let steps = histogram.iter_quantiles(CURVE_POINTS_PER_HALF);
    steps.map(|step| (step.quantile_iterated_to() * 100.0, micros(step.value_iterated_to()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::histogram;

    #[test]
    fn percentiles_follow_the_histogram_and_an_empty_one_has_none() {
        let mut some = histogram();
        assert_eq!((percentiles(&some), curve(&some)), (None, vec![]));
        for latency in 1..=1000 {
            some.record(latency * 1000).expect("within bounds");
        }
        let found = percentiles(&some).expect("there are some");
        let names = ["p50", "p75", "p95", "p99", "p99.9", "max"];
        assert_eq!(found.named().map(|(name, _)| name), names);
        for ((_, found), due) in found.named().into_iter().zip([500.0, 750.0, 950.0, 990.0, 999.0, 1000.0]) {
            assert!((found / due - 1.0_f64).abs() < 0.002, "{found} for {due}");
        }
        let curve = curve(&some);
        assert!(curve.is_sorted() && curve.len() > 20, "{curve:?}");
        assert_eq!(curve.last().map(|last| last.0), Some(100.0));
    }

    #[test]
    fn labels_are_no_part_of_a_brokers_name() {
        for (name, target, broker) in [
            ("B: RabbitMQ 4.3.0", "B", Some("RabbitMQ 4.3.0")),
            ("RabbitMQ 4.3.0", "A", Some("RabbitMQ 4.3.0")),
            ("Odd: 1", "A", Some("Odd: 1")),
            ("A: ", "A", None),
        ] {
            assert_eq!(target_and_broker(name), (target.to_owned(), broker.map(str::to_owned)), "{name}");
        }
    }
}
