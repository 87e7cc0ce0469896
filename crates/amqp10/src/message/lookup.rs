//! Looks single fields up in a message that was checked before: nothing else is decoded.

use super::sections::read_section_code;
use crate::descriptor;
use crate::value::{Value, code, read_trusted, skip};
use crate::wire::Reader;

/// The properties and application properties of a message, located by their sizes.
#[derive(Debug, Clone, Copy, Default)]
pub struct FieldLookup<'a> {
    /// The number of fields of the properties section, and their encodings.
    properties: (u32, &'a [u8]),
    /// The number of keys and values of the application properties, and their encodings.
    application_properties: (u32, &'a [u8]),
}

impl<'a> FieldLookup<'a> {
    /// Locates both sections in a message that [`Sections::parse`](super::Sections::parse) takes, or in one whose body is
    /// missing. In other bytes it finds fewer fields.
    #[must_use]
    pub fn of(payload: &'a [u8]) -> Self {
        let mut found = Self::default();
        let mut rest = payload;
        while let Some(code) = section_code(&mut rest) {
            let Some(value) = take_value(&mut rest) else { break };
            match code {
                descriptor::PROPERTIES => found.properties = items(value),
                descriptor::APPLICATION_PROPERTIES => {
                    found.application_properties = items(value);
                    break;
                }
                descriptor::HEADER | descriptor::DELIVERY_ANNOTATIONS | descriptor::MESSAGE_ANNOTATIONS => {}
                _ => break,
            }
        }
        found
    }

    /// The field of the properties section (3.2.4) at this place, counted from 0; `None` if it is missing or null.
    #[must_use]
    pub fn property(&self, place: u32) -> Option<Value<'a>> {
        let (count, mut fields) = self.properties;
        if place >= count {
            return None;
        }
        for _ in 0..place {
            take_value(&mut fields)?;
        }
        read_trusted(&mut Reader::new(fields)).ok().filter(|value| !matches!(value, Value::Null))
    }

    /// Length of the application properties in bytes: a look for one of them may read them all.
    #[must_use]
    pub fn application_properties_bytes(&self) -> usize {
        self.application_properties.1.len()
    }

    /// The first value that `take` accepts among the application properties of this name. Only strings are names (3.2.5).
    #[inline]
    pub fn application_property<T>(&self, name: &str, mut take: impl FnMut(Value<'a>) -> Option<T>) -> Option<T> {
        let (count, mut rest) = self.application_properties;
        for _ in 0..count / 2 {
            let key = take_value(&mut rest)?;
            let value = take_value(&mut rest)?;
            let text = match key {
                [code::STRING_8, _, text @ ..] | [code::STRING_32, _, _, _, _, text @ ..] => text,
                _ => continue,
            };
            if text == name.as_bytes()
                && let Some(taken) = take(read_trusted(&mut Reader::new(value)).ok()?)
            {
                return Some(taken);
            }
        }
        None
    }
}

/// The code of the section that begins here.
#[inline]
fn section_code(rest: &mut &[u8]) -> Option<u64> {
    if let [code::DESCRIBED, code::ULONG_SMALL, code, behind @ ..] = *rest {
        *rest = behind;
        return Some(u64::from(*code));
    }
    let mut reader = Reader::new(rest);
    let code = read_section_code(&mut reader).ok()?;
    *rest = reader.rest();
    Some(code)
}

/// A value as encoded.
#[inline]
fn take_value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    // The upper half of a constructor tells how the size of its data is encoded (1.2).
    let length = match **rest {
        [code::NULL, ..] => 1,
        [code, size, ..] if matches!(code >> 4, 0xA | 0xC | 0xE) => 2 + usize::from(size),
        [code, ..] if matches!(code >> 4, 0x5..=0x9) => 1 + (1 << ((code >> 4) - 5)),
        _ => return take_unusual_value(rest),
    };
    let (value, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(value)
}

#[cold]
fn take_unusual_value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut reader = Reader::new(rest);
    let value = skip(&mut reader).ok()?;
    *rest = reader.rest();
    Some(value)
}

/// The number of items of a list or map, and their encodings.
#[inline]
fn items(value: &[u8]) -> (u32, &[u8]) {
    match value {
        [code::LIST_8 | code::MAP_8, _, count, items @ ..] => (u32::from(*count), items),
        [code::LIST_32 | code::MAP_32, _, _, _, _, a, b, c, d, items @ ..] => {
            (u32::from_be_bytes([*a, *b, *c, *d]), items)
        }
        _ => (0, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Symbol;
    use crate::message::{MapSection, MessageId, Properties, write_data, write_map_section};
    use crate::value::EncodedMap;

    fn message() -> Vec<u8> {
        let mut bytes = vec![0x00, 0x53, 0x70, 0x45];
        let content_type = Symbol::checked("text/plain");
        let message_id = Some(MessageId::Ulong(7));
        let properties = Properties {
            message_id,
            subject: Some("order"),
            content_type,
            group_sequence: Some(9),
            ..Properties::default()
        };
        write_map_section(&mut bytes, MapSection::MessageAnnotations, EncodedMap::new().with("x-a", 1u32).as_map());
        properties.encode(&mut bytes);
        let long = "n".repeat(300);
        let mut map = EncodedMap::new().with("region", "a symbol is no name");
        map.push("region", "AMER").push(&*long, 5i32).push("price", 2.5f64).push("price", 1u8);
        write_map_section(&mut bytes, MapSection::ApplicationProperties, map.as_map());
        write_data(&mut bytes, b"body");
        bytes
    }

    #[test]
    fn fields_are_found_by_place_and_name() {
        let bytes = message();
        let fields = FieldLookup::of(&bytes);
        assert_eq!(fields.property(0), Some(Value::Ulong(7)));
        assert_eq!(fields.property(1), None);
        assert_eq!(fields.property(3), Some(Value::String("order")));
        assert_eq!(fields.property(11), Some(Value::Uint(9)));
        assert_eq!((fields.property(12), fields.property(13), fields.property(u32::MAX)), (None, None, None));
        assert_eq!(fields.application_property("region", Some), Some(Value::String("AMER")));
        assert_eq!(fields.application_property(&"n".repeat(300), Some), Some(Value::Int(5)));
        assert_eq!(fields.application_property("price", Some), Some(Value::Double(2.5)));
        assert_eq!(fields.application_property("price", |value| value.as_u64()), Some(1));
        assert_eq!(fields.application_property("missing", Some), None);
    }

    #[test]
    fn a_missing_body_or_section_is_no_error() {
        let mut bytes = Vec::new();
        Properties { to: Some("q"), ..Properties::default() }.encode(&mut bytes);
        assert_eq!(FieldLookup::of(&bytes).property(2), Some(Value::String("q")));
        assert_eq!(FieldLookup::of(&bytes).application_property("a", Some), None);
        assert_eq!(FieldLookup::of(b"").property(0), None);
    }

    #[test]
    fn every_truncation_finds_fewer_fields() {
        let bytes = message();
        for end in 0..bytes.len() {
            let fields = FieldLookup::of(&bytes[..end]);
            let found = (0..13).filter(|place| fields.property(*place).is_some()).count();
            assert!(found <= 4, "cut at {end}");
            let _ = fields.application_property("missing", Some);
        }
    }
}
