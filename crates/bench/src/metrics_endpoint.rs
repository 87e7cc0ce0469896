//! What a broker tells about itself in Prometheus text.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The part of the metrics that a report shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Metrics {
    /// Disk syncs since start.
    pub(crate) syncs: Option<f64>,
    /// How durable a confirmed message is.
    pub(crate) durability: Option<String>,
}

/// Longest answer that is read.
const ANSWER_MAX: u64 = 64 << 20;

pub(crate) fn scrape(host: &str, port: u16) -> std::io::Result<Metrics> {
    let mut stream = TcpStream::connect((host, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(
        format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(parse(&answer))
}

/// Takes the counters that end in `_syncs_total` and the label `durability` of any line.
fn parse(text: &str) -> Metrics {
    let mut metrics = Metrics::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        if name.ends_with("_syncs_total")
            && let Some(value) = line
                .rsplit(' ')
                .next()
                .and_then(|value| value.parse::<f64>().ok())
        {
            *metrics.syncs.get_or_insert(0.0) += value;
        }
        if metrics.durability.is_none()
            && let Some((_, rest)) = line.split_once("durability=\"")
        {
            metrics.durability = rest.split('"').next().map(str::to_owned);
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::{Metrics, parse};

    #[test]
    fn counters_are_summed_and_comments_skipped() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# HELP leveret_log_syncs_total 5\nleveret_log_syncs_total{wal=\"0\"} 40\n\
                    leveret_log_syncs_total{wal=\"1\"} 2\nleveret_build_info{durability=\"synced\"} 1\n";
        assert_eq!(
            parse(text),
            Metrics {
                syncs: Some(42.0),
                durability: Some("synced".into())
            }
        );
        assert_eq!(parse("rabbitmq_io_sync_total 3\n"), Metrics::default());
    }
}
