//! `/api/cluster`: the members of the cluster.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use leveret_broker::registry::ChangeRequest;
use leveret_model::{Command, MemberNumber, Permit, Topology};
use leveret_node::{GossipListener, GossipReplica, Listening, NextStart};
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::call::{Call, HandlerResult, json, no_content};
use crate::error::Error;
use crate::members::OtherMember;

/// GET: the members, and which of them run.
pub(crate) async fn status(call: Call) -> HandlerResult {
    let api = &call.api;
    let (topology, seen, others) = (api.topology(), api.cluster_seen(), api.other_members());
    let unreached = others.iter().filter(|other| !other.is_running()).map(OtherMember::name);
    let own = json!({
        "name": api.name(),
        "running": true,
        "starts": starts(&topology, api.name()),
        "version": api.broker().settings.version,
        "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "maintenance": api.broker().is_in_maintenance(),
        "alarms": api.broker().alarms.raised().map(|source| source.name()).collect::<Vec<_>>(),
        "listeners": api.listeners().iter().map(listener).collect::<Vec<_>>(),
        "unreachable": unreached.collect::<Vec<_>>(),
    });
    let others = others.iter().map(|other| row(other, &topology));
    let nodes: Vec<Value> = std::iter::once(own).chain(others).collect();
    let leader = seen.leader.and_then(|leader| Some(topology.member(leader)?.name.clone()));
    json(json!({
        "cluster_name": api.cluster_name(),
        "nodes": nodes,
        "leader": leader,
        "term": seen.term,
        "applied": seen.applied,
        "different_settings": api.different_settings(),
    }))
}

/// The number of a member's last start that this node has in its metadata: an older copy of its data directory is refused from then on.
fn starts(topology: &Topology, name: &str) -> Option<u64> {
    topology.member_named(name).map(|member| member.boot)
}

/// Another member, as far as it has told of itself.
fn row(other: &OtherMember, topology: &Topology) -> Value {
    let mut row =
        json!({"name": other.name(), "running": other.is_running(), "starts": starts(topology, other.name())});
    if let Some(failure) = &other.failure {
        row["reason"] = json!(failure);
    }
    let Some(told) = &other.told else { return row };
    let words = &told.words;
    let name = |number: &u16| topology.member(MemberNumber(*number)).map(|member| member.name.clone());
    let listener = |listener: &GossipListener| {
        let GossipListener { interface, port, protocol, purpose } = listener;
        json!({"interface": interface, "port": port, "protocol": protocol, "purpose": purpose})
    };
    row["version"] = json!(words.version);
    row["cores"] = json!(words.cores);
    row["maintenance"] = json!(words.is_in_maintenance);
    row["alarms"] = json!(words.alarms);
    row["listeners"] = words.listeners.iter().flatten().map(listener).collect();
    row["unreachable"] = json!(words.unreached.iter().flatten().filter_map(name).collect::<Vec<_>>());
    if let Some(skew_ms) = told.skew_ms {
        row["clock_skew_ms"] = json!(skew_ms);
    }
    row
}

/// GET: the names of the nodes that discovery finds.
pub(crate) async fn peers(call: Call) -> HandlerResult {
    let node = call.api.node().clone();
    // Name servers may let it wait.
    let found = tokio::task::spawn_blocking(move || node.discover_peers()).await;
    let names = found.map_err(|_| Error::Unavailable("the node stops".to_owned()))?;
    json(json!(names.map_err(Error::Unavailable)?))
}

/// GET: the replicas of the metadata, with the columns of RabbitMQ's command.
pub(crate) async fn metadata(call: Call) -> HandlerResult {
    let api = &call.api;
    let (seen, others) = (api.cluster_seen(), api.other_members());
    let columns = |name: &str, replica: Option<&GossipReplica>| {
        let Some(replica) = replica else { return json!({"Node Name": name, "Raft State": "nodedown"}) };
        json!({
            "Node Name": name,
            "Raft State": replica.role,
            "Membership": if replica.is_voter { "voter" } else { "non_voter" },
            "Last Log Index": replica.last,
            "Last Written": replica.last,
            "Last Applied": replica.applied,
            "Commit Index": replica.committed,
            "Snapshot Index": replica.snapshot,
            "Term": replica.term,
            "Machine Version": 1,
        })
    };
    let own = match seen.member {
        Some(_) => seen.replica_in_words(),
        // A node that is alone has its metadata in its store, and nothing to agree on.
        None => GossipReplica { role: "leader".to_owned(), is_voter: true, ..GossipReplica::default() },
    };
    let mut rows = vec![columns(api.name(), Some(&own))];
    for other in &others {
        rows.push(columns(other.name(), other.told.as_ref().and_then(|told| told.words.replica.as_ref())));
    }
    rows.sort_by(|one, other| one["Node Name"].as_str().cmp(&other["Node Name"].as_str()));
    json(json!(rows))
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
    let seen = call.api.cluster_seen();
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
