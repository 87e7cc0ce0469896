//! Lists of queues, whole or by pages.

use std::sync::Arc;

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::Snapshot;
use leveret_broker::{QueueCount, QueueState};
use serde_json::Value;

use super::view;
use crate::api::Api;
use crate::call::{Answer, Call};
use crate::history::Ranges;
use crate::list::{self, Key, Rows};

/// How much of each queue is shown.
#[derive(Clone, Copy)]
enum Depth {
    /// RabbitMQ's default.
    Usual,
    /// `/api/queues/detailed`.
    Detailed,
    /// Without statistics; with or without the numbers of messages.
    Plain { totals: bool },
}

struct Listed {
    api: Api,
    depth: Depth,
    now: u64,
    ranges: Option<Ranges>,
}

impl Rows for Listed {
    type Row = QueueRef;

    fn name<'a>(&'a self, row: &'a QueueRef) -> &'a str {
        &row.info().name
    }

    fn show(&self, row: &QueueRef) -> Value {
        let mut body = match self.depth {
            Depth::Usual => view::usual(&self.api, row),
            Depth::Detailed => view::detailed(&self.api, row),
            Depth::Plain { totals } => return view::plain(&self.api, row, totals),
        };
        view::add_past(&self.api, row, &mut body, self.ranges.as_ref());
        body
    }

    /// A page of 100,000 queues is sorted without making JSON of each.
    fn key(&self, row: &QueueRef, path: &str) -> Key {
        let info = row.info();
        let number = |number: u64| Key::Number(number as f64);
        match path {
            "name" => return Key::Text(info.name.to_string()),
            "vhost" => return Key::Text(info.vhost.to_string()),
            "node" => return Key::Text(self.api.name().to_owned()),
            "type" => return Key::Text("classic".to_owned()),
            "durable" => return Key::Text(info.durable.to_string()),
            "auto_delete" => return Key::Text(info.auto_delete.to_string()),
            "exclusive" => return Key::Text(info.is_exclusive().to_string()),
            "state" => {
                let failed = matches!(row.state(), QueueState::Failed(_));
                return Key::Text(if failed { "crashed" } else { "running" }.to_owned());
            }
            _ => {}
        }
        let brief = row.brief();
        match path {
            "messages" => number(brief.ready + brief.unacknowledged),
            "messages_ready" => number(brief.ready),
            "messages_unacknowledged" => number(brief.unacknowledged),
            "message_bytes" => number(brief.ready_bytes + brief.unacknowledged_bytes),
            "message_bytes_ready" => number(brief.ready_bytes),
            "message_bytes_unacknowledged" => number(brief.unacknowledged_bytes),
            "consumers" => number(brief.consumers as u64),
            "memory" => number(brief.memory),
            "messages_details.rate" => {
                let rates = brief.counts.rates(self.now);
                Key::Number(rates.ready() + rates.unacknowledged())
            }
            "messages_ready_details.rate" => Key::Number(brief.counts.rates(self.now).ready()),
            "messages_unacknowledged_details.rate" => Key::Number(brief.counts.rates(self.now).unacknowledged()),
            "message_stats.deliver_get" => number(brief.counts.handed_out()),
            other => match other.strip_prefix("message_stats.") {
                None => Key::of(&self.show(row), path),
                Some(stat) => {
                    let (stat, is_rate) = stat.strip_suffix("_details.rate").map_or((stat, false), |stat| (stat, true));
                    match QueueCount::ALL.into_iter().find(|count| count.name() == stat) {
                        Some(count) if is_rate => Key::Number(brief.counts.rates(self.now).of(count)),
                        Some(count) => number(brief.counts.total(count)),
                        None if stat == "deliver_get" => {
                            let rates = brief.counts.rates(self.now);
                            Key::Number(view::HANDED_OUT.iter().map(|count| rates.of(*count)).sum())
                        }
                        None => Key::Number(0.0),
                    }
                }
            },
        }
    }
}

/// The queues of all vhosts that the user sees.
pub(crate) async fn list(call: Call) -> Answer {
    let depth = depth(&call);
    everywhere(&call, depth)
}

/// The same with everything that is known of each.
pub(crate) async fn detailed(call: Call) -> Answer {
    everywhere(&call, Depth::Detailed)
}

/// The queues of one vhost.
pub(crate) async fn list_of_vhost(call: Call) -> Answer {
    let snapshot = call.api.broker().registry.snapshot_full();
    let rows = rows(&snapshot, call.word(0)).collect();
    answer(&call, depth(&call), rows)
}

fn depth(call: &Call) -> Depth {
    match call.asks("disable_stats") {
        true => Depth::Plain { totals: call.asks("enable_queue_totals") },
        false => Depth::Usual,
    }
}

fn everywhere(call: &Call, depth: Depth) -> Answer {
    let snapshot = call.api.broker().registry.snapshot_full();
    let vhosts = call.identity.vhosts(&snapshot.topology);
    let rows = vhosts.flat_map(|vhost| rows(&snapshot, vhost)).collect();
    answer(call, depth, rows)
}

fn rows<'a>(snapshot: &'a Arc<Snapshot>, vhost: &'a str) -> impl Iterator<Item = QueueRef> + 'a {
    snapshot.topology.queues(vhost).filter_map(|info| snapshot.queues.get(&info.id).cloned())
}

fn answer(call: &Call, depth: Depth, rows: Vec<QueueRef>) -> Answer {
    let now = call.api.node().clock().monotonic();
    let ranges = Ranges::of(&call.query);
    list::answer(&call.query, Listed { api: call.api.clone(), depth, now, ranges }, rows)
}
