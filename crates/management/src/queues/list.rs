//! Lists of queues, whole or by pages.

use leveret_broker::queue_handle::QueueRef;
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
        let gauges = row.gauges();
        match path {
            "messages" => return number(gauges.ready + gauges.unacknowledged),
            "messages_ready" => return number(gauges.ready),
            "messages_unacknowledged" => return number(gauges.unacknowledged),
            "message_bytes" => return number(gauges.ready_bytes + gauges.unacknowledged_bytes),
            "message_bytes_ready" => return number(gauges.ready_bytes),
            "message_bytes_unacknowledged" => return number(gauges.unacknowledged_bytes),
            "consumers" => return number(gauges.consumers),
            "memory" => return number(gauges.memory),
            _ => {}
        }
        let Some(counted) = Counted::of(path) else { return Key::of(&self.show(row), path) };
        // Most of many queues have never counted anything.
        let Some(counts) = row.counts_if_any() else { return Key::Number(0.0) };
        let rates = || counts.rates(self.now);
        Key::Number(match counted {
            Counted::Messages => rates().ready() + rates().unacknowledged(),
            Counted::Ready => rates().ready(),
            Counted::Unacknowledged => rates().unacknowledged(),
            Counted::Total(of) => of.iter().map(|count| counts.total(*count)).sum::<u64>() as f64,
            Counted::Rate(of) => {
                let rates = rates();
                of.iter().map(|count| rates.of(*count)).sum()
            }
        })
    }
}

/// A column that comes from what queues count.
enum Counted {
    Messages,
    Ready,
    Unacknowledged,
    Total(Vec<QueueCount>),
    Rate(Vec<QueueCount>),
}

impl Counted {
    fn of(path: &str) -> Option<Self> {
        match path {
            "messages_details.rate" => return Some(Self::Messages),
            "messages_ready_details.rate" => return Some(Self::Ready),
            "messages_unacknowledged_details.rate" => return Some(Self::Unacknowledged),
            _ => {}
        }
        let stat = path.strip_prefix("message_stats.")?;
        let (stat, is_rate) = stat.strip_suffix("_details.rate").map_or((stat, false), |stat| (stat, true));
        let of = match stat {
            "deliver_get" => view::HANDED_OUT.to_vec(),
            // One that no queue counts is 0 for all.
            _ => QueueCount::ALL.into_iter().filter(|count| count.name() == stat).collect(),
        };
        Some(if is_rate { Self::Rate(of) } else { Self::Total(of) })
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
    let rows = snapshot.queues_of([call.word(0)]);
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
    let rows = snapshot.queues_of(vhosts.map(|vhost| &**vhost));
    answer(call, depth, rows)
}

fn answer(call: &Call, depth: Depth, rows: Vec<QueueRef>) -> Answer {
    let now = call.api.node().clock().monotonic();
    let ranges = Ranges::of(&call.query);
    list::answer(&call.query, Listed { api: call.api.clone(), depth, now, ranges }, rows)
}
