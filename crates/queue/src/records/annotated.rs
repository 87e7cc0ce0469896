//! A message of a queue with the annotations that consumers added to it.

use std::sync::Arc;

use leveret_message::{ADDED_TOTAL_MAX, Added};

/// A message with all annotations that were added to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotated {
    /// Its number.
    pub number: u64,
    /// Its annotations.
    pub added: Arc<Added>,
}

/// Bytes of an encoded message before its annotations: its number and their length.
const HEAD_BYTES: usize = 12;

impl Annotated {
    /// Appends 8 bytes number, 4 bytes length, and the annotations.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let bytes = self.added.as_bytes();
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    }

    /// Number of bytes that [`Annotated::encode`] appends.
    pub fn encoded_bytes(&self) -> usize {
        HEAD_BYTES + self.added.as_bytes().len()
    }

    /// The payload of a record with these messages.
    pub fn encode_all(all: &[Self]) -> Vec<u8> {
        let mut payload = Vec::new();
        all.iter().for_each(|annotated| annotated.encode(&mut payload));
        payload
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (number, bytes) = bytes.split_first_chunk()?;
        let (length, bytes) = bytes.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        let (added, rest) = bytes.split_at_checked(length).filter(|_| length <= ADDED_TOTAL_MAX)?;
        let added = Arc::new(Added::from_bytes(added)?);
        Some((Self { number: u64::from_le_bytes(*number), added }, rest))
    }

    /// The messages of a record's payload. `None` if they aren't whole.
    pub fn decode_all(mut payload: &[u8]) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        while !payload.is_empty() {
            let (one, rest) = Self::decode(payload)?;
            all.push(one);
            payload = rest;
        }
        Some(all)
    }
}
