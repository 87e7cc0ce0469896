//! Rows of lists of several members: texts that are put into one order without a tree of each.

use std::cmp::Ordering;

use axum::body::Bytes;
use leveret_node::ForwardedResponse;
use serde_json::{Value, json};

use crate::json_scan::{JsonScan, ScannedValue};
use crate::list::Key;
use crate::stream::make_way;

/// Rows that are read or written before the thread yields.
const ROWS_AT_A_STRETCH: usize = 1024;

/// A row of a list, as its member sent it.
pub(crate) struct MergedRow {
    text: Bytes,
    name: Option<String>,
    vhost: Option<String>,
    key: Key,
}

impl MergedRow {
    /// The row as a tree.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// The vhost and name of its object; `None` if it has none.
    pub(crate) fn object(&self) -> Option<(&str, &str)> {
        Some((self.vhost.as_deref()?, self.name.as_deref()?))
    }

    /// The order of one node's list: rows with equal keys are ordered by vhost and name, whatever the direction.
    pub(crate) fn order(&self, other: &Self, reverse: bool) -> Ordering {
        let order = if reverse { other.key.order(&self.key) } else { self.key.order(&other.key) };
        order.then_with(|| (&self.vhost, &self.name).cmp(&(&other.vhost, &other.name)))
    }
}

/// The rows of one member.
#[derive(Default)]
pub(crate) struct MemberRows {
    pub(crate) rows: Vec<MergedRow>,
    pub(crate) total: u64,
    pub(crate) filtered: u64,
}

struct Reading<'a> {
    whole: &'a Bytes,
    text: &'a str,
    scan: JsonScan<'a>,
    /// The column of the order.
    sort: &'a str,
}

impl Reading<'_> {
    fn words(&self, value: ScannedValue) -> Option<String> {
        match value.is_plain_text {
            true => Some(value.bare(self.text).to_owned()),
            false => serde_json::from_str(self.text.get(value.start..value.end)?).ok(),
        }
    }

    fn rows(&mut self) -> Option<Vec<MergedRow>> {
        let mut rows = Vec::new();
        if !self.scan.takes(b'[') {
            return None;
        }
        if self.scan.takes(b']') {
            return Some(rows);
        }
        loop {
            rows.push(self.row()?);
            if rows.len() % ROWS_AT_A_STRETCH == 0 {
                make_way();
            }
            if !self.scan.goes_on(b']')? {
                return Some(rows);
            }
        }
    }

    fn row(&mut self) -> Option<MergedRow> {
        let first = self.sort.split('.').next().unwrap_or_default();
        let is_object = self.scan.peek()? == b'{';
        let start = self.scan.at();
        let (mut name, mut vhost, mut key) = (None, None, None);
        match is_object {
            // A row without any of the columns that were asked for is an empty list.
            false => _ = self.scan.value()?,
            true => {
                self.scan.takes(b'{');
                let mut goes_on = !self.scan.takes(b'}');
                while goes_on {
                    let field = self.scan.name()?.bare(self.text);
                    let value = self.scan.value()?;
                    match field {
                        "name" => name = self.words(value),
                        "vhost" => vhost = self.words(value),
                        _ => {}
                    }
                    if field == first {
                        key = Some(value);
                    }
                    goes_on = self.scan.goes_on(b'}')?;
                }
            }
        }
        let key = key.and_then(|value| serde_json::from_str::<Value>(self.text.get(value.start..value.end)?).ok());
        let key = Key::of(&json!({first: key}), self.sort);
        Some(MergedRow { text: self.whole.slice(start..self.scan.at()), name, vhost, key })
    }

    /// A list, or a page of one.
    fn part(&mut self) -> Option<MemberRows> {
        if self.scan.peek()? == b'[' {
            let rows = self.rows()?;
            let count = rows.len() as u64;
            return Some(MemberRows { rows, total: count, filtered: count });
        }
        let (mut rows, mut total, mut filtered) = (None, None, None);
        if !self.scan.takes(b'{') {
            return None;
        }
        let mut goes_on = !self.scan.takes(b'}');
        while goes_on {
            let field = self.scan.name()?.bare(self.text);
            if field == "items" {
                rows = Some(self.rows()?);
            } else {
                let value = self.scan.value()?;
                let number = || self.text.get(value.start..value.end)?.parse().ok();
                match field {
                    "total_count" => total = number(),
                    "filtered_count" => filtered = number(),
                    _ => {}
                }
            }
            goes_on = self.scan.goes_on(b'}')?;
        }
        Some(MemberRows { rows: rows?, total: total?, filtered: filtered? })
    }
}

impl MemberRows {
    /// The rows in a response, to be put into the order of a column. `None` if it is none.
    pub(crate) fn of(response: &ForwardedResponse, sort: &str) -> Option<MemberRows> {
        if response.status != 200 {
            return None;
        }
        let text = std::str::from_utf8(&response.body).ok()?;
        Reading { whole: &response.body, text, scan: JsonScan::new(text), sort }.part()
    }
}

/// Puts rows into the order of their column.
pub(crate) fn sort(rows: &mut [MergedRow], reverse: bool) {
    rows.sort_by(|row, other| row.order(other, reverse));
}

/// The rows as one list.
pub(crate) fn list<'a>(rows: impl Iterator<Item = &'a MergedRow> + Clone) -> Vec<u8> {
    let mut all = Vec::with_capacity(2 + rows.clone().map(|row| row.text.len() + 1).sum::<usize>());
    all.push(b'[');
    for (at, row) in rows.enumerate() {
        if at > 0 {
            all.push(b',');
        }
        if at % ROWS_AT_A_STRETCH == ROWS_AT_A_STRETCH - 1 {
            make_way();
        }
        all.extend_from_slice(&row.text);
    }
    all.push(b']');
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(status: u16, text: &str, sort: &str) -> Option<MemberRows> {
        let body = Bytes::copy_from_slice(text.as_bytes());
        MemberRows::of(&ForwardedResponse { status, headers: Vec::new(), body }, sort)
    }

    #[test]
    fn responses_are_lists_or_pages() {
        let page = part(200, r#"{"total_count": 9, "items": [{}, {}], "filtered_count": 5}"#, "name").expect("a page");
        assert_eq!((page.total, page.filtered, page.rows.len()), (9, 5, 2));
        assert_eq!(part(200, "[{}]", "name").expect("a list").total, 1);
        assert_eq!(part(200, "[]", "name").expect("a list").total, 0);
        for (status, text) in [(503, "[]"), (200, "{}"), (200, "no"), (200, "[{]"), (200, r#"{"items": []}"#)] {
            assert!(part(status, text, "name").is_none(), "{text}");
        }
    }

    #[test]
    fn rows_are_merged_by_their_keys_then_their_names() {
        let text = r#"[{"name":"b","a":{"n":1}}, {"a":{"n":2},"name":"c"} ,{"name":"a","vhost":"\u002f","a":{"n":1}},{"name":"d"},[]]"#;
        let names = |reverse| -> Vec<Option<String>> {
            let mut rows = part(200, text, "a.n").expect("a list").rows;
            sort(&mut rows, reverse);
            rows.iter().map(|row| row.name.clone()).collect()
        };
        let named = |names: [&str; 4]| names.map(|name| Some(name.to_owned()));
        assert_eq!(names(false)[1..], named(["d", "b", "a", "c"]));
        assert_eq!(names(true)[..3], named(["c", "b", "a", "d"])[..3]);
        let rows = part(200, text, "name").expect("a list").rows;
        assert_eq!((rows[2].object(), rows[0].object()), (Some(("/", "a")), None));
        assert_eq!(rows[0].value(), json!({"name": "b", "a": {"n": 1}}));
        let whole: Value = serde_json::from_slice(&list(rows.iter())).expect("a list");
        assert_eq!(whole, serde_json::from_str::<Value>(text).expect("a list"));
    }
}
