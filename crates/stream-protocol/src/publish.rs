//! Published messages.

use crate::limits::{BATCH_HEAD, ENTRY_HEAD};
use crate::wire::FieldReader;
use crate::{DecodeError, key};

/// Bytes before an entry: the publishing id.
const ID: usize = 8;

/// A publish command. Its messages are checked when they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publish<'a> {
    /// 1, or 2 with filter values.
    pub version: u16,
    /// The id of the publisher.
    pub publisher: u8,
    /// The number of messages that the client announced, or the number that the bytes have room for if it is less. A
    /// sub-batch counts once.
    pub count: u32,
    messages: &'a [u8],
}

impl<'a> Publish<'a> {
    #[inline]
    pub(crate) fn read(reader: &mut FieldReader<'a>, version: u16) -> Result<Self, DecodeError> {
        let publisher = reader.u8("publisher id")?;
        let count = reader.u32("count of messages")?;
        let messages = reader.rest();
        let smallest = if version == 1 { ID + ENTRY_HEAD } else { ID + 2 + ENTRY_HEAD };
        let count = (count as usize).min(messages.len() / smallest) as u32;
        Ok(Self { version, publisher, count, messages })
    }

    /// The messages, in the order received, to the end of the bytes or up to an error. As in RabbitMQ, they aren't as
    /// many as [`count`](Self::count) if the client miscounted them.
    #[inline]
    #[must_use]
    pub fn messages(&self) -> PublishedMessages<'a> {
        PublishedMessages { rest: self.messages, filtered: self.version != 1 }
    }
}

/// The messages of a [`Publish`].
#[derive(Debug, Clone)]
pub struct PublishedMessages<'a> {
    rest: &'a [u8],
    /// Whether each message has a filter value.
    filtered: bool,
}

/// A published message or sub-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedMessage<'a> {
    /// The publishing id.
    pub id: u64,
    /// The filter value; empty if there is none.
    pub filter: &'a [u8],
    /// The message or sub-batch as a chunk has it: 4 bytes of size and the message, or 11 bytes of head and the
    /// messages.
    pub entry: &'a [u8],
    /// Whether it is a sub-batch.
    pub is_sub_batch: bool,
    /// 1, or the number of messages that the sub-batch announces.
    pub messages: u16,
    /// The uncompressed size that a sub-batch announces, else 0.
    pub uncompressed: u32,
}

impl<'a> PublishedMessages<'a> {
    #[inline]
    fn read(&mut self) -> Result<PublishedMessage<'a>, DecodeError> {
        let mut reader = FieldReader::new(key::PUBLISH, self.rest);
        let id = reader.u64("publishing id")?;
        let filter = if self.filtered { reader.short_bytes("filter value")? } else { &[] };
        let rest = reader.rest();
        let Some(&head) = rest.first_chunk::<ENTRY_HEAD>() else {
            return Err(reader.truncated(ENTRY_HEAD, "size of a message"));
        };
        let head_bits = u32::from_be_bytes(head);
        if head_bits & 0x8000_0000 == 0 {
            let entry = reader.take(ENTRY_HEAD + head_bits as usize, "message")?;
            self.rest = reader.rest();
            return Ok(PublishedMessage { id, filter, entry, is_sub_batch: false, messages: 1, uncompressed: 0 });
        }
        let Some(&[_, m0, m1, u0, u1, u2, u3, s0, s1, s2, s3]) = rest.first_chunk::<BATCH_HEAD>() else {
            return Err(reader.truncated(BATCH_HEAD, "head of a sub-batch"));
        };
        let size = u32::from_be_bytes([s0, s1, s2, s3]);
        let entry = reader.take(BATCH_HEAD + size as usize, "sub-batch")?;
        self.rest = reader.rest();
        let (messages, uncompressed) = (u16::from_be_bytes([m0, m1]), u32::from_be_bytes([u0, u1, u2, u3]));
        Ok(PublishedMessage { id, filter, entry, is_sub_batch: true, messages, uncompressed })
    }
}

impl<'a> Iterator for PublishedMessages<'a> {
    type Item = Result<PublishedMessage<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = self.read();
        if message.is_err() {
            self.rest = &[];
        }
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(version: u16, count: u8, messages: &[&[u8]]) -> Result<Publish<'static>, DecodeError> {
        let mut content = vec![5, 0, 0, 0, count];
        messages.iter().for_each(|part| content.extend_from_slice(part));
        Publish::read(&mut FieldReader::new(key::PUBLISH, content.leak()), version)
    }

    const ID_7: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 7];
    const HELLO: &[u8] = b"\x00\x00\x00\x05hello";
    /// Three messages, gzip, 300 bytes, two when compressed.
    const BATCH: &[u8] = &[0x90, 0, 3, 0, 0, 1, 44, 0, 0, 0, 2, 0xAB, 0xCD];

    #[test]
    fn messages_and_sub_batches_keep_their_heads() {
        let publish = publish(1, 3, &[ID_7, HELLO, ID_7, BATCH, ID_7, &[0; 4]]).unwrap();
        assert_eq!((publish.publisher, publish.count), (5, 3));
        let message =
            PublishedMessage { id: 7, filter: b"", entry: HELLO, is_sub_batch: false, messages: 1, uncompressed: 0 };
        let expected = [
            message,
            PublishedMessage { entry: BATCH, is_sub_batch: true, messages: 3, uncompressed: 300, ..message },
            PublishedMessage { entry: &[0; 4], ..message },
        ];
        assert_eq!(publish.messages().collect::<Result<Vec<_>, _>>().unwrap(), expected);
    }

    #[test]
    fn messages_of_version_2_have_filter_values() {
        let publish = publish(2, 2, &[ID_7, b"\x00\x02eu", HELLO, ID_7, &[0xFF, 0xFF], BATCH]).unwrap();
        let message =
            PublishedMessage { id: 7, filter: b"eu", entry: HELLO, is_sub_batch: false, messages: 1, uncompressed: 0 };
        let batch = PublishedMessage {
            filter: b"",
            entry: BATCH,
            is_sub_batch: true,
            messages: 3,
            uncompressed: 300,
            ..message
        };
        assert_eq!(publish.messages().collect::<Result<Vec<_>, _>>().unwrap(), [message, batch]);
    }

    #[test]
    fn messages_go_to_the_end_whatever_their_count_says() {
        for (announced, count) in [(0, 0), (1, 1), (2, 2), (255, 2)] {
            let publish = publish(1, announced, &[ID_7, HELLO, ID_7, HELLO]).unwrap();
            assert_eq!((publish.count, publish.messages().filter(Result::is_ok).count()), (count, 2));
        }
    }

    #[test]
    fn the_iterator_ends_after_an_error() {
        let publish = publish(1, 2, &[ID_7, HELLO, &[0; 4], HELLO]).unwrap();
        let mut messages = publish.messages();
        assert!(messages.next().unwrap().is_ok());
        let truncated = messages.next().unwrap().unwrap_err();
        assert!(matches!(truncated, DecodeError::Truncated { field: "message", .. }), "{truncated}");
        assert!(messages.next().is_none());
    }

    #[test]
    fn cut_messages_are_errors() {
        for (part, field) in [
            (&[0x90, 0, 3, 0][..], "head of a sub-batch"),
            (&BATCH[..12], "sub-batch"),
            (&[0x7F, 0xFF, 0xFF, 0xFF], "message"),
        ] {
            let error = publish(1, 1, &[ID_7, part]).unwrap().messages().next().unwrap().unwrap_err();
            assert!(matches!(error, DecodeError::Truncated { field: found, .. } if found == field), "{error}");
        }
    }
}
