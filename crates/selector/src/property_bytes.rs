//! Property filters as bytes, as nodes of a cluster tell them to each other: the number of fields (1), then of each its place in the
//! properties section (1), or 255 and its name; the kind of its test (1), and its reference. Texts are behind their length (4), and integers
//! are little endian.

use super::properties::{FIELDS_MAX, PropertyFilter, Test};
use crate::MessageField;

/// The place of application properties.
const APPLICATION: u8 = 255;

impl PropertyFilter {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = vec![self.fields.len() as u8];
        for (field, test) in &self.fields {
            match field {
                MessageField::Application(name) => {
                    to.push(APPLICATION);
                    put(&mut to, name.as_bytes());
                }
                field => to.push(field.place().expect("it is of one of both sections")),
            }
            match test {
                Test::Anything => to.push(0),
                Test::Never => to.push(1),
                Test::Bool(value) => to.extend([2, u8::from(*value)]),
                Test::Int(value) => {
                    to.push(3);
                    to.extend(value.to_le_bytes());
                }
                Test::Float(value) => {
                    to.push(4);
                    to.extend(value.to_le_bytes());
                }
                Test::Bytes(bytes) => {
                    to.push(5);
                    put(&mut to, bytes);
                }
                Test::Prefix(bytes) => {
                    to.push(6);
                    put(&mut to, bytes);
                }
                Test::Suffix(bytes) => {
                    to.push(7);
                    put(&mut to, bytes);
                }
            }
        }
        to
    }

    /// The filter that these bytes are; `None` if they are none.
    pub fn from_bytes(mut from: &[u8]) -> Option<Self> {
        let count = usize::from(byte(&mut from)?);
        if count == 0 || count > FIELDS_MAX {
            return None;
        }
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            let field = match byte(&mut from)? {
                APPLICATION => MessageField::Application(std::str::from_utf8(take(&mut from)?).ok()?.into()),
                place => MessageField::at_place(place)?,
            };
            let test = match byte(&mut from)? {
                0 => Test::Anything,
                1 => Test::Never,
                2 => Test::Bool(byte(&mut from)? == 1),
                3 => Test::Int(i128::from_le_bytes(array(&mut from)?)),
                4 => Test::Float(f64::from_le_bytes(array(&mut from)?)),
                5 => Test::Bytes(take(&mut from)?.into()),
                6 => Test::Prefix(take(&mut from)?.into()),
                7 => Test::Suffix(take(&mut from)?.into()),
                _ => return None,
            };
            fields.push((field, test));
        }
        from.is_empty().then(|| Self { fields: fields.into() })
    }
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend(bytes);
}

fn byte(from: &mut &[u8]) -> Option<u8> {
    array(from).map(|[byte]| byte)
}

fn array<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (found, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*found)
}

fn take<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(array(from)?) as usize;
    let (found, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reference;

    #[test]
    fn filters_come_back_as_they_were() {
        let properties = [
            ("message-id", Reference::Uuid([7; 16])),
            ("correlation-id", Reference::Ulong(u64::MAX)),
            ("subject", Reference::String("&s:end")),
            ("to", Reference::String("&p:begin")),
            ("creation-time", Reference::Timestamp(-5)),
        ];
        let application = [
            ("a", Reference::Null),
            ("b", Reference::Bool(true)),
            ("c", Reference::Float(1.5)),
            ("d", Reference::Other),
            ("\u{e9}", Reference::String("&&x")),
        ];
        let filters = [
            PropertyFilter::properties(properties).expect("a filter"),
            PropertyFilter::application_properties(application).expect("a filter"),
        ];
        for filter in filters {
            let bytes = filter.to_bytes();
            assert_eq!(PropertyFilter::from_bytes(&bytes), Some(filter));
            for length in 0..bytes.len() {
                assert_eq!(PropertyFilter::from_bytes(&bytes[..length]), None, "{length} bytes");
            }
            assert_eq!(PropertyFilter::from_bytes(&[&bytes[..], &[0]].concat()), None);
        }
    }
}
