//! A publish that is put together message by message.

use crate::key;
use crate::limits::BATCH_HEAD;
use crate::wire::{Open, write_short_bytes};

/// A publish that grows at the end of a buffer. Nothing else may be appended to the buffer before it ends.
#[must_use = "a frame without its size can't be read"]
pub struct Publishing {
    frame: Open,
    count_at: usize,
    count: u32,
    /// Whether each message has a filter value.
    filtered: bool,
}

/// Messages that are published as one.
#[derive(Debug, Clone, Copy)]
pub struct SentSubBatch<'a> {
    /// 0 (none) to 4.
    pub compression: u8,
    /// The number of messages.
    pub messages: u16,
    /// The size before compression.
    pub uncompressed: u32,
    /// The messages, as they were compressed.
    pub data: &'a [u8],
}

impl Publishing {
    /// Begins a publish. Version 2 has filter values, version 1 hasn't.
    #[inline]
    pub fn begin(out: &mut Vec<u8>, version: u16, publisher: u8) -> Self {
        let frame = Open::begin(out, key::PUBLISH, version);
        out.push(publisher);
        let count_at = out.len();
        out.extend_from_slice(&[0; 4]);
        Self { frame, count_at, count: 0, filtered: version != 1 }
    }

    /// Appends a message. An empty filter value is none; version 1 has no place for it.
    ///
    /// # Panics
    /// If the message has 2 GiB or more.
    #[inline]
    pub fn message(&mut self, out: &mut Vec<u8>, id: u64, filter: &[u8], message: &[u8]) {
        self.head(out, id, filter);
        let size = i32::try_from(message.len()).expect("a message is shorter than 2 GiB");
        out.extend_from_slice(&size.to_be_bytes());
        out.extend_from_slice(message);
    }

    /// Appends a sub-batch.
    ///
    /// # Panics
    /// If the data has 4 GiB or more.
    pub fn sub_batch(&mut self, out: &mut Vec<u8>, id: u64, sub_batch: &SentSubBatch<'_>) {
        let SentSubBatch { compression, messages, uncompressed, data } = *sub_batch;
        self.head(out, id, &[]);
        let size = u32::try_from(data.len()).expect("a sub-batch is shorter than 4 GiB");
        let mut head = [0; BATCH_HEAD];
        head[0] = 0x80 | (compression & 7) << 4;
        head[1..3].copy_from_slice(&messages.to_be_bytes());
        head[3..7].copy_from_slice(&uncompressed.to_be_bytes());
        head[7..].copy_from_slice(&size.to_be_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(data);
    }

    /// Appends a message or sub-batch with its head.
    #[inline]
    pub fn entry(&mut self, out: &mut Vec<u8>, id: u64, filter: &[u8], entry: &[u8]) {
        self.head(out, id, filter);
        out.extend_from_slice(entry);
    }

    #[inline]
    fn head(&mut self, out: &mut Vec<u8>, id: u64, filter: &[u8]) {
        self.count += 1;
        out.extend_from_slice(&id.to_be_bytes());
        match filter {
            _ if !self.filtered => {}
            [] => out.extend_from_slice(&(-1_i16).to_be_bytes()),
            filter => write_short_bytes(out, filter),
        }
    }

    /// Fills in the number of messages and the size of the frame.
    ///
    /// # Panics
    /// If the frame has 4 GiB or more.
    #[inline]
    pub fn end(self, out: &mut [u8]) {
        out[self.count_at..self.count_at + 4].copy_from_slice(&self.count.to_be_bytes());
        self.frame.end(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Request, next_frame};

    #[test]
    fn messages_and_sub_batches_come_back() {
        let mut out = Vec::new();
        let mut publishing = Publishing::begin(&mut out, 2, 5);
        publishing.message(&mut out, 7, b"eu", b"hello");
        publishing.message(&mut out, 8, b"", b"");
        let packed = SentSubBatch { compression: 1, messages: 3, uncompressed: 300, data: b"packed" };
        publishing.sub_batch(&mut out, 9, &packed);
        publishing.end(&mut out);
        let (frame, used) = next_frame(&out, 0).unwrap().unwrap();
        assert_eq!(used, out.len());
        let Ok(Request::Publish(publish)) = Request::decode(&frame) else { panic!("not a publish") };
        let messages: Vec<_> = publish.messages().map(|message| message.unwrap()).collect();
        assert_eq!((publish.publisher, publish.count, messages.len()), (5, 3, 3));
        assert_eq!((messages[0].id, messages[0].filter, messages[0].entry), (7, &b"eu"[..], &b"\0\0\0\x05hello"[..]));
        assert_eq!((messages[1].filter, messages[1].entry), (&b""[..], &[0; 4][..]));
        assert_eq!((messages[2].messages, messages[2].uncompressed), (3, 300));
        assert_eq!(messages[2].entry, b"\x90\0\x03\0\0\x01\x2c\0\0\0\x06packed");
    }
}
