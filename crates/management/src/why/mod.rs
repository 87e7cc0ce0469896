//! The reasons why a queue, consumer or connection waits, with what causes each: [`WaitReason`]s, and what only several numbers
//! together show.
//!
//! A wait is shown as soon as it exists, in `waits`. Here it is only shown if something is wrong: each publish waits for the disk
//! for a moment, and each queue with a busy consumer has unacknowledged messages.

mod dead_letters;
mod exchanges;
mod sentence;
mod severity;
pub(crate) mod words;

use std::cmp::Reverse;

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::Snapshot;
use leveret_broker::{
    AlarmSource, ConsumerMode, ConsumerStatus, Now, QueueCount, QueueState, QueueStatus, QueueWait, WaitReason,
};
use leveret_model::{Overflow, QueueId};
use serde_json::{Value, json};

use crate::api::Api;
use crate::time::iso8601;
pub(crate) use exchanges::of_exchange;
use sentence::{About, sentence};
pub(crate) use severity::{Severity, short};

/// Time after which a consumer with one message is slow, and unacknowledged messages are a pile.
const LONG: u64 = 1_000_000_000;
/// Time of a sync from which on the disk is slow.
const SLOW_SYNC: u64 = 20_000_000;
/// Number of unacknowledged messages that is a pile at once.
const PILE: u64 = 1000;
/// Redelivered messages for each acknowledged one that are a loop.
const LOOP_RATIO: f64 = 10.0;

/// A reason, and what causes it.
#[derive(Debug, Clone, PartialEq)]
struct Finding {
    code: &'static str,
    /// Its beginning by the monotonic clock, if known.
    since: Option<u64>,
    cause: Value,
}

impl Finding {
    fn new(code: &'static str, since: impl Into<Option<u64>>, cause: Value) -> Self {
        Self { code, since: since.into(), cause }
    }

    /// Whether nothing goes on at all until it ends.
    fn stops_all(&self) -> bool {
        matches!(self.code, "failed" | "alarm" | "disk_full" | "log_full")
    }

    fn seconds(&self, now: Now) -> Option<f64> {
        self.since.map(|since| now.monotonic.saturating_sub(since) as f64 / 1e9)
    }

    fn view(&self, now: Now, about: About<'_>) -> Value {
        let seconds = self.seconds(now);
        let mut view = json!({
            "code": self.code,
            "severity": Severity::of(self.code, seconds).name(),
            "short": short(self.code),
            "since": self.since.map(|since| iso8601(now.wall_ms_at(since))),
            "seconds": seconds,
            "cause": self.cause,
        });
        sentence(self.code, &self.cause, about).add_to(&mut view);
        view
    }
}

/// Causes that are the node's.
#[derive(Clone, Copy)]
struct Surroundings<'a>(&'a Api);

impl Surroundings<'_> {
    /// The duration of a sync lately, in nanoseconds.
    fn sync(self) -> u64 {
        self.0.broker().commit.inspect(|log| log.statistics().sync_smoothed)
    }

    fn disk(self) -> Value {
        json!({"kind": "disk", "sync_ms": self.sync() as f64 / 1e6})
    }

    /// The nodes whose links take no publishes now.
    fn links(self) -> Value {
        let (topology, full) = (self.0.topology(), self.0.broker().lanes.that_take_none());
        let names: Vec<_> = full.into_iter().filter_map(|member| Some(topology.member(member)?.name.clone())).collect();
        json!({"kind": "nodes", "names": names})
    }

    fn alarm(self) -> Value {
        let raised: Vec<&str> = self.0.broker().alarms.blocking().map(AlarmSource::name).collect();
        json!({"kind": "alarm", "resources": raised})
    }
}

fn nothing() -> Value {
    json!({"kind": "none"})
}

/// The reasons of a queue, the most important one first.
pub(crate) fn of_queue(api: &Api, queue: &QueueRef, status: &QueueStatus, now: Now) -> Value {
    let aside = status.quorum.as_ref().map_or((0, 0), |quorum| (quorum.parked, quorum.delayed));
    if status.waits.is_empty() && !status.counts.any() && aside == (0, 0) {
        return json!([]);
    }
    let snapshot = api.broker().registry.snapshot_full();
    let (mut found, later): (Vec<_>, Vec<_>) = held(status, Surroundings(api), now).partition(Finding::stops_all);
    // Dead letters that come back are handed out again as well.
    found.extend(dead_letters::loops(&snapshot, queue, status, now).or_else(|| redelivery_loop(status, now)));
    found.extend(length_limit(queue, status, now));
    found.extend(later);
    if status.stream.is_none() {
        consumption(&snapshot, queue, status, now, &mut found);
    }
    found.extend(dead_letters::nowhere(&snapshot, queue, status));
    for (code, messages) in [("parked", aside.0), ("delayed", aside.1)] {
        if messages > 0 {
            found.push(Finding::new(code, None, json!({"kind": "messages", "messages": messages})));
        }
    }
    let info = queue.info();
    let failure = match &status.state {
        QueueState::Failed(reason) => Some(&**reason),
        QueueState::Running | QueueState::Deleted => None,
    };
    let about = About::Queue {
        vhost: &info.vhost,
        name: &info.name,
        ready: status.ready,
        unacknowledged: status.unacknowledged,
        failure,
    };
    found.sort_by_key(|finding| Severity::of(finding.code, finding.seconds(now)));
    found.iter().map(|finding| finding.view(now, about)).collect()
}

/// Reasons why a queue doesn't take messages or can't go on.
fn held(status: &QueueStatus, around: Surroundings<'_>, now: Now) -> impl Iterator<Item = Finding> {
    status.waits.iter().filter_map(move |QueueWait { reason, since }| {
        let age = now.monotonic.saturating_sub(*since);
        let cause = match reason {
            WaitReason::Failed => nothing(),
            WaitReason::Alarm => around.alarm(),
            WaitReason::DiskFull | WaitReason::LogFull | WaitReason::BodyFile => around.disk(),
            WaitReason::Sync if age.max(around.sync()) >= SLOW_SYNC => around.disk(),
            WaitReason::Disk if age >= SLOW_SYNC => around.disk(),
            WaitReason::Pacing => slowest(status).map_or_else(nothing, consumer),
            _ => return None,
        };
        Some(Finding::new(reason.code(), *since, cause))
    })
}

/// Messages that are handed out again and again.
fn redelivery_loop(status: &QueueStatus, now: Now) -> Option<Finding> {
    let rates = status.counts.rates(now.monotonic);
    let again = rates.of(QueueCount::Redeliver);
    // A dead letter counts as handed out again, though its new queue has it for the first time: consumers may acknowledge it
    // automatically, or reject it on to the next queue. Publishes that are refused count as such, and don't leave.
    let is_full = status.waits.iter().any(|wait| wait.reason == WaitReason::Full);
    let left = rates.of(QueueCount::Publish) - rates.ready() - rates.unacknowledged();
    let gone = rates.of(QueueCount::Ack).max(if is_full { 0.0 } else { left });
    let is_loop = again >= 1.0 && gone * LOOP_RATIO < again;
    let busiest = status.consumers.iter().max_by_key(|consumer| consumer.delivered);
    is_loop.then(|| Finding::new("redelivery_loop", None, busiest.map_or_else(nothing, consumer)))
}

/// A length limit that drops or refuses messages.
fn length_limit(queue: &QueueRef, status: &QueueStatus, now: Now) -> Option<Finding> {
    let refuses = status.waits.iter().find(|wait| wait.reason == WaitReason::Full);
    let dropped = status.conservation.dropped;
    let effective = queue.effective();
    let options = effective.options(queue.info());
    // A stream that forgets its oldest messages does what it is for.
    let drops = !queue.is_stream()
        && options.overflow == Overflow::DropHead
        && dropped > 0
        && status.counts.rates(now.monotonic).of(QueueCount::Publish) > 0.0;
    if refuses.is_none() && !drops {
        return None;
    }
    let is_at = |length: u64, limit: Option<u64>| limit.is_some_and(|limit| length >= limit);
    // The next message of any size doesn't fit, but the last ones may leave some room.
    let is_near = |bytes: u64, limit: Option<u64>| limit.is_some_and(|limit| bytes >= limit / 2);
    let key = if is_at(status.ready, options.max_length) {
        "max-length"
    } else if is_near(status.ready_bytes, options.max_length_bytes) {
        "max-length-bytes"
    } else {
        return None;
    };
    let argument = effective.arguments(queue.info()).into_iter().find(|argument| argument.key == key)?;
    let source = argument.source.name();
    let policy = match source {
        "policy" => effective.matched.policy.as_ref().map(|policy| &policy.name),
        "operator_policy" => effective.matched.operator.as_ref().map(|policy| &policy.name),
        _ => None,
    };
    let mut cause = json!({
        "kind": "limit", "argument": key, "value": argument.value.to_json(), "source": source, "policy": policy,
    });
    match refuses {
        Some(wait) => Some(Finding::new(WaitReason::Full.code(), wait.since, cause)),
        None => {
            cause["dropped"] = json!(dropped);
            Some(Finding::new("dropping", None, cause))
        }
    }
}

/// Reasons why messages stay.
fn consumption(snapshot: &Snapshot, queue: &QueueRef, status: &QueueStatus, now: Now, found: &mut Vec<Finding>) {
    let takers: Vec<&ConsumerStatus> = takers(status).collect();
    for QueueWait { reason, since } in status.waits.iter().copied() {
        match reason {
            WaitReason::NoConsumers => found.push(
                dead_letters::unconsumed(snapshot, queue, status, since)
                    .unwrap_or_else(|| Finding::new(reason.code(), since, nothing())),
            ),
            WaitReason::ConsumersBusy => {
                let longest = takers.iter().filter(|taker| busy_code(taker, now).is_some());
                if let Some(longest) = longest.min_by_key(|taker| taker.wait.since) {
                    found.extend(busy(longest, consumer(longest), now));
                }
            }
            WaitReason::Unacknowledged => {
                let is_long = now.monotonic.saturating_sub(since) >= LONG;
                if is_long || status.unacknowledged >= PILE {
                    let holder = takers.iter().max_by_key(|taker| taker.unacknowledged);
                    found.push(Finding::new(
                        reason.code(),
                        since,
                        holder.map_or_else(nothing, |taker| consumer(taker)),
                    ));
                }
            }
            _ => {}
        }
    }
    // Between two messages such a consumer isn't busy for a moment, and most of its time goes by on the way.
    let all_take_one = !takers.is_empty() && takers.iter().all(|taker| taker.prefetch == 1 && !taker.automatic_ack);
    if status.ready > 0 && all_take_one && !found.iter().any(|finding| finding.code == SMALL_PREFETCH) {
        let longest = takers.iter().min_by_key(|taker| taker.wait.since);
        found.push(Finding::new(SMALL_PREFETCH, None, longest.map_or_else(nothing, |taker| consumer(taker))));
    }
}

const SMALL_PREFETCH: &str = "small_prefetch";
const SLOW_CONSUMER: &str = "slow_consumer";

/// The reasons why a consumer takes nothing more.
fn busy(taker: &ConsumerStatus, cause: Value, now: Now) -> Vec<Finding> {
    let Some(code) = busy_code(taker, now) else { return Vec::new() };
    let finding = |code| Finding::new(code, taker.wait.since, cause.clone());
    let mut found = vec![finding(code)];
    if code == SLOW_CONSUMER && taker.prefetch == 1 {
        found.push(finding(SMALL_PREFETCH));
    }
    found
}

fn busy_code(taker: &ConsumerStatus, now: Now) -> Option<&'static str> {
    let is_long = now.monotonic.saturating_sub(taker.wait.since) >= LONG;
    match taker.wait.reason {
        WaitReason::Credit if taker.prefetch == 1 && !is_long => Some(SMALL_PREFETCH),
        WaitReason::Credit => Some(SLOW_CONSUMER),
        reason @ (WaitReason::Room | WaitReason::Window | WaitReason::LinkCredit | WaitReason::Overdue) => {
            Some(reason.code())
        }
        _ => None,
    }
}

/// The consumers that take messages away, by their turn.
fn takers(status: &QueueStatus) -> impl Iterator<Item = &ConsumerStatus> {
    status.consumers.iter().filter(|consumer| consumer.mode == ConsumerMode::Move && consumer.activity.is_active())
}

/// The consumer that holds most.
fn slowest(status: &QueueStatus) -> Option<&ConsumerStatus> {
    takers(status).max_by_key(|taker| (taker.unacknowledged, Reverse(taker.delivered)))
}

/// A consumer as a cause.
fn consumer(consumer: &ConsumerStatus) -> Value {
    let connection = consumer.channel.rsplit_once(" (").map_or(&*consumer.channel, |(connection, _)| connection);
    json!({
        "kind": "consumer",
        "consumer_tag": &*consumer.tag,
        "channel": &*consumer.channel,
        "connection": connection,
        "user": &*consumer.user,
        "prefetch_count": consumer.prefetch,
        "link_credit": consumer.link_credit,
        "unacknowledged": consumer.unacknowledged,
        "reason": consumer.wait.reason.code(),
    })
}

/// The reasons of a consumer.
pub(crate) fn of_consumer(queue: &QueueRef, taker: &ConsumerStatus, now: Now) -> Value {
    let client = json!({"kind": "client"});
    let mut found = busy(taker, client.clone(), now);
    let info = queue.info();
    let of_queue = json!({"kind": "queue", "vhost": info.vhost, "name": info.name});
    let QueueWait { reason, since } = taker.wait;
    match reason {
        WaitReason::Inactive | WaitReason::Replaced => found.push(Finding::new(reason.code(), since, of_queue)),
        WaitReason::Disk if now.monotonic.saturating_sub(since) >= SLOW_SYNC => {
            found.push(Finding::new(reason.code(), since, json!({"kind": "disk", "sync_ms": null})));
        }
        WaitReason::Empty if u64::from(taker.unacknowledged) >= PILE => {
            found.push(Finding::new(WaitReason::Unacknowledged.code(), None, client));
        }
        _ => {}
    }
    let about = About::Consumer { prefetch: taker.prefetch, unacknowledged: taker.unacknowledged };
    found.iter().map(|finding| finding.view(now, about)).collect()
}

/// A queue as a cause, if it still exists.
fn queue_cause(api: &Api, id: QueueId) -> Value {
    let topology = api.topology();
    topology
        .queue_by_id(id)
        .map_or_else(nothing, |info| json!({"kind": "queue", "vhost": info.vhost, "name": info.name}))
}

/// The reasons of a connection whose input waits; `paced_by` is the queue that paces it.
pub(crate) fn of_connection(api: &Api, wait: Option<QueueWait>, paced_by: Option<QueueId>, now: Now) -> Value {
    let Some(QueueWait { reason, since }) = wait else { return json!([]) };
    let around = Surroundings(api);
    let cause = match reason {
        WaitReason::Alarm => around.alarm(),
        WaitReason::DiskFull | WaitReason::LogFull | WaitReason::BodyFile | WaitReason::Sync | WaitReason::Disk => {
            around.disk()
        }
        WaitReason::Link => around.links(),
        WaitReason::Pacing => paced_by.map_or_else(nothing, |id| queue_cause(api, id)),
        _ => nothing(),
    };
    json!([Finding::new(reason.code(), since, cause).view(now, About::Connection)])
}
