//! A subscription: its credit, and the chunks that came.

use std::collections::VecDeque;

use super::chunk::ReceivedChunk;

/// A subscription.
#[derive(Debug, Default)]
pub struct Subscription {
    /// Chunks that may come.
    pub credit: u32,
    /// Offset behind the last chunk received.
    pub next: Option<u64>,
    /// Whether chunks may be left out, by a filter.
    pub is_filtered: bool,
    /// Chunks received and not taken.
    pub chunks: VecDeque<ReceivedChunk>,
    /// Number of chunks received.
    pub received: u64,
}

impl Subscription {
    pub(super) fn received(&mut self, chunk: ReceivedChunk) {
        assert!(self.credit > 0, "a chunk without credit: {chunk:?}");
        self.credit -= 1;
        if let Some(next) = self.next {
            let follows = if self.is_filtered { chunk.first >= next } else { chunk.first == next };
            assert!(follows, "a chunk from {} on behind offset {next}", chunk.first);
        }
        self.next = Some(chunk.first + chunk.count);
        self.received += 1;
        self.chunks.push_back(chunk);
    }

    /// The bodies of the messages received from `offset` on, with their offsets.
    pub fn bodies_from(&self, offset: u64) -> Vec<(u64, Vec<u8>)> {
        let mut bodies = Vec::new();
        for chunk in &self.chunks {
            bodies.extend((chunk.first..).zip(chunk.bodies().map(<[u8]>::to_vec)));
        }
        bodies.retain(|(at, _)| *at >= offset);
        bodies
    }
}
