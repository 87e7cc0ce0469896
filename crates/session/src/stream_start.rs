//! Positions in a stream, as clients name them over any protocol.

use leveret_model::Queue;
use leveret_queue::StreamStart;

/// Argument of a consumer of AMQP 0-9-1: where it begins. Lists of consumers show this name for all protocols.
pub const OFFSET: &str = "x-stream-offset";
/// Argument: the values that it wants chunks of.
pub const FILTER: &str = "x-stream-filter";
/// Argument: whether it wants chunks with messages without a value as well.
pub const MATCH_UNFILTERED: &str = "x-stream-match-unfiltered";

/// The position with a name: `first`, `last`, `next`, or an interval such as `12h` before `now_ms`, in milliseconds since the Unix
/// epoch. `None` if it is neither.
pub fn of_text(text: &str, now_ms: u64) -> Option<StreamStart> {
    match text {
        "first" => Some(StreamStart::First),
        "last" => Some(StreamStart::Last),
        "next" => Some(StreamStart::Next),
        interval => {
            let ago_ms = leveret_model::duration_ms(interval)?;
            Some(StreamStart::Timestamp(now_ms.saturating_sub(ago_ms)))
        }
    }
}

/// The position of a number: an offset, or so many messages before the next one if it is negative.
pub fn of_number(number: i64) -> StreamStart {
    match u64::try_from(number) {
        Ok(offset) => StreamStart::Offset(offset),
        Err(_) => StreamStart::LastN(number.unsigned_abs()),
    }
}

/// The text for a consumer whose offset a stream can't keep.
pub fn too_many_names(queue: &Queue) -> String {
    format!(
        "queue '{}' in vhost '{}' keeps the offsets of as many consumer names as it may; use one of them again, or delete the stream",
        queue.name, queue.vhost
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_intervals_and_numbers_are_positions() {
        let at = |text| of_text(text, 100_000);
        assert_eq!(at("first"), Some(StreamStart::First));
        assert_eq!(at("last"), Some(StreamStart::Last));
        assert_eq!(at("next"), Some(StreamStart::Next));
        assert_eq!(at("10s"), Some(StreamStart::Timestamp(90_000)));
        assert_eq!(at("1D"), Some(StreamStart::Timestamp(0)));
        assert_eq!([at("First"), at("10"), at("s"), at("0s"), at("-1s"), at("")], [None; 6]);
        assert_eq!(of_number(7), StreamStart::Offset(7));
        assert_eq!(of_number(-7), StreamStart::LastN(7));
        assert_eq!(of_number(i64::MIN), StreamStart::LastN(1 << 63));
    }
}
