//! What a node counts: integers that only their core writes, histograms by powers of two, and the
//! Prometheus text made of them when somebody scrapes.
//!
//! Names are RabbitMQ's where the meaning is, and begin with `leveret_` where it is our own; a family
//! without meaning here is absent.
//!
//! This crate must not know what it counts: no queue, connection or log, and no clock.

mod counters;
mod histogram;
mod prometheus;
mod rates;

pub use counters::{Counter, Counters, Totals};
pub use histogram::{BUCKETS, Histogram, HistogramTotals};
pub use prometheus::{ByDurability, CONTENT_TYPE, Gauges, Scrape, Segments, encode};
pub use rates::Rates;
