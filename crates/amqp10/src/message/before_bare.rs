//! The sections before a bare message, without a look at the message itself.

use super::Header;
use super::sections::{SectionPlace, place_of, read_map, read_section_code, section_name};
use crate::composite::{Composite, outer};
use crate::value::{MapRef, skip};
use crate::wire::Reader;
use crate::{DecodeError, descriptor};

/// The sections that belong to a message's way and not to the message (3.2): nothing from `properties` on is checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BeforeBare<'a> {
    /// `header`
    pub header: Option<Header>,
    /// `message-annotations`, checked to its last item.
    pub message_annotations: Option<MapRef<'a>>,
    /// Everything from `properties` on, byte for byte; empty if there is no such section.
    pub bare: &'a [u8],
}

impl<'a> BeforeBare<'a> {
    /// Locates the sections.
    ///
    /// # Errors
    /// If a section up to the first one of the bare message is unknown, malformed, repeated or out of order.
    pub fn read(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut found = Self { header: None, message_annotations: None, bare: &[] };
        let mut place = SectionPlace::Start;
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let start = reader;
            let code = read_section_code(&mut reader)?;
            let next = place_of(code)?;
            if next >= SectionPlace::Properties {
                found.bare = start.rest();
                break;
            }
            if next <= place {
                return Err(DecodeError::SectionOrder { section: section_name(code) });
            }
            place = next;
            match code {
                descriptor::HEADER => {
                    let header = Header::read_list(&mut reader);
                    let header = header.map_err(|problem| outer::<Header>(problem, Header::FIELD_COUNT));
                    found.header = Some(header?);
                }
                descriptor::MESSAGE_ANNOTATIONS => found.message_annotations = Some(read_map(&mut reader, code)?),
                _ => {
                    let skipped = skip(&mut reader);
                    skipped.map_err(|problem| DecodeError::Value { place: section_name(code), problem })?;
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::message::{MapSection, write_data, write_map_section};
    use crate::value::EncodedMap;

    fn message() -> Vec<u8> {
        let mut bytes = Vec::new();
        Header { durable: Some(true), priority: Some(7), ..Header::default() }.encode(&mut bytes);
        write_map_section(&mut bytes, MapSection::DeliveryAnnotations, EncodedMap::new().with("x-d", 1u32).as_map());
        write_map_section(&mut bytes, MapSection::MessageAnnotations, EncodedMap::new().with("x-a", 2u32).as_map());
        bytes
    }

    #[test]
    fn the_bare_message_is_everything_from_its_first_section() {
        let mut bytes = message();
        assert_eq!(BeforeBare::read(&bytes).unwrap().bare, b"");
        let before = bytes.len();
        write_data(&mut bytes, b"body");
        bytes.extend_from_slice(b"unchecked");
        let found = BeforeBare::read(&bytes).unwrap();
        assert_eq!(found.header.unwrap().priority, Some(7));
        assert_eq!(found.message_annotations.unwrap().lookup("x-a"), Some(Value::Uint(2)));
        assert_eq!(found.bare, &bytes[before..]);
    }

    #[test]
    fn repeated_sections_and_every_truncation_are_errors() {
        let bytes = message();
        for end in 1..bytes.len() {
            let is_boundary = BeforeBare::read(&bytes[..end]).is_ok();
            assert!(!is_boundary || BeforeBare::read(&bytes[end..]).is_ok(), "cut at {end}");
        }
        let twice = [&bytes[..], &bytes].concat();
        assert_eq!(BeforeBare::read(&twice), Err(DecodeError::SectionOrder { section: "header" }));
    }
}
