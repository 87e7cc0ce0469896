//! Where a reader of a stream begins, and the messages that it wants.

use std::sync::Arc;

use crate::filters::StreamFilter;

/// The first message that a reader gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamStart {
    /// The oldest message that is there.
    First,
    /// The first message of the last chunk.
    Last,
    /// The next message that is published.
    #[default]
    Next,
    /// The message with this offset; the oldest one if retention has removed it.
    Offset(u64),
    /// So many messages before the next one that is published.
    LastN(u64),
    /// The first chunk that was published at this time or later, in milliseconds since the Unix epoch.
    Timestamp(u64),
}

impl StreamStart {
    /// The position with a name: `first`, `last`, `next`, or an interval such as `12h` before `now_ms`, in milliseconds since the Unix
    /// epoch. `None` if it is neither.
    pub fn of_text(text: &str, now_ms: u64) -> Option<Self> {
        match text {
            "first" => Some(Self::First),
            "last" => Some(Self::Last),
            "next" => Some(Self::Next),
            interval => {
                let ago_ms = leveret_model::duration_ms(interval)?;
                Some(Self::Timestamp(now_ms.saturating_sub(ago_ms)))
            }
        }
    }

    /// The position of a number: an offset, or so many messages before the next one if it is negative.
    pub fn of_number(number: i64) -> Self {
        match u64::try_from(number) {
            Ok(offset) => Self::Offset(offset),
            Err(_) => Self::LastN(number.unsigned_abs()),
        }
    }
}

/// The part of a reader's options by which it is a member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The name of the group.
    pub name: Arc<str>,
    /// The number of the stream among the partitions of its super stream.
    pub partition: Option<u32>,
}

/// The part of a consumer's options that only a stream has.
#[derive(Debug, Clone, Default)]
pub struct StreamOptions {
    /// Its first message.
    pub start: StreamStart,
    /// The messages that it wants; all if there is none.
    pub filter: Option<Arc<StreamFilter>>,
    /// The name by which the stream keeps its offset. If there is an offset of that name, it begins there, and not at `start`.
    pub tracking: Option<Arc<str>>,
    /// Whether it takes whole chunks, by [`crate::StreamQueue::take_chunks`]: the stream protocol. Its credit counts chunks.
    pub whole_chunks: bool,
    /// Whether it also takes chunks whose entries are in a file, to be sent from there.
    pub chunks_in_files: bool,
    /// The group of which one reader at a time is served, if it is a member of one.
    pub group: Option<GroupMember>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_intervals_and_numbers_are_positions() {
        let at = |text| StreamStart::of_text(text, 100_000);
        assert_eq!(at("first"), Some(StreamStart::First));
        assert_eq!(at("last"), Some(StreamStart::Last));
        assert_eq!(at("next"), Some(StreamStart::Next));
        assert_eq!(at("10s"), Some(StreamStart::Timestamp(90_000)));
        assert_eq!(at("1D"), Some(StreamStart::Timestamp(0)));
        assert_eq!([at("First"), at("10"), at("s"), at("0s"), at("-1s"), at("")], [None; 6]);
        assert_eq!(StreamStart::of_number(7), StreamStart::Offset(7));
        assert_eq!(StreamStart::of_number(-7), StreamStart::LastN(7));
        assert_eq!(StreamStart::of_number(i64::MIN), StreamStart::LastN(1 << 63));
    }
}
