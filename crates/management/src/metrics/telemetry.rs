//! Metrics about scrapes, as in RabbitMQ's client library: number, duration and size.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leveret_metrics::{CONTENT_TYPE, Kind, Name, Text};
use parking_lot::Mutex;

/// Counters of scrapes, for all endpoints.
#[derive(Clone, Default)]
pub(super) struct Scrapes {
    all: Arc<Mutex<HashMap<&'static str, Taken>>>,
}

#[derive(Clone, Copy, Default)]
struct Taken {
    count: u64,
    bytes: u64,
    took: Duration,
}

/// The scrapes of one endpoint.
pub(super) struct Telemetry {
    scrapes: Scrapes,
    registry: &'static str,
}

impl Scrapes {
    /// The counters of one endpoint, by RabbitMQ's name of it.
    pub(super) fn of(&self, registry: &'static str) -> Telemetry {
        Telemetry { scrapes: self.clone(), registry }
    }
}

/// Name, kind and help text.
pub(super) const FAMILIES: [(&str, Kind, &str); 2] = [
    ("telemetry_scrape_duration_seconds", Kind::Summary, "Scrape duration"),
    ("telemetry_scrape_size_bytes", Kind::Summary, "Scrape size, not encoded"),
];

/// Their labels.
pub(super) const LABELS: [&str; 2] = ["registry", "content_type"];

impl Telemetry {
    pub(super) fn add(&self, bytes: u64, took: Duration) {
        let mut all = self.scrapes.all.lock();
        let taken = all.entry(self.registry).or_default();
        taken.count += 1;
        taken.bytes += bytes;
        taken.took += took;
    }

    pub(super) fn write(&self, text: &mut Text) {
        let taken = self.scrapes.all.lock().get(self.registry).copied().unwrap_or_default();
        let labels = [(LABELS[0], self.registry), (LABELS[1], CONTENT_TYPE)];
        let [duration, size] = FAMILIES;
        text.family(Name("", duration.0), duration.1, duration.2);
        text.summary(Name("", duration.0), &labels, taken.count, taken.took.as_secs_f64());
        text.family(Name("", size.0), size.1, size.2);
        text.summary(Name("", size.0), &labels, taken.count, taken.bytes);
    }
}
