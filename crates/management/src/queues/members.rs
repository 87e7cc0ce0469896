//! Members and leaders of quorum queues. A queue's only member is there already, and stays.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use leveret_broker::queue_handle::QueueRef;
use leveret_model::{Member, Pattern, Queue, QueueType};

use crate::asking::{ask, request};
use crate::call::{Call, HandlerResult, no_content, status};
use crate::error::Error;
use crate::fields;
use crate::missing::restricted;

/// The configuration may disable changes, except for local tools.
fn may_change(call: &Call) -> Result<(), Error> {
    match call.api.rules().quorum_queue_replica_operations_disabled && !call.identity.is_local() {
        true => Err(restricted(
            "Broker settings disallow quorum queue replica operations.",
            "quorum_queue_replica_operations",
        )),
        false => Ok(()),
    }
}

fn refused(reason: &str) -> Error {
    Error::Of(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", reason.to_owned())
}

/// The queue of a request.
fn queue(call: &Call) -> Option<QueueRef> {
    call.api.broker().registry.snapshot_full().queue(call.word(0), call.word(1)).cloned()
}

fn check_type(queue: &QueueRef) -> Result<(), Error> {
    match queue.info().queue_type() {
        QueueType::Quorum => Ok(()),
        other => Err(refused(&format!("{}_queue_not_supported", other.name()))),
    }
}

/// Whether the body names this node.
fn check_node(call: &Call) -> Result<(), Error> {
    let body = call.object()?;
    match fields::text(&body, "node")? == call.api.name() {
        true => Ok(()),
        false => Err(Error::BadRequest("Node is not a cluster member".to_owned())),
    }
}

/// POST: adds a member, which is there.
pub(crate) async fn add(call: Call) -> HandlerResult {
    may_change(&call)?;
    check_node(&call)?;
    check_type(&queue(&call).ok_or_else(|| refused("not_found"))?)?;
    no_content()
}

/// DELETE: removes a member, which is the last one.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    may_change(&call)?;
    let queue = queue(&call).ok_or(Error::NotFound)?;
    check_node(&call)?;
    check_type(&queue)?;
    Err(refused("last_node"))
}

/// Longest time for which another member is asked to grow the queues that only it has, or to hand leaderships over.
const WITHIN: Duration = Duration::from_secs(30);

/// PUT: makes the member on a node the leader of a quorum queue. The other queues of its placement go with it.
pub(crate) async fn lead(call: Call) -> HandlerResult {
    may_change(&call)?;
    let queue = queue(&call).ok_or_else(|| refused("not_found"))?;
    check_type(&queue)?;
    let body = call.object()?;
    let name = fields::text(&body, "node")?;
    let topology = call.api.topology();
    let placement = queue.info().home.placement().and_then(|number| topology.placement(number));
    if name == call.api.name() && !queue.is_away() {
        return Err(refused("already_leader"));
    }
    let to = topology.member_named(name).map(|member| member.number);
    let (Some(placement), Some(to)) = (placement, to) else { return Err(refused("unknown_member")) };
    if !placement.has(to) {
        return Err(refused("unknown_member"));
    }
    call.api.node().hand_over(placement.number, to).await.map_err(Error::Unavailable)?;
    no_content()
}

/// POST `/api/rebalance/queues`: has each placement of quorum queues led by the first of its members that can. All are spread evenly by
/// that; queues don't change their placements.
pub(crate) async fn rebalance(call: Call) -> HandlerResult {
    call.api.node().rebalance().await;
    let running = call.api.running_members().map(|other| other.member);
    ask_others(&call, "/api/rebalance/queues", running).await?;
    no_content()
}

/// Asks the other members the same, unless one of them asks this one.
async fn ask_others(call: &Call, path: &str, others: impl Iterator<Item = Arc<Member>>) -> Result<(), Error> {
    if call.arrival.is_forwarded {
        return Ok(());
    }
    for other in others {
        let response = ask(&call.api, request(call, &Method::POST, path.to_owned()), &other, WITHIN).await?;
        if response.status != StatusCode::NO_CONTENT.as_u16() {
            let reason = String::from_utf8_lossy(&response.body);
            return Err(Error::Unavailable(format!("node '{}' answered {}: {reason}", other.name, response.status)));
        }
    }
    Ok(())
}

/// POST: gives queues that have one member the others that they are to have, the one on a node among them. Queues with several have theirs.
/// Each node does it with its own queues, after this answer.
pub(crate) async fn grow(call: Call) -> HandlerResult {
    may_change(&call)?;
    let body = call.object()?;
    fields::require(&body, &["vhost_pattern", "queue_pattern", "strategy"])?;
    let strategy = fields::text(&body, "strategy")?;
    if !["all", "even"].contains(&strategy) {
        return Err(Error::BadRequest(format!("strategy is '{strategy}', expected all or even")));
    }
    let pattern = |field: &str| -> Result<Pattern, Error> {
        Ok(Pattern::new(fields::text(&body, field)?, "the queues to grow", field)?)
    };
    let (vhosts, queues) = (pattern("vhost_pattern")?, pattern("queue_pattern")?);
    let topology = call.api.broker().registry.snapshot().topology.clone();
    let Some(member) = topology.member_named(call.word(0)) else {
        return if call.word(0) == call.api.name() { no_content() } else { Err(Error::NotFound) };
    };
    // A queue that has one member has an odd number of them.
    if strategy == "all" {
        let matches = |queue: &Queue| vhosts.matches(&queue.vhost) && queues.matches(&queue.name);
        call.api.broker().spread_queues(member.number, matches);
    }
    let own = call.api.broker().settings.member;
    let others = topology.members().filter(|other| other.number != own).cloned();
    let path = format!("/api/queues/quorum/replicas/on/{}/grow", call.word(0));
    ask_others(&call, &path, others).await?;
    no_content()
}

/// DELETE: removes the members of all queues on a node, of which the last ones stay.
pub(crate) async fn shrink(call: Call) -> HandlerResult {
    may_change(&call)?;
    match call.word(0) == call.api.name() {
        true => status(StatusCode::ACCEPTED),
        false => Err(Error::NotFound),
    }
}
