//! The history of a message's deaths as headers.

use leveret_amqp10::Value as Simple;
use leveret_amqp091::{FieldTable, FieldValue};

use super::headers::Pairs;
use crate::annotations::DEATH_SUMMARY;
use crate::annotations::X_DEATH;
use crate::deaths::{Death, Deaths};
use crate::deliver::deaths::header;
use crate::hub::{List, Map, Value};

/// Adds `x-death` and the headers about the first and last death.
pub(super) fn add_headers(deaths: &Deaths<'_>, pairs: &mut Pairs) {
    for name in DEATH_SUMMARY {
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

/// Converts a publisher's `x-opt-deaths` from another broker to `x-death`, if it has that form.
pub(super) fn from_annotation(value: Value<'_>) -> Option<FieldValue> {
    let tables = array(value)?.iter().map(|item| match item {
        Value::Map(map) => foreign_table(map).map(FieldValue::Table),
        _ => None,
    });
    tables.collect::<Option<Vec<_>>>().map(FieldValue::Array)
}

fn array(value: Value<'_>) -> Option<List<'_>> {
    match value {
        Value::List(list) if list.is_array() => Some(list),
        _ => None,
    }
}

fn foreign_table(map: Map<'_>) -> Option<FieldTable> {
    let mut table = FieldTable::new();
    if let Some(Value::Simple(Simple::Uint(ttl))) = map.lookup("ttl") {
        table.insert("original-expiration", ttl.to_string());
    }
    let Value::Simple(Simple::Timestamp(first_ms)) = map.lookup("first-time")? else { return None };
    let keys = array(map.lookup("routing-keys")?)?;
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
