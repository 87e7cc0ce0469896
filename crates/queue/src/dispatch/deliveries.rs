//! Deliveries that end.

use crate::consumer_id::ConsumerId;
use crate::records::Run;

/// Deliveries to a consumer, or to gets, that end: their messages are settled or come back.
#[derive(Debug, Clone, Copy)]
pub struct Deliveries<'a> {
    /// The consumer that had them; `None` for gets.
    pub consumer: Option<ConsumerId>,
    /// Their messages.
    pub runs: &'a [Run],
}

impl<'a> Deliveries<'a> {
    /// These messages, which this consumer had.
    #[inline]
    pub fn of(consumer: Option<ConsumerId>, runs: &'a [Run]) -> Self {
        Self { consumer, runs }
    }
}
