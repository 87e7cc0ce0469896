//! The overlay of a message, which is stored besides the publisher's bytes: further routing keys, its deaths and
//! stamps.
//!
//! Most messages have none. Byte table (little endian) of an entry: kind (1), length (4), content.
//!
//! | kind | content |
//! |---|---|
//! | 1 | further routing keys that a receiver may see (`CC`, `x-cc`): each length (4), bytes |
//! | 2 | further routing keys that it may not see (`BCC`): likewise |
//! | 3 | the history of its deaths, see [`deaths`](crate::deaths) |
//! | 4 | when it was received: milliseconds since the Unix epoch (8), flags (1): bit 0 shown as a header or annotation, bit 1 as the property `timestamp` |
//! | 5 | name of the node that received it |
//! | 6 | annotations that consumers added, see [`added`](crate::added) |
//! | 7 | how often its delivery failed in the quorum queues in which it died (4) |
//! | 8 | the id by which a queue compared it with earlier messages (16); or a hash of its publisher's name (16), and its number there (8) |
//!
//! Parsing stops at damage: publishers can't cause it, and the log's checksums guard against it.

use leveret_amqp10::MapRef;

use crate::added::map_of;
use crate::deaths::Deaths;

const KIND_FURTHER_KEYS: u8 = 1;
const KIND_BLIND_KEYS: u8 = 2;
const KIND_DEATHS: u8 = 3;
const KIND_RECEIVED: u8 = 4;
const KIND_ROUTED_BY: u8 = 5;
const KIND_ADDED: u8 = 6;
const KIND_FAILURES: u8 = 7;
const KIND_COMPARED_BY: u8 = 8;
const RECEIVED_HEADER: u8 = 1;
const RECEIVED_PROPERTY: u8 = 2;

/// By what a queue that drops repeats compares a message with earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparedBy {
    /// The hash of its id, or of its publisher's name.
    pub id: u128,
    /// Its number, if its publisher counts its messages.
    pub sequence: Option<u64>,
}

/// The overlay of a stored message, parsed in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overlay<'a> {
    bytes: &'a [u8],
}

impl<'a> Overlay<'a> {
    /// Parses an overlay, as written by [`encode_keys`] or found in a stored message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Its encoded form, empty for most messages.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Further routing keys that a receiver may see.
    pub fn further_keys(&self) -> Keys<'a> {
        Keys::new(self.entry(KIND_FURTHER_KEYS).unwrap_or_default())
    }

    /// Further routing keys that no receiver may see.
    pub fn blind_keys(&self) -> Keys<'a> {
        Keys::new(self.entry(KIND_BLIND_KEYS).unwrap_or_default())
    }

    /// The history of its deaths, if it has any.
    pub fn deaths(&self) -> Option<Deaths<'a>> {
        if self.bytes.is_empty() {
            return None;
        }
        self.entry(KIND_DEATHS).map(Deaths::new)
    }

    /// The time at which it was received, if it was stamped.
    pub fn received(&self) -> Option<ReceivedStamp> {
        let (ms, flags) = self.entry(KIND_RECEIVED)?.split_first_chunk()?;
        let (ms, flags) = (u64::from_le_bytes(*ms), *flags.first()?);
        Some(ReceivedStamp { ms, header: flags & RECEIVED_HEADER != 0, property: flags & RECEIVED_PROPERTY != 0 })
    }

    /// The node that received it, if it was stamped.
    pub fn routed_by(&self) -> Option<&'a [u8]> {
        self.entry(KIND_ROUTED_BY)
    }

    /// The annotations that consumers added, encoded; empty if there are none.
    pub(crate) fn added_bytes(&self) -> &'a [u8] {
        self.entry(KIND_ADDED).unwrap_or_default()
    }

    /// How often its delivery failed in the quorum queues in which it died.
    pub fn failures(&self) -> u32 {
        let bytes = self.entry(KIND_FAILURES).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// By what a queue compared it with earlier messages.
    pub fn compared_by(&self) -> Option<ComparedBy> {
        let (id, rest) = self.entry(KIND_COMPARED_BY)?.split_first_chunk()?;
        let sequence = rest.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        Some(ComparedBy { id: u128::from_le_bytes(*id), sequence })
    }

    /// The annotations that consumers added, if there are any.
    pub fn added(&self) -> Option<MapRef<'a>> {
        map_of(self.added_bytes())
    }

    fn entry(&self, kind: u8) -> Option<&'a [u8]> {
        let mut rest = self.bytes;
        while let Some((&[found], after)) = rest.split_first_chunk() {
            let (content, next) = take_sized(after)?;
            if found == kind {
                return Some(content);
            }
            rest = next;
        }
        None
    }
}

/// The stamp of the time at which a message was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedStamp {
    /// Wall time in milliseconds since the Unix epoch.
    pub ms: u64,
    /// Whether it is shown as a header or annotation.
    pub header: bool,
    /// Whether it is shown as the property `timestamp` of AMQP 0-9-1.
    pub property: bool,
}

/// Routing keys, in the publisher's order.
#[derive(Debug, Clone, Default)]
pub struct Keys<'a> {
    bytes: &'a [u8],
}

impl<'a> Keys<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (key, rest) = take_sized(self.bytes)?;
        self.bytes = rest;
        Some(key)
    }
}

/// Appends an overlay with routing keys; nothing if there are none.
pub fn encode_keys<'k>(
    out: &mut Vec<u8>,
    further: impl IntoIterator<Item = &'k [u8]>,
    blind: impl IntoIterator<Item = &'k [u8]>,
) {
    keys_entry(out, KIND_FURTHER_KEYS, further);
    keys_entry(out, KIND_BLIND_KEYS, blind);
}

fn keys_entry<'k>(out: &mut Vec<u8>, kind: u8, keys: impl IntoIterator<Item = &'k [u8]>) {
    let mut keys = keys.into_iter().peekable();
    // Nearly every message has none: nothing is allocated for it.
    if keys.peek().is_none() {
        return;
    }
    let start = begin_entry(out, kind);
    for key in keys {
        push_sized(out, key);
    }
    end_entry(out, start);
}

pub(crate) fn deaths_entry(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = begin_entry(out, KIND_DEATHS);
    write(out);
    end_entry(out, start);
}

pub(crate) fn received_entry(out: &mut Vec<u8>, received: &ReceivedStamp) {
    let start = begin_entry(out, KIND_RECEIVED);
    out.extend_from_slice(&received.ms.to_le_bytes());
    let header = if received.header { RECEIVED_HEADER } else { 0 };
    out.push(header | if received.property { RECEIVED_PROPERTY } else { 0 });
    end_entry(out, start);
}

pub(crate) fn routed_by_entry(out: &mut Vec<u8>, node: &[u8]) {
    let start = begin_entry(out, KIND_ROUTED_BY);
    out.extend_from_slice(node);
    end_entry(out, start);
}

pub(crate) fn added_entry(out: &mut Vec<u8>, added: &[u8]) {
    if !added.is_empty() {
        let start = begin_entry(out, KIND_ADDED);
        out.extend_from_slice(added);
        end_entry(out, start);
    }
}

pub(crate) fn failures_entry(out: &mut Vec<u8>, failures: u32) {
    if failures > 0 {
        let start = begin_entry(out, KIND_FAILURES);
        out.extend_from_slice(&failures.to_le_bytes());
        end_entry(out, start);
    }
}

pub(crate) fn compared_by_entry(out: &mut Vec<u8>, by: ComparedBy) {
    let start = begin_entry(out, KIND_COMPARED_BY);
    out.extend_from_slice(&by.id.to_le_bytes());
    by.sequence.iter().for_each(|sequence| out.extend_from_slice(&sequence.to_le_bytes()));
    end_entry(out, start);
}

/// Appends the entries of another overlay except the annotations that consumers added.
pub(crate) fn entries_without_added(out: &mut Vec<u8>, from: &Overlay<'_>) {
    entries_without(out, from, |kind| kind == KIND_ADDED);
}

/// Appends the entries of another overlay except the failed deliveries.
pub(crate) fn entries_without_failures(out: &mut Vec<u8>, from: &Overlay<'_>) {
    entries_without(out, from, |kind| kind == KIND_FAILURES);
}

/// Appends the entries of another overlay except that by which a queue compared the message, and if `without_added` the
/// annotations.
pub(crate) fn entries_uncompared(out: &mut Vec<u8>, from: &Overlay<'_>, without_added: bool) {
    entries_without(out, from, |kind| kind == KIND_COMPARED_BY || without_added && kind == KIND_ADDED);
}

fn entries_without(out: &mut Vec<u8>, from: &Overlay<'_>, without: impl Fn(u8) -> bool) {
    let mut rest = from.bytes;
    while let Some((&[kind], after)) = rest.split_first_chunk() {
        let Some((content, next)) = take_sized(after) else { return };
        if !without(kind) {
            out.extend_from_slice(&rest[..5 + content.len()]);
        }
        rest = next;
    }
}

/// Appends the stamps of another overlay.
pub(crate) fn stamp_entries(out: &mut Vec<u8>, from: &Overlay<'_>) {
    if let Some(received) = from.received() {
        received_entry(out, &received);
    }
    if let Some(node) = from.routed_by() {
        routed_by_entry(out, node);
    }
}

fn begin_entry(out: &mut Vec<u8>, kind: u8) -> usize {
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    out.len()
}

fn end_entry(out: &mut [u8], start: usize) {
    let length = u32::try_from(out.len() - start).expect("overlay over 4 GiB");
    out[start - 4..start].copy_from_slice(&length.to_le_bytes());
}

pub(crate) fn push_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("routing key over 4 GiB");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

pub(crate) fn take_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_in_order() {
        let mut bytes = Vec::new();
        encode_keys(&mut bytes, [&b"a"[..], b"", b"\xff"], []);
        let overlay = Overlay::new(&bytes);
        assert_eq!(overlay.further_keys().collect::<Vec<_>>(), [&b"a"[..], b"", b"\xff"]);
        assert_eq!(overlay.blind_keys().count(), 0);
        bytes.clear();
        encode_keys(&mut bytes, [], [&b"blind"[..]]);
        assert_eq!(Overlay::new(&bytes).blind_keys().collect::<Vec<_>>(), [&b"blind"[..]]);
        bytes.clear();
        encode_keys(&mut bytes, [], []);
        assert!(bytes.is_empty());
    }

    #[test]
    fn damage_ends_early() {
        let mut bytes = Vec::new();
        encode_keys(&mut bytes, [&b"first"[..]], [&b"second"[..]]);
        for end in 0..bytes.len() {
            let overlay = Overlay::new(&bytes[..end]);
            assert_eq!(overlay.blind_keys().count(), 0, "cut at {end}");
        }
    }
}
