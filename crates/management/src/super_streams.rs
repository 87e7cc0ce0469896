//! `/api/stream/super-streams`: a direct exchange with streams bound to it, its partitions, in an order.

use std::collections::HashSet;
use std::sync::Arc;

use leveret_broker::DeleteIf;
use leveret_broker::registry::Snapshot;
use leveret_model::{
    Action, Arguments, Bind, Binding, Command, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, Destination,
    DestinationName, Exchange, Permit, QueueType, Resource, Topology, Value as Argument, without_line_ends,
};
use serde_json::{Map, Value, json};

use crate::call::{Call, HandlerResult, json, no_content};
use crate::error::Error;
use crate::fields;
use crate::list::{self, Rows};

/// Argument of the exchange.
const SUPER_STREAM: &str = "x-super-stream";
/// Argument of a partition's binding: its index.
const ORDER: &str = "x-stream-partition-order";
/// Argument of partitions: where their leaders are put.
const LOCATOR: &str = "x-queue-leader-locator";
/// Largest number of partitions.
const PARTITIONS_MAX: u64 = 1000;

/// Arguments of partitions by their names in a request, and whether they are numbers.
const ARGUMENTS: [(&str, bool); 6] = [
    ("max-length-bytes", true),
    ("max-age", false),
    ("stream-max-segment-size-bytes", true),
    ("stream-filter-size-bytes", true),
    ("initial-cluster-size", true),
    ("queue-leader-locator", false),
];

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

    fn show(&self, row: &Arc<Exchange>) -> Value {
        view(&self.0, row)
    }
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    let snapshot = call.api.broker().registry.snapshot_full();
    let found = snapshot.topology.exchange(call.word(0), call.word(1)).filter(|exchange| is_super_stream(exchange));
    json(view(&snapshot, found.ok_or(Error::NotFound)?))
}

fn is_super_stream(exchange: &Exchange) -> bool {
    exchange.arguments.get(SUPER_STREAM) == Some(&Argument::Bool(true))
}

/// Bindings to the partitions, in their order. Those without one come last, by name.
fn partitions<'a>(topology: &'a Topology, exchange: &Exchange) -> Vec<&'a Arc<Binding>> {
    let is_stream =
        |name: &str| topology.queue(&exchange.vhost, name).is_some_and(|queue| queue.queue_type() == QueueType::Stream);
    let bindings = topology.bindings_of_source(&exchange.vhost, &exchange.name);
    let mut found: Vec<_> = bindings
        .filter(|binding| matches!(&binding.destination, Destination::Queue { name, .. } if is_stream(name)))
        .collect();
    found.sort_by_key(|binding| (order(binding).unwrap_or(i64::MAX), binding.destination.name().to_owned()));
    found
}

fn order(binding: &Binding) -> Option<i64> {
    binding.arguments.get(ORDER).and_then(Argument::as_int)
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
                "order": order(binding),
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
    check_node(&body, call.api.name())?;
    let plan = Plan { vhost, name, keys, arguments: arguments(&body)? };
    let topology = call.staged();
    plan.check(&topology)?;
    let permit = plan.permit(&call)?;
    call.api.submit_all(&permit, plan.commands()).await?;
    no_content()
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

fn check_node(body: &Map<String, Value>, own: &str) -> Result<(), Error> {
    match fields::text_or(body, "node", own)? {
        "" => Ok(()),
        node if node == own => Ok(()),
        other => Err(Error::BadRequest(format!("Node {other} is not a cluster member"))),
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
        let Some((known, is_number)) = ARGUMENTS.into_iter().find(|(known, _)| known == name) else {
            let known = ARGUMENTS.map(|(known, _)| known).join(", ");
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

/// A super stream that is to be created.
struct Plan<'a> {
    vhost: &'a str,
    name: &'a str,
    /// The routing key of each partition.
    keys: Vec<String>,
    arguments: Arguments,
}

impl Plan<'_> {
    fn partition(&self, key: &str) -> String {
        format!("{}-{key}", self.name)
    }

    /// Refuses names that are taken: with an exchange or streams that exist, the super stream would be another one than the request
    /// describes.
    fn check(&self, topology: &Topology) -> Result<(), Error> {
        let taken = |kind: &str, name: &str| {
            let advice =
                "a super stream creates its exchange and all of its partitions: delete it, or choose another name";
            Err(Error::BadRequest(format!("there is already {kind} named {name}; {advice}")))
        };
        if topology.exchange(self.vhost, self.name).is_some() {
            return taken("an exchange", self.name);
        }
        let mut partitions = self.keys.iter().map(|key| self.partition(key));
        match partitions.find(|partition| topology.queue(self.vhost, partition).is_some()) {
            Some(partition) => taken("a queue", &partition),
            None => Ok(()),
        }
    }

    /// Checks every step, and returns the permit of the first: permits differ only in the action that was checked.
    fn permit(&self, call: &Call) -> Result<Permit, Error> {
        let permit = call.permit(self.vhost, Action::DeclareExchange { exchange: self.name, alternate: None })?;
        for key in &self.keys {
            let partition = &self.partition(key);
            call.permit(self.vhost, Action::DeclareQueue { queue: partition, dead_letter_exchange: None })?;
            let destination = Resource::Queue(partition);
            call.permit(self.vhost, Action::Bind { source: self.name, destination, routing_key: key.as_bytes() })?;
        }
        Ok(permit)
    }

    fn commands(&self) -> Vec<Command> {
        let mut commands = vec![Command::DeclareExchange(DeclareExchange {
            vhost: self.vhost.into(),
            name: self.name.into(),
            kind: "direct".to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::from_iter([(SUPER_STREAM, Argument::Bool(true))]),
        })];
        for (index, key) in self.keys.iter().enumerate() {
            let partition: Arc<str> = self.partition(key).into();
            commands.push(Command::DeclareQueue(DeclareQueue::durable(
                self.vhost.into(),
                partition.clone(),
                self.arguments.clone(),
            )));
            commands.push(Command::Bind(Bind {
                vhost: self.vhost.into(),
                source: self.name.into(),
                destination: DestinationName::Queue(partition),
                routing_key: key.as_bytes().into(),
                arguments: Arguments::from_iter([(ORDER, Argument::Int(index as i64))]),
                connection: None,
            }));
        }
        commands
    }
}

/// DELETE: the exchange and its partitions with all their messages. Every permission is checked before the first of them goes.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let topology = call.staged();
    let exchange = topology.exchange(vhost, name).ok_or(Error::NotFound)?;
    if !is_super_stream(exchange) {
        let text = format!("exchange '{name}' in vhost '{vhost}' is no super stream: delete it as an exchange");
        return Err(Error::BadRequest(text));
    }
    let permit = call.permit(vhost, Action::DeleteExchange(name))?;
    let mut streams = Vec::new();
    for binding in partitions(&topology, exchange) {
        let stream: Arc<str> = binding.destination.name().clone();
        if streams.iter().all(|(known, _)| *known != stream) {
            let permit = call.permit(vhost, Action::DeleteQueue(&stream))?;
            streams.push((stream, permit));
        }
    }
    let command = DeleteExchange { vhost: vhost.into(), name: name.into(), if_unused: false };
    call.api.submit(permit, Command::DeleteExchange(command)).await?;
    for (stream, permit) in streams {
        let command = DeleteQueue { vhost: vhost.into(), name: stream, connection: None };
        match call.api.delete_queue(permit, command, DeleteIf::default()).await {
            // Another request deleted it meanwhile.
            Ok(()) | Err(Error::NotFound) => {}
            Err(reason) => return Err(reason),
        }
    }
    no_content()
}
