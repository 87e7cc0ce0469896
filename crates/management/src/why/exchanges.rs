//! Messages that come to an exchange and reach no queue.

use leveret_broker::Now;
use leveret_broker::exchange_counters::ExchangeCounters;
use leveret_model::{Destination, Exchange, Topology};
use serde_json::{Value, json};

use super::{About, Finding};

/// The share of all messages, one in so many, from which on some that reach no queue are worth a word.
const SHARE: u64 = 100;
/// Exchanges and bindings that are looked at to find a queue.
const EXCHANGES_MAX: usize = 64;
const BINDINGS_MAX: usize = 1000;

/// The reasons of an exchange.
pub(crate) fn of_exchange(topology: &Topology, exchange: &Exchange, counters: &ExchangeCounters, now: Now) -> Value {
    let [came, went] = counters.per_second(now.monotonic);
    let (returned, dropped) = (counters.unroutable_returned.value(), counters.unroutable_dropped.value());
    let lost = returned + dropped;
    if lost == 0 || came <= 0.0 {
        return json!([]);
    }
    let is_all = went <= 0.0;
    if !is_all && lost.saturating_mul(SHARE) < counters.published_in.value() {
        return json!([]);
    }
    let bindings = || topology.bindings_of_source(&exchange.vhost, &exchange.name);
    let leads_on = |destination: &Destination| matches!(destination, Destination::Exchange { .. });
    let to_exchanges = bindings().take(BINDINGS_MAX).any(|binding| leads_on(&binding.destination));
    let alternate = topology.alternate_of(exchange);
    let cause = json!({
        "kind": "bindings", "bindings": bindings().count(), "per_second": came, "returned": returned, "dropped": dropped,
        "all": is_all, "to_exchanges": to_exchanges, "to_queues": leads_to_a_queue(topology, exchange),
        "alternate_exists": alternate.as_ref().is_some_and(|name| topology.exchange(&exchange.vhost, name).is_some()),
        "alternate": alternate,
    });
    // Publishers that ask for it know of their own.
    let code = if dropped > 0 { "unroutable" } else { "returned" };
    json!([Finding::new(code, None, cause).view(now, About::Exchange { vhost: &exchange.vhost, name: &exchange.name })])
}

/// Whether a binding of the exchange, or of those that its bindings lead to, leads to a queue. True if there are more than are
/// looked at.
fn leads_to_a_queue(topology: &Topology, exchange: &Exchange) -> bool {
    let (mut seen, mut open, mut looked_at) = (Vec::new(), vec![exchange.name.clone()], 0);
    while let Some(name) = open.pop() {
        if seen.contains(&name) {
            continue;
        }
        for binding in topology.bindings_of_source(&exchange.vhost, &name) {
            looked_at += 1;
            match &binding.destination {
                Destination::Exchange { name, .. } if looked_at < BINDINGS_MAX => open.push(name.clone()),
                _ => return true,
            }
        }
        let next = topology.exchange(&exchange.vhost, &name).filter(|_| *name != *exchange.name);
        open.extend(next.and_then(|next| topology.alternate_of(next)));
        seen.push(name);
        if seen.len() >= EXCHANGES_MAX {
            return true;
        }
    }
    false
}
