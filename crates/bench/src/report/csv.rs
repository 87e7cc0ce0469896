//! Results as CSV: a line per round; columns have the names of the fields in the JSON document.

use serde_json::Value;

use super::record::Results;

/// Fields of a round; a dot separates names of nested objects.
const COLUMNS: &[&str] = &[
    "scenario",
    "round",
    "target",
    "broker",
    "protocol",
    "durability",
    "void",
    "sent_per_second",
    "received_per_second",
    "rate_at_end",
    "messages_per_broker_cpu_second",
    "broker_cpu_seconds_per_million",
    "latency_us.p50",
    "latency_us.p75",
    "latency_us.p95",
    "latency_us.p99",
    "latency_us.p99.9",
    "latency_us.max",
    "confirm_latency_us.p50",
    "confirm_latency_us.p75",
    "confirm_latency_us.p95",
    "confirm_latency_us.p99",
    "confirm_latency_us.p99.9",
    "confirm_latency_us.max",
    "dropped",
    "resident_bytes",
    "resident_bytes_max",
    "resident_max_is_of_this_round",
    "syncs",
    "syncs_per_message",
    "sync_us.p50",
    "sync_us.p99",
    "sync_us.max",
    "reads_per_message",
    "writes_per_message",
    "calls_were_counted_by_perf",
    "publisher_cpu_ns_per_message",
    "consumer_cpu_ns_per_message",
    "connections",
    "sessions",
    "opened_per_second",
    "bytes_per_connection",
    "bytes_per_further_session",
    "idle_cores",
    "idle_seconds",
    "given_back",
    "given_back_90_percent_seconds",
    "heartbeat_seconds",
    "growth_by_further_session",
    "idle_wake_ups_per_second",
    "cores_without_connections",
    "wake_ups_per_second_without_connections",
    "sessions_open",
    "sessions_listed",
    "listing_seconds",
    "drop_seconds",
    "logins_while_dropping",
    "login_while_dropping_ms_p50",
    "login_while_dropping_ms_max",
    "extrapolated.connections",
    "extrapolated.bytes",
    "extrapolated.idle_cores",
    "load",
    "messages",
    "delivered",
    "queues",
    "publishers",
    "consumers",
    "rate",
    "max_length",
    "size",
    "confirm_window",
    "prefetch",
    "ack_every",
    "durable",
    "measured_at",
    "kernel",
    "cores",
    "cpu_model",
];

impl Results {
    /// CSV with a header line (RFC 4180, except for line ends). Unknown values are empty.
    pub(crate) fn csv(&self) -> String {
        let mut out = COLUMNS.join(",") + "\n";
        for record in &self.rounds {
            let record = serde_json::to_value(record).expect("every figure is a number, a text or null");
            let fields: Vec<String> = COLUMNS.iter().map(|column| field(&record, column)).collect();
            out += &(fields.join(",") + "\n");
        }
        out
    }
}

fn field(record: &Value, column: &str) -> String {
    let value = match column.split_once('.') {
        Some((object, name)) => &record[object][name],
        None => &record[column],
    };
    match value {
        Value::Null => String::new(),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// The text, quoted with doubled quotes if it contains separators.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn texts_are_quoted_where_they_must_be() {
        assert_eq!(quoted("plain text"), "plain text");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\"\nthen"), "\"say \"\"x\"\"\nthen\"");
    }

    #[test]
    fn every_figure_has_a_column_and_unknown_values_are_empty() {
        for record in [samples::load(), samples::idle(), samples::void()] {
            let value = serde_json::to_value(&record).expect("JSON");
            for (name, value) in value.as_object().expect("an object") {
                let names: Vec<String> = match value {
                    Value::Object(inner) => inner.keys().map(|inner| format!("{name}.{inner}")).collect(),
                    Value::Array(_) | Value::Null => vec![],
                    _ => vec![name.clone()],
                };
                for name in names {
                    assert!(COLUMNS.contains(&name.as_str()), "{name}");
                }
            }
        }
        let csv = Results { rounds: vec![samples::load()] }.csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].starts_with("row,1,A,Some 1,AMQP 1.0,synced,,1000.0,900.5,"), "{}", lines[1]);
        let void = Results { rounds: vec![samples::void()] }.csv();
        assert!(void.contains("\"1 lost, \"\"first\"\": <2>\",,,,"), "{void}");
    }
}
