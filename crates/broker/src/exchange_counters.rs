//! What went through an exchange, counted by every core: once for each run of messages.

use leveret_metrics::Counter;

/// See the module.
#[derive(Debug, Default)]
pub struct ExchangeCounters {
    /// Messages that clients published to it.
    pub published_in: Counter,
    /// Copies of these that it routed to queues.
    pub published_out: Counter,
    /// Messages that came back to their publishers, since no queue matched.
    pub unroutable_returned: Counter,
    /// Messages dropped because no queue matched.
    pub unroutable_dropped: Counter,
}
