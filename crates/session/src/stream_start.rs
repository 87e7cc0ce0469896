//! Positions in a stream, as clients name them over any protocol.

use leveret_model::Queue;

/// Argument of a consumer of AMQP 0-9-1: where it begins. Lists of consumers show this name for all protocols.
pub const OFFSET: &str = "x-stream-offset";
/// Argument: the values that it wants chunks of.
pub const FILTER: &str = "x-stream-filter";
/// Argument: whether it wants chunks with messages without a value as well.
pub const MATCH_UNFILTERED: &str = "x-stream-match-unfiltered";

/// The text for a consumer whose offset a stream can't keep.
pub fn too_many_names(queue: &Queue) -> String {
    format!(
        "queue '{}' in vhost '{}' keeps the offsets of as many consumer names as it may; use one of them again, or delete the stream",
        queue.name, queue.vhost
    )
}
