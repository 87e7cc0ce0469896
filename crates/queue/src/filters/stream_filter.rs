//! Filters of a stream's readers.

use leveret_message::chunk::may_match;

use super::message_filter::MessageFilter;

/// The messages that a reader wants. Chunks are chosen by the values that their publishers gave (`x-stream-filter-value`), and
/// messages of such chunks by an expression or by their fields.
#[derive(Debug, Default)]
pub struct StreamFilter {
    /// One of these values; any if there are none.
    pub values: Vec<Box<str>>,
    /// Whether messages without a value are wanted as well, if there are values.
    pub match_unfiltered: bool,
    /// The filter on messages.
    pub messages: MessageFilter,
}

impl StreamFilter {
    /// Whether a chunk with this Bloom filter may contain wanted messages.
    pub fn may_match(&self, bloom: &[u8]) -> bool {
        self.values.is_empty() || may_match(bloom, self.values.iter().map(|value| &**value), self.match_unfiltered)
    }

    /// Whether messages have to be looked at one by one.
    pub fn looks_at_messages(&self) -> bool {
        !self.messages.is_empty()
    }
}
