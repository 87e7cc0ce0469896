//! Figures as text and as JSON.

use std::fmt;
use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::process;
use crate::round::Outcome;
use crate::scenario::Protocol;

const PERCENTILES: [(&str, f64); 5] = [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Where it was measured.
pub(crate) struct Machine {
    kernel: String,
    cores: usize,
}

impl Machine {
    pub(crate) fn here() -> Self {
        Self { kernel: process::kernel(), cores: std::thread::available_parallelism().map_or(1, usize::from) }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}, {} cores shared by broker and load", self.kernel, self.cores)
    }
}

impl Outcome {
    fn sent_per_second(&self) -> Option<f64> {
        self.send_time.map(|time| self.messages as f64 / time.as_secs_f64())
    }

    fn received(&self) -> u64 {
        self.messages - self.dropped
    }

    fn received_per_second(&self) -> Option<f64> {
        self.receive_time.map(|time| self.received() as f64 / time.as_secs_f64())
    }

    fn broker_cpu_per_million(&self) -> Option<f64> {
        self.broker_cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.messages as f64)
    }

    fn messages_per_cpu_second(&self) -> Option<f64> {
        self.broker_cpu.map(|cpu| self.messages as f64 / cpu.as_secs_f64())
    }

    fn nanos_per_message(&self, cpu: Duration) -> f64 {
        cpu.as_nanos() as f64 / self.messages as f64
    }

    /// The round as a paragraph.
    pub(crate) fn text(&self, round: u32) -> String {
        let settings = &self.settings;
        let mut out = format!("\n{} round {round}: {}\n", self.name, self.broker);
        let mut line = |label: &str, value: String| {
            let _ = writeln!(out, "  {label:<18} {value}");
        };
        line("load", describe(settings));
        if let Some(rate) = self.sent_per_second() {
            line("sent", format!("{rate:.0} /s"));
        }
        if let Some(rate) = self.received_per_second() {
            line("received", format!("{rate:.0} /s, verified"));
        }
        if !self.latency.is_empty() {
            line("latency", percentiles_text(&self.latency));
        }
        if self.dropped > 0 {
            line("dropped", format!("{} by the queue's limit", self.dropped));
        }
        if !self.confirm_latency.is_empty() {
            line("confirm latency", percentiles_text(&self.confirm_latency));
        }
        if let (Some(cpu), Some(rate)) = (self.broker_cpu_per_million(), self.messages_per_cpu_second()) {
            line("broker CPU", format!("{cpu:.3} s per million, {rate:.0} messages per CPU-second"));
        }
        if let Some(memory) = self.memory {
            let whose = if self.peak_is_fresh { "" } else { " since its start" };
            line(
                "broker memory",
                format!("{} resident, peak {}{whose}", mebibytes(memory.resident), mebibytes(memory.resident_max)),
            );
        }
        line(
            "syncs per message",
            self.syncs.map_or("-".into(), |syncs| format!("{:.5} ({syncs:.0})", syncs / self.messages as f64)),
        );
        line("durability", self.durability.clone().unwrap_or_else(|| "-".into()));
        line(
            "generator CPU",
            format!(
                "publisher {:.0} ns, consumer {:.0} ns per message",
                self.nanos_per_message(self.publisher_cpu),
                self.nanos_per_message(self.consumer_cpu)
            ),
        );
        out.pop();
        out
    }

    fn json(&self, round: u32) -> Value {
        json!({
            "scenario": self.name,
            "round": round,
            "broker": self.broker,
            "messages": self.messages,
            "dropped": self.dropped,
            "queues": self.settings.queues,
            "publishers": self.settings.publishers,
            "consumers": self.settings.consumers,
            "rate": self.settings.rate,
            "max_length": self.settings.max_length,
            "size": self.settings.size,
            "confirm_window": self.settings.confirm_window,
            "prefetch": self.settings.prefetch,
            "ack_every": self.settings.ack_every,
            "durable": self.settings.durable,
            "sent_per_second": self.sent_per_second(),
            "received_per_second": self.received_per_second(),
            "latency_us": percentiles_json(&self.latency),
            "confirm_latency_us": percentiles_json(&self.confirm_latency),
            "broker_cpu_seconds_per_million": self.broker_cpu_per_million(),
            "messages_per_broker_cpu_second": self.messages_per_cpu_second(),
            "resident_bytes": self.memory.map(|memory| memory.resident),
            "resident_bytes_max": self.memory.map(|memory| memory.resident_max),
            "resident_max_is_of_this_round": self.peak_is_fresh,
            "syncs": self.syncs,
            "syncs_per_message": self.syncs.map(|syncs| syncs / self.messages as f64),
            "durability": self.durability,
            "publisher_cpu_ns_per_message": self.nanos_per_message(self.publisher_cpu),
            "consumer_cpu_ns_per_message": self.nanos_per_message(self.consumer_cpu),
        })
    }
}

fn describe(settings: &crate::scenario::Settings) -> String {
    let mut text = format!("{} x {} bytes", settings.messages(), settings.size);
    if let Some(rate) = settings.rate {
        let _ = write!(text, " at {rate} /s");
    }
    if (settings.publishers, settings.consumers, settings.queues) != (1, 1, 1) {
        let (publishers, consumers, queues) = (settings.publishers, settings.consumers, settings.queues);
        let _ = write!(text, ", {publishers} publishers, {consumers} consumers, {queues} queues");
    }
    if let Some(length) = settings.max_length {
        let _ = write!(text, ", at most {length} in a queue");
    }
    text += if settings.durable { ", persistent, durable queue" } else { ", transient, transient queue" };
    let prefetch = settings.prefetch;
    let _ = match (settings.protocol, settings.confirm_window) {
        (Protocol::Amqp091, 0) => write!(text, ", no confirms"),
        (Protocol::Amqp091, window) => write!(text, ", confirm window {window}"),
        (Protocol::Amqp10, 0) => write!(text, ", sent settled"),
        (Protocol::Amqp10, window) => write!(text, ", {window} unsettled at most"),
    };
    let _ = match (settings.protocol, settings.ack_every) {
        (Protocol::Amqp091, 0) => write!(text, ", automatic acks"),
        (Protocol::Amqp091, every) => write!(text, ", prefetch {prefetch}, acks every {every}"),
        (Protocol::Amqp10, 0) => write!(text, ", link credit {prefetch}, received settled"),
        (Protocol::Amqp10, every) => write!(text, ", link credit {prefetch}, accepted every {every}"),
    };
    text
}

/// Every round as one JSON document.
pub(crate) fn json(machine: &Machine, results: &[(u32, Outcome)], idle: Vec<Value>) -> Value {
    let rounds = results.iter().map(|(round, outcome)| outcome.json(*round));
    json!({
        "kernel": machine.kernel,
        "cores": machine.cores,
        "rounds": rounds.chain(idle).collect::<Vec<_>>(),
    })
}

/// Medians of each scenario and broker over the rounds.
pub(crate) fn summary(results: &[(u32, Outcome)]) -> String {
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for (_, outcome) in results {
        let group = (outcome.name.as_str(), outcome.broker.as_str());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let mut out = String::from("\nmedians\n");
    for (name, broker) in groups {
        let of = |figure: &dyn Fn(&Outcome) -> Option<f64>| {
            median(
                results
                    .iter()
                    .filter(|(_, outcome)| (outcome.name.as_str(), outcome.broker.as_str()) == (name, broker))
                    .filter_map(|(_, outcome)| figure(outcome))
                    .collect(),
            )
        };
        let rate = of(&|outcome| outcome.received_per_second().or(outcome.sent_per_second())).unwrap_or_default();
        let _ = write!(out, "  {name:<22} {broker:<40} {rate:>10.0} /s");
        if let Some(rate) = of(&Outcome::messages_per_cpu_second) {
            let _ = write!(out, "  {rate:>10.0} per broker CPU-second");
        }
        out.push('\n');
    }
    out.pop();
    out
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

fn percentiles_text(histogram: &Histogram<u64>) -> String {
    let mut text = String::new();
    for (name, percentile) in PERCENTILES {
        let _ = write!(text, "{name} {}, ", duration(histogram.value_at_percentile(percentile)));
    }
    text + &format!("max {}", duration(histogram.max()))
}

fn percentiles_json(histogram: &Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return Value::Null;
    }
    let mut values = serde_json::Map::new();
    for (name, percentile) in PERCENTILES {
        values.insert(name.into(), json!(histogram.value_at_percentile(percentile) as f64 / 1e3));
    }
    values.insert("max".into(), json!(histogram.max() as f64 / 1e3));
    values.into()
}

fn duration(nanos: u64) -> String {
    match nanos {
        0..1_000_000 => format!("{:.0} µs", nanos as f64 / 1e3),
        1_000_000..10_000_000_000 => format!("{:.2} ms", nanos as f64 / 1e6),
        _ => format!("{:.1} s", nanos as f64 / 1e9),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::{duration, median};

    #[test]
    fn figures_are_readable() {
        assert_eq!(duration(900), "1 µs");
        assert_eq!(duration(1_500_000), "1.50 ms");
        assert_eq!(duration(12_000_000_000), "12.0 s");
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
