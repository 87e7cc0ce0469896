//! Reads a broker's Prometheus metrics.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The part of the metrics that a report shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Metrics {
    /// Disk syncs since the start.
    pub(crate) syncs: Option<f64>,
    /// Reads from sockets since the start, and writes to them: Leveret's own counters.
    pub(crate) reads: Option<f64>,
    pub(crate) writes: Option<f64>,
    /// Messages that queues have dropped since the start because of their length limit.
    pub(crate) dropped: Option<f64>,
    /// Durations of syncs since the start: Leveret's own histogram.
    pub(crate) sync_buckets: SyncBuckets,
    /// Durability of a confirmed message.
    pub(crate) durability: Option<String>,
}

/// A cumulative histogram: ascending upper bounds in seconds, each with the number of syncs up to it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SyncBuckets(Vec<(f64, f64)>);

/// Durations of the syncs in a period.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SyncTimes {
    /// Ascending upper bounds in seconds, the last one infinite, each with the number of syncs between the previous
    /// bound and it.
    pub(crate) buckets: Vec<(f64, f64)>,
}

impl SyncBuckets {
    /// The difference from an earlier scrape; `None` if unknown.
    pub(crate) fn since(&self, before: &Self) -> Option<SyncTimes> {
        if self.0.is_empty() {
            return None;
        }
        let mut below = 0.0;
        let buckets = self.0.iter().map(|(bound, count)| {
            let all = count - before.at_most(*bound);
            (*bound, all - std::mem::replace(&mut below, all))
        });
        Some(SyncTimes { buckets: buckets.collect() })
    }

    /// Number of syncs up to a bound. Empty buckets at either end are left out of the metrics.
    fn at_most(&self, bound: f64) -> f64 {
        self.0.iter().rev().find(|(other, _)| *other <= bound).map_or(0.0, |(_, count)| *count)
    }
}

impl SyncTimes {
    /// Upper bound in seconds of the bucket with this percentile: infinite for the last bucket. `None` if there were
    /// no syncs.
    pub(crate) fn percentile(&self, percentile: f64) -> Option<f64> {
        let all: f64 = self.buckets.iter().map(|(_, count)| count).sum();
        let mut below = 0.0;
        let holds = |(_, count): &&(f64, f64)| {
            below += count;
            *count > 0.0 && below >= all * percentile / 100.0
        };
        self.buckets.iter().find(holds).map(|(bound, _)| *bound)
    }
}

/// Longest accepted response in bytes.
const ANSWER_MAX: u64 = 64 << 20;

pub(crate) fn scrape(host: &str, port: u16) -> std::io::Result<Metrics> {
    let mut stream = TcpStream::connect((host, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(parse(&answer))
}

/// Parses the metrics with the names below; those of several queues or nodes are summed up.
fn parse(text: &str) -> Metrics {
    let mut metrics = Metrics::default();
    for line in text.lines() {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        let label = |name: &str| line.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split('"').next());
        let add = |sum: &mut Option<f64>| *sum = value.map(|value| sum.unwrap_or(0.0) + value).or(*sum);
        match name {
            "rabbitmq_io_sync_ops_total" => add(&mut metrics.syncs),
            "leveret_socket_reads_total" => add(&mut metrics.reads),
            "leveret_socket_writes_total" => add(&mut metrics.writes),
            "rabbitmq_global_messages_dead_lettered_maxlen_total" => add(&mut metrics.dropped),
            "leveret_sync_seconds_bucket" => {
                // Rust parses `+Inf` too.
                if let (Some(bound), Some(count)) = (label("le").and_then(|le| le.parse().ok()), value) {
                    metrics.sync_buckets.0.push((bound, count));
                }
            }
            "leveret_durability_info" => {
                metrics.durability = label("mode").map(str::to_owned);
            }
            _ => {}
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::{Metrics, SyncTimes, parse};

    #[test]
    fn syncs_and_durability_are_found() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# HELP rabbitmq_io_sync_ops_total 5\n\
                    rabbitmq_io_sync_ops_total 42\nleveret_durability_info{mode=\"synced\"} 1\n";
        let expected = Metrics { syncs: Some(42.0), durability: Some("synced".into()), ..Metrics::default() };
        assert_eq!(parse(text), expected);
        assert_eq!(parse("rabbitmq_io_write_ops_total 3\n"), Metrics::default());
    }

    #[test]
    fn reads_and_writes_are_found() {
        let metrics = parse("leveret_socket_reads_total 7\nleveret_socket_writes_total 5\n");
        assert_eq!((metrics.reads, metrics.writes), (Some(7.0), Some(5.0)));
    }

    #[test]
    fn dropped_messages_are_summed_up() {
        let text = "rabbitmq_global_messages_dead_lettered_maxlen_total{queue_type=\"a\"} 7\n\
                    rabbitmq_global_messages_dead_lettered_maxlen_total{queue_type=\"b\"} 5\n";
        assert_eq!(parse(text).dropped, Some(12.0));
    }

    #[test]
    fn earlier_syncs_do_not_count() {
        let text = |counts: [u32; 3]| {
            let bounds = ["0.000131072", "0.000262144", "+Inf"];
            let lines = bounds
                .iter()
                .zip(counts)
                .map(|(le, count)| format!("leveret_sync_seconds_bucket{{le=\"{le}\"}} {count}\n"));
            parse(&lines.collect::<String>()).sync_buckets
        };
        let times = text([50, 110, 120]).since(&text([40, 100, 110])).expect("buckets");
        assert_eq!(times.buckets, [(0.000_131_072, 10.0), (0.000_262_144, 0.0), (f64::INFINITY, 0.0)]);
        assert_eq!((times.percentile(50.0), times.percentile(100.0)), (Some(0.000_131_072), Some(0.000_131_072)));
        let fewer =
            parse("leveret_sync_seconds_bucket{le=\"0.000131072\"} 40\nleveret_sync_seconds_bucket{le=\"+Inf\"} 40\n");
        let times = text([50, 53, 53]).since(&fewer.sync_buckets).expect("buckets");
        assert_eq!(times.buckets, [(0.000_131_072, 10.0), (0.000_262_144, 3.0), (f64::INFINITY, 0.0)]);
        let times = text([98, 100, 100]).since(&text([0, 0, 0])).expect("buckets");
        assert_eq!((times.percentile(50.0), times.percentile(99.0)), (Some(0.000_131_072), Some(0.000_262_144)));
        assert_eq!(SyncTimes { buckets: vec![(1.0, 0.0)] }.percentile(50.0), None);
        assert_eq!(parse("").sync_buckets.since(&parse("").sync_buckets), None);
    }
}
