//! Lists in answers. They are checked when they are decoded.

use crate::DecodeError;
use crate::wire::FieldReader;

/// Publishing ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids<'a> {
    entries: &'a [[u8; 8]],
}

impl<'a> Ids<'a> {
    pub(super) fn read(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { entries: reader.entries("publishing ids")? })
    }

    /// The ids, in the order received.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        self.entries.iter().map(|id| u64::from_be_bytes(*id))
    }
}

/// Publishing ids that are refused, each with the number of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishErrors<'a> {
    entries: &'a [[u8; 10]],
}

impl<'a> PublishErrors<'a> {
    pub(super) fn read(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { entries: reader.entries("publishing errors")? })
    }

    /// Ids and codes, in the order received.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u16)> + use<'a> {
        self.entries.iter().map(|&[i0, i1, i2, i3, i4, i5, i6, i7, c0, c1]| {
            (u64::from_be_bytes([i0, i1, i2, i3, i4, i5, i6, i7]), u16::from_be_bytes([c0, c1]))
        })
    }
}

/// A list whose entries are read one after the other.
macro_rules! list {
    ($(#[$doc:meta])* $name:ident, $item:ty, $read:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name<'a> {
            bytes: &'a [u8],
            count: usize,
        }

        impl<'a> $name<'a> {
            pub(super) fn read(reader: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
                let count = reader.u32("count of entries")? as usize;
                let bytes = reader.rest();
                for _ in 0..count {
                    $read(reader)?;
                }
                Ok(Self { bytes: &bytes[..bytes.len() - reader.rest().len()], count })
            }

            /// The entries, in the order received.
            pub fn iter(&self) -> impl Iterator<Item = $item> + use<'a> {
                let mut reader = FieldReader::new(0, self.bytes);
                std::iter::from_fn(move || $read(&mut reader).ok())
            }

            /// The number of entries.
            #[must_use]
            pub fn len(&self) -> usize {
                self.count
            }

            /// Whether there is no entry.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.count == 0
            }
        }
    };
}

list! {
    /// Brokers in metadata: reference, host and port.
    Brokers, (u16, &'a str, u32), broker
}

list! {
    /// Streams in metadata.
    StreamsMetadata, StreamMetadataEntry<'a>, stream
}

list! {
    /// Names and values of statistics.
    Stats, (&'a str, i64), statistic
}

/// A stream in metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamMetadataEntry<'a> {
    /// The name of the stream.
    pub stream: &'a str,
    /// The number of a code.
    pub code: u16,
    /// The reference of its leader, or [`NO_LEADER`](crate::limits::NO_LEADER).
    pub leader: u16,
    replicas: &'a [[u8; 2]],
}

impl<'a> StreamMetadataEntry<'a> {
    /// The references of its replicas.
    pub fn replicas(&self) -> impl ExactSizeIterator<Item = u16> + use<'a> {
        self.replicas.iter().map(|reference| u16::from_be_bytes(*reference))
    }
}

fn broker<'a>(reader: &mut FieldReader<'a>) -> Result<(u16, &'a str, u32), DecodeError> {
    Ok((reader.u16("reference of a broker")?, reader.string("host of a broker")?, reader.u32("port of a broker")?))
}

fn stream<'a>(reader: &mut FieldReader<'a>) -> Result<StreamMetadataEntry<'a>, DecodeError> {
    Ok(StreamMetadataEntry {
        stream: reader.string("stream")?,
        code: reader.u16("code of a stream")?,
        leader: reader.u16("leader of a stream")?,
        replicas: reader.entries("replicas of a stream")?,
    })
}

fn statistic<'a>(reader: &mut FieldReader<'a>) -> Result<(&'a str, i64), DecodeError> {
    Ok((reader.string("name of a statistic")?, reader.u64("value of a statistic")?.cast_signed()))
}
