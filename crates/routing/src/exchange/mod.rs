//! One file per exchange type. Each table adds and removes bindings in logarithmic time and shares the rest with its
//! clones.

mod consistent_hash;
mod delayed;
mod direct;
mod fanout;
mod headers;
mod history;
mod member;
mod pool;
mod topic;

use leveret_model::{Binding, Exchange, ExchangeType};

use self::consistent_hash::ConsistentHash;
use self::delayed::Delayed;
pub use self::delayed::delay_ms;
use self::history::History;
use self::pool::{Draws, Pool};
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
    ConsistentHash(ConsistentHash),
    ModulusHash(Pool),
    Random(Pool, Draws),
    Delayed(Box<Delayed>),
    History(Box<History>),
}

impl Table {
    pub(crate) fn new(exchange: &Exchange) -> Self {
        if let Some(queue) = exchange.history_queue {
            return Table::History(Box::new(History::new(queue)));
        }
        let table = Self::of_type(exchange);
        match exchange.delay_queue {
            Some(queue) => Table::Delayed(Box::new(Delayed::new(exchange, queue, table))),
            None => table,
        }
    }

    fn of_type(exchange: &Exchange) -> Self {
        match exchange.routing_type() {
            ExchangeType::Direct => Table::Direct(Direct::default()),
            ExchangeType::Fanout => Table::Fanout(Fanout::default()),
            ExchangeType::Topic => Table::Topic(Topic::default()),
            ExchangeType::Headers => Table::Headers(HeadersTable::default()),
            ExchangeType::ConsistentHash => Table::ConsistentHash(ConsistentHash::new(&exchange.arguments)),
            ExchangeType::ModulusHash => Table::ModulusHash(Pool::default()),
            // All queues are on this node.
            ExchangeType::Random | ExchangeType::LocalRandom => {
                Table::Random(Pool::default(), Draws::new(&exchange.vhost, &exchange.name))
            }
            ExchangeType::Delayed | ExchangeType::Deduplication => unreachable!("it routes by another type"),
            ExchangeType::RecentHistory => unreachable!("it has a queue"),
        }
    }

    /// A table of the same type without bindings.
    pub(crate) fn emptied(&self) -> Self {
        match self {
            Table::Direct(_) => Table::Direct(Direct::default()),
            Table::Fanout(_) => Table::Fanout(Fanout::default()),
            Table::Topic(_) => Table::Topic(Topic::default()),
            Table::Headers(_) => Table::Headers(HeadersTable::default()),
            Table::ConsistentHash(table) => Table::ConsistentHash(table.emptied()),
            Table::ModulusHash(_) => Table::ModulusHash(Pool::default()),
            Table::Random(_, draws) => Table::Random(Pool::default(), draws.clone()),
            Table::Delayed(table) => Table::Delayed(Box::new(table.emptied())),
            Table::History(table) => Table::History(Box::new(table.emptied())),
        }
    }

    pub(crate) fn bind(&mut self, binding: &Binding) {
        let target = || RouteTarget::from(binding);
        match self {
            Table::Direct(table) => table.bind(&binding.routing_key, target()),
            Table::Fanout(table) => table.bind(target()),
            Table::Topic(table) => table.bind(&binding.routing_key, target()),
            Table::Headers(table) => table.bind(&binding.arguments, target()),
            Table::ConsistentHash(table) => table.bind(binding),
            Table::ModulusHash(table) | Table::Random(table, _) => table.bind(binding),
            Table::Delayed(table) => table.routing.bind(binding),
            Table::History(table) => table.bindings.bind(target()),
        }
    }

    pub(crate) fn unbind(&mut self, binding: &Binding) {
        let target = || RouteTarget::from(binding);
        match self {
            Table::Direct(table) => table.unbind(&binding.routing_key, &target()),
            Table::Fanout(table) => table.unbind(&target()),
            Table::Topic(table) => table.unbind(&binding.routing_key, &target()),
            Table::Headers(table) => table.unbind(&binding.arguments, &target()),
            Table::ConsistentHash(table) => table.unbind(binding),
            Table::ModulusHash(table) | Table::Random(table, _) => table.unbind(binding),
            Table::Delayed(table) => table.routing.unbind(binding),
            Table::History(table) => table.bindings.unbind(&target()),
        }
    }

    /// Removes all bindings to the destination of this one, if that doesn't take a step for each. Returns whether it did.
    pub(crate) fn forget(&mut self, binding: &Binding) -> bool {
        match self {
            Table::Direct(_) | Table::Fanout(_) | Table::Topic(_) | Table::Headers(_) | Table::History(_) => {
                return false;
            }
            Table::ConsistentHash(table) => table.forget(binding),
            Table::ModulusHash(table) | Table::Random(table, _) => table.forget(binding),
            Table::Delayed(table) => return table.routing.forget(binding),
        }
        true
    }

    /// Whether it looks at all routing keys of a message. Tables that pick one destination look at the first one only.
    pub(crate) fn looks_at_keys(&self) -> bool {
        match self {
            Table::Delayed(table) => table.looks_at_keys(),
            _ => matches!(self, Table::Direct(_) | Table::Topic(_)),
        }
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
            Table::ConsistentHash(table) => table.destination(routing_key, headers).into_iter().for_each(visit),
            Table::ModulusHash(table) => table.of_key(routing_key).into_iter().for_each(visit),
            Table::Random(table, draws) => table.pick(draws.next()).into_iter().for_each(visit),
            Table::Delayed(table) => table.matches(routing_key, headers, visit),
            Table::History(table) => table.bindings.matches(visit),
        }
    }
}
