//! Metrics of a node: integers that only their core writes, histograms by powers of two, and the Prometheus text that
//! a scrape gets.
//!
//! This crate must not know what is counted: no queue, connection or log, and no clock.

mod counters;
mod histogram;
mod rates;
mod sizes;
mod text;

pub use counters::{CountedQueue, Counter, Counters, LocalCounter, LocalCounters, Totals};
pub use histogram::{BUCKETS, Histogram, HistogramTotals};
pub use rates::Rates;
pub use sizes::{SIZE_BOUNDS, SizeHistogram, SizeTotals, Sizes};
pub use text::{CONTENT_TYPE, Kind, Label, Name, Sample, Text};
