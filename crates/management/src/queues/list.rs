//! Lists of queues, complete or paginated.

use leveret_broker::queue_handle::{Counts, QueueRef};
use leveret_broker::registry::Snapshot;
use leveret_broker::{QueueCount, QueueCounts, QueueGauges};
use leveret_model::QueueType;

use super::view;
use crate::api::Api;
use crate::call::{Call, HandlerResult};
use crate::columns::Cell;
use crate::history::Ranges;
use crate::list::{self, Key, KeyBy, Rows, Sorting};
use crate::row::Shown;

/// The level of detail of a list.
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

    fn tie<'a>(&'a self, row: &'a QueueRef) -> (&'a str, &'a str) {
        (&row.info().vhost, &row.info().name)
    }

    fn show(&self, row: &QueueRef) -> Shown {
        let body = match self.depth {
            Depth::Usual => view::usual(&self.api, row),
            Depth::Detailed => view::detailed(&self.api, row),
            Depth::Plain { totals } => return Shown::Row(view::plain(&self.api, row, totals)),
        };
        if self.ranges.is_none() {
            return Shown::Row(body);
        }
        let mut body = body.into();
        view::add_past(&self.api, row, &mut body, self.ranges.as_ref());
        Shown::Value(body)
    }

    fn cell(&self, row: &QueueRef, column: &str) -> Cell {
        match (column, self.depth) {
            // The status of other queues has messages in states that their gauges sum up in another way.
            ("messages" | "messages_ready" | "messages_unacknowledged", Depth::Plain { totals: false }) => Cell::Absent,
            ("messages" | "messages_ready" | "messages_unacknowledged", _)
                if row.info().queue_type() != QueueType::Classic =>
            {
                Cell::Costly
            }
            ("messages", _) => row.gauges().messages().into(),
            ("messages_ready", _) => row.gauges().ready.into(),
            ("messages_unacknowledged", _) => row.gauges().unacknowledged.into(),
            ("consumers", Depth::Usual | Depth::Detailed) => row.gauges().consumers.into(),
            // Details have a value where there is no policy, too.
            ("policy", Depth::Detailed) => Cell::Costly,
            _ => view::declared_cell(&self.api, row, column),
        }
    }

    /// Most queues wait for nothing, and have never counted anything.
    fn may_wait(&self, row: &QueueRef) -> bool {
        let gauges = row.gauges();
        gauges.waits.bits() != 0 || gauges.counted || row.is_quorum()
    }

    /// A page of 100,000 queues is sorted without generating the JSON of each.
    fn key_by<'a>(&'a self, path: &'a str) -> KeyBy<'a, QueueRef> {
        if let Some(text) = text(path) {
            return Box::new(move |row| text(&self.api, row));
        }
        if let Some(gauge) = gauge(path) {
            return Box::new(move |row| Key::Number(gauge(&row.gauges()) as f64));
        }
        if let Some(counted) = Counted::of(path) {
            // Most queues have never counted anything.
            let number =
                move |row: &QueueRef| row.look(Counts).map_or(0.0, |counts| counted.of_queue(&counts, self.now));
            return Box::new(move |row| Key::Number(number(row)));
        }
        Box::new(move |row| Key::of(&self.show(row).into_value(), path))
    }
}

/// The sort key of a column with text or a boolean.
fn text(path: &str) -> Option<fn(&Api, &QueueRef) -> Key> {
    Some(match path {
        "name" => |_, row| Key::Shared(row.info().name.clone()),
        "vhost" => |_, row| Key::Shared(row.info().vhost.clone()),
        "node" => |api, row| Key::Shared(view::node_of(api, row)),
        "type" => |_, row| Key::Word(row.info().queue_type().name()),
        "durable" => |_, row| flag(row.info().durable),
        "auto_delete" => |_, row| flag(row.info().auto_delete),
        "exclusive" => |_, row| flag(row.info().is_exclusive()),
        "state" => |api, row| Key::Word(view::state(api, row)),
        _ => return None,
    })
}

fn flag(value: bool) -> Key {
    Key::Word(if value { "true" } else { "false" })
}

/// The value of a column with a size.
fn gauge(path: &str) -> Option<fn(&QueueGauges) -> u64> {
    Some(match path {
        "messages" => QueueGauges::messages,
        "messages_ready" => |gauges| gauges.ready,
        "messages_unacknowledged" => |gauges| gauges.unacknowledged,
        "message_bytes" => QueueGauges::message_bytes,
        "message_bytes_ready" => |gauges| gauges.ready_bytes,
        "message_bytes_unacknowledged" => |gauges| gauges.unacknowledged_bytes,
        "consumers" => |gauges| gauges.consumers,
        "memory" => |gauges| gauges.memory,
        _ => return None,
    })
}

/// A column derived from queues' counters.
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
            // A column that no queue counts is 0 for all.
            _ => QueueCount::ALL.into_iter().filter(|count| count.name() == stat).collect(),
        };
        Some(if is_rate { Self::Rate(of) } else { Self::Total(of) })
    }

    fn of_queue(&self, counts: &QueueCounts, now: u64) -> f64 {
        let rates = || counts.rates(now);
        match self {
            Self::Messages => rates().ready() + rates().unacknowledged(),
            Self::Ready => rates().ready(),
            Self::Unacknowledged => rates().unacknowledged(),
            Self::Total(of) => of.iter().map(|count| counts.total(*count)).sum::<u64>() as f64,
            Self::Rate(of) => {
                let rates = rates();
                of.iter().map(|count| rates.of(*count)).sum()
            }
        }
    }
}

/// GET: the queues of all vhosts visible to the user.
pub(crate) async fn list(call: Call) -> HandlerResult {
    let depth = depth(&call);
    everywhere(&call, depth)
}

/// As [`list`], with all details.
pub(crate) async fn detailed(call: Call) -> HandlerResult {
    everywhere(&call, Depth::Detailed)
}

/// GET: the queues of one vhost.
pub(crate) async fn list_of_vhost(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    answer(&call, depth(&call), &snapshot, &[call.word(0)])
}

/// GET: the queues declared by a user, in vhosts visible to the caller.
pub(crate) async fn list_of_user(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let mut rows = snapshot.queues_of(call.identity.vhosts(&snapshot.topology).map(|vhost| &**vhost));
    rows.retain(|queue| *queue.info().declared_by == *call.word(0) && is_shown(&call, queue));
    list::answer(&call.query, listed(&call, depth(&call)), rows)
}

/// Whether this node shows a queue. Another member that merges lists gets the queues of each from itself.
fn is_shown(call: &Call, queue: &QueueRef) -> bool {
    let is_nobodys = |absent: &Vec<_>| queue.member().is_none_or(|member| absent.contains(&member));
    !call.arrival.is_forwarded || !queue.is_away() || call.absent.as_ref().is_some_and(is_nobodys)
}

fn listed(call: &Call, depth: Depth) -> Listed {
    let now = call.api.node().clock().monotonic();
    Listed { api: call.api.clone(), depth, now, ranges: Ranges::of(&call.query) }
}

fn depth(call: &Call) -> Depth {
    match call.asks("disable_stats") {
        true => Depth::Plain { totals: call.asks("enable_queue_totals") },
        false => Depth::Usual,
    }
}

fn everywhere(call: &Call, depth: Depth) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let vhosts: Vec<&str> = call.identity.vhosts(&snapshot.topology).map(|vhost| &**vhost).collect();
    answer(call, depth, &snapshot, &vhosts)
}

fn answer(call: &Call, depth: Depth, snapshot: &Snapshot, vhosts: &[&str]) -> HandlerResult {
    let kind = listed(call, depth);
    let all: usize = vhosts.iter().map(|vhost| snapshot.topology.queue_count_in(vhost)).sum();
    if call.arrival.is_forwarded {
        // Most queues are others': for a part of a page, none is copied.
        if all == snapshot.queues.len() {
            let rows: Vec<&QueueRef> = snapshot.queues.values().filter(|queue| is_shown(call, queue)).collect();
            if let Some(answer) = list::sorted_page(&call.query, &kind, rows.into_iter()) {
                return answer;
            }
        }
        let mut rows = snapshot.queues_of(vhosts.iter().copied());
        rows.retain(|queue| is_shown(call, queue));
        return list::answer(&call.query, kind, rows);
    }
    let counts = || vhosts.iter().map(|vhost| snapshot.topology.queue_count_in(vhost));
    let reverse = match Sorting::of(&call.query) {
        Sorting::No => Some(false),
        // They are ordered by name if only one vhost has queues.
        Sorting::ByName { reverse } if counts().filter(|count| *count > 0).count() <= 1 => Some(reverse),
        Sorting::ByName { .. } | Sorting::Otherwise => None,
    };
    if let Some(reverse) = reverse
        && let Some(answer) = list::page(&call.query, &kind, all, |range| snapshot.queues_in(vhosts, range, reverse))
    {
        return answer;
    }
    if reverse.is_none()
        && all == snapshot.queues.len()
        && let Some(answer) = list::sorted_page(&call.query, &kind, snapshot.queues.values())
    {
        return answer;
    }
    list::answer(&call.query, kind, snapshot.queues_of(vhosts.iter().copied()))
}
