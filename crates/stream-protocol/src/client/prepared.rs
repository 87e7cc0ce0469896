//! A publish of equal messages whose ids alone change from one time to the next.

use super::Publishing;

/// A publish that was put together once and is sent over and over.
#[derive(Debug, Clone)]
pub struct PreparedPublish {
    frame: Vec<u8>,
    first_at: usize,
    step: usize,
}

impl PreparedPublish {
    /// A publish with `count` times the same message.
    ///
    /// # Panics
    /// If the frame has 4 GiB or more.
    #[must_use]
    pub fn new(publisher: u8, count: u32, message: &[u8]) -> Self {
        let mut frame = Vec::new();
        let mut publishing = Publishing::begin(&mut frame, 1, publisher);
        let first_at = frame.len();
        for id in 0..count {
            publishing.message(&mut frame, id.into(), &[], message);
        }
        publishing.end(&mut frame);
        Self { frame, first_at, step: 8 + 4 + message.len() }
    }

    /// The frame with ids from `first` on.
    pub fn numbered(&mut self, first: u64) -> &[u8] {
        for (message, id) in self.frame[self.first_at..].chunks_exact_mut(self.step).zip(first..) {
            message[..8].copy_from_slice(&id.to_be_bytes());
        }
        &self.frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Request, next_frame};

    #[test]
    fn each_use_has_ids_of_its_own() {
        let mut prepared = PreparedPublish::new(2, 3, b"hi");
        for first in [0, 77] {
            let (frame, _) = next_frame(prepared.numbered(first), 0).unwrap().unwrap();
            let Ok(Request::Publish(publish)) = Request::decode(&frame) else { panic!("not a publish") };
            let messages: Vec<_> = publish.messages().map(|message| message.unwrap()).collect();
            assert!(messages.iter().map(|message| message.id).eq(first..first + 3));
            assert!(messages.iter().all(|message| message.entry == b"\0\0\0\x02hi"));
        }
    }
}
