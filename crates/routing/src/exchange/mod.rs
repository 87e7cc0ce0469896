//! One file per exchange type. Each table adds and removes bindings in logarithmic time and shares the rest with its
//! clones.

mod direct;
mod fanout;
mod headers;
mod topic;

use leveret_model::{Binding, ExchangeType};

use self::{direct::Direct, fanout::Fanout, headers::HeadersTable, topic::Topic};
use crate::headers::Headers;
use crate::targets::RouteTarget;

/// The bindings of one exchange.
#[derive(Clone, Debug)]
pub(crate) enum Table {
    Direct(Direct),
    Fanout(Fanout),
    Topic(Topic),
    Headers(HeadersTable),
}

impl Table {
    pub(crate) fn new(kind: ExchangeType) -> Self {
        match kind {
            ExchangeType::Direct => Table::Direct(Direct::default()),
            ExchangeType::Fanout => Table::Fanout(Fanout::default()),
            ExchangeType::Topic => Table::Topic(Topic::default()),
            ExchangeType::Headers => Table::Headers(HeadersTable::default()),
        }
    }

    /// A table of the same type without bindings.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(match self {
            Table::Direct(_) => ExchangeType::Direct,
            Table::Fanout(_) => ExchangeType::Fanout,
            Table::Topic(_) => ExchangeType::Topic,
            Table::Headers(_) => ExchangeType::Headers,
        })
    }

    pub(crate) fn bind(&mut self, binding: &Binding) {
        let target = RouteTarget::from(binding);
        match self {
            Table::Direct(table) => table.bind(&binding.routing_key, target),
            Table::Fanout(table) => table.bind(target),
            Table::Topic(table) => table.bind(&binding.routing_key, target),
            Table::Headers(table) => table.bind(&binding.arguments, target),
        }
    }

    pub(crate) fn unbind(&mut self, binding: &Binding) {
        let target = RouteTarget::from(binding);
        match self {
            Table::Direct(table) => table.unbind(&binding.routing_key, &target),
            Table::Fanout(table) => table.unbind(&target),
            Table::Topic(table) => table.unbind(&binding.routing_key, &target),
            Table::Headers(table) => table.unbind(&binding.arguments, &target),
        }
    }

    /// Whether it looks at routing keys.
    pub(crate) fn looks_at_keys(&self) -> bool {
        matches!(self, Table::Direct(_) | Table::Topic(_))
    }

    /// Passes every target that the message goes to to `visit`, some possibly more than once.
    pub(crate) fn matches<'a>(
        &'a self,
        routing_key: &[u8],
        headers: &dyn Headers,
        visit: &mut dyn FnMut(&'a RouteTarget),
    ) {
        match self {
            Table::Direct(table) => table.matches(routing_key, visit),
            Table::Fanout(table) => table.matches(visit),
            Table::Topic(table) => table.matches(routing_key, visit),
            Table::Headers(table) => table.matches(headers, visit),
        }
    }
}
