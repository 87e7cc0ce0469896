//! The shared log as recovery finds it, and its state in a checkpoint.

use std::collections::BTreeMap;

use leveret_log::LiveState;
use leveret_message::stored::{self, StoredError};

/// Version of the state in a checkpoint.
const STATE_VERSION: u8 = 1;

/// The recovered state of the shared log.
#[derive(Debug, Default)]
pub struct RecoveredShared {
    /// Every message has a lower number.
    pub next: u64,
    /// Body files by message number, including those of messages that may be gone.
    pub files: BTreeMap<u64, u64>,
}

impl RecoveredShared {
    /// Body files by number, for a checkpoint.
    pub(crate) fn encode(files: &BTreeMap<u64, u64>) -> Vec<u8> {
        let mut state = Vec::new();
        if !files.is_empty() {
            state.push(STATE_VERSION);
        }
        for (number, id) in files {
            state.extend_from_slice(&number.to_le_bytes());
            state.extend_from_slice(&id.to_le_bytes());
        }
        state
    }

    /// Decodes a state written by [`RecoveredShared::encode`].
    ///
    /// # Errors
    /// The length of the state, if it isn't valid.
    pub(crate) fn decode(state: &LiveState) -> Result<Self, usize> {
        let mut recovered = Self { next: state.next, files: BTreeMap::new() };
        let Some((version, rest)) = state.state.split_first() else { return Ok(recovered) };
        let (pairs, odd) = rest.as_chunks::<16>();
        if *version != STATE_VERSION || !odd.is_empty() {
            return Err(state.state.len());
        }
        for pair in pairs {
            let pair = u128::from_le_bytes(*pair);
            recovered.files.insert(pair as u64, (pair >> 64) as u64);
        }
        Ok(recovered)
    }

    /// Replays a message.
    ///
    /// # Errors
    /// [`StoredError`] if it can't be decoded.
    pub(crate) fn message(&mut self, number: u64, payload: &[u8]) -> Result<(), StoredError> {
        self.next = number + 1;
        self.files.extend(stored::body_file(payload)?.map(|(id, ..)| (number, id)));
        Ok(())
    }
}
