//! Histories of counters: of the node and of vhosts always, of other objects from the first request for them and as
//! long as they are requested.
//!
//! A sample holds every number that a response shows with a rate, so that every `..._details` has a history.

mod range;
mod ring;

use std::collections::HashMap;
use std::sync::Arc;

use leveret_broker::{Nanos, Now};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

pub(crate) use range::Ranges;
use ring::{BASIC, GLOBAL, Ring};

/// Most objects with a history on request; further ones have only current values.
const WATCHED_MAX: usize = 500;
/// Time without a request after which such a history is removed.
const WATCHED: Nanos = 600 * 1_000_000_000;
/// Parts of a response with numbers of their own.
const PARTS: [&str; 3] = ["message_stats", "queue_totals", "churn_rates"];
const DETAILS: &str = "_details";

/// An object that may have a history.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// `/api/overview`.
    Overview,
    /// `/api/nodes`.
    Node,
    /// A vhost.
    Vhost(Arc<str>),
    /// A queue, by vhost and name.
    Queue(Arc<str>, Arc<str>),
    /// An exchange, by vhost and name.
    Exchange(Arc<str>, Arc<str>),
    /// A connection by name.
    Connection(Arc<str>),
    /// A channel by the name of its connection and its number.
    Channel(Arc<str>, u16),
}

impl Subject {
    /// Whether its history is kept without requests.
    fn is_kept(&self) -> bool {
        matches!(self, Subject::Overview | Subject::Node | Subject::Vhost(_))
    }

    fn retention(&self) -> &'static [ring::Retention] {
        if matches!(self, Subject::Overview | Subject::Node) { GLOBAL } else { BASIC }
    }
}

struct Past {
    ring: Ring,
    looked: Nanos,
}

/// All histories. Samples have wall times.
#[derive(Default)]
pub(crate) struct Histories {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    pasts: HashMap<Subject, Past>,
    /// Number of histories that are kept on request.
    watched: usize,
}

impl Kept {
    fn retain(&mut self, mut stays: impl FnMut(&Subject, &Past) -> bool) {
        self.pasts.retain(|subject, past| stays(subject, past));
        self.watched = self.pasts.keys().filter(|subject| !subject.is_kept()).count();
    }
}

impl Histories {
    /// Adds a sample from a current response about this subject.
    pub(crate) fn add(&self, subject: Subject, body: &Value, now: Now) {
        let numbers = numbers(body);
        let mut kept = self.kept.lock();
        match kept.pasts.get_mut(&subject) {
            Some(past) => past.ring.add(now.wall_ms, &numbers),
            None if subject.is_kept() => {
                let past = Past::new(subject.retention(), now, &numbers);
                kept.pasts.insert(subject, past);
            }
            None => {}
        }
    }

    /// The subjects requested recently.
    pub(crate) fn watched(&self, now: Now) -> Vec<Subject> {
        let mut kept = self.kept.lock();
        kept.retain(|subject, past| subject.is_kept() || now.monotonic.saturating_sub(past.looked) < WATCHED);
        kept.pasts.keys().filter(|subject| !subject.is_kept()).cloned().collect()
    }

    /// Removes the histories of deleted objects.
    pub(crate) fn forget(&self, is_gone: impl Fn(&Subject) -> bool) {
        self.kept.lock().retain(|subject, _| !is_gone(subject));
    }

    /// Adds `samples`, `avg` and `avg_rate` next to the rates of a response. From now on the subject has a history.
    pub(crate) fn show(&self, subject: Subject, body: &mut Value, ranges: &Ranges, now: Now) {
        let numbers = numbers(body);
        let mut kept = self.kept.lock();
        let is_new = !kept.pasts.contains_key(&subject);
        let mut passing = None;
        let past = if is_new && !subject.is_kept() && kept.watched >= WATCHED_MAX {
            passing.insert(Past::new(BASIC, now, &numbers))
        } else {
            kept.watched += usize::from(is_new && !subject.is_kept());
            let retention = subject.retention();
            kept.pasts.entry(subject).or_insert_with(|| Past::new(retention, now, &numbers))
        };
        past.looked = now.monotonic;
        for (path, _) in &numbers {
            let Some(range) = ranges.for_path(path) else { continue };
            let samples = past.ring.samples(path, range, now.wall_ms);
            if let Some(details) = details(body, path) {
                add_samples(details, &samples);
            }
        }
    }
}

impl Past {
    fn new(retention: &[ring::Retention], now: Now, numbers: &[(String, u64)]) -> Self {
        Past { ring: Ring::new(retention, now.wall_ms, numbers), looked: now.monotonic }
    }
}

/// Every number with a rate, by its path.
fn numbers(body: &Value) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut add = |prefix: &str, object: &Map<String, Value>| {
        let named = object.keys().filter_map(|key| key.strip_suffix(DETAILS));
        let counted = named.filter_map(|name| Some((format!("{prefix}{name}"), object.get(name)?.as_u64()?)));
        found.extend(counted);
    };
    if let Some(object) = body.as_object() {
        add("", object);
        for part in PARTS {
            if let Some(inner) = object.get(part).and_then(Value::as_object) {
                add(&format!("{part}."), inner);
            }
        }
    }
    found
}

fn details<'a>(body: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    let (object, name) = match path.split_once('.') {
        Some((part, name)) => (body.get_mut(part)?, name),
        None => (body, path),
    };
    object.get_mut(format!("{name}{DETAILS}"))?.as_object_mut()
}

fn add_samples(details: &mut Map<String, Value>, samples: &[(u64, u64)]) {
    let (mut average, mut rate) = (0.0, 0.0);
    if let (Some((newest, last)), Some((oldest, first))) = (samples.first(), samples.last()) {
        average = samples.iter().map(|(_, value)| *value as f64).sum::<f64>() / samples.len() as f64;
        if newest > oldest {
            rate = (*last as f64 - *first as f64) / ((newest - oldest) as f64 / 1000.0);
        }
    }
    let shown: Vec<Value> = samples.iter().map(|(time, value)| json!({"sample": value, "timestamp": time})).collect();
    details.insert("samples".to_owned(), Value::Array(shown));
    details.insert("avg".to_owned(), json!(average));
    details.insert("avg_rate".to_owned(), json!(rate));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(messages: u64) -> Value {
        json!({
            "messages": messages,
            "messages_details": {"rate": 0.0},
            "message_stats": {"publish": messages * 2, "publish_details": {"rate": 1.0}},
            "memory": 5,
        })
    }

    fn ranges() -> Ranges {
        let pairs = ["lengths", "msg_rates"]
            .into_iter()
            .flat_map(|name| [(format!("{name}_age"), "60".to_owned()), (format!("{name}_incr"), "10".to_owned())]);
        Ranges::of(&pairs.collect()).expect("ranges")
    }

    fn moment(ms: u64) -> Now {
        Now { monotonic: ms * 1_000_000, wall_ms: ms }
    }

    fn queue(name: &str) -> Subject {
        Subject::Queue("/".into(), name.into())
    }

    #[test]
    fn an_object_has_a_history_from_the_first_request_on() {
        let histories = Histories::default();
        let start = 1_000_000_000;
        histories.add(queue("q"), &body(1), moment(start));
        assert!(histories.watched(moment(start)).is_empty());
        let mut shown = body(10);
        histories.show(queue("q"), &mut shown, &ranges(), moment(start));
        let samples = shown["messages_details"]["samples"].as_array().expect("a list");
        assert_eq!((samples.len(), &samples[0]), (7, &json!({"sample": 10, "timestamp": start})));
        assert!(samples.iter().all(|sample| sample["sample"] == 10));
        for at in 1..=4 {
            histories.add(queue("q"), &body(10 + at * 5), moment(start + at * 5000));
        }
        let mut shown = body(30);
        histories.show(queue("q"), &mut shown, &ranges(), moment(start + 20_000));
        let samples = &shown["messages_details"]["samples"];
        assert_eq!(samples[0], json!({"sample": 30, "timestamp": start + 20_000}));
        assert_eq!((samples[1]["sample"].as_u64(), samples[2]["sample"].as_u64()), (Some(20), Some(10)));
        // Over the whole minute, of which the first forty seconds are unknown.
        assert_eq!(shown["messages_details"]["avg"], 100.0 / 7.0);
        assert_eq!(shown["messages_details"]["avg_rate"], 20.0 / 60.0);
        assert_eq!(shown["message_stats"]["publish_details"]["avg_rate"], 40.0 / 60.0);
        assert_eq!(shown["message_stats"]["publish_details"]["rate"], 1.0);
        assert_eq!(histories.watched(moment(start + 30_000)), [queue("q")]);
        assert!(histories.watched(moment(start + 20_000 + WATCHED / 1_000_000)).is_empty());
    }

    #[test]
    fn a_vhost_always_has_a_history_and_objects_up_to_a_limit() {
        let histories = Histories::default();
        histories.add(Subject::Vhost("v".into()), &body(1), moment(1_000_000));
        for at in 0..=WATCHED_MAX {
            let mut shown = body(1);
            histories.show(queue(&at.to_string()), &mut shown, &ranges(), moment(1_000_000));
            assert_eq!(shown["messages_details"]["samples"].as_array().map(Vec::len), Some(7));
        }
        assert_eq!(histories.watched(moment(1_000_000)).len(), WATCHED_MAX);
        let mut shown = body(1);
        histories.show(Subject::Vhost("v".into()), &mut shown, &ranges(), moment(1_010_000));
        assert_eq!(shown["messages_details"]["samples"].as_array().map(Vec::len), Some(7));
        histories.forget(|subject| matches!(subject, Subject::Queue(..)));
        assert!(histories.watched(moment(1_000_000)).is_empty());
    }
}
