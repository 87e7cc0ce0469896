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
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(parse(&answer))
}

/// Takes `rabbitmq_io_sync_ops_total` and the label of `leveret_durability_info`.
fn parse(text: &str) -> Metrics {
    let mut metrics = Metrics::default();
    for line in text.lines() {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        match name {
            "rabbitmq_io_sync_ops_total" => {
                if let Some(value) = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()) {
                    *metrics.syncs.get_or_insert(0.0) += value;
                }
            }
            "leveret_durability_info" => {
                metrics.durability =
                    line.split_once("mode=\"").and_then(|(_, rest)| rest.split('"').next()).map(str::to_owned);
            }
            _ => {}
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::{Metrics, parse};

    #[test]
    fn syncs_and_durability_are_found() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# HELP rabbitmq_io_sync_ops_total 5\n\
                    rabbitmq_io_sync_ops_total 42\nleveret_durability_info{mode=\"synced\"} 1\n";
        assert_eq!(parse(text), Metrics { syncs: Some(42.0), durability: Some("synced".into()) });
        assert_eq!(parse("rabbitmq_io_write_ops_total 3\n"), Metrics::default());
    }
}
