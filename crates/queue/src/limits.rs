//! Length limits: `x-max-length`, `x-max-length-bytes` and `x-overflow`.
//!
//! Only ready and delayed messages count, as in RabbitMQ; messages on their way to disk count as ready. A message for which a consumer has
//! credit counts as handed out: RabbitMQ hands it to the consumer before it checks the limit.

use std::ops::{Add, Sub};

use leveret_message::BatchPart;
use leveret_model::{Overflow, QueueOptions};

use crate::nanos::Nanos;

/// The length of a queue, as compared with a limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Length {
    pub messages: u64,
    pub bytes: u64,
}

impl Add for Length {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { messages: self.messages + other.messages, bytes: self.bytes + other.bytes }
    }
}

impl Sub for Length {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { messages: self.messages - other.messages, bytes: self.bytes - other.bytes }
    }
}

/// Whether a queue has a limit that refuses messages rather than dropping them.
pub(crate) fn refuses(options: &QueueOptions) -> bool {
    options.overflow != Overflow::DropHead && (options.max_length.is_some() || options.max_length_bytes.is_some())
}

/// Whether the queue exceeds its limit.
pub(crate) fn is_over(options: &QueueOptions, length: Length) -> bool {
    options.max_length.is_some_and(|limit| length.messages > limit)
        || options.max_length_bytes.is_some_and(|limit| length.bytes > limit)
}

/// Number of these messages, the first ones, that a queue of this length accepts if it [`refuses`] and consumers take
/// the first `awaited` of them that aren't delayed. With `strict`, each of these has to be within the limits by itself.
pub(crate) fn acceptable(
    options: &QueueOptions,
    mut length: Length,
    part: BatchPart<'_>,
    mut awaited: u64,
    is_delayed: impl Fn(usize) -> bool,
    strict: bool,
) -> u32 {
    let BatchPart { batch, index, count } = part;
    for accepted in 0..count {
        let at = (index + accepted) as usize;
        let alone = Length { messages: 1, bytes: u64::from(batch.body_length(at)) };
        if awaited > 0 && !is_delayed(at) {
            awaited -= 1;
            if strict && is_over(options, alone) {
                return accepted;
            }
            continue;
        }
        length = length + alone;
        if is_over(options, length) {
            return accepted;
        }
    }
    count
}

/// Number of these messages, the first ones, that a queue of this length accepts up to twice its limit.
pub(crate) fn acceptable_twice(options: &QueueOptions, mut length: Length, part: BatchPart<'_>) -> u32 {
    let BatchPart { batch, index, count } = part;
    let exceeds = |length: u64, limit: Option<u64>| limit.is_some_and(|limit| length > limit.saturating_mul(2));
    for accepted in 0..count {
        length.messages += 1;
        length.bytes += u64::from(batch.body_length((index + accepted) as usize));
        if exceeds(length.messages, options.max_length) || exceeds(length.bytes, options.max_length_bytes) {
            return accepted;
        }
    }
    count
}

/// Whether messages are left beyond a limit, after as many were dropped as one turn may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Excess {
    #[default]
    None,
    /// The rest has to be dropped.
    Left,
    /// The owner of the timers knows.
    Announced,
}

impl Excess {
    /// Whether the rest has to be announced. It is then.
    pub(crate) fn announce(&mut self) -> bool {
        let is_new = *self == Excess::Left;
        if is_new {
            *self = Excess::Announced;
        }
        is_new
    }
}

/// Messages that a length limit refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    messages: u64,
    since: Option<Nanos>,
}

impl Refusals {
    /// Counts refused messages of one offer.
    pub(crate) fn note(&mut self, messages: u32, now: Nanos) {
        if messages == 0 {
            self.since = None;
            return;
        }
        self.since.get_or_insert(now);
        self.messages += u64::from(messages);
    }

    /// Number of refused messages so far.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// Time since when each offer had some of its messages refused; `None` if the last offer was accepted.
    pub(crate) fn since(&self) -> Option<Nanos> {
        self.since
    }
}
