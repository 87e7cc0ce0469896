//! An offset that a stream keeps for a name.

use std::sync::Arc;

/// An offset that is kept for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOffset {
    /// The name.
    pub name: Arc<str>,
    /// Offset of the first message that its consumer hasn't settled.
    pub offset: u64,
}

impl KeptOffset {
    /// Appends length of the name u8, name, offset u64.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::try_from(self.name.len()).expect("longer names are refused"));
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (length, rest) = bytes.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (offset, rest) = rest.split_first_chunk::<8>()?;
        let name = std::str::from_utf8(name).ok()?.into();
        Some((Self { name, offset: u64::from_le_bytes(*offset) }, rest))
    }

    /// The payload of a record with these offsets.
    pub fn encode_all(all: &[Self]) -> Vec<u8> {
        let mut payload = Vec::new();
        all.iter().for_each(|kept| kept.encode(&mut payload));
        payload
    }

    /// The offsets of a record. `None` if it isn't one.
    pub fn decode_all(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let (kept, rest) = Self::decode(bytes)?;
            all.push(kept);
            bytes = rest;
        }
        Some(all)
    }
}
