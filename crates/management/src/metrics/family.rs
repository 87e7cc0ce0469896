//! The table of families: name, meaning and the source of values. The text of metrics and the documentation are
//! generated from it.

use std::sync::Arc;

use leveret_metrics::{Kind, Label, Name, Sample, Text};

use super::node::Node;
use super::page::{Chapter, PIECE_BYTES};

/// A family for one kind of objects.
pub(super) struct Family<R: 'static> {
    /// Its name without the endpoint's prefix.
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    /// The value for all objects together; `None` if it would be meaningless.
    pub total: Option<fn(&Node) -> Sample>,
    /// The value for one object, if it has one; no function if it isn't known per object.
    pub each: Option<fn(&R) -> Option<Sample>>,
}

/// Families requested together on `/metrics/detailed`, with RabbitMQ's name.
pub(super) struct Group<R: 'static> {
    pub name: &'static str,
    /// The names of an object's labels.
    pub labels: &'static [&'static str],
    /// The values of these labels.
    pub label: fn(&R) -> Vec<&str>,
    pub families: &'static [Family<R>],
}

impl<R> Family<R> {
    /// A family with values for all together and for each.
    pub(super) const fn both(
        name: &'static str,
        kind: Kind,
        help: &'static str,
        total: fn(&Node) -> Sample,
        each: fn(&R) -> Option<Sample>,
    ) -> Self {
        Family { name, kind, help, total: Some(total), each: Some(each) }
    }

    /// A family with a value for all together only.
    pub(super) const fn total(name: &'static str, kind: Kind, help: &'static str, total: fn(&Node) -> Sample) -> Self {
        Family { name, kind, help, total: Some(total), each: None }
    }

    /// A family with values for each only, or meaningless for all together.
    pub(super) const fn each(
        name: &'static str,
        kind: Kind,
        help: &'static str,
        each: fn(&R) -> Option<Sample>,
    ) -> Self {
        Family { name, kind, help, total: None, each: Some(each) }
    }
}

impl<R> Group<R> {
    /// Writes one sample for each family, for all objects together.
    pub(super) fn totals(&self, prefix: &str, node: &Node, text: &mut Text) {
        for family in self.families {
            if let Some(total) = family.total {
                let name = Name(prefix, family.name);
                text.family(name, family.kind, family.help);
                text.sample(name, &[], total(node));
            }
        }
    }
}

impl<R: Send + Sync + 'static> Group<R> {
    /// Writes a sample for each family and object, a piece at a time.
    pub(super) fn objects(&'static self, prefix: &'static str, rows: Arc<Vec<R>>) -> Chapter {
        self.objects_behind(prefix, |_, _, _| (), rows)
    }

    /// The same behind samples of something else, which `others` writes for the name of a family.
    pub(super) fn objects_behind(
        &'static self,
        prefix: &'static str,
        others: impl Fn(&str, Name<'_>, &mut Text) + Send + 'static,
        rows: Arc<Vec<R>>,
    ) -> Chapter {
        let (mut family, mut row) = (0, 0);
        Box::new(move |text: &mut Text| {
            while let Some(Family { name: plain, kind, help, each, .. }) = self.families.get(family) {
                let Some(each) = each else {
                    family += 1;
                    continue;
                };
                let name = Name(prefix, plain);
                if row == 0 {
                    text.family(name, *kind, help);
                    others(plain, name, text);
                }
                while let Some(object) = rows.get(row) {
                    row += 1;
                    if let Some(value) = each(object) {
                        let values = (self.label)(object);
                        let labels: Vec<Label<'_>> = self.labels.iter().copied().zip(values).collect();
                        text.sample(name, &labels, value);
                    }
                    if text.bytes().len() >= PIECE_BYTES {
                        return false;
                    }
                }
                family += 1;
                row = 0;
            }
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use leveret_metrics::Kind::Gauge;

    use super::*;

    static NUMBERS: Group<u64> = Group {
        name: "numbers",
        labels: &["number"],
        label: |number| vec![if number % 2 == 0 { "even" } else { "odd" }],
        families: &[
            Family::total("absent", Gauge, "Of all together only", |_| 0u64.into()),
            Family::each("value", Gauge, "What it is", |number| (*number != 1).then(|| (*number).into())),
            Family::each("none", Gauge, "Nobody has it", |_| None),
        ],
    };

    #[test]
    fn a_long_page_comes_in_pieces_and_has_everything_once() {
        let rows: Vec<u64> = (0..20_000).collect();
        let mut chapter = NUMBERS.objects("p_", Arc::new(rows));
        let (mut whole, mut pieces) = (String::new(), 0);
        loop {
            let mut text = Text::default();
            let is_last = chapter(&mut text);
            assert!(text.bytes().len() < PIECE_BYTES + 200);
            whole.push_str(std::str::from_utf8(text.bytes()).expect("is UTF-8"));
            pieces += 1;
            if is_last {
                break;
            }
        }
        assert!(pieces > 10, "{pieces} pieces");
        let samples: Vec<&str> = whole.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(samples.len(), 19_999);
        assert_eq!(samples[..2], ["p_value{number=\"even\"} 0", "p_value{number=\"even\"} 2"]);
        assert_eq!(samples.last(), Some(&"p_value{number=\"odd\"} 19999"));
        assert_eq!(whole.matches("# TYPE").count(), 2);
        assert!(!whole.contains("absent") && whole.contains("# TYPE p_none gauge"));
    }
}
