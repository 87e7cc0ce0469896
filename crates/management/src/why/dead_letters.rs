//! The ways of dead letters: queues that wait to retry, loops, and letters that reach no queue.

use std::sync::Arc;

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::Snapshot;
use leveret_broker::{Now, QueueCount, QueueStatus, WaitReason};
use leveret_model::{Binding, DeadLetterOptions, Destination, Exchange, ExchangeType, Topology};
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
            for binding in topology.bindings_of_source(vhost, &name) {
                looked_at += 1;
                if looked_at > BINDINGS_MAX {
                    return if found.is_empty() { Way::Unknown } else { Way::Queues(found) };
                }
                if key.is_some_and(|key| !may_take(exchange, binding, key)) {
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
            // An alternate exchange takes what is left over.
            open.extend(topology.alternate_of(exchange));
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

/// Whether a binding may take messages with this key: what it asks of headers isn't looked at.
fn may_take(exchange: &Exchange, binding: &Binding, key: &str) -> bool {
    match exchange.kind {
        ExchangeType::Direct => *binding.routing_key == *key.as_bytes(),
        ExchangeType::Topic => topic_matches(&words(&binding.routing_key), &words(key.as_bytes())),
        _ => true,
    }
}

fn words(topic: &[u8]) -> Vec<&[u8]> {
    topic.split(|byte| *byte == b'.').collect()
}

/// Whether the words of a topic match those of a pattern: `*` is one word, `#` any number of them.
fn topic_matches(pattern: &[&[u8]], words: &[&[u8]]) -> bool {
    // The numbers of words that the pattern so far may match.
    let mut so_far = vec![false; words.len() + 1];
    so_far[0] = true;
    for part in pattern {
        let mut next = vec![false; words.len() + 1];
        for at in 0..=words.len() {
            next[at] = match *part {
                b"#" => so_far[at] || at > 0 && next[at - 1],
                part => at > 0 && so_far[at - 1] && (part == b"*" || part == words[at - 1]),
            };
        }
        so_far = next;
    }
    so_far[words.len()]
}

/// The reason of a queue with ready messages and no consumer: messages that nobody takes on purpose, or that die there, aren't a
/// consumer that is missing. `None` if it is.
pub(super) fn unconsumed(snapshot: &Snapshot, queue: &QueueRef, status: &QueueStatus, since: u64) -> Option<Finding> {
    let (info, effective) = (queue.info(), queue.effective());
    let options = effective.options(info);
    // Publishers of retries may give each message its own time to live.
    let ttl_ms = options.message_ttl_ms;
    if ttl_ms.is_none() && status.timed < status.ready {
        return None;
    }
    if let Some(letters) = &options.dead_letter
        && let Some(first) = circle(snapshot, &info.vhost, &info.name, letters)
    {
        let cause = json!({"kind": "ttl", "ttl_ms": ttl_ms, "queue": first, "is_own": *first == *info.name});
        return Some(Finding::new("expiring", since, cause));
    }
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

/// The first queue of a way that only times to live move messages along, and that comes back to a queue on it. The broker drops a
/// message where it would be the second time, unless somebody rejected it in between.
fn circle(snapshot: &Snapshot, vhost: &str, own: &str, letters: &DeadLetterOptions) -> Option<Arc<str>> {
    let mut seen: Vec<Arc<str>> = Vec::new();
    let mut way = Way::of(&snapshot.topology, vhost, letters).queues();
    while let [name] = &*way {
        let is_back = **name == *own || seen.contains(name);
        seen.push(name.clone());
        if is_back {
            return seen.first().cloned();
        }
        let next = snapshot.queue(vhost, name).filter(|_| seen.len() < STEPS_MAX)?;
        let effective = next.effective();
        let options = effective.options(next.info());
        if options.message_ttl_ms.is_none() || next.gauges().consumers > 0 {
            return None;
        }
        way = Way::of(&snapshot.topology, vhost, options.dead_letter.as_ref()?).queues();
    }
    None
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
    // A slow loop has moments without a delivery. Where nothing was ever handed out, nobody rejects.
    let is_slow = acknowledged == 0.0
        && status.counts.handed_out() > 0
        && kept.settled.saturating_mul(LOOP_LETTERS) < kept.dead_lettered;
    if !is_now && !is_slow {
        return None;
    }
    let via = way_back(snapshot, &info.vhost, &info.name, letters)?;
    let is_empty = status.ready + status.unacknowledged == 0;
    if !is_now && is_empty && snapshot.queue(&info.vhost, &via).is_none_or(|via| via.gauges().messages() == 0) {
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
    let (missing, full) = match Way::of(&snapshot.topology, &info.vhost, letters) {
        Way::NoExchange => ("exchange", None),
        Way::NoQueue => ("binding", None),
        Way::Queues(names) => ("room", Some(refusing(snapshot, &info.vhost, &names, letters.at_least_once)?)),
        Way::Unknown => return None,
    };
    let waiting = status.quorum.as_ref().map_or(0, |quorum| quorum.dying);
    let mut cause: Value = json!({
        "kind": "dead_letters", "exchange": letters.exchange, "routing_key": letters.routing_key, "missing": missing,
        "queue": full,
    });
    if letters.at_least_once {
        cause["messages"] = json!(waiting);
        return (waiting > 0).then(|| Finding::new("dead_letters_wait", None, cause));
    }
    Some(Finding::new("dead_letters_lost", None, cause))
}

/// A queue that refuses what these queues should get: one is enough to hold back dead letters that are kept, and others are lost if
/// no queue takes them.
fn refusing(snapshot: &Snapshot, vhost: &str, names: &[Arc<str>], is_kept: bool) -> Option<Arc<str>> {
    let refuses = |name: &&Arc<str>| {
        snapshot.queue(vhost, name).is_some_and(|queue| {
            let gauges = queue.gauges();
            gauges.failed || gauges.waits.contains(WaitReason::Full)
        })
    };
    let first = names.iter().find(refuses)?;
    (is_kept || names.iter().all(|name| refuses(&name))).then(|| first.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_matches_as_an_exchange_of_that_type_does() {
        let matching = |pattern: &str| {
            let keys = ["", "a", "a.b", "a.b.c", "b"];
            keys.into_iter()
                .filter(|key| topic_matches(&words(pattern.as_bytes()), &words(key.as_bytes())))
                .collect::<Vec<_>>()
        };
        assert_eq!(matching("#"), ["", "a", "a.b", "a.b.c", "b"]);
        assert_eq!(matching("a.#"), ["a", "a.b", "a.b.c"]);
        assert_eq!(matching("a.*"), ["a.b"]);
        assert_eq!(matching("#.b"), ["a.b", "b"]);
        assert_eq!(matching("a.#.c"), ["a.b.c"]);
        assert_eq!(matching("a.b"), ["a.b"]);
        assert_eq!(matching("*"), ["", "a", "b"]);
    }
}
