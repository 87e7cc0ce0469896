//! Messages that come to an exchange and reach no queue.

use leveret_broker::Now;
use leveret_broker::exchange_counters::ExchangeCounters;
use leveret_model::{Exchange, Topology};
use serde_json::{Value, json};

use super::{About, Finding};

/// The share of all messages, one in so many, from which on some that reach no queue are worth a word.
const SHARE: u64 = 100;

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
    let bindings = topology.bindings_of_source(&exchange.vhost, &exchange.name).count();
    let cause = json!({
        "kind": "bindings", "bindings": bindings, "per_second": came, "returned": returned, "dropped": dropped, "all": is_all,
    });
    // Publishers that ask for it know of their own.
    let code = if dropped > 0 { "unroutable" } else { "returned" };
    json!([Finding::new(code, None, cause).view(now, About::Exchange { name: &exchange.name })])
}
