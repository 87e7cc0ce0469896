//! All families by name, type and labels, compared with RabbitMQ's. Each difference is a line of
//! tests/golden/http/metrics-differences.tsv with its reason.

use std::collections::{BTreeMap, BTreeSet};

use leveret_strict_client::amqp091::Event;

use super::{page, traffic};
use crate::stage::HttpStage;

const RECORDED: &str = include_str!("../../../../../tests/golden/http/metrics.tsv");
const DIFFERENCES: &str = include_str!("../../../../../tests/golden/http/metrics-differences.tsv");

/// The query with which `/metrics/detailed` was recorded.
const DETAILED: &str = "?family=queue_coarse_metrics&family=queue_metrics&family=channel_metrics\
                        &family=connection_metrics&family=exchange_metrics";

/// Type and labels.
type Shape = (String, BTreeSet<String>);

/// The families of a page.
fn families(text: &str) -> BTreeMap<String, Shape> {
    let mut found: BTreeMap<String, Shape> = BTreeMap::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').expect(line);
            let is_new = found.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new())).is_none();
            assert!(is_new, "{name} is there twice");
        } else if !line.starts_with('#') {
            let (name, rest) = line.split_at(line.find(['{', ' ']).expect(line));
            let short = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let family = if found.contains_key(name) { name } else { short.expect(line) };
            let labels = rest.rsplit_once('}').map_or("", |(labels, _)| labels.trim_start_matches('{'));
            let names =
                labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(name, _)| name.to_owned());
            found.get_mut(family).expect("its type comes first").1.extend(names);
        }
    }
    found
}

/// The difference of a family from the recording, if any.
fn difference(ours: Option<&Shape>, kind: &str, labels: &BTreeSet<String>) -> Option<String> {
    let Some((our_kind, our_labels)) = ours else { return Some("absent".to_owned()) };
    let list = |labels: &BTreeSet<String>| labels.iter().map(String::as_str).collect::<Vec<_>>().join(",");
    match () {
        () if our_kind != kind => Some(format!("type {our_kind}")),
        () if our_labels != labels => Some(format!("labels {}", list(our_labels))),
        () => None,
    }
}

/// A line of the list, and whether it was used.
struct Known {
    page: &'static str,
    family: &'static str,
    difference: &'static str,
    used: bool,
}

impl Known {
    fn all() -> Vec<Known> {
        let lines = DIFFERENCES.lines().filter(|line| !line.starts_with('#'));
        let parsed = lines.map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [page, family, difference, reason] = fields[..] else { panic!("four fields: {line}") };
            assert!(!reason.trim().is_empty(), "a reason: {line}");
            let is_erlangs = ["erlang", "reductions"].iter().any(|word| family.contains(word));
            assert!(!family.contains('*') || is_erlangs, "only Erlang's internals may be a pattern: {line}");
            Known { page, family, difference, used: false }
        });
        parsed.collect()
    }

    fn covers(&self, page: &str, family: &str, difference: &str) -> bool {
        let fits = match self.family.split_once('*') {
            Some((head, tail)) => family.starts_with(head) && family.ends_with(tail),
            None => family == self.family,
        };
        self.page == page && fits && self.difference == difference
    }
}

#[test]
fn families_are_the_recorded_ones() {
    let stage = HttpStage::new();
    let mut amqp = traffic(&stage);
    // Channels are counted by queue from the first message that they get of it.
    amqp.client.get(1, b"q", true);
    amqp.until(|event| matches!(event, Event::Got { .. }));
    let mut known = Known::all();
    let mut unknown = Vec::new();
    let mut pages: BTreeMap<&str, BTreeMap<String, Shape>> = BTreeMap::new();
    let mut recorded: BTreeSet<(&str, &str)> = BTreeSet::new();
    for line in RECORDED.lines() {
        let [path, family, kind, labels] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let ours = pages.entry(path).or_insert_with(|| {
            let query = if path.ends_with("/detailed") { DETAILED } else { "" };
            families(&page(&stage, &format!("{path}{query}")))
        });
        recorded.insert((path, family));
        let labels = labels.split(',').filter(|label| !label.is_empty()).map(str::to_owned).collect();
        let Some(difference) = difference(ours.get(family), kind, &labels) else { continue };
        match known.iter_mut().find(|known| known.covers(path, family, &difference)) {
            Some(known) => known.used = true,
            None => unknown.push(format!("{path}\t{family}\t{difference}")),
        }
    }
    for (path, ours) in &pages {
        let new = ours.keys().filter(|name| !name.starts_with("leveret_") && !recorded.contains(&(*path, &***name)));
        unknown.extend(new.map(|name| format!("{path}\t{name}\tnot in RabbitMQ")));
    }
    assert_eq!(pages.len(), 4);
    assert!(unknown.is_empty(), "{} differences without a line:\n{}", unknown.len(), unknown.join("\n"));
    let unused: Vec<_> = known.iter().filter(|known| !known.used).map(|known| (known.page, known.family)).collect();
    assert!(unused.is_empty(), "lines that aren't needed: {unused:?}");
    drop(amqp);
    stage.node.stop("test");
}
