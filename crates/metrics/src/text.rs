//! RabbitMQ's text format of metrics, which is Prometheus's text format 0.0.4.
//!
//! The crate `prometheus-client` isn't used because it writes OpenMetrics: other type lines, the suffix `_total`
//! removed and added again, `_info` families, and a registry that has to be built from every object before the first
//! byte can be sent. This module appends samples to a buffer that its owner can send and empty at any time.

use std::io::Write;

use crate::HistogramTotals;
use crate::histogram::upper_bound;

/// The `Content-Type` of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A counter, which only grows.
    Counter,
    /// A gauge, which goes up and down.
    Gauge,
    /// RabbitMQ declares no type.
    Untyped,
    /// Counts by upper bound, with the sum of the values.
    Histogram,
    /// A count with the sum of the values.
    Summary,
}

impl Kind {
    /// The name in the type line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Untyped => "untyped",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        }
    }
}

/// The value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample {
    /// An integer.
    Integer(u64),
    /// A fraction, such as seconds or shares.
    Float(f64),
}

impl From<u64> for Sample {
    fn from(value: u64) -> Self {
        Sample::Integer(value)
    }
}

impl From<f64> for Sample {
    fn from(value: f64) -> Self {
        Sample::Float(value)
    }
}

impl From<bool> for Sample {
    fn from(value: bool) -> Self {
        Sample::Integer(u64::from(value))
    }
}

/// Name and value of a label.
pub type Label<'a> = (&'static str, &'a str);

/// The name of a family: the endpoint's prefix, and the rest.
#[derive(Debug, Clone, Copy)]
pub struct Name<'a>(pub &'a str, pub &'a str);

/// Builds the text of families and their samples.
#[derive(Debug, Default)]
pub struct Text {
    out: Vec<u8>,
}

impl Text {
    /// The text written so far.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Begins a family, whose samples follow.
    pub fn family(&mut self, name: Name<'_>, kind: Kind, help: &str) {
        self.put("# TYPE ");
        self.name(name);
        self.put(" ");
        self.put(kind.name());
        self.put("\n# HELP ");
        self.name(name);
        self.put(" ");
        for byte in help.bytes() {
            match byte {
                b'\\' => self.put("\\\\"),
                b'\n' => self.put("\\n"),
                byte => self.out.push(byte),
            }
        }
        self.put("\n");
    }

    /// Writes a sample.
    pub fn sample(&mut self, name: Name<'_>, labels: &[Label<'_>], value: impl Into<Sample>) {
        self.suffixed(name, "", labels, None, value.into());
    }

    /// Writes the samples of a histogram. `up_to` has the inclusive bounds with the counts up to them, without the
    /// last one.
    pub fn histogram(
        &mut self,
        name: Name<'_>,
        labels: &[Label<'_>],
        up_to: impl Iterator<Item = (Sample, u64)>,
        count: u64,
        sum: impl Into<Sample>,
    ) {
        for (bound, count) in up_to {
            self.suffixed(name, "_bucket", labels, Some(bound), count.into());
        }
        self.suffixed(name, "_bucket", labels, Some(Sample::Float(f64::INFINITY)), count.into());
        self.suffixed(name, "_count", labels, None, count.into());
        self.suffixed(name, "_sum", labels, None, sum.into());
    }

    /// Writes a histogram by powers of two, whose unit is the `scale`th part of that in the family's name. Writes
    /// buckets up to the largest value seen; later scrapes may have more.
    pub fn powers_of_two(&mut self, name: Name<'_>, labels: &[Label<'_>], totals: &HistogramTotals, scale: f64) {
        let used = totals.buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let mut sum = 0;
        // The last bucket has no bound.
        let bounded = totals.buckets[..used.min(totals.buckets.len() - 1)].iter().enumerate();
        let up_to = bounded.map(|(at, count)| {
            sum += count;
            (Sample::Float(upper_bound(at) as f64 / scale), sum)
        });
        self.histogram(name, labels, up_to, totals.count(), totals.sum as f64 / scale);
    }

    /// Writes the samples of a summary without quantiles.
    pub fn summary(&mut self, name: Name<'_>, labels: &[Label<'_>], count: u64, sum: impl Into<Sample>) {
        self.suffixed(name, "_count", labels, None, count.into());
        self.suffixed(name, "_sum", labels, None, sum.into());
    }

    fn suffixed(&mut self, name: Name<'_>, suffix: &str, labels: &[Label<'_>], bound: Option<Sample>, value: Sample) {
        self.name(name);
        self.put(suffix);
        let mut separator = "{";
        for (label, value) in labels {
            self.put(separator);
            self.put(label);
            self.put("=\"");
            self.escaped(value);
            self.put("\"");
            separator = ",";
        }
        if let Some(bound) = bound {
            self.put(separator);
            self.put("le=\"");
            self.value(bound);
            self.put("\"}");
        } else if !labels.is_empty() {
            self.put("}");
        }
        self.put(" ");
        self.value(value);
        self.put("\n");
    }

    fn name(&mut self, Name(prefix, name): Name<'_>) {
        self.put(prefix);
        self.put(name);
    }

    fn escaped(&mut self, value: &str) {
        for byte in value.bytes() {
            match byte {
                b'\\' => self.put("\\\\"),
                b'"' => self.put("\\\""),
                b'\n' => self.put("\\n"),
                byte => self.out.push(byte),
            }
        }
    }

    fn value(&mut self, value: Sample) {
        match value {
            Sample::Integer(value) => write!(self.out, "{value}"),
            Sample::Float(value) if value == f64::INFINITY => write!(self.out, "+Inf"),
            Sample::Float(value) => write!(self.out, "{value}"),
        }
        .expect("a buffer takes everything");
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Histogram, SizeHistogram, SizeTotals, Sizes};

    fn written(write: impl FnOnce(&mut Text)) -> String {
        let mut text = Text::default();
        write(&mut text);
        String::from_utf8(std::mem::take(text.bytes())).expect("is UTF-8")
    }

    #[test]
    fn a_family_is_its_type_its_meaning_and_its_samples() {
        let name = Name("rabbitmq_", "queue_messages");
        let text = written(|text| {
            text.family(name, Kind::Gauge, "Sum of\nall");
            text.sample(name, &[("vhost", "/"), ("queue", "a\\\"b\n")], 5);
            text.sample(name, &[], 0.25);
        });
        let wanted = "# TYPE rabbitmq_queue_messages gauge\n\
                      # HELP rabbitmq_queue_messages Sum of\\nall\n\
                      rabbitmq_queue_messages{vhost=\"/\",queue=\"a\\\\\\\"b\\n\"} 5\n\
                      rabbitmq_queue_messages 0.25\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_all() {
        let (mut sizes, histogram) = (Sizes::default(), SizeHistogram::default());
        [5, 500, 200_000_000].into_iter().for_each(|bytes| sizes.count(bytes));
        histogram.take(&mut sizes);
        let mut totals = SizeTotals::default();
        totals.add(&histogram);
        let text = written(|text| {
            let up_to = totals.up_to().map(|(bound, count)| (bound.into(), count));
            text.histogram(Name("", "size"), &[("protocol", "amqp10")], up_to, totals.messages(), totals.bytes());
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 11);
        assert_eq!(lines[0], "size_bucket{protocol=\"amqp10\",le=\"100\"} 1");
        assert_eq!(lines[7], "size_bucket{protocol=\"amqp10\",le=\"100000000\"} 2");
        assert_eq!(lines[8], "size_bucket{protocol=\"amqp10\",le=\"+Inf\"} 3");
        assert_eq!(lines[9..], ["size_count{protocol=\"amqp10\"} 3", "size_sum{protocol=\"amqp10\"} 200000505"]);
    }

    #[test]
    fn powers_of_two_are_shown_up_to_the_largest_value() {
        let histogram = Histogram::default();
        histogram.record_many(60, 3);
        let text = written(|text| text.powers_of_two(Name("", "t"), &[], &histogram.totals(), 1e6));
        assert_eq!(text.lines().count(), 10);
        for line in
            ["t_bucket{le=\"0.000032\"} 0", "t_bucket{le=\"0.000064\"} 3", "t_bucket{le=\"+Inf\"} 3", "t_sum 0.00018"]
        {
            assert!(text.lines().any(|have| have == line), "{line} is missing in {text}");
        }
    }
}
