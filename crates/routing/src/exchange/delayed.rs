//! Exchanges with a queue of their own in which messages wait before they are routed. `x-delayed-message`: those that ask for a delay.
//! `x-message-deduplication`: those with an id, of which the queue drops duplicates. Others are routed at once.

use std::sync::Arc;

use leveret_model::{Exchange, ExchangeType, QueueId, Value};

use super::Table;
use crate::headers::{Header, Headers};
use crate::router::RoutedBy;
use crate::targets::RouteTarget;

/// The header by which a message asks for a delay.
const DELAY: &str = "x-delay";

/// The queue for messages that wait, and the bindings.
#[derive(Clone, Debug)]
pub(crate) struct Delayed {
    queue: QueueId,
    target: RouteTarget,
    delays: bool,
    /// The header with the id of a message.
    id_header: Option<Arc<str>>,
    pub(super) routing: Table,
}

impl Delayed {
    pub(super) fn new(exchange: &Exchange, queue: QueueId, routing: Table) -> Self {
        Self {
            queue,
            target: RouteTarget::Queue(queue),
            delays: exchange.kind == ExchangeType::Delayed,
            id_header: exchange.deduplication().map(|rules| rules.header.clone()),
            routing,
        }
    }

    /// Whether a message waits, unless it comes from there.
    fn waits(&self, headers: &dyn Headers) -> bool {
        let has_id = |header: &Arc<str>| headers.lookup(header).is_some();
        let waits = self.delays && delay_ms(headers).is_some() || self.id_header.as_ref().is_some_and(has_id);
        waits && headers.released_from() != Some(self.queue)
    }

    /// The parts of a message that determine its destinations.
    pub(crate) fn routed_by(&self) -> RoutedBy {
        match &self.routing {
            Table::Random(..) => RoutedBy::Message,
            Table::ConsistentHash(table) => table.routed_by().max(RoutedBy::Headers),
            _ => RoutedBy::Headers,
        }
    }

    /// As [`Table::looks_at_keys`]. A call of its own: what calls itself isn't inlined, and costs other types a tenth more.
    #[cold]
    #[inline(never)]
    pub(super) fn looks_at_keys(&self) -> bool {
        self.routing.looks_at_keys()
    }

    /// As [`Table::matches`], and as [`looks_at_keys`](Self::looks_at_keys) a call of its own.
    #[cold]
    #[inline(never)]
    pub(super) fn matches<'a>(
        &'a self,
        routing_key: &[u8],
        headers: &dyn Headers,
        visit: &mut dyn FnMut(&'a RouteTarget),
    ) {
        match self.waits(headers) {
            true => visit(&self.target),
            false => self.routing.matches(routing_key, headers, visit),
        }
    }

    pub(super) fn emptied(&self) -> Self {
        Self {
            target: self.target.clone(),
            id_header: self.id_header.clone(),
            routing: self.routing.emptied(),
            ..*self
        }
    }
}

/// The milliseconds for which a delayed exchange holds a message with these headers; `None` if it doesn't.
///
/// As in RabbitMQ's plugin the value is an integer, a float, which is cut, or a string of digits, from 1 to 2^32-1. Any other is as
/// if there were none.
pub fn delay_ms(headers: &dyn Headers) -> Option<u32> {
    let delay = match headers.lookup(DELAY)? {
        Header::String(text) => std::str::from_utf8(text).ok()?.parse().ok()?,
        Header::Value(Value::Int(ms)) => ms,
        Header::Value(Value::Double(ms)) => ms as i64,
        Header::Value(_) | Header::Time { .. } => return None,
    };
    u32::try_from(delay).ok().filter(|ms| *ms > 0)
}
