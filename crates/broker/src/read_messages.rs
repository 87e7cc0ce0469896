//! Messages that were read from disk, on their way into batches.

use std::sync::Arc;

use bytes::Bytes;
use leveret_log::StoredMessage;
use leveret_message::{Batch, BatchBuilder, FileBody, StoredError};

use crate::bodies::BodyPin;

/// A message as it is stored on disk.
pub(crate) struct Stored {
    pub number: u64,
    pub payload: Bytes,
    pub body: Body,
}

/// The location of a message's body.
pub(crate) enum Body {
    /// Behind the message's head.
    Here,
    /// Read from its file.
    Read(Bytes),
    /// In its file, where it remains.
    File(FileBody),
}

impl Body {
    /// A body that remains in its file, and its fields if they were read.
    pub(crate) fn in_file(pin: &Arc<BodyPin>, fields: Option<Bytes>) -> Self {
        let length = u32::try_from(pin.length()).expect("lengths in heads have 32 bits");
        Self::File(FileBody { length, handle: pin.clone(), fields })
    }
}

impl From<StoredMessage> for Stored {
    fn from(message: StoredMessage) -> Self {
        Self { number: message.number, payload: message.payload, body: Body::Here }
    }
}

/// Puts stored messages into batches of consecutive numbers.
///
/// # Errors
/// [`StoredError`] when one isn't a stored message.
pub(crate) fn into_runs(messages: impl Iterator<Item = Stored>) -> Result<Vec<(u64, Arc<Batch>)>, StoredError> {
    let mut runs = Vec::new();
    let mut builder = BatchBuilder::default();
    let mut first = 0;
    for Stored { number, payload, body } in messages {
        if builder.is_empty() {
            first = number;
        } else if first + builder.len() as u64 != number || builder.is_full() {
            runs.push((first, Arc::new(builder.finish())));
            first = number;
        }
        match body {
            Body::Here => builder.push_stored(&payload)?,
            Body::Read(body) => builder.push_stored_parts(&payload, body)?,
            Body::File(body) => builder.push_stored_file(&payload, body)?,
        }
    }
    if !builder.is_empty() {
        runs.push((first, Arc::new(builder.finish())));
    }
    Ok(runs)
}
