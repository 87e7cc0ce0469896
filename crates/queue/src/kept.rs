//! A queue's checkpoint state, apart from its set of live messages: the state bytes of its entry (docs/storage.md).
//!
//! | version | content |
//! |---|---|
//! | none, no bytes at all | nothing |
//! | 3 | times only: see [`crate::expiry`] |
//! | 2 | 1 byte version, 4 bytes number of stretches s, 24 s bytes of stretches, then the content of version 3 or nothing |
//!
//! A stretch is its first number, its last number, and the number of its first message in the shared log.

use roaring::RoaringTreemap;
use thiserror::Error;

use crate::expiry::{Expiry, ExpiryStateError};
use crate::shared::References;

const VERSION: u8 = 2;

/// A queue's checkpoint state, apart from its set of live messages.
#[derive(Debug, Default)]
pub struct Kept {
    /// Expiry times of its messages.
    pub expiry: Expiry,
    /// The messages that are stored in the shared log.
    pub references: References,
}

/// State bytes that this version can't read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeptError {
    /// The expiry times can't be read.
    #[error(transparent)]
    Expiry(#[from] ExpiryStateError),
    /// The stretches of shared messages can't be read.
    #[error("the shared messages in a queue's state of {0} bytes don't add up")]
    References(usize),
}

impl Kept {
    /// Decodes bytes written by [`crate::Queue::kept`].
    ///
    /// # Errors
    /// [`KeptError`] if they are of another version or length.
    pub fn decode(bytes: &[u8]) -> Result<Self, KeptError> {
        let Some((&VERSION, rest)) = bytes.split_first() else {
            return Ok(Self { expiry: Expiry::decode(bytes)?, references: References::default() });
        };
        let (references, rest) = References::decode(rest).ok_or(KeptError::References(bytes.len()))?;
        Ok(Self { expiry: Expiry::decode(rest)?, references })
    }
}

impl Kept {
    /// Encodes the state of a queue whose numbers are below `next`, for a checkpoint.
    pub fn encode(&self, next: u64) -> Vec<u8> {
        encode(&self.references, next, self.expiry.encode(&RoaringTreemap::new()))
    }
}

/// Encodes the state of a queue whose numbers are below `next`, with its encoded expiry times.
pub(crate) fn encode(references: &References, next: u64, expiry: Vec<u8>) -> Vec<u8> {
    if references.is_empty() {
        return expiry;
    }
    let mut out = vec![VERSION];
    references.encode(&mut out, next);
    out.extend_from_slice(&expiry);
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leveret_model::QueueOptions;

    use super::*;
    use crate::contents::MemoryBudget;
    use crate::ledger::Ledger;
    use crate::{Queue, Recovered, Surroundings};

    #[test]
    fn times_and_shared_messages_come_back() {
        let budget = Arc::new(MemoryBudget::new(0));
        let ledger = || {
            let mut ledger = Ledger::default();
            ledger.accept(4, 2, 0);
            ledger
        };
        let surroundings = Surroundings { budget, epoch_ms: 0, strict_compat: false, standing_delay_target: 0 };
        let queue = |ledger, expiry| {
            let recovered = Recovered { ledger, expiry, ..Recovered::default() };
            Queue::new(QueueOptions::default(), true, recovered, surroundings.clone(), 0)
        };
        assert!(queue(ledger(), Expiry::default()).checkpoint().state.is_empty());
        let mut expiry = Expiry::default();
        expiry.expires(4, 1_700_000_010_000, 77);
        let mut queue = queue(ledger(), expiry);
        let only_times = queue.checkpoint().state;
        assert!(Kept::decode(&only_times).unwrap().references.is_empty());
        queue.references_mut().add(4, 2, 900);
        let bytes = queue.checkpoint().state;
        let again = Kept::decode(&bytes).unwrap();
        assert_eq!(again.references.place(5).unwrap().shared, 901);
        assert!(!again.expiry.is_empty());
        for end in 1..bytes.len() - only_times.len() {
            assert_eq!(Kept::decode(&bytes[..end]).unwrap_err(), KeptError::References(end));
        }
        let mut newer = bytes;
        newer[0] = 4;
        assert!(matches!(Kept::decode(&newer), Err(KeptError::Expiry(ExpiryStateError::Version(4)))));
    }
}
