//! Values of the hub form, which are those of AMQP 1.0.

use leveret_amqp10::Value as Simple;

use super::map_writer::{Compound, MapWriter};
use crate::hub::Value;

/// A string if the bytes are UTF-8, otherwise a binary.
pub(super) fn text(bytes: &[u8]) -> Simple<'_> {
    std::str::from_utf8(bytes).map_or(Simple::Binary(bytes), Simple::String)
}

/// Appends a value. The codecs limit nesting.
pub(super) fn write(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Simple(value) => value.encode(out),
        Value::List(items) => {
            let mut list = Compound::list(out);
            for item in items.iter() {
                list.item();
                write(item, out);
            }
            list.finish(out);
        }
        Value::Map(pairs) => {
            let mut map = MapWriter::value(out);
            for (key, item) in pairs.iter() {
                map.key(out, &key);
                write(item, out);
            }
            map.finish(out);
        }
    }
}
