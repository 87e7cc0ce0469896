//! Partially received messages: a limit for all of them together on one connection, for all protocols. A client may have
//! thousands of links or channels, and could begin a message of the largest size on each and never complete it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::settings::Settings;

/// The limit and the total of a connection's partially received messages.
#[derive(Debug, Clone)]
pub struct PartialMessages {
    held: Arc<AtomicU64>,
    max: u64,
}

/// A partially received message; its bytes count until it is dropped.
#[derive(Debug)]
pub struct PartialBytes {
    bytes: Vec<u8>,
    charged: u64,
    all: PartialMessages,
}

/// The partial messages of a connection are too large: an error of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "unfinished messages of this connection would hold {held} bytes, more than partial_message_bytes_max_per_connection \
     ({max}): finish or abort some first"
)]
pub struct TooManyPartialBytes {
    held: u64,
    max: u64,
}

impl PartialMessages {
    /// The limit for a new connection. One message of the largest size always fits.
    ///
    /// `held` counts the bytes, and others may read it.
    pub fn new(settings: &Settings, held: Arc<AtomicU64>) -> Self {
        Self { held, max: settings.partial_message_bytes_max.max(settings.max_message_size) }
    }

    /// Begins a message without any bytes.
    pub fn begin(&self) -> PartialBytes {
        PartialBytes { bytes: Vec::new(), charged: 0, all: self.clone() }
    }
}

impl PartialBytes {
    /// Appends received bytes.
    ///
    /// # Errors
    /// If all partial messages of the connection would be too large.
    pub fn add(&mut self, part: &[u8]) -> Result<(), TooManyPartialBytes> {
        self.charge(part.len() as u64)?;
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// Counts further bytes that are held for the message.
    ///
    /// # Errors
    /// As [`PartialBytes::add`].
    pub fn charge(&mut self, bytes: u64) -> Result<(), TooManyPartialBytes> {
        let held = self.all.held.load(Ordering::Relaxed) + bytes;
        if held > self.all.max {
            return Err(TooManyPartialBytes { held, max: self.all.max });
        }
        self.all.held.store(held, Ordering::Relaxed);
        self.charged += bytes;
        Ok(())
    }

    /// Number of received bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no bytes were received.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The received bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The complete message.
    pub fn finish(mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for PartialBytes {
    fn drop(&mut self) {
        self.all.held.fetch_sub(self.charged, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_connection_share_a_limit() {
        let settings = Settings { partial_message_bytes_max: 10, max_message_size: 6, ..Settings::default() };
        let all = PartialMessages::new(&settings, Arc::default());
        let (mut one, mut two) = (all.begin(), all.begin());
        one.add(b"123456").unwrap();
        two.add(b"1234").unwrap();
        assert_eq!(two.add(b"5"), Err(TooManyPartialBytes { held: 11, max: 10 }));
        assert_eq!(one.finish(), b"123456");
        two.add(b"567890").unwrap();
        assert!(all.begin().charge(1).is_err());
        drop(two);
        assert_eq!(all.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_largest_message_is_let_in() {
        let settings = Settings { partial_message_bytes_max: 1, max_message_size: 6, ..Settings::default() };
        let mut message = PartialMessages::new(&settings, Arc::default()).begin();
        message.add(b"123456").unwrap();
        assert!(message.add(b"7").is_err());
        assert_eq!(message.len(), 6);
    }
}
