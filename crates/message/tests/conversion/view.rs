//! Delivered messages as lines of text: one per field, header, annotation and property, maps in order of their keys.

use std::fmt::Write;

use leveret_amqp10::message::{BodyRef, Sections};
use leveret_amqp10::{MapRef, OwnedValue};
use leveret_amqp091::{Properties, Value};

pub(crate) fn amqp091(raw: &[u8], body: &[u8]) -> String {
    let properties = Properties::decode(raw).unwrap();
    let mut out = String::new();
    let mut headers: Vec<_> = properties
        .headers
        .iter()
        .flat_map(leveret_amqp091::Table::iter)
        .map(|(key, value)| format!("header {:?}: {}", String::from_utf8_lossy(key.as_bytes()), show(value)))
        .collect();
    headers.sort();
    headers.iter().for_each(|line| writeln!(out, "{line}").unwrap());
    for line in format!("{:#?}", Properties { headers: None, ..properties }).replace("Some(\n        ", "Some(").lines()
    {
        if line.contains("Some(") {
            writeln!(out, "{}", line.trim()).unwrap();
        }
    }
    writeln!(out, "body: {:?}", String::from_utf8_lossy(body)).unwrap();
    out
}

pub(crate) fn amqp10(payload: &[u8]) -> String {
    let sections = match Sections::parse(payload) {
        Ok(sections) => sections,
        Err(error) => return format!("malformed: {error}"),
    };
    let mut out = String::new();
    let header = sections.header.unwrap();
    writeln!(out, "durable: {:?}\npriority: {:?}\nttl: {:?}", header.durable, header.priority, header.ttl).unwrap();
    writeln!(out, "first-acquirer: {}\ndelivery-count: {}", header.first_acquirer, header.delivery_count).unwrap();
    map(&mut out, "annotation", sections.message_annotations);
    for line in format!("{:#?}", sections.properties.unwrap_or_default()).replace("Some(\n        ", "Some(").lines() {
        if line.contains("Some(") {
            writeln!(out, "{}", line.trim()).unwrap();
        }
    }
    map(&mut out, "property", sections.application_properties);
    match sections.body {
        BodyRef::Data(data) => {
            data.iter().for_each(|bytes| writeln!(out, "data: {:?}", String::from_utf8_lossy(bytes)).unwrap())
        }
        BodyRef::Sequence(lists) => {
            for list in lists {
                let Ok(leveret_amqp10::Value::List(list)) = list.decode() else { panic!("a list: {list:?}") };
                writeln!(out, "sequence: {:?}", list.iter().map(OwnedValue::from).collect::<Vec<_>>()).unwrap();
            }
        }
        BodyRef::Value(value) => writeln!(out, "value: {:?}", OwnedValue::from(value.decode().unwrap())).unwrap(),
        BodyRef::None => writeln!(out, "no body").unwrap(),
    }
    map(&mut out, "footer", sections.footer);
    out
}

fn map(out: &mut String, what: &str, map: Option<MapRef<'_>>) {
    let pairs = map.into_iter().flatten();
    let mut lines: Vec<_> =
        pairs.map(|(key, value)| format!("{what} {key:?}: {:?}", OwnedValue::from(value))).collect();
    lines.sort();
    lines.iter().for_each(|line| writeln!(out, "{line}").unwrap());
}

fn show(value: Value<'_>) -> String {
    match value {
        Value::LongString(text) => format!("{:?}", String::from_utf8_lossy(text)),
        Value::Array(array) => format!("{:?}", array.iter().map(show).collect::<Vec<_>>()),
        Value::Table(table) => {
            let key = |key: leveret_amqp091::ShortStr<'_>| String::from_utf8_lossy(key.as_bytes()).into_owned();
            let mut pairs: Vec<_> =
                table.iter().map(|(name, value)| format!("{}: {}", key(name), show(value))).collect();
            pairs.sort();
            format!("{{{}}}", pairs.join(", "))
        }
        value => format!("{value:?}"),
    }
}

/// When a recorded dead letter died, in milliseconds since the Unix epoch.
pub(crate) fn time_of_death(view: &str) -> Option<u64> {
    let after = |start: &str, mark: &str| {
        let line = view.lines().find(|line| line.starts_with(start))?;
        let after = line.split_once(mark)?.1;
        let digits: String =
            after.chars().skip_while(|char| !char.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    let seconds = || after("header \"x-death\"", "time: Timestamp").map(|seconds| seconds * 1000);
    after("annotation Symbol(:x-opt-deaths)", "first-time").or_else(seconds)
}

/// Times after 2023-11-14 22:13:20, in seconds or milliseconds, are when the message came or went: `NOW`.
pub(crate) fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, after) = rest.split_at(at);
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(end);
        let is_now = matches!(digits.len(), 10 | 13) && digits >= "17";
        out.extend([before, if is_now { "NOW" } else { digits }]);
        rest = after;
    }
    out + rest
}
