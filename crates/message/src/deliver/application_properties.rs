//! Application properties (AMQP 1.0, 3.2.5) and headers.

use leveret_amqp10::{MapRef, descriptor};
use leveret_amqp091::{Table, Value};

use super::headers::Pairs;
use super::map_writer::MapWriter;
use super::types::{is_convertible, to_amqp091, write_amqp10};

/// Adds the properties as headers.
pub(super) fn add_headers(map: MapRef<'_>, pairs: &mut Pairs) {
    for (key, value) in map {
        if let (Some(key), Some(value)) = (key.as_text(), to_amqp091(value)) {
            pairs.push(key.as_bytes(), value);
        }
    }
}

/// Appends the section, from headers that don't begin with `x-` and aren't tables or arrays, which it can't hold.
pub(super) fn write(headers: Table<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let mut map = MapWriter::section(out, descriptor::APPLICATION_PROPERTIES);
    for (key, value) in headers.iter() {
        if key.as_bytes().starts_with(b"x-") || matches!(value, Value::Array(_) | Value::Table(_)) {
            continue;
        }
        if let Some(key) = key.as_str().filter(|_| is_convertible(&value)) {
            map.string_key(out, key);
            write_amqp10(value, out);
        }
    }
    if map.is_empty() {
        out.truncate(start);
    } else {
        map.finish(out);
    }
}
