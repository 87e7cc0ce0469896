//! The requested range of a history: `lengths_age`, `lengths_incr` and similar parameters, in seconds.

use std::collections::HashMap;

/// Most samples in a response.
const SAMPLES_MAX: u64 = 2000;

/// Age and step of a range, both in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(super) age: u64,
    pub(super) step: u64,
}

/// The requested range of each kind of number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    lengths: Option<Range>,
    messages: Option<Range>,
    data: Option<Range>,
    node: Option<Range>,
}

impl Ranges {
    /// The ranges requested by a query; `None` if there are none. A pair that isn't two numbers is ignored, as in
    /// RabbitMQ.
    pub(crate) fn of(query: &HashMap<String, String>) -> Option<Self> {
        let seconds = |name: &str, end: &str| query.get(&format!("{name}_{end}"))?.parse::<u64>().ok();
        let range = |name: &str| {
            let (age, step) = (seconds(name, "age")?, seconds(name, "incr")?.max(1));
            Some(Range {
                age: age.min(step.saturating_mul(SAMPLES_MAX)).saturating_mul(1000),
                step: step.saturating_mul(1000),
            })
        };
        let all = Ranges {
            lengths: range("lengths"),
            messages: range("msg_rates"),
            data: range("data_rates"),
            node: range("node_stats"),
        };
        (all != Ranges::default()).then_some(all)
    }

    /// The requested range of the number with this path.
    pub(super) fn for_path(&self, path: &str) -> Option<Range> {
        match path.split_once('.') {
            Some(("message_stats", _)) => self.messages,
            Some(("queue_totals", _)) => self.lengths,
            None if path.starts_with("messages") => self.lengths,
            None if path == "recv_oct" || path == "send_oct" => self.data,
            _ => self.node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Option<Ranges> {
        Ranges::of(&pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_range_takes_two_numbers() {
        assert_eq!(of(&[("lengths_age", "60")]), None);
        assert_eq!(of(&[("lengths_age", "60"), ("lengths_incr", "x")]), None);
        let ranges = of(&[("lengths_age", "60"), ("lengths_incr", "5")]).expect("a range");
        let range = Some(Range { age: 60_000, step: 5000 });
        assert_eq!(ranges.for_path("messages_ready"), range);
        assert_eq!(ranges.for_path("queue_totals.messages"), range);
        for other in ["message_stats.publish", "recv_oct", "mem_used", "churn_rates.queue_created"] {
            assert_eq!(ranges.for_path(other), None);
        }
    }

    #[test]
    fn there_are_never_more_samples_than_the_limit() {
        for (age, incr) in [("999999999999", "1"), ("18446744073709551615", "18446744073709551615"), ("5", "0")] {
            let ranges = of(&[("msg_rates_age", age), ("msg_rates_incr", incr)]).expect("a range");
            let range = ranges.for_path("message_stats.ack").expect("is asked for");
            assert!(range.step > 0 && range.age / range.step <= SAMPLES_MAX);
        }
    }
}
