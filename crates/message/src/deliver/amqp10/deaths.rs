//! The history of a message's deaths as annotations.

use leveret_amqp10::{Symbol, Value};

use super::map_writer::{Compound, MapWriter};
use super::value::text;
use crate::annotations::DEATH_SUMMARY;
use crate::annotations::X_OPT_DEATHS;
use crate::deaths::{Death, Deaths};
use crate::deliver::deaths::header;

/// Adds `x-opt-deaths` and the annotations about the first and last death.
pub(super) fn add_annotations(deaths: &Deaths<'_>, out: &mut Vec<u8>, map: &mut MapWriter) {
    for name in DEATH_SUMMARY {
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
