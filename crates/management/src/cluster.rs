//! `/api/cluster`: the members of the cluster.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use leveret_broker::registry::ChangeRequest;
use leveret_model::{Command, Permit};
use leveret_node::{Listening, NextStart};
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::call::{Call, HandlerResult, json, no_content};
use crate::error::Error;

/// GET: the members, and which of them run.
pub(crate) async fn status(call: Call) -> HandlerResult {
    let api = &call.api;
    let topology = api.broker().registry.snapshot().topology.clone();
    let seen = api.node().cluster().map(|cluster| cluster.seen()).unwrap_or_default();
    let own = json!({
        "name": api.name(),
        "running": true,
        "version": api.broker().settings.version,
        "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "maintenance": api.broker().is_in_maintenance(),
        "alarms": api.broker().alarms.raised().map(|source| source.name()).collect::<Vec<_>>(),
        "listeners": api.listeners().iter().map(listener).collect::<Vec<_>>(),
    });
    let mut nodes = vec![own];
    for member in topology.members().filter(|member| Some(member.number) != seen.member) {
        nodes.push(json!({
            "name": member.name,
            "running": seen.reached.contains_key(&member.number),
            "version": api.broker().settings.version,
        }));
    }
    let leader = seen.leader.and_then(|leader| Some(topology.member(leader)?.name.clone()));
    json(json!({
        "cluster_name": api.cluster_name(),
        "nodes": nodes,
        "leader": leader,
        "term": seen.term,
        "applied": seen.applied,
    }))
}

fn listener(listening: &Listening) -> Value {
    let Listening { kind, address } = listening;
    let (interface, port) = (listening.interface(), address.port());
    json!({"interface": interface, "port": port, "protocol": kind.protocol, "purpose": kind.purpose})
}

/// A change of the node's cluster, after which it starts anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// It becomes a member of this node's cluster; its own data goes.
    Join(String),
    /// Its data goes. Unless that is forced, it leaves its cluster before.
    Reset {
        /// Whether the cluster isn't told.
        is_forced: bool,
    },
}

impl ClusterChange {
    /// The change that a request to join asks for.
    ///
    /// # Errors
    /// It names no node.
    pub(crate) fn join(body: &Map<String, Value>) -> Result<Self, String> {
        let name = body.get("node").and_then(Value::as_str).ok_or("node isn't the name of a node")?;
        Ok(Self::Join(name.to_owned()))
    }

    /// The change that a request to reset asks for.
    pub(crate) fn reset(body: &Map<String, Value>) -> Self {
        Self::Reset { is_forced: body.get("force").and_then(Value::as_bool).unwrap_or(false) }
    }
}

impl Api {
    /// Changes the node's cluster: the node stops and starts anew.
    ///
    /// # Errors
    /// It can't be done, for this reason; the node goes on as it was.
    pub async fn change_cluster(&self, change: ClusterChange) -> Result<(), String> {
        let next = match change {
            ClusterChange::Join(name) => self.join_cluster(&name).await?,
            ClusterChange::Reset { is_forced } => {
                if self.cluster_size() > 1 && !is_forced {
                    let forgotten = Command::ForgetMember { name: self.name().into() };
                    let left = self.change(ChangeRequest::new(Permit::system(), forgotten)).await;
                    left.map_err(|_| "the node stops")?.map_err(|refused| refused.text)?;
                }
                NextStart::Reset
            }
        };
        self.node().start_anew(next);
        Ok(())
    }

    async fn join_cluster(&self, name: &str) -> Result<NextStart, String> {
        if self.cluster_size() > 1 {
            return Err(format!(
                "the node is a member of another cluster; 'rabbitmqctl reset' takes it out of that before it can join {name}"
            ));
        }
        let snapshot = self.broker().registry.snapshot_full();
        let durable = snapshot.queues.values().filter(|queue| queue.info().is_logged());
        let held: u64 = durable.map(|queue| queue.gauges().messages()).sum();
        if held > 0 {
            return Err(format!(
                "the node holds {held} messages in durable queues, which joining {name} would delete: move them away, or call \
                 'rabbitmqctl reset' first"
            ));
        }
        self.node().join_cluster(name).await
    }
}

/// PUT: makes the node a member of another one's cluster; its own data goes.
pub(crate) async fn join(call: Call) -> HandlerResult {
    let change = ClusterChange::join(&call.object()?).map_err(Error::BadRequest)?;
    let topology = call.api.broker().registry.snapshot().topology.clone();
    if let ClusterChange::Join(name) = &change
        && topology.member_named(name).is_some()
    {
        return json(json!({"already_member": true}));
    }
    call.api.change_cluster(change).await.map_err(Error::BadRequest)?;
    status_accepted()
}

/// PUT: removes the node from its cluster, and all its data.
pub(crate) async fn reset(call: Call) -> HandlerResult {
    call.api.change_cluster(ClusterChange::reset(&call.object()?)).await.map_err(Error::BadRequest)?;
    status_accepted()
}

/// GET: a change that restarts the node is done when the node answers again.
pub(crate) async fn change(call: Call) -> HandlerResult {
    if let Some(reason) = call.api.node().failed_change() {
        return json(json!({"state": "failed", "reason": reason}));
    }
    let state = if call.api.node().next_start().is_some() { "running" } else { "done" };
    json(json!({"state": state}))
}

fn status_accepted() -> HandlerResult {
    Ok(StatusCode::ACCEPTED.into_response())
}

/// DELETE: strikes a member that doesn't run.
pub(crate) async fn forget(call: Call) -> HandlerResult {
    let name = call.word(0).to_owned();
    let broker = call.api.broker().clone();
    let topology = broker.registry.snapshot().topology.clone();
    let Some(member) = topology.member_named(&name).cloned() else {
        return Err(Error::NotFound);
    };
    let seen = call.api.node().cluster().map(|cluster| cluster.seen()).unwrap_or_default();
    if Some(member.number) == seen.member || seen.reached.contains_key(&member.number) {
        let text =
            format!("node '{name}' runs: stop it first, or 'rabbitmqctl reset' it, which takes it out of the cluster");
        return Err(Error::BadRequest(text));
    }
    let permit = call.administers()?;
    call.api.delete(ChangeRequest::new(permit, Command::ForgetMember { name: name.as_str().into() })).await?;
    tracing::info!("Removed node {name} from the cluster");
    no_content()
}
