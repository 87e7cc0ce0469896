//! The history of a message's deaths as receivers see it.

use leveret_amqp10::{MapRef, Symbol, Value};
use leveret_amqp091::{FieldTable, FieldValue};

use super::headers::Pairs;
use super::map_writer::{Compound, MapWriter};
use super::types::text;
use crate::annotations::{X_DEATH, X_OPT_DEATHS};
use crate::deaths::{Death, Deaths};

const FIRST_REASON: &str = "x-first-death-reason";
const FIRST_QUEUE: &str = "x-first-death-queue";
const FIRST_EXCHANGE: &str = "x-first-death-exchange";
const LAST_REASON: &str = "x-last-death-reason";
const LAST_QUEUE: &str = "x-last-death-queue";
const LAST_EXCHANGE: &str = "x-last-death-exchange";
const SUMMARY: [&str; 6] = [FIRST_REASON, FIRST_QUEUE, FIRST_EXCHANGE, LAST_REASON, LAST_QUEUE, LAST_EXCHANGE];

/// True for the names that a history takes, whatever the publisher had there.
pub(super) fn is_name(name: &str) -> bool {
    name == X_OPT_DEATHS || SUMMARY.contains(&name)
}

/// One of the headers that name first and last death.
pub(crate) fn header<'a>(deaths: &Deaths<'a>, name: &str) -> Option<&'a [u8]> {
    if !SUMMARY.contains(&name) {
        return None;
    }
    let first = || deaths.iter().find(|death| death.is_first);
    let last = || deaths.iter().next();
    match name {
        FIRST_REASON => first().map(|death| death.reason.as_str().as_bytes()),
        FIRST_QUEUE => first().map(|death| death.queue),
        FIRST_EXCHANGE => first().map(|death| death.exchange),
        LAST_REASON => last().map(|death| death.reason.as_str().as_bytes()),
        LAST_QUEUE => last().map(|death| death.queue),
        _ => Some(deaths.last_exchange()),
    }
}

/// `x-death` and the headers that name first and last death.
pub(super) fn add_headers(deaths: &Deaths<'_>, pairs: &mut Pairs) {
    for name in SUMMARY {
        if let Some(text) = header(deaths, name) {
            pairs.push(name.as_bytes(), FieldValue::LongString(text.to_vec()));
        }
    }
    let tables = deaths.iter().map(|death| FieldValue::Table(table(&death))).collect();
    pairs.push(X_DEATH.as_bytes(), FieldValue::Array(tables));
}

fn table(death: &Death<'_>) -> FieldTable {
    let text = |bytes: &[u8]| FieldValue::LongString(bytes.to_vec());
    let mut table = FieldTable::new();
    if let Some(ttl) = death.ttl_ms {
        table.insert("original-expiration", ttl.to_string());
    }
    table
        .insert("count", i64::try_from(death.count).unwrap_or(i64::MAX))
        .insert("reason", death.reason.as_str())
        .insert("queue", text(death.queue))
        .insert("time", FieldValue::Timestamp(death.first_ms / 1000))
        .insert("exchange", text(death.exchange))
        .insert("routing-keys", FieldValue::Array(death.routing_keys().map(text).collect()));
    table
}

/// A publisher's `x-opt-deaths` of another broker as `x-death`, if it has that form.
pub(super) fn from_annotation(value: Value<'_>) -> Option<FieldValue> {
    let Value::Array(array) = value else { return None };
    let tables = array.iter().map(|item| match item {
        Value::Map(map) => foreign_table(map).map(FieldValue::Table),
        _ => None,
    });
    tables.collect::<Option<Vec<_>>>().map(FieldValue::Array)
}

fn foreign_table(map: MapRef<'_>) -> Option<FieldTable> {
    let mut table = FieldTable::new();
    if let Some(Value::Uint(ttl)) = map.lookup("ttl") {
        table.insert("original-expiration", ttl.to_string());
    }
    let Value::Timestamp(first_ms) = map.lookup("first-time")? else { return None };
    let Value::Array(keys) = map.lookup("routing-keys")? else { return None };
    let keys = keys.iter().map(|key| Some(FieldValue::from(key.as_text()?))).collect::<Option<Vec<_>>>()?;
    table
        .insert("count", i64::try_from(map.lookup("count")?.as_u64()?).ok()?)
        .insert("reason", map.lookup("reason")?.as_text()?)
        .insert("queue", map.lookup("queue")?.as_text()?)
        .insert("time", FieldValue::Timestamp(u64::try_from(first_ms / 1000).ok()?))
        .insert("exchange", map.lookup("exchange")?.as_text()?)
        .insert("routing-keys", FieldValue::Array(keys));
    Some(table)
}

/// `x-opt-deaths` and the annotations that name first and last death.
pub(super) fn add_annotations(deaths: &Deaths<'_>, out: &mut Vec<u8>, map: &mut MapWriter) {
    for name in SUMMARY {
        if let Some(bytes) = header(deaths, name) {
            map.symbol(out, name, text(bytes));
        }
    }
    map.key(out, X_OPT_DEATHS);
    let mut array = Compound::array(out, Compound::MAP_32);
    for death in deaths.iter() {
        array.item();
        write_map(&death, out);
    }
    array.finish(out);
}

fn write_map(death: &Death<'_>, out: &mut Vec<u8>) {
    let mut map = MapWriter::item(out);
    if let Some(ttl) = death.ttl_ms {
        map.symbol(out, "ttl", Value::Uint(u32::try_from(ttl).unwrap_or(u32::MAX)));
    }
    map.symbol(out, "queue", text(death.queue));
    map.symbol(out, "reason", Value::Symbol(Symbol::new(death.reason.as_str())));
    map.symbol(out, "count", Value::Ulong(death.count));
    map.symbol(out, "first-time", Value::Timestamp(death.first_ms.cast_signed()));
    map.symbol(out, "last-time", Value::Timestamp(death.last_ms.cast_signed()));
    map.symbol(out, "exchange", text(death.exchange));
    map.key(out, "routing-keys");
    let mut keys = Compound::array(out, Compound::STRING_32);
    for key in death.routing_keys() {
        keys.item();
        let key = String::from_utf8_lossy(key);
        let length = u32::try_from(key.len()).expect("routing key over 4 GiB");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(key.as_bytes());
    }
    keys.finish(out);
    map.finish(out);
}
