//! `/api/attention`: objects that wait or go wrong, over all queues, exchanges and connections, the worst first.
//!
//! Most queues are passed over by their gauges. Those whose gauges say that something may be wrong are looked at in full. Queues that
//! merely have no consumer may be very many: they are counted by their gauges, and the longest of them looked at.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leveret_broker::queue_handle::{CountOf, QueueRef, SetAsideOf, Status};
use leveret_broker::registry::Snapshot;
use leveret_broker::views::Client;
use leveret_broker::{Now, QueueCount, QueueGauges, SetAside, WaitReason};
use leveret_model::Overflow;
use serde_json::{Value, json};

use crate::api::Api;
use crate::asking::ask_others;
use crate::call::{Call, HandlerResult, json};
use crate::connections::{ask_briefly, seen};
use crate::percent::encoded_pairs;
use crate::query::given;
use crate::stream::make_way;
use crate::why::{self, Severity, short};

/// Rows of an answer, unless asked otherwise, and at most.
const ROWS: usize = 20;
const ROWS_MAX: usize = 500;
/// Queues that are looked at in full: most of those that may be in trouble, and of those that have no consumer.
const FULL_MAX: usize = 10_000;
const LONGEST_MAX: usize = 1000;
/// Longest time for the answers of other members.
const OTHERS_WITHIN: Duration = Duration::from_secs(1);
/// Connections that are asked; only those of the vhosts concerned.
const CONNECTIONS_MAX: usize = 1000;
/// Queues processed before the thread yields.
const QUEUES_AT_A_STRETCH: usize = 1024;

/// GET: reasons with the number of objects that have each, and the objects with the worst ones.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let rows = call.number("limit", ROWS)?.min(ROWS_MAX);
    let severity = Severity::asked(&call.query)?;
    let code = given(&call.query, "why");
    let now = call.api.node().clock().now();
    let snapshot = call.api.broker().registry.snapshot_full();
    let asked = given(&call.query, "vhost");
    let vhosts: Vec<Arc<str>> = call
        .identity
        .vhosts(&snapshot.topology)
        .filter(|vhost| asked.is_none_or(|asked| ***vhost == *asked))
        .cloned()
        .collect();
    let mut found = Found::default();
    found.add_queues(&call.api, &snapshot, &vhosts, now);
    found.add_exchanges(&snapshot, &vhosts, now);
    let mut clients = seen(&call);
    clients.retain(|client| vhosts.contains(&client.vhost));
    found.add_connections(&call.api, clients).await;
    let mut answer = found.answer(rows, code, severity);
    if call.api.is_member() {
        let mut answers = vec![(call.api.name().to_owned(), answer)];
        if !call.arrival.is_forwarded {
            let query = encoded_pairs(call.query.iter());
            answers.extend(ask_others(&call, OTHERS_WITHIN, |_| format!("/api/attention?{query}")).await);
        }
        answer = of_all(answers, rows);
    }
    json(answer)
}

/// The answers of several nodes as one, each object with its node.
fn of_all(answers: Vec<(String, Value)>, limit: usize) -> Value {
    let (mut rows, mut sums, mut totals) = (Vec::new(), BTreeMap::new(), [0, 0, 0]);
    for (node, answer) in answers {
        for (sum, key) in totals.iter_mut().zip(["total_count", "counted_only", "passed_over"]) {
            *sum += answer[key].as_u64().unwrap_or(0);
        }
        for reason in answer["reasons"].as_array().into_iter().flatten() {
            let Some(severity) = reason["severity"].as_str().and_then(Severity::parse) else { continue };
            let code = reason["code"].as_str().unwrap_or_default().to_owned();
            *sums.entry((severity, code)).or_insert(0) += reason["objects"].as_u64().unwrap_or(0);
        }
        for mut view in answer["items"].as_array().cloned().unwrap_or_default() {
            let Some(severity) = view["severity"].as_str().and_then(Severity::parse) else { continue };
            view["node"] = json!(node);
            let name = view["name"].as_str().unwrap_or_default().into();
            rows.push(Row { severity, seconds: view["seconds"].as_f64(), name, view });
        }
    }
    rows.sort_by(Row::order);
    let shown: Vec<Value> = rows.into_iter().take(limit).map(|row| row.view).collect();
    let [total_count, counted_only, passed_over] = totals;
    json!({
        "reasons": reasons(sums), "items": shown, "total_count": total_count, "counted_only": counted_only,
        "passed_over": passed_over,
    })
}

/// Reasons with the number of objects that have each.
fn reasons(sums: BTreeMap<(Severity, String), u64>) -> Vec<Value> {
    let reason = |((severity, code), objects): ((Severity, String), u64)| json!({"severity": severity.name(), "short": short(&code), "code": code, "objects": objects});
    sums.into_iter().map(reason).collect()
}

/// An object, and one of its reasons.
struct Row {
    severity: Severity,
    seconds: Option<f64>,
    name: Arc<str>,
    view: Value,
}

impl Row {
    /// The worst first; of equals, what has lasted longest.
    fn order(&self, other: &Self) -> Ordering {
        let lasted = |row: &Row| row.seconds.unwrap_or(-1.0);
        self.severity
            .cmp(&other.severity)
            .then_with(|| lasted(other).total_cmp(&lasted(self)))
            .then_with(|| self.name.cmp(&other.name))
    }
}

/// All that was found.
#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    /// Queues without consumers that were counted only.
    counted: u64,
    /// Queues that may be in trouble, and that weren't looked at because there were so many.
    passed_over: u64,
}

impl Found {
    fn add_queues(&mut self, api: &Api, snapshot: &Snapshot, vhosts: &[Arc<str>], now: Now) {
        let (mut suspects, mut unconsumed) = (Vec::new(), Vec::new());
        for (at, queue) in snapshot.queues_of(vhosts.iter().map(|vhost| &**vhost)).into_iter().enumerate() {
            if at % QUEUES_AT_A_STRETCH == 0 {
                make_way();
            }
            let gauges = queue.gauges();
            match glance(&queue, &gauges) {
                Glance::Fine => {}
                Glance::NoConsumers => unconsumed.push((gauges.ready, queue)),
                Glance::Suspect(rank) => suspects.push((rank, queue)),
            }
        }
        if unconsumed.len() > LONGEST_MAX {
            unconsumed.select_nth_unstable_by_key(LONGEST_MAX, |(ready, _)| Reverse(*ready));
            self.counted = (unconsumed.len() - LONGEST_MAX) as u64;
            unconsumed.truncate(LONGEST_MAX);
        }
        self.passed_over = suspects.len().saturating_sub(FULL_MAX) as u64;
        suspects.sort_by_key(|(rank, _)| *rank);
        suspects.truncate(FULL_MAX);
        let suspects = suspects.into_iter().map(|(_, queue)| queue);
        for (at, queue) in suspects.chain(unconsumed.into_iter().map(|(_, queue)| queue)).enumerate() {
            if at % QUEUES_AT_A_STRETCH == 0 {
                make_way();
            }
            let info = queue.info();
            let Some(status) = queue.look(Status) else { continue };
            let reasons = why::of_queue(api, &queue, &status, now);
            let of = json!({"kind": "queue", "vhost": info.vhost, "name": info.name, "type": info.queue_type().name()});
            self.add(&info.name, &of, reasons);
        }
    }

    fn add_exchanges(&mut self, snapshot: &Snapshot, vhosts: &[Arc<str>], now: Now) {
        for exchange in vhosts.iter().flat_map(|vhost| snapshot.topology.exchanges(vhost)) {
            let Some(counters) = snapshot.exchanges.get(&exchange.id) else { continue };
            if counters.unroutable_dropped.value() + counters.unroutable_returned.value() == 0 {
                continue;
            }
            let reasons = why::of_exchange(&snapshot.topology, exchange, counters, now);
            let of = json!({"kind": "exchange", "vhost": exchange.vhost, "name": exchange.name});
            self.add(&exchange.name, &of, reasons);
        }
    }

    async fn add_connections(&mut self, api: &Api, mut clients: Vec<Arc<Client>>) {
        clients.truncate(CONNECTIONS_MAX);
        let now = api.node().clock().now();
        for view in ask_briefly(api, &clients).await {
            let reasons = why::of_connection(api, view.status.wait, view.paced_by, now);
            let of = json!({"kind": "connection", "vhost": view.client.vhost, "name": view.client.name});
            self.add(&view.client.name, &of, reasons);
        }
    }

    fn add(&mut self, name: &Arc<str>, of: &Value, reasons: Value) {
        let Value::Array(reasons) = reasons else { return };
        for mut reason in reasons {
            let Some(severity) = reason["severity"].as_str().and_then(Severity::parse) else { continue };
            let seconds = reason["seconds"].as_f64();
            if let (Value::Object(view), Value::Object(of)) = (&mut reason, of) {
                view.extend(of.clone());
            }
            self.rows.push(Row { severity, seconds, name: name.clone(), view: reason });
        }
    }

    /// The answer: of each object the worst reason that was asked for. Notes only come if they are asked for.
    fn answer(mut self, limit: usize, code: Option<&str>, severity: Option<Severity>) -> Value {
        let mut sums: BTreeMap<(Severity, String), u64> = BTreeMap::new();
        for row in &self.rows {
            let code = row.view["code"].as_str().unwrap_or_default().to_owned();
            *sums.entry((row.severity, code)).or_default() += 1;
        }
        if self.counted > 0 {
            *sums.entry((Severity::Warn, WaitReason::NoConsumers.code().to_owned())).or_default() += self.counted;
        }
        let is_asked = |row: &Row| match (code, severity) {
            (None, None) => row.severity != Severity::Note,
            (code, severity) => {
                code.is_none_or(|code| row.view["code"] == *code)
                    && severity.is_none_or(|severity| row.severity == severity)
            }
        };
        self.rows.retain(is_asked);
        self.rows.sort_by(Row::order);
        let mut shown = Vec::new();
        let mut seen = std::collections::HashSet::new();
        let mut objects = 0;
        for row in self.rows {
            let key = ["kind", "vhost", "name"].map(|key| row.view[key].as_str().unwrap_or_default().to_owned());
            if !seen.insert(key) {
                continue;
            }
            objects += 1;
            if shown.len() < limit {
                shown.push(row.view);
            }
        }
        json!({
            "reasons": reasons(sums), "items": shown, "total_count": objects, "counted_only": self.counted,
            "passed_over": self.passed_over,
        })
    }
}

/// The verdict of a queue's gauges and counters.
enum Glance {
    Fine,
    NoConsumers,
    /// It is to be looked at in full; those of the lowest rank first, if there are too many.
    Suspect(Rank),
}

/// The trouble that a queue may be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It refuses messages, or stands.
    Stands,
    /// It may lose messages, or hand out the same ones again and again.
    Loses,
    /// It waits.
    Waits,
    /// Its settings may be wrong.
    Settings,
}

/// Deliveries without an acknowledgement from which on dead letters may loop.
const UNANSWERED: u64 = 10;

fn glance(queue: &QueueRef, gauges: &QueueGauges) -> Glance {
    let waits = |reason| gauges.waits.contains(reason);
    if gauges.failed || [WaitReason::Full, WaitReason::Alarm, WaitReason::DiskFull].into_iter().any(waits) {
        return Glance::Suspect(Rank::Stands);
    }
    let (info, effective) = (queue.info(), queue.effective());
    let options = effective.options(info);
    let counted = |count| if gauges.counted { queue.look(CountOf(count)).unwrap_or_default() } else { 0 };
    let has_limit = options.max_length.is_some() || options.max_length_bytes.is_some();
    let may_drop = has_limit && options.overflow == Overflow::DropHead && !queue.is_stream();
    if may_drop && counted(QueueCount::Publish) > 0 || counted(QueueCount::Redeliver) > 0 {
        return Glance::Suspect(Rank::Loses);
    }
    let is_moving = options.dead_letter.is_some();
    if is_moving && counted(QueueCount::Deliver) >= counted(QueueCount::Ack).saturating_add(UNANSWERED) {
        return Glance::Suspect(Rank::Loses);
    }
    let has_aside =
        || [SetAside::Parked, SetAside::Delayed].into_iter().any(|which| queue.look(SetAsideOf(which)).0 > 0);
    let unconsumed = waits(WaitReason::NoConsumers);
    let has_others = gauges.waits.bits() & !(1 << WaitReason::NoConsumers as u32) != 0;
    // Messages that nobody consumes because a time to live moves them on are told apart in full.
    if has_others || unconsumed && options.message_ttl_ms.is_some() || queue.is_quorum() && has_aside() {
        return Glance::Suspect(Rank::Waits);
    }
    match unconsumed {
        _ if is_moving && (unconsumed || gauges.counted) => Glance::Suspect(Rank::Settings),
        true => Glance::NoConsumers,
        false => Glance::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(code: &str, seconds: Option<f64>) -> Value {
        json!({"code": code, "severity": Severity::of(code, seconds).name(), "seconds": seconds})
    }

    fn found() -> Found {
        let mut found = Found { counted: 5, ..Found::default() };
        for (name, reasons) in [
            ("idle", json!([reason("no_consumers", Some(9000.0))])),
            ("slow", json!([reason("slow_consumer", Some(60.0)), reason("small_prefetch", None)])),
            ("full", json!([reason("full", Some(5.0))])),
            ("loop", json!([reason("redelivery_loop", None)])),
            ("retry", json!([reason("waits_to_retry", Some(100.0))])),
        ] {
            found.add(&Arc::from(name), &json!({"kind": "queue", "vhost": "/", "name": name}), reasons);
        }
        found
    }

    fn names(answer: &Value) -> Vec<String> {
        let items = answer["items"].as_array().expect("a list");
        items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
    }

    #[test]
    fn the_worst_comes_first_and_then_what_lasts_longest() {
        let answer = found().answer(10, None, None);
        assert_eq!(names(&answer), ["full", "loop", "idle", "slow"]);
        assert_eq!((&answer["total_count"], &answer["counted_only"]), (&json!(4), &json!(5)));
        assert_eq!(answer["reasons"][0]["severity"], "bad");
        let reasons = answer["reasons"].as_array().expect("a list");
        let of = |code: &str| reasons.iter().find(|reason| reason["code"] == code).map(|reason| &reason["objects"]);
        assert_eq!(of("no_consumers"), Some(&json!(6)), "those that were counted only, too");
        assert_eq!(names(&found().answer(2, None, None)), ["full", "loop"]);
    }

    #[test]
    fn the_answers_of_nodes_are_one_list_with_their_names() {
        let answers =
            vec![("a".to_owned(), found().answer(2, None, None)), ("b".to_owned(), found().answer(9, None, None))];
        let all = of_all(answers, 5);
        assert_eq!(names(&all), ["full", "full", "loop", "loop", "idle"]);
        assert_eq!((&all["items"][0]["node"], &all["items"][4]["node"]), (&json!("a"), &json!("b")));
        assert_eq!((&all["total_count"], &all["counted_only"]), (&json!(8), &json!(10)));
        assert_eq!(all["reasons"][0]["objects"], 2);
    }

    #[test]
    fn objects_are_chosen_by_reason_and_severity() {
        assert_eq!(names(&found().answer(10, Some("small_prefetch"), None)), ["slow"]);
        assert_eq!(names(&found().answer(10, None, Some(Severity::Note))), ["retry"]);
        assert_eq!(names(&found().answer(10, Some("full"), Some(Severity::Warn))), [""; 0]);
    }
}
