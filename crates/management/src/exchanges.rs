//! `/api/exchanges`.

use std::sync::Arc;

use leveret_broker::SetAside;
use leveret_broker::exchange_counters::ExchangeCounters;
use leveret_broker::queue_handle::{SetAsideOf, Size, Status};
use leveret_broker::registry::{ChangeRequest, Snapshot};
use leveret_model::{
    Action, Command, CommandOutcome, DeclareExchange, DeleteExchange, Exchange, ExchangeType, without_line_ends,
};
use serde_json::{Value, json};

use crate::api::Api;
use crate::call::{Call, HandlerResult, json, no_content, put as created};
use crate::columns::{Cell, Columns};
use crate::error::Error;
use crate::fields::exchange_named as named;
use crate::history::{Ranges, Subject};
use crate::list::{self, Rows};
use crate::row::Shown;
use crate::{fields, statistics, why};

struct Listed {
    api: Api,
    snapshot: Arc<Snapshot>,
    ranges: Option<Ranges>,
}

impl Rows for Listed {
    type Row = Arc<Exchange>;

    fn name<'a>(&'a self, row: &'a Arc<Exchange>) -> &'a str {
        &row.name
    }

    fn show(&self, row: &Arc<Exchange>) -> Shown {
        Shown::Value(with_past(&self.api, &self.snapshot, row, self.ranges.as_ref()))
    }

    fn cell(&self, row: &Arc<Exchange>, column: &str) -> Cell {
        match column {
            "name" => (&*row.name).into(),
            "vhost" => (&*row.vhost).into(),
            "type" => row.kind.name().into(),
            "durable" => row.durable.into(),
            "auto_delete" => row.auto_delete.into(),
            "internal" => row.internal.into(),
            "arguments" => row.arguments.to_json().into(),
            "user_who_performed_action" => declared_by(row).into(),
            _ => Cell::Costly,
        }
    }
}

/// GET: exchanges of all vhosts visible to the user.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let topology = &snapshot.topology;
    let rows = call.identity.vhosts(topology).flat_map(|vhost| topology.exchanges(vhost).cloned()).collect();
    listed(&call, &snapshot, rows)
}

/// GET: exchanges of one vhost.
pub(crate) async fn of_vhost(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let rows = snapshot.topology.exchanges(call.word(0)).cloned().collect();
    listed(&call, &snapshot, rows)
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let found = snapshot.topology.exchange(call.word(0), named(call.word(1))).ok_or(Error::NotFound)?;
    let mut body = with_past(&call.api, &snapshot, found, Ranges::of(&call.query).as_ref());
    body["incoming"] = json!([]);
    body["outgoing"] = json!([]);
    json(Columns::of(&call.query).pick(body))
}

/// PUT: responds with 201 for a new exchange, 204 for an equivalent existing one.
pub(crate) async fn put(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), &*without_line_ends(named(call.word(1))));
    let body = call.object()?;
    let arguments = fields::arguments(&body)?;
    let kind = fields::text_or(&body, "type", "direct")?;
    if ExchangeType::parse(kind).is_err() {
        return Err(Error::BadRequest(format!("invalid exchange type '{kind}'")));
    }
    let alternate = arguments.get("alternate-exchange").and_then(|value| value.as_str());
    let permit = call.permit(vhost, Action::DeclareExchange { exchange: name, alternate })?;
    let command = Command::DeclareExchange(DeclareExchange {
        vhost: vhost.into(),
        name: name.into(),
        kind: kind.to_owned(),
        durable: fields::flag_or(&body, "durable", true)?,
        auto_delete: fields::flag(&body, "auto_delete")?,
        internal: fields::flag(&body, "internal")?,
        arguments: arguments.clone(),
    });
    created(call.api.submit(permit, command).await? == CommandOutcome::Created)
}

/// DELETE, optionally only if it has no bindings.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), named(call.word(1)));
    call.topology().exchange(vhost, name).ok_or(Error::NotFound)?;
    let permit = call.permit(vhost, Action::DeleteExchange(name))?;
    let if_unused = call.asks("if-unused");
    let command = DeleteExchange { vhost: vhost.into(), name: name.into(), if_unused };
    call.api.delete(ChangeRequest::new(permit, Command::DeleteExchange(command))).await?;
    no_content()
}

fn listed(call: &Call, snapshot: &Arc<Snapshot>, rows: Vec<Arc<Exchange>>) -> HandlerResult {
    let ranges = Ranges::of(&call.query);
    list::answer(&call.query, Listed { api: call.api.clone(), snapshot: snapshot.clone(), ranges }, rows)
}

fn with_past(api: &Api, snapshot: &Snapshot, exchange: &Exchange, ranges: Option<&Ranges>) -> Value {
    let mut body = view(api, snapshot, exchange);
    api.show_past(Subject::Exchange(exchange.vhost.clone(), exchange.name.clone()), &mut body, ranges);
    body
}

/// An exchange in a response, without its history.
pub(crate) fn view(api: &Api, snapshot: &Snapshot, exchange: &Exchange) -> Value {
    let mut body = definition(exchange);
    body["internal"] = json!(exchange.internal);
    body["user_who_performed_action"] = json!(declared_by(exchange));
    if let Some(queue) = exchange.delay_queue.and_then(|id| snapshot.queues.get(&id)) {
        body["messages_delayed"] = json!(queue.look(SetAsideOf(SetAside::Delayed)).0);
        if let Some(duplicates) = queue.look(Status).and_then(|status| status.duplicates) {
            body["messages_deduplicated"] = json!(duplicates);
        }
    }
    if let Some(queue) = exchange.history_queue.and_then(|id| snapshot.queues.get(&id)) {
        let max = queue.info().options.max_length.unwrap_or(u64::MAX);
        body["messages_kept"] = json!(queue.look(Size { used: None }).0.min(max));
    }
    let matched = snapshot.topology.policies_of_exchange(exchange);
    if let Some(policy) = &matched.policy {
        body["policy"] = json!(policy.name);
    }
    if let Some(counters) = snapshot.exchanges.get(&exchange.id).filter(|counters| counters.published_in.value() > 0) {
        let now = api.node().clock().now();
        body["message_stats"] = message_stats(counters, now.monotonic);
        body["why"] = why::of_exchange(&snapshot.topology, exchange, counters, now);
    }
    body
}

fn declared_by(exchange: &Exchange) -> &str {
    match &*exchange.declared_by {
        "" => "rmq-internal",
        user => user,
    }
}

fn message_stats(counters: &ExchangeCounters, now: u64) -> Value {
    let mut stats = serde_json::Map::new();
    let [incoming, outgoing] = counters.per_second(now);
    statistics::put(&mut stats, "publish_in", counters.published_in.value(), incoming);
    statistics::put(&mut stats, "publish_out", counters.published_out.value(), outgoing);
    Value::Object(stats)
}

/// The exchange as exported, without `internal`.
pub(crate) fn definition(exchange: &Exchange) -> Value {
    json!({
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.kind.name(),
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "arguments": exchange.arguments.to_json(),
    })
}
