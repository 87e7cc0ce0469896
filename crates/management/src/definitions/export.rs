//! Export of definitions, which are generated while they are sent.

use std::collections::HashSet;
use std::sync::Arc;

use axum::response::Response;
use leveret_model::{
    Destination, LimitOwner, LimitValues, Policy, PolicyKind, Queue, QueueId, Topology, VhostSettings,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::granted::Granted;
use crate::row::{Row, Shown};
use crate::running_transfers::parameter::is_transfer;
use crate::{bindings, exchanges, limits, policies, stream, users, vhosts};

type Objects = Box<dyn Iterator<Item = Shown> + Send>;

/// A part of a document: one value, or a list generated while it is sent.
enum Part {
    One(Value),
    Many(Objects),
}

/// Exports the whole cluster.
pub(super) fn cluster(api: &Api) -> Response {
    let topology = api.topology();
    let all: Vec<Arc<str>> = topology.vhosts().cloned().collect();
    let mut parts = head(api, "cluster", &format!("Definitions of cluster '{}'", api.cluster_name()));
    parts.push(("original_cluster_name", Part::One(json!(api.cluster_name()))));
    parts.push(("users", many(topology.users().map(|user| users::view(&topology, user)).collect())));
    parts.push(("vhosts", many(all.iter().map(|vhost| vhost_entry(&topology, vhost)).collect())));
    parts.push(("permissions", many(topology.permissions().map(|found| found.view()).collect())));
    let topics = topology.topic_permissions().map(|found| found.view());
    parts.push(("topic_permissions", many(topics.collect())));
    let limits = all.iter().filter_map(|vhost| Some(limits::parameter(vhost, limits_of(&topology, vhost)?)));
    let operators = policies_of(&topology, PolicyKind::Operator, &all).map(policies::parameter);
    parts.push(("parameters", many(operators.chain(limits).collect())));
    // The id and transfers belong to this cluster and aren't exported.
    let parameters = topology.global_parameters().filter(|(name, _)| {
        !["internal_cluster_id", super::load::HASH_PARAMETER].contains(&&***name) && !is_transfer(name)
    });
    let parameters = parameters.map(|(name, value)| json!({"name": name, "value": **value}));
    parts.push(("global_parameters", many(parameters.collect())));
    let policies = policies_of(&topology, PolicyKind::User, &all).map(policies::view);
    parts.push(("policies", many(policies.collect())));
    objects(&topology, &all, true, &mut parts);
    write(parts)
}

/// Exports one vhost; `None` if it doesn't exist.
pub(super) fn vhost(api: &Api, name: &str) -> Option<Response> {
    let topology = api.topology();
    let name = topology.vhost(name)?.clone();
    let settings = topology.vhost_settings(&name).cloned().unwrap_or_default();
    let values = limits_of(&topology, &name).cloned().unwrap_or_default();
    let mut parts = head(api, "single_virtual_host", &format!("Definitions of virtual host '{name}'"));
    parts.push(("original_vhost_name", Part::One(json!(name))));
    parts.push(("description", Part::One(json!(settings.description))));
    parts.push(("default_queue_type", Part::One(json!(settings.default_queue_type))));
    parts.push(("metadata", Part::One(vhosts::metadata(&settings))));
    parts.push(("limits", Part::One(json!(values))));
    let only = [name];
    let limits = (!values.is_empty()).then(|| limits::parameter(&only[0], &values));
    let operators = policies_of(&topology, PolicyKind::Operator, &only).map(policies::parameter);
    parts.push(("parameters", many(operators.chain(limits).map(without_vhost).collect())));
    let policies = policies_of(&topology, PolicyKind::User, &only).map(policies::view).map(without_vhost);
    parts.push(("policies", many(policies.collect())));
    objects(&topology, &only, false, &mut parts);
    Some(write(parts))
}

fn head(api: &Api, format: &str, explanation: &str) -> Vec<(&'static str, Part)> {
    let settings = &api.broker().settings;
    let (product, version) = (&settings.product, &settings.version);
    let one = |value: &str| Part::One(json!(value));
    vec![
        ("rabbit_version", one(version)),
        ("rabbitmq_version", one(version)),
        ("product_name", one(product)),
        ("product_version", one(version)),
        ("rabbitmq_definition_format", one(format)),
        ("explanation", one(explanation)),
    ]
}

/// Whether a definitions file names the queue. Those of exchanges come with these, and other own ones with their first record.
fn is_exported(queue: &Arc<Queue>) -> bool {
    !queue.is_exclusive() && !queue.is_own()
}

/// Queues, exchanges and bindings, including transient ones, as RabbitMQ exports them. Exclusive queues belong to one
/// connection, so neither they nor bindings to them are exported; RabbitMQ exports such bindings, and can't import
/// them. Predeclared exchanges exist everywhere and are left out.
fn objects(topology: &Topology, vhosts: &[Arc<str>], with_vhost: bool, parts: &mut Vec<(&'static str, Part)>) {
    let shown = move |mut row: Row| {
        if !with_vhost {
            row.remove(&["vhost"]);
        }
        Shown::Row(row)
    };
    let queues: Vec<_> = vhosts.iter().flat_map(|vhost| topology.queues(vhost)).cloned().collect();
    let queues = queues.into_iter().filter(is_exported).map(move |queue| {
        let mut row = Row::with_capacity(6);
        row.extend([
            ("name", json!(queue.name)),
            ("vhost", json!(queue.vhost)),
            ("type", json!(queue.queue_type().name())),
            ("durable", json!(queue.durable)),
            ("auto_delete", json!(queue.auto_delete)),
            ("arguments", queue.arguments.to_json()),
        ]);
        shown(row)
    });
    parts.push(("queues", Part::Many(Box::new(queues))));
    let exchanges: Vec<_> = vhosts.iter().flat_map(|vhost| topology.exchanges(vhost)).cloned().collect();
    let own = exchanges.into_iter().filter(|exchange| !exchange.name.is_empty() && !exchange.name.starts_with("amq."));
    let exchanges = own.map(move |exchange| {
        let mut entry = exchanges::definition(&exchange);
        entry["internal"] = json!(exchange.internal);
        Shown::Value(if with_vhost { entry } else { without_vhost(entry) })
    });
    parts.push(("exchanges", Part::Many(Box::new(exchanges))));
    let bindings: Vec<_> = vhosts.iter().flat_map(|vhost| topology.bindings(vhost)).cloned().collect();
    let exclusive: HashSet<QueueId> = vhosts
        .iter()
        .flat_map(|vhost| topology.queues(vhost))
        .filter(|queue| queue.is_exclusive())
        .map(|queue| queue.id)
        .collect();
    let bindings = bindings.into_iter().filter(move |binding| match &binding.destination {
        Destination::Queue { id, .. } => !exclusive.contains(id),
        Destination::Exchange { .. } => true,
    });
    parts.push(("bindings", Part::Many(Box::new(bindings.map(move |binding| shown(bindings::definition(&binding)))))));
}

fn vhost_entry(topology: &Topology, name: &str) -> Value {
    let settings = topology.vhost_settings(name).map_or_else(VhostSettings::default, |found| (**found).clone());
    json!({
        "name": name,
        "metadata": vhosts::metadata(&settings),
        "limits": limits_of(topology, name).cloned().unwrap_or_default(),
    })
}

fn limits_of<'a>(topology: &'a Topology, vhost: &str) -> Option<&'a LimitValues> {
    topology.limits_of(&LimitOwner::Vhost(vhost.into()))
}

fn policies_of<'a>(
    topology: &'a Topology,
    kind: PolicyKind,
    vhosts: &'a [Arc<str>],
) -> impl Iterator<Item = &'a Policy> {
    vhosts.iter().flat_map(move |vhost| topology.policies(kind, vhost)).map(|policy| &**policy)
}

fn without_vhost(mut value: Value) -> Value {
    value.as_object_mut().map(|object: &mut Map<String, Value>| object.remove("vhost"));
    value
}

fn many(values: Vec<Value>) -> Part {
    Part::Many(Box::new(values.into_iter().map(Shown::Value)))
}

/// Approximate size of a piece, in bytes.
const PIECE_BYTES: usize = 32 << 10;

fn write(parts: Vec<(&'static str, Part)>) -> Response {
    let mut parts = parts.into_iter();
    let (mut began, mut ended) = (false, false);
    let mut list: Option<(Objects, bool)> = None;
    stream::text("application/json", move |piece| {
        while !ended && piece.len() < PIECE_BYTES {
            if let Some((objects, first)) = &mut list {
                match objects.next() {
                    Some(object) => {
                        if !std::mem::replace(first, false) {
                            piece.push(b',');
                        }
                        put(piece, &object);
                    }
                    None => {
                        piece.push(b']');
                        list = None;
                    }
                }
                continue;
            }
            let Some((name, part)) = parts.next() else {
                piece.push(b'}');
                ended = true;
                return;
            };
            piece.push(if std::mem::replace(&mut began, true) { b',' } else { b'{' });
            put(piece, &json!(name));
            piece.push(b':');
            match part {
                Part::One(value) => put(piece, &value),
                Part::Many(objects) => {
                    piece.push(b'[');
                    list = Some((objects, true));
                }
            }
        }
    })
}

fn put(piece: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(piece, value).expect("a value has a JSON form");
}
