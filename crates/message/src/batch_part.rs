//! A part of a batch.

use std::ops::Range;
use std::sync::Arc;

use crate::Batch;

/// Consecutive messages of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchPart<'a> {
    /// The batch.
    pub batch: &'a Arc<Batch>,
    /// Index of the first one.
    pub index: u32,
    /// Number of messages.
    pub count: u32,
}

impl<'a> BatchPart<'a> {
    /// The `count` messages from `index` on.
    #[inline]
    pub fn of(batch: &'a Arc<Batch>, index: u32, count: u32) -> Self {
        Self { batch, index, count }
    }

    /// All messages.
    #[inline]
    pub fn whole(batch: &'a Arc<Batch>) -> Self {
        Self { batch, index: 0, count: batch.len() as u32 }
    }

    /// The first `count` of them.
    #[inline]
    pub fn first(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// The others behind the first `count` of them.
    #[inline]
    pub fn behind(self, count: u32) -> Self {
        Self { index: self.index + count, count: self.count - count, ..self }
    }

    /// Their indexes.
    #[inline]
    pub fn indexes(self) -> Range<u32> {
        self.index..self.index + self.count
    }
}
