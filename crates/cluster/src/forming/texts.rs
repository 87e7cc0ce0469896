//! Sentences about steps, for the log.

use std::fmt;

use super::Sighted;
use super::node_names::host_of;

/// Most nodes in a sentence.
const LISTED_MAX: usize = 5;

pub(super) const NO_OTHERS: &str =
    "the configuration names no other node to form a cluster with: this node goes on alone";

/// A cluster's id as it is shown elsewhere.
pub(super) fn hex(cluster: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(cluster))
}

/// Nodes with the reason why they can't be reached.
pub(super) struct Listed<'a>(pub(super) &'a [(&'a str, &'a str)]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("all named nodes can be reached");
        }
        for (index, (name, reason)) in self.0.iter().take(LISTED_MAX).enumerate() {
            write!(f, "{}{name} ({reason})", if index == 0 { "" } else { ", " })?;
        }
        match self.0.len().checked_sub(LISTED_MAX) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}

/// The text of a node with data of its own that would form a cluster with others without it.
#[must_use]
pub fn with_data(own: &str, names: &Result<Vec<String>, String>) -> String {
    let names_others = names.as_ref().is_ok_and(|names| names.iter().any(|name| name != own));
    if !names_others {
        return NO_OTHERS.to_owned();
    }
    "the configuration names nodes to form a cluster with, but this node has data of its own and goes on alone. Blank nodes can join it; \
     for it to join another one, run 'rabbitmqctl join_cluster'"
        .to_owned()
}

pub(super) fn joins(node: &str, cluster: [u8; 16], size: u32, other: Option<(&str, [u8; 16])>) -> String {
    let members = if size == 1 { "1 member".to_owned() } else { format!("{size} members") };
    let text = format!("joining the cluster {} of {node}, which has {members}", hex(cluster));
    match other {
        None => text,
        Some((name, id)) => format!(
            "{text}. {name} is in another cluster, {}: clusters don't merge, so one of them has to be reset and joined to the other",
            hex(id)
        ),
    }
}

pub(super) fn joins_alone(node: &str) -> String {
    format!("joining {node}, which is alone with data of its own, as the second node of its cluster")
}

/// The text of a node that waits for another one to seed.
pub(super) fn waits(seed: &str, sighted: &Sighted<'_>) -> String {
    if let Some(reason) = sighted.error.filter(|_| seed.is_empty()) {
        return format!("the node that seeds the cluster isn't known: {reason}");
    }
    let text = format!("waiting for {seed} to seed the cluster");
    if let Some((_, reason)) = sighted.unreachable.iter().find(|(name, _)| *name == seed) {
        return format!("{text}: it can't be reached ({reason})");
    }
    match sighted.error {
        Some(reason) => format!("{text}: {reason}"),
        None => text,
    }
}

/// The text of a first node that doesn't see all others yet.
pub(super) fn incomplete(sighted: &Sighted<'_>) -> String {
    match sighted.error {
        Some(reason) => format!("the nodes of the cluster aren't found yet: {reason}"),
        None if sighted.unreachable.is_empty() => "discovery names no other node yet".to_owned(),
        None => format!("waiting for nodes that discovery names: {}", Listed(&sighted.unreachable)),
    }
}

/// The text of a first node that too few others take for it.
pub(super) fn too_few(followers: usize, needed: usize, target: u32, sighted: &Sighted<'_>) -> String {
    let why = if target > 1 {
        format!(
            "a cluster of {target} nodes (cluster_formation.target_cluster_size_hint) is seeded when {needed} of them see each other, and \
             there are {followers}"
        )
    } else {
        format!("{followers} of {needed} nodes take this node for the first one yet")
    };
    match (sighted.error, sighted.unreachable.is_empty()) {
        (Some(reason), _) => format!("{why}; {reason}"),
        (None, true) => why,
        (None, false) => format!("{why}; unreachable: {}", Listed(&sighted.unreachable)),
    }
}

/// The text of a node that another one may have counted when it seeded.
pub(super) fn may_have_seeded(node: &str, sighted: &Sighted<'_>) -> String {
    let text = format!(
        "{node} may have seeded the cluster with this node's consent, so that no other one is made until it answers"
    );
    match sighted.unreachable.iter().find(|(name, _)| *name == node) {
        Some((_, reason)) => {
            format!("{text}. It can't be reached ({reason}); if it is gone for good, discovery has to stop naming it")
        }
        None => text,
    }
}

/// The text of a node that isn't in the fixed list.
pub(super) fn not_listed(own: &str, sighted: &Sighted<'_>) -> String {
    let alike = sighted.names.iter().find(|name| host_of(name) == host_of(own));
    let advice = match alike {
        Some(name) => format!("its host is, with another name: start it with RABBITMQ_NODENAME={name}"),
        None => "it can join their cluster once there is one".to_owned(),
    };
    format!(
        "{own} isn't in cluster_formation.classic_config.nodes, so it can't seed a cluster; {advice}. The list is {}",
        sighted.names.join(", ")
    )
}
