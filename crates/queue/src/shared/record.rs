//! The payload of a reference record (docs/storage.md): the location of messages, and the facts that a queue needs about them
//! after a restart without reading them.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | number of the first in the shared log |
//! | 8 | 8 | when the last of them was received, in milliseconds since the Unix epoch; bit 63: priorities follow; bit 62: times of delivery follow |
//! | 16 | 8 | sum of their body bytes |
//! | 24 | | if priorities follow, 4 bytes number of messages with one, and for each of these: |
//! | | 4 | its place among them, from 0 |
//! | | 1 | its priority |
//! | | | if times of delivery follow, 4 bytes number of messages with one, and for each of these: |
//! | | 4 | its place among them, from 0 |
//! | | 4 | its body bytes |
//! | | 8 | before when it isn't to be delivered, in milliseconds since the Unix epoch |
//! | | | then for each with a time to live of its own: |
//! | | 4 | its place among them, from 0 |
//! | | 4 | its body bytes |
//! | | 8 | when it expires, in milliseconds since the Unix epoch |

use leveret_message::BatchPart;
use thiserror::Error;

const HEAD: usize = 24;
const TIME: usize = 16;
const PRIORITY: usize = 5;
/// In the time of receipt, whose upper 16 bits are zero otherwise.
const HAS_PRIORITIES: u64 = 1 << 63;
/// Likewise.
const HAS_DELIVERY_TIMES: u64 = 1 << 62;

/// Bytes that are no reference record: disk corruption, since only this crate writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a reference record of {length} bytes to {messages} messages doesn't add up")]
pub struct ReferenceError {
    /// Number of bytes.
    pub length: usize,
    /// Number of messages that the record refers to.
    pub messages: u64,
}

/// A reference record, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceRecord<'a> {
    /// Number of the first message in the shared log.
    pub shared: u64,
    /// Time when the last message was received, in milliseconds since the Unix epoch.
    pub received_ms: u64,
    /// Sum of their body bytes.
    pub body_bytes: u64,
    priorities: &'a [u8],
    delivery_times: &'a [u8],
    times: &'a [u8],
}

/// Encodes the payload of a record about these messages, stored in the shared log from `shared`
/// on. Only a queue that delivers by priority, or not before a time, needs the details `by_priority`.
pub fn encode_reference(part: BatchPart<'_>, shared: u64, by_priority: bool) -> Vec<u8> {
    let BatchPart { batch, index, count } = part;
    let with_priorities = by_priority && batch.any_priority();
    let with_delivery_times = by_priority && batch.any_delivery_time();
    let (index, count) = (index as usize, count as usize);
    let times = (index..index + count).map(|at| batch.times(at));
    let received_ms = times.clone().map(|(received_ms, _)| received_ms).max().unwrap_or(0);
    let mut out = Vec::with_capacity(HEAD);
    let priorities = if with_priorities { HAS_PRIORITIES } else { 0 };
    let flags = priorities | if with_delivery_times { HAS_DELIVERY_TIMES } else { 0 };
    for field in [shared, received_ms | flags, batch.body_bytes(index, count)] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    if with_priorities {
        let given = (index..index + count).map(|at| batch.priority(at));
        out.extend_from_slice(&(given.clone().flatten().count() as u32).to_le_bytes());
        for (place, priority) in (0u32..).zip(given).filter_map(|(place, priority)| Some((place, priority?))) {
            out.extend_from_slice(&place.to_le_bytes());
            out.push(priority);
        }
    }
    let time = |out: &mut Vec<u8>, place: u32, time_ms: u64| {
        out.extend_from_slice(&place.to_le_bytes());
        out.extend_from_slice(&batch.body_length(index + place as usize).to_le_bytes());
        out.extend_from_slice(&time_ms.to_le_bytes());
    };
    if with_delivery_times {
        let given = (index..index + count).map(|at| batch.delivery_ms(at));
        out.extend_from_slice(&(given.clone().flatten().count() as u32).to_le_bytes());
        let given = (0u32..).zip(given).filter_map(|(place, delivery_ms)| Some((place, delivery_ms?)));
        given.for_each(|(place, delivery_ms)| time(&mut out, place, delivery_ms));
    }
    if batch.any_expiry() {
        let given = (0u32..).zip(times).filter(|(_, (_, expiry_ms))| *expiry_ms != 0);
        given.for_each(|(place, (_, expiry_ms))| time(&mut out, place, expiry_ms));
    }
    out
}

/// Splits a list off: 4 bytes number of items of `size` bytes, and these.
fn split_list(bytes: &[u8], size: usize) -> Option<(&[u8], &[u8])> {
    let (count, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked((u32::from_le_bytes(*count) as usize).checked_mul(size)?)
}

impl<'a> ReferenceRecord<'a> {
    /// Decodes a payload written by [`encode_reference`] about `messages` messages.
    ///
    /// # Errors
    /// [`ReferenceError`] if the payload isn't valid.
    pub fn decode(payload: &'a [u8], messages: u64) -> Result<Self, ReferenceError> {
        let error = ReferenceError { length: payload.len(), messages };
        let (head, mut times) = payload.split_at_checked(HEAD).ok_or(error)?;
        let flags = u64_at(head, 8);
        let (mut priorities, mut delivery_times): (&[u8], &[u8]) = (&[], &[]);
        if flags & HAS_PRIORITIES != 0 {
            (priorities, times) = split_list(times, PRIORITY).ok_or(error)?;
        }
        if flags & HAS_DELIVERY_TIMES != 0 {
            (delivery_times, times) = split_list(times, TIME).ok_or(error)?;
        }
        let received_ms = flags & !(HAS_PRIORITIES | HAS_DELIVERY_TIMES);
        let (shared, body_bytes) = (u64_at(head, 0), u64_at(head, 16));
        let record = Self { shared, received_ms, body_bytes, priorities, delivery_times, times };
        let right = times.len() % TIME == 0
            && record.times().all(|(place, ..)| place < messages)
            && record.priorities().all(|(place, _)| place < messages)
            && record.delivery_times().all(|(place, ..)| place < messages)
            && record.shared.checked_add(messages).is_some();
        right.then_some(record).ok_or(error)
    }

    /// For each message with a priority: its index from 0, and the priority.
    pub fn priorities(&self) -> impl Iterator<Item = (u64, u8)> + use<'a> {
        self.priorities
            .as_chunks::<PRIORITY>()
            .0
            .iter()
            .map(|&[a, b, c, d, priority]| (u64::from(u32::from_le_bytes([a, b, c, d])), priority))
    }

    /// For each message with a time to live of its own: its index from 0, its body bytes, and its expiry time in milliseconds
    /// since the Unix epoch.
    pub fn times(&self) -> impl Iterator<Item = (u64, u32, u64)> + use<'a> {
        all_times(self.times)
    }

    /// For each message with a time before which it isn't to be delivered: its index from 0, its body bytes, and that time in
    /// milliseconds since the Unix epoch.
    pub fn delivery_times(&self) -> impl Iterator<Item = (u64, u32, u64)> + use<'a> {
        all_times(self.delivery_times)
    }
}

fn all_times(times: &[u8]) -> impl Iterator<Item = (u64, u32, u64)> + use<'_> {
    times.chunks_exact(TIME).map(|time| {
        let first = u64_at(time, 0);
        (first & u64::from(u32::MAX), (first >> 32) as u32, u64_at(time, 8))
    })
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut wide = [0; 8];
    wide.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(wide)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leveret_message::{BatchBuilder, Envelope};

    use super::*;

    /// Properties of AMQP 0-9-1 whose only header is a time of delivery.
    fn timed_properties(delivery_ms: i64) -> Vec<u8> {
        let header = [&b"\x13x-opt-delivery-time"[..], b"l", &delivery_ms.to_be_bytes()].concat();
        [&[0x20, 0][..], &(header.len() as u32).to_be_bytes(), &header].concat()
    }

    #[test]
    fn a_reference_record_is_decoded_as_encoded() {
        let mut builder = BatchBuilder::default();
        for (at, expiry_ms) in [0, 7_000, 0, 9_000].into_iter().enumerate() {
            let priority = (at > 1).then_some(at as u8);
            let envelope = Envelope { received_ms: 1_000 + at as u64, expiry_ms, priority, ..Envelope::default() };
            // The third one's time was over when it was received.
            let delivery_ms = [None, Some(5_001), Some(1_002), Some(5_003)][at];
            let properties = delivery_ms.map_or_else(|| vec![0, 0], timed_properties);
            builder.push(&envelope, &properties, &vec![0; 10 + at]);
        }
        let batch = Arc::new(builder.finish());
        let details = (vec![(1, 2), (2, 3)], vec![(0, 11, 5_001), (2, 13, 5_003)]);
        for (by_priority, (priorities, delivery_times)) in [(false, (vec![], vec![])), (true, details)] {
            let payload = encode_reference(BatchPart::of(&batch, 1, 3), 77, by_priority);
            let record = ReferenceRecord::decode(&payload, 3).unwrap();
            assert_eq!((record.shared, record.received_ms, record.body_bytes), (77, 1_003, 36));
            assert_eq!(record.priorities().collect::<Vec<_>>(), priorities);
            assert_eq!(record.delivery_times().collect::<Vec<_>>(), delivery_times);
            assert_eq!(record.times().collect::<Vec<_>>(), [(0, 11, 7_000), (2, 13, 9_000)]);
            assert!(ReferenceRecord::decode(&payload, 2).is_err(), "a place behind the last");
            for end in [0, 23, 25, payload.len() - 1] {
                assert!(ReferenceRecord::decode(&payload[..end], 3).is_err());
            }
        }
    }
}
