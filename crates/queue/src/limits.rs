//! Length limits: `x-max-length`, `x-max-length-bytes` and `x-overflow`.
//!
//! Only ready messages count, as in RabbitMQ; those still on their way to disk count as ready.

use leveret_message::Batch;
use leveret_model::{Overflow, QueueOptions};

/// What a limit is compared with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Length {
    pub messages: u64,
    pub bytes: u64,
}

/// True while the queue holds more than it may.
pub(crate) fn is_over(options: &QueueOptions, length: Length) -> bool {
    options.max_length.is_some_and(|limit| length.messages > limit)
        || options.max_length_bytes.is_some_and(|limit| length.bytes > limit)
}

/// How many of `count` messages from `index` on a queue of this length accepts.
pub(crate) fn acceptable(
    options: &QueueOptions,
    mut length: Length,
    batch: &Batch,
    index: usize,
    count: usize,
) -> usize {
    if options.overflow == Overflow::DropHead || (options.max_length.is_none() && options.max_length_bytes.is_none()) {
        return count;
    }
    for accepted in 0..count {
        length.messages += 1;
        length.bytes += u64::from(batch.body_length(index + accepted));
        if is_over(options, length) {
            return accepted;
        }
    }
    count
}
