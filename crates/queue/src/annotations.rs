//! Annotations that consumers added to the messages of a quorum queue, by the outcome `modified` of AMQP 1.0 (3.4.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_message::Added;

use crate::records::Annotated;

/// Annotations of the live messages that have some. Most queues have none at all.
#[derive(Debug, Default)]
pub struct Annotations(BTreeMap<u64, Arc<Added>>);

impl Annotations {
    /// Whether no message has any.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The annotations of a message.
    pub fn of(&self, number: u64) -> Option<&Arc<Added>> {
        self.0.get(&number)
    }

    /// The first message from `from` on that has some.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        self.0.range(from..).next().map(|(number, _)| *number)
    }

    /// Adds annotations to a message. Returns all that it has.
    pub(crate) fn add(&mut self, number: u64, newer: &Arc<Added>) -> Annotated {
        let added = match self.of(number) {
            Some(before) => Arc::new(before.merged(newer)),
            None => newer.clone(),
        };
        let annotated = Annotated { number, added };
        self.replay(annotated.clone());
        annotated
    }

    /// Replaces the annotations of a message by those of a record.
    pub fn replay(&mut self, annotated: Annotated) {
        self.0.insert(annotated.number, annotated.added);
    }

    /// Messages left the queue.
    #[inline]
    pub(crate) fn forget(&mut self, first: u64, last: u64) {
        if !self.0.is_empty() {
            self.0.extract_if(first..=last, |_, _| true).for_each(drop);
        }
    }

    /// Keeps the annotations of these messages only.
    pub fn keep(&mut self, live: impl Fn(u64) -> bool) {
        self.0.retain(|number, _| live(*number));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Annotated> {
        self.0.iter().map(|(number, added)| Annotated { number: *number, added: added.clone() })
    }

    /// Appends to `out`: 4 bytes number of messages, and each as [`Annotated::encode`] writes it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.0.len() as u32).to_le_bytes());
        self.iter().for_each(|annotated| annotated.encode(out));
    }

    /// Decodes annotations at the beginning of `bytes`, and returns them with the rest. `None` if they aren't whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (count, mut bytes) = bytes.split_first_chunk()?;
        let mut all = Self::default();
        for _ in 0..u32::from_le_bytes(*count) {
            let (annotated, rest) = Annotated::decode(bytes)?;
            all.replay(annotated);
            bytes = rest;
        }
        Some((all, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The map with a symbol of one letter and a small integer.
    fn added(name: u8, value: u8) -> Arc<Added> {
        let bytes = [0xd1, 0, 0, 0, 9, 0, 0, 0, 2, 0xa3, 1, name, 0x54, value];
        Arc::new(Added::from_bytes(&bytes).expect("it is a map"))
    }

    #[test]
    fn annotations_survive_a_record_and_a_checkpoint() {
        let mut all = Annotations::default();
        let first = all.add(5, &added(b'a', 1));
        let second = all.add(5, &added(b'b', 2));
        assert_eq!((second.added.map().len(), all.next(0), all.next(6)), (2, Some(5), None));
        let mut payload = Vec::new();
        [&first, &second].iter().for_each(|annotated| annotated.encode(&mut payload));
        assert_eq!(payload.len(), first.encoded_bytes() + second.encoded_bytes());
        assert_eq!(Annotated::decode_all(&payload), Some(vec![first, second.clone()]));
        assert_eq!(Annotated::decode_all(&payload[1..]), None);
        let mut bytes = Vec::new();
        all.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(Annotations::decode(&bytes[..end]).is_none(), "cut at {end}");
        }
        bytes.push(77);
        let (mut again, rest) = Annotations::decode(&bytes).expect("it is whole");
        assert_eq!((rest, again.of(5)), (&[77][..], Some(&second.added)));
        again.forget(5, 5);
        assert!(again.is_empty());
    }
}
