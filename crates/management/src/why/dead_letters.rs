//! The ways of dead letters: queues that wait to retry, loops, and letters that reach no queue.

use std::sync::Arc;

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::Snapshot;
use leveret_broker::{Now, QueueCount, QueueStatus};
use leveret_model::{DeadLetterOptions, Destination, ExchangeType, Topology};
use serde_json::{Value, json};

use super::{Finding, LOOP_RATIO};

/// Queues and exchanges that are looked at to find the way of dead letters.
const STEPS_MAX: usize = 64;
/// Bindings that are looked at for one way: a list shows many queues, and an exchange may have very many bindings.
const BINDINGS_MAX: usize = 1000;
/// Dead letters from which on a loop is one.
const LOOP_LETTERS: u64 = 10;

/// Where the dead letters of a queue lead.
#[derive(Debug, PartialEq)]
pub(super) enum Way {
    /// To one of these queues.
    Queues(Vec<Arc<str>>),
    /// Their exchange doesn't exist.
    NoExchange,
    /// Nothing that is bound takes them.
    NoQueue,
    /// It depends on the message, or on more than is looked at.
    Unknown,
}

impl Way {
    /// The way of dead letters with these options.
    pub(super) fn of(topology: &Topology, vhost: &str, letters: &DeadLetterOptions) -> Self {
        let key = letters.routing_key.as_deref();
        if letters.exchange.is_empty() {
            // Without a key of their own, letters keep the one that they were published with.
            let Some(key) = key else { return Way::Unknown };
            return topology.queue(vhost, key).map_or(Way::NoQueue, |queue| Way::Queues(vec![queue.name.clone()]));
        }
        if topology.exchange(vhost, &letters.exchange).is_none() {
            return Way::NoExchange;
        }
        let (mut found, mut looked_at) = (Vec::new(), 0);
        let mut seen: Vec<Arc<str>> = Vec::new();
        let mut open = vec![letters.exchange.clone()];
        while let Some(name) = open.pop() {
            let Some(exchange) = topology.exchange(vhost, &name).filter(|_| !seen.contains(&name)) else { continue };
            if seen.len() >= STEPS_MAX {
                return Way::Unknown;
            }
            seen.push(name.clone());
            let is_direct = exchange.kind == ExchangeType::Direct;
            for binding in topology.bindings_of_source(vhost, &name) {
                looked_at += 1;
                if looked_at > BINDINGS_MAX {
                    return if found.is_empty() { Way::Unknown } else { Way::Queues(found) };
                }
                if is_direct && key.is_some_and(|key| *binding.routing_key != *key.as_bytes()) {
                    continue;
                }
                match &binding.destination {
                    Destination::Queue { name, .. } => found.push(name.clone()),
                    Destination::Exchange { name, .. } => open.push(name.clone()),
                }
                if found.len() >= STEPS_MAX {
                    return Way::Queues(found);
                }
            }
            if exchange.alternate().is_some() || topology.policies_of_exchange(exchange).policy.is_some() {
                // An alternate exchange takes what is left over.
                open.extend(exchange.alternate().map(Arc::from));
                if found.is_empty() && exchange.alternate().is_none() {
                    return Way::Unknown;
                }
            }
        }
        if found.is_empty() { Way::NoQueue } else { Way::Queues(found) }
    }

    fn queues(self) -> Vec<Arc<str>> {
        match self {
            Way::Queues(names) => names,
            _ => Vec::new(),
        }
    }
}

/// The reason of a queue with ready messages and no consumer: messages that nobody takes on purpose, or that die there, aren't a
/// consumer that is missing. `None` if it is.
pub(super) fn unconsumed(snapshot: &Snapshot, queue: &QueueRef, since: u64) -> Option<Finding> {
    let (info, effective) = (queue.info(), queue.effective());
    let options = effective.options(info);
    let ttl_ms = options.message_ttl_ms?;
    let way = options.dead_letter.as_ref().map(|letters| (letters, Way::of(&snapshot.topology, &info.vhost, letters)));
    Some(match way {
        Some((letters, way @ (Way::Queues(_) | Way::Unknown))) => {
            let names = way.queues();
            let only = if let [name] = &*names { Some(name.clone()) } else { None };
            let cause = json!({
                "kind": "dead_letters", "exchange": letters.exchange, "routing_key": letters.routing_key, "queue": only,
                "ttl_ms": ttl_ms,
            });
            Finding::new("waits_to_retry", since, cause)
        }
        _ => Finding::new("expiring", since, json!({"kind": "ttl", "ttl_ms": ttl_ms})),
    })
}

/// Dead letters that come back again and again.
pub(super) fn loops(snapshot: &Snapshot, queue: &QueueRef, status: &QueueStatus, now: Now) -> Option<Finding> {
    let kept = &status.conservation;
    if kept.dead_lettered < LOOP_LETTERS {
        return None;
    }
    let (info, effective) = (queue.info(), queue.effective());
    let letters = effective.options(info).dead_letter.as_ref()?;
    let rates = status.counts.rates(now.monotonic);
    let handed_out = rates.of(QueueCount::Deliver) + rates.of(QueueCount::Get);
    let acknowledged = rates.of(QueueCount::Ack);
    let is_now = handed_out > 0.0 && acknowledged * LOOP_RATIO < handed_out;
    // A slow loop has moments without a delivery.
    let is_slow = acknowledged == 0.0 && kept.settled.saturating_mul(LOOP_LETTERS) < kept.dead_lettered;
    if !is_now && !is_slow {
        return None;
    }
    let via = way_back(snapshot, &info.vhost, &info.name, letters)?;
    let is_empty = status.ready + status.unacknowledged == 0;
    if is_empty && snapshot.queue(&info.vhost, &via).is_none_or(|via| via.gauges().messages() == 0) {
        return None;
    }
    let cause = json!({
        "kind": "dead_letters", "exchange": letters.exchange, "queue": via, "dead_lettered": kept.dead_lettered,
    });
    Some(Finding::new("dead_letter_loop", None, cause))
}

/// The first queue of a way on which dead letters come back to their own queue.
fn way_back(snapshot: &Snapshot, vhost: &str, own: &str, letters: &DeadLetterOptions) -> Option<Arc<str>> {
    let first = Way::of(&snapshot.topology, vhost, letters).queues();
    let mut seen: Vec<Arc<str>> = Vec::new();
    let mut open: Vec<(Arc<str>, Arc<str>)> = first.into_iter().map(|name| (name.clone(), name)).collect();
    while let Some((name, first)) = open.pop() {
        if *name == *own {
            return Some(first);
        }
        if seen.len() >= STEPS_MAX || seen.contains(&name) {
            continue;
        }
        seen.push(name.clone());
        let Some(queue) = snapshot.queue(vhost, &name) else { continue };
        let effective = queue.effective();
        if let Some(letters) = &effective.options(queue.info()).dead_letter {
            let next = Way::of(&snapshot.topology, vhost, letters).queues();
            open.extend(next.into_iter().map(|name| (name, first.clone())));
        }
    }
    None
}

/// Dead letters that reach no queue.
pub(super) fn nowhere(snapshot: &Snapshot, queue: &QueueRef, status: &QueueStatus) -> Option<Finding> {
    let (info, effective) = (queue.info(), queue.effective());
    let letters = effective.options(info).dead_letter.as_ref()?;
    let missing = match Way::of(&snapshot.topology, &info.vhost, letters) {
        Way::NoExchange => "exchange",
        Way::NoQueue => "binding",
        Way::Queues(_) | Way::Unknown => return None,
    };
    let waiting = status.quorum.as_ref().map_or(0, |quorum| quorum.dying);
    let mut cause: Value = json!({
        "kind": "dead_letters", "exchange": letters.exchange, "routing_key": letters.routing_key, "missing": missing,
    });
    if letters.at_least_once {
        cause["messages"] = json!(waiting);
        return (waiting > 0).then(|| Finding::new("dead_letters_wait", None, cause));
    }
    Some(Finding::new("dead_letters_lost", None, cause))
}
