//! Application properties (AMQP 1.0, 3.2.5).

use leveret_amqp10::descriptor;

use super::map_writer::MapWriter;
use super::value;
use crate::hub::Entries;

/// Appends the section, unless it is empty.
#[inline(always)]
pub(super) fn write(properties: &Entries<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let mut map = MapWriter::section(out, descriptor::APPLICATION_PROPERTIES);
    properties.each(|name, value| {
        map.string_key(out, name);
        value::write(value, out);
    });
    if map.is_empty() {
        out.truncate(start);
    } else {
        map.finish(out);
    }
}
