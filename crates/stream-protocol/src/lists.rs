//! Lists in commands: pairs of strings, strings, versions of commands. They are checked when they are decoded.
//!
//! A list at the end of a command is read to the end of the frame, as RabbitMQ reads it, and its count isn't used.

use crate::DecodeError;
use crate::wire::FieldReader;

/// A list of pairs of strings: properties and arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pairs<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Pairs<'a> {
    /// Reads a count, then pairs to the end of the frame.
    pub(crate) fn read_to_end(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
        reader.u32("count of pairs")?;
        let bytes = reader.rest();
        let mut count = 0;
        while !reader.is_empty() {
            reader.string("key of a pair")?;
            reader.string("value of a pair")?;
            count += 1;
        }
        Ok(Self { bytes, count })
    }

    /// Reads a count and as many pairs.
    pub(crate) fn read(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
        let count = reader.u32("count of pairs")? as usize;
        let bytes = reader.rest();
        for _ in 0..count {
            reader.string("key of a pair")?;
            reader.string("value of a pair")?;
        }
        Ok(Self { bytes: &bytes[..bytes.len() - reader.rest().len()], count })
    }

    /// The pairs, in the order received. A key can occur more than once.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut reader = FieldReader::new(0, self.bytes);
        std::iter::from_fn(move || Some((reader.string("key").ok()?, reader.string("value").ok()?)))
    }

    /// The value of `key`: the last one if it occurs more than once, as in RabbitMQ.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.iter().filter(|(name, _)| *name == key).last().map(|(_, value)| value)
    }

    /// The number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no pair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A list of strings: names of streams and binding keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strings<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Strings<'a> {
    /// Reads a count, then strings to the end of the frame.
    pub(crate) fn read_to_end(reader: &mut FieldReader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        reader.u32("count of strings")?;
        let bytes = reader.rest();
        let mut count = 0;
        while !reader.is_empty() {
            reader.string(field)?;
            count += 1;
        }
        Ok(Self { bytes, count })
    }

    /// Reads a count and as many strings.
    pub(crate) fn read(reader: &mut FieldReader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        let count = reader.u32("count of strings")? as usize;
        let bytes = reader.rest();
        // Each string has at least its length, so a false count ends here and not after four billion rounds.
        for _ in 0..count {
            reader.string(field)?;
        }
        Ok(Self { bytes: &bytes[..bytes.len() - reader.rest().len()], count })
    }

    /// The strings, in the order received.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut reader = FieldReader::new(0, self.bytes);
        std::iter::from_fn(move || reader.string("string").ok())
    }

    /// The number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no string.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A list of commands and the versions of them that the peer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Versions<'a> {
    entries: &'a [[u8; 6]],
}

impl<'a> Versions<'a> {
    /// Reads a count, then versions to the end of the frame.
    pub(crate) fn read_to_end(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
        reader.u32("count of versions")?;
        let (entries, rest) = reader.rest().as_chunks();
        reader.take(entries.len() * 6, "versions")?;
        if !rest.is_empty() {
            return Err(reader.truncated(6, "version"));
        }
        Ok(Self { entries })
    }

    /// Reads a count and as many versions.
    pub(crate) fn read(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { entries: reader.entries("versions")? })
    }

    /// Keys with their lowest and highest version, in the order received.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u16, u16)> + use<'a> {
        self.entries.iter().map(|&[k0, k1, l0, l1, h0, h1]| {
            (u16::from_be_bytes([k0, k1]), u16::from_be_bytes([l0, l1]), u16::from_be_bytes([h0, h1]))
        })
    }

    /// The lowest and highest version of `key`: the last ones if it occurs more than once.
    #[must_use]
    pub fn get(&self, key: u16) -> Option<(u16, u16)> {
        self.iter().filter(|entry| entry.0 == key).last().map(|(_, low, high)| (low, high))
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;
    use crate::wire::write_pairs;

    #[test]
    fn pairs_are_read_to_the_end_whatever_their_count_says() {
        let mut bytes = Vec::new();
        write_pairs(&mut bytes, [("a", "1"), ("b", "2"), ("a", "3")]);
        bytes[3] = 77;
        let mut reader = FieldReader::new(key::CREATE, &bytes);
        let pairs = Pairs::read_to_end(&mut reader).unwrap();
        assert!(reader.is_empty());
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2"), ("a", "3")]);
        assert_eq!((pairs.len(), pairs.get("a"), pairs.get("b"), pairs.get("c")), (3, Some("3"), Some("2"), None));
    }

    #[test]
    fn a_pair_without_a_value_is_an_error() {
        let mut reader = FieldReader::new(key::CREATE, &[0, 0, 0, 1, 0, 1, b'a']);
        let truncated = DecodeError::Truncated { key: key::CREATE, field: "value of a pair", needed: 2, available: 0 };
        assert_eq!(Pairs::read_to_end(&mut reader), Err(truncated));
    }

    #[test]
    fn counted_strings_leave_what_follows() {
        let mut reader = FieldReader::new(key::CREATE_SUPER_STREAM, &[0, 0, 0, 2, 0, 1, b'a', 0xFF, 0xFF, 9]);
        let strings = Strings::read(&mut reader, "partition").unwrap();
        assert_eq!((strings.len(), reader.rest()), (2, &[9][..]));
        assert_eq!(strings.iter().collect::<Vec<_>>(), ["a", ""]);
    }

    #[test]
    fn a_count_beyond_the_bytes_is_an_error() {
        let mut reader = FieldReader::new(key::CREATE_SUPER_STREAM, &[0xFF, 0xFF, 0xFF, 0xFF, 0, 1, b'a']);
        let truncated =
            DecodeError::Truncated { key: key::CREATE_SUPER_STREAM, field: "partition", needed: 2, available: 0 };
        assert_eq!(Strings::read(&mut reader, "partition"), Err(truncated));
    }

    #[test]
    fn versions_need_six_bytes_each() {
        let bytes = [0, 0, 0, 2, 0, 2, 0, 1, 0, 2, 0, 8, 0, 1, 0, 3];
        let versions = Versions::read_to_end(&mut FieldReader::new(key::EXCHANGE_COMMAND_VERSIONS, &bytes)).unwrap();
        assert_eq!(versions.iter().collect::<Vec<_>>(), [(2, 1, 2), (8, 1, 3)]);
        assert_eq!((versions.len(), versions.get(8), versions.get(9)), (2, Some((1, 3)), None));
        let cut = Versions::read_to_end(&mut FieldReader::new(key::EXCHANGE_COMMAND_VERSIONS, &bytes[..15]));
        assert!(matches!(cut, Err(DecodeError::Truncated { needed: 6, available: 5, .. })), "{cut:?}");
    }
}
