//! `message_stats` and similar objects: counters with their rates.

use leveret_broker::queue_handle::Counts;
use leveret_metrics::Totals;
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::history::{Ranges, Subject};

/// Adds a counter and, next to it, its rate per second.
pub(crate) fn put(object: &mut impl Extend<(String, Value)>, name: &str, total: u64, rate: f64) {
    object.extend([(name.to_owned(), json!(total)), (format!("{name}_details"), details(rate))]);
}

/// The object with a rate per second.
pub(crate) fn details(rate: f64) -> Value {
    json!({"rate": rounded(rate)})
}

fn rounded(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

/// A counter of a node or vhost, by name.
pub(crate) type Number = (&'static str, fn(&Totals) -> u64);

/// Message counters of a node or vhost, by their names in `message_stats`.
pub(crate) const MESSAGES: &[Number] = &[
    ("ack", |totals| totals.all_acked()),
    ("confirm", |totals| totals.confirmed),
    ("deliver", |totals| totals.all_delivered_ack()),
    ("deliver_get", Totals::delivered),
    ("deliver_no_ack", |totals| totals.all_delivered_no_ack()),
    ("drop_unroutable", |totals| totals.unroutable_dropped),
    ("get", |totals| totals.all_get_ack()),
    ("get_empty", |totals| totals.all_get_empty()),
    ("get_no_ack", |totals| totals.all_get_no_ack()),
    ("publish", |totals| totals.published),
    ("redeliver", |totals| totals.all_redelivered()),
    ("return_unroutable", |totals| totals.unroutable_returned),
];

/// Churn counters.
pub(crate) const CHURN: &[Number] = &[
    ("channel_closed", |totals| totals.channels_closed),
    ("channel_created", |totals| totals.channels_opened),
    ("connection_closed", |totals| totals.connections_closed),
    ("connection_created", |totals| totals.connections_opened),
    ("queue_created", |totals| totals.queues_created),
    ("queue_declared", |totals| totals.queues_declared),
    ("queue_deleted", |totals| totals.queues_deleted),
];

/// The change of a counter per second since it was `earlier`, which is `seconds` ago.
pub(crate) fn rate(total: u64, earlier: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { total.wrapping_sub(earlier).cast_signed() as f64 / seconds } else { 0.0 }
}

/// These counters of `now`, with rates since `before`, which is `seconds` ago.
pub(crate) fn numbers(numbers: &[Number], now: &Totals, before: &Totals, seconds: f64) -> Map<String, Value> {
    let mut object = Map::new();
    for (name, read) in numbers {
        let (total, earlier) = (read(now), read(before));
        put(&mut object, name, total, rate(total, earlier, seconds));
    }
    object
}

/// Ready, unacknowledged and delayed messages of a vhost or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Lengths {
    pub(crate) ready: u64,
    pub(crate) unacknowledged: u64,
    pub(crate) delayed: u64,
    pub(crate) consumers: u64,
    pub(crate) ready_rate: f64,
    pub(crate) unacknowledged_rate: f64,
}

impl Lengths {
    /// The sums over all queues, which are maintained without iterating over them; rates over the recent samples.
    pub(crate) fn of_node(api: &Api) -> Self {
        let sums = api.broker().queue_metrics.sums().gauges;
        let (before, seconds) = api.sampler().queues_before((sums.ready, sums.unacknowledged));
        let rate = |now: u64, before: u64| match seconds > 0.0 {
            true => now.wrapping_sub(before).cast_signed() as f64 / seconds,
            false => 0.0,
        };
        Lengths {
            ready: sums.ready,
            unacknowledged: sums.unacknowledged,
            delayed: sums.delayed,
            consumers: sums.consumers,
            ready_rate: rate(sums.ready, before.0),
            unacknowledged_rate: rate(sums.unacknowledged, before.1),
        }
    }

    /// The sums over the queues of these vhosts.
    pub(crate) fn of<'a>(api: &Api, vhosts: impl IntoIterator<Item = &'a str>) -> Self {
        let snapshot = api.broker().registry.snapshot_full();
        let now = api.node().clock().monotonic();
        let mut sums = Lengths::default();
        for queue in snapshot.queues_of(vhosts) {
            let gauges = queue.gauges();
            sums.ready += gauges.ready;
            sums.unacknowledged += gauges.unacknowledged;
            sums.delayed += gauges.delayed;
            sums.consumers += gauges.consumers;
            if let Some(counts) = queue.look(Counts) {
                let rates = counts.rates(now);
                sums.ready_rate += rates.ready();
                sums.unacknowledged_rate += rates.unacknowledged();
            }
        }
        sums
    }

    /// Adds `messages`, `messages_ready` and `messages_unacknowledged` with their rates.
    pub(crate) fn add_to(&self, object: &mut Map<String, Value>) {
        let messages = self.ready + self.unacknowledged + self.delayed;
        put(object, "messages", messages, self.ready_rate + self.unacknowledged_rate);
        put(object, "messages_ready", self.ready, self.ready_rate);
        put(object, "messages_unacknowledged", self.unacknowledged, self.unacknowledged_rate);
    }
}

/// Adds the counters of vhosts to their responses; nothing for vhosts without any activity yet.
pub(crate) fn add_to_vhosts(api: &Api, vhosts: &mut [Value], ranges: Option<&Ranges>) {
    for vhost in vhosts {
        let Some(object) = vhost.as_object_mut() else { continue };
        let Some(name) = object.get("name").and_then(Value::as_str).map(str::to_owned) else { continue };
        let now = api.broker().totals_in(&name);
        if now == Totals::default() {
            continue;
        }
        let (before, seconds) = api.sampler().vhost_before(&name, &now);
        object.insert("message_stats".to_owned(), Value::Object(numbers(MESSAGES, &now, &before, seconds)));
        let octets: &[Number] = &[("recv_oct", |totals| totals.bytes_in), ("send_oct", |totals| totals.bytes_out)];
        object.extend(numbers(octets, &now, &before, seconds));
        // There may be thousands of queues; if there is only one vhost, the node's sums are its sums.
        let is_alone = api.topology().vhosts().nth(1).is_none();
        let lengths = if is_alone { Lengths::of_node(api) } else { Lengths::of(api, [&*name]) };
        lengths.add_to(object);
        api.show_past(Subject::Vhost(name.into()), vhost, ranges);
    }
}
