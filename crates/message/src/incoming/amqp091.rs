//! Routing keys in the headers `CC` and `BCC` of a message published over AMQP 0-9-1.

use leveret_amqp091::{DecodeError, FieldTable, FieldValue, Properties, Table, Value};
use thiserror::Error;

const CC: &str = "CC";
const BCC: &str = "BCC";

/// Routing keys in addition to that of `basic.publish`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FurtherKeys<'a> {
    /// Keys from `CC`, which receivers see.
    pub seen: Vec<&'a [u8]>,
    /// Keys from `BCC`, which receivers don't see.
    pub blind: Vec<&'a [u8]>,
    /// Whether the header `BCC` is present, even if empty: it has to be removed.
    pub has_blind: bool,
}

/// The publisher's header isn't an array of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidKeys {
    /// The header isn't an array.
    #[error("invalid header '{name}' of type {kind}: expected an array of strings")]
    Header {
        /// `CC` or `BCC`.
        name: &'static str,
        /// RabbitMQ's name of its type.
        kind: &'static str,
    },
    /// An item isn't a string.
    #[error("invalid value of type {kind} in header '{name}': expected a string")]
    Item {
        /// `CC` or `BCC`.
        name: &'static str,
        /// RabbitMQ's name of its type.
        kind: &'static str,
    },
}

impl<'a> FurtherKeys<'a> {
    /// The keys in these headers; `None` if neither header is present or both have no effect.
    ///
    /// # Errors
    /// [`InvalidKeys`].
    pub fn of(headers: Table<'a>) -> Result<Option<Self>, InvalidKeys> {
        let (seen, blind) = (headers.lookup(CC), headers.lookup(BCC));
        let mut further = Self { has_blind: blind.is_some(), ..Self::default() };
        for (name, value, keys) in [(CC, seen, &mut further.seen), (BCC, blind, &mut further.blind)] {
            let Some(value) = value else { continue };
            let Value::Array(array) = value else {
                return Err(InvalidKeys::Header { name, kind: value.type_name() });
            };
            for item in array.iter() {
                let Value::LongString(key) = item else {
                    return Err(InvalidKeys::Item { name, kind: item.type_name() });
                };
                keys.push(key);
            }
        }
        Ok((further.has_blind || !further.seen.is_empty()).then_some(further))
    }
}

/// The properties without the header `BCC`, which no receiver may see.
///
/// # Errors
/// If they are malformed.
pub fn without_blind_copies(raw: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut properties = Properties::decode(raw)?;
    let headers = properties.headers.iter().flat_map(Table::iter).filter(|(key, _)| key.as_bytes() != BCC.as_bytes());
    let kept: FieldTable = headers.map(|(key, value)| (key.as_bytes().to_vec(), FieldValue::from(value))).collect();
    let encoded = kept.encoded();
    properties.headers = Some(encoded.as_table());
    let mut out = Vec::new();
    properties.encode(&mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(keys: &[&str]) -> FieldValue {
        FieldValue::Array(keys.iter().map(|key| FieldValue::from(*key)).collect())
    }

    #[test]
    fn keys_of_both_headers() {
        let table = FieldTable::new().with(CC, array(&["a", "b"])).with(BCC, array(&["c"])).encoded();
        let further = FurtherKeys::of(table.as_table()).unwrap().unwrap();
        assert_eq!(further.seen, [&b"a"[..], b"b"]);
        assert_eq!(further.blind, [&b"c"[..]]);
        assert_eq!(FurtherKeys::of(FieldTable::new().with("cc", 1).encoded().as_table()), Ok(None));
        let table = FieldTable::new().with(BCC, array(&[])).encoded();
        assert!(FurtherKeys::of(table.as_table()).unwrap().unwrap().has_blind, "an empty one is taken out too");
    }

    #[test]
    fn other_types_are_named() {
        let table = FieldTable::new().with(CC, "a").encoded();
        let error = FurtherKeys::of(table.as_table()).unwrap_err();
        assert_eq!(error.to_string(), "invalid header 'CC' of type longstr: expected an array of strings");
        let table = FieldTable::new().with(BCC, FieldValue::Array(vec![FieldValue::I64(1)])).encoded();
        let error = FurtherKeys::of(table.as_table()).unwrap_err();
        assert_eq!(error.to_string(), "invalid value of type long in header 'BCC': expected a string");
    }

    #[test]
    fn blind_copies_are_removed() {
        let table = FieldTable::new().with("h", 1).with(BCC, array(&["c"])).with("i", 2).encoded();
        let mut raw = Vec::new();
        Properties { headers: Some(table.as_table()), delivery_mode: Some(2), ..Properties::default() }
            .encode(&mut raw);
        let kept = without_blind_copies(&raw).unwrap();
        let kept = Properties::decode(&kept).unwrap();
        assert_eq!(kept.delivery_mode, Some(2));
        assert_eq!(kept.headers, Some(FieldTable::new().with("h", 1).with("i", 2).encoded().as_table()));
    }
}
