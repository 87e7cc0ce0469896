//! `/api/stream/super-streams`: a direct exchange with streams bound to it, its partitions, in an order.

use std::collections::HashSet;
use std::sync::Arc;

use leveret_broker::registry::{ChangeRequests, Snapshot};
use leveret_model::super_stream::{
    self, PlannedSuperStream, STREAM_ARGUMENTS, is_super_stream, partition_order, partitions,
};
use leveret_model::{
    Action, Arguments, Binding, CommandOutcome, Exchange, Permit, RefusedKind, Value as Argument, without_line_ends,
};
use serde_json::{Map, Value, json};

use crate::call::{Call, HandlerResult, json, no_content};
use crate::error::Error;
use crate::fields;
use crate::list::{self, Rows};
use crate::row::Shown;

/// Argument of partitions: where their leaders are put.
const LOCATOR: &str = "x-queue-leader-locator";
/// Largest number of partitions.
const PARTITIONS_MAX: u64 = super_stream::PARTITIONS_MAX as u64;

/// GET: the super streams of all vhosts visible to the user.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let vhosts: Vec<Arc<str>> = call.identity.vhosts(&snapshot.topology).cloned().collect();
    listed(&call, &snapshot, vhosts.iter().map(|vhost| &**vhost))
}

/// GET: the super streams of one vhost.
pub(crate) async fn of_vhost(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    listed(&call, &snapshot, [call.word(0)])
}

fn listed<'a>(call: &Call, snapshot: &Arc<Snapshot>, vhosts: impl IntoIterator<Item = &'a str>) -> HandlerResult {
    let exchanges = vhosts.into_iter().flat_map(|vhost| snapshot.topology.exchanges(vhost));
    let rows = exchanges.filter(|exchange| is_super_stream(exchange)).cloned().collect();
    list::answer(&call.query, Listed(snapshot.clone()), rows)
}

struct Listed(Arc<Snapshot>);

impl Rows for Listed {
    type Row = Arc<Exchange>;

    fn name<'a>(&'a self, row: &'a Arc<Exchange>) -> &'a str {
        &row.name
    }

    fn show(&self, row: &Arc<Exchange>) -> Shown {
        Shown::Value(view(&self.0, row))
    }
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let found = snapshot.topology.exchange(call.word(0), call.word(1)).filter(|exchange| is_super_stream(exchange));
    json(view(&snapshot, found.ok_or(Error::NotFound)?))
}

fn view(snapshot: &Snapshot, exchange: &Exchange) -> Value {
    let topology = &snapshot.topology;
    let partitions = partitions(topology, exchange);
    let queue = |binding: &Binding| topology.queue(&exchange.vhost, binding.destination.name());
    let shown: Vec<Value> = partitions
        .iter()
        .map(|binding| {
            json!({
                "name": binding.destination.name(),
                "routing_key": String::from_utf8_lossy(&binding.routing_key),
                "order": partition_order(binding),
            })
        })
        .collect();
    let arguments = partitions.first().and_then(|binding| queue(binding));
    json!({
        "name": exchange.name,
        "vhost": exchange.vhost,
        "arguments": arguments.map_or_else(|| json!({}), |queue| queue.arguments.to_json()),
        "partition_count": shown.len(),
        "partitions": shown,
    })
}

/// PUT: creates the exchange, its partitions and their bindings as one change. RabbitMQ answers 204.
pub(crate) async fn put(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), &*without_line_ends(call.word(1)));
    let body = call.object()?;
    let keys = keys(&body)?;
    fields::check_node(&body, call.api.name())?;
    let partitions = keys.into_iter().map(|key| (format!("{name}-{key}").into(), key.into_boxed_str())).collect();
    let plan = PlannedSuperStream { vhost: vhost.into(), name: name.into(), partitions, arguments: arguments(&body)? };
    let permit = permit(&plan, &call)?;
    let requests = ChangeRequests { permit, commands: plan.commands().into(), is_new: true };
    match call.api.change_all(requests).await? {
        Ok(_) => no_content(),
        Err((_, refused)) if refused.kind == RefusedKind::AlreadyExists => {
            let advice =
                "a super stream creates its exchange and all of its partitions: delete it, or choose another name";
            Err(Error::BadRequest(format!("{}; {advice}", refused.text)))
        }
        Err((_, refused)) => Err(refused.into()),
    }
}

/// The routing keys of the partitions.
fn keys(body: &Map<String, Value>) -> Result<Vec<String>, Error> {
    let given = |key: &str| body.get(key).filter(|value| !value.is_null());
    let bad = |text: String| Err(Error::BadRequest(text));
    match (given("partitions"), given("binding-keys")) {
        (None, None) => bad("Must specify partitions or binding keys".to_owned()),
        (Some(_), Some(_)) => bad("Specify partitions or binding keys, not both".to_owned()),
        (Some(partitions), None) => match fields::count(partitions) {
            Ok(0) => bad("The partition number must be greater than 0".to_owned()),
            Ok(count @ 1..=PARTITIONS_MAX) => Ok((0..count).map(|index| index.to_string()).collect()),
            Ok(_) => bad(format!("The partition number must not exceed {PARTITIONS_MAX}")),
            Err(_) if partitions.as_i64().is_some() => bad("The partition number must be greater than 0".to_owned()),
            Err(_) => bad("The partitions must be a number".to_owned()),
        },
        (None, Some(Value::String(keys))) => {
            let keys: Vec<&str> = keys.split(',').map(str::trim).filter(|key| !key.is_empty()).collect();
            let mut seen = HashSet::new();
            match keys.iter().find(|key| !seen.insert(**key)) {
                Some(twice) => bad(format!("The binding key '{twice}' is there twice: each is one partition")),
                None if keys.is_empty() => bad("The number of binding keys must be greater than 0".to_owned()),
                None if keys.len() as u64 > PARTITIONS_MAX => {
                    bad(format!("The number of binding keys must not exceed {PARTITIONS_MAX}"))
                }
                None => Ok(keys.into_iter().map(str::to_owned).collect()),
            }
        }
        (None, Some(other)) => bad(format!("binding-keys is {other}, expected a text of keys separated by commas")),
    }
}

/// The arguments of the partitions, which a request has without the `x-` before their names.
fn arguments(body: &Map<String, Value>) -> Result<Arguments, Error> {
    let mut arguments =
        Arguments::from_iter([("x-queue-type", Argument::from("stream")), (LOCATOR, "balanced".into())]);
    let given = match body.get("arguments") {
        None | Some(Value::Null) => return Ok(arguments),
        Some(Value::Array(list)) if list.is_empty() => return Ok(arguments),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(Error::BadRequest("arguments is no object".to_owned())),
    };
    for (name, value) in given {
        let Some((known, is_number)) = STREAM_ARGUMENTS.into_iter().find(|(known, _)| known == name) else {
            let known = STREAM_ARGUMENTS.map(|(known, _)| known).join(", ");
            return Err(Error::BadRequest(format!(
                "unknown argument '{name}' of a super stream, expected one of {known}"
            )));
        };
        let value = match (is_number, value) {
            (true, Value::String(text)) => match text.parse() {
                Ok(number) => Argument::Int(number),
                Err(_) => return Err(Error::BadRequest(format!("argument '{name}' is '{text}', expected a number"))),
            },
            (_, value) => Argument::from_json(value),
        };
        arguments = arguments.with(&format!("x-{known}"), value);
    }
    Ok(arguments)
}

/// Checks every step, and returns the permit of the first: permits differ only in the action that was checked.
fn permit(plan: &PlannedSuperStream, call: &Call) -> Result<Permit, Error> {
    let permits = plan.actions().map(|action| call.permit(&plan.vhost, action)).collect::<Result<Vec<_>, _>>()?;
    Ok(permits.into_iter().next().expect("there is an exchange"))
}

/// DELETE: the exchange and its partitions with all their messages, as one change. Every permission is checked before the first of them goes.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let topology = call.topology();
    let exchange = topology.exchange(vhost, name).ok_or(Error::NotFound)?;
    if !is_super_stream(exchange) {
        let text = format!("exchange '{name}' in vhost '{vhost}' is no super stream: delete it as an exchange");
        return Err(Error::BadRequest(text));
    }
    let permit = call.permit(vhost, Action::DeleteExchange(name))?;
    let (commands, streams) = super_stream::deletion(&topology, exchange, None);
    for stream in &streams {
        call.permit(vhost, Action::DeleteQueue(stream))?;
    }
    if call.api.submit_all(permit, commands).await?.first() == Some(&CommandOutcome::Absent) {
        return Err(Error::NotFound);
    }
    no_content()
}
