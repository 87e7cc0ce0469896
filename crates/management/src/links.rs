//! The links of this node to the other members of its cluster.

use std::collections::BTreeMap;

use leveret_model::MemberNumber;
use leveret_node::{ClusterSeen, MemberLinks};
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::members::OtherMember;
use crate::sampling::LinkBytes;
use crate::statistics::{put, rate};

impl LinkBytes {
    fn of(links: &MemberLinks) -> Self {
        let sum = |of: fn(&leveret_node::LinkFigures) -> u64| links.links.iter().map(of).sum();
        Self { sent: sum(|link| link.sent), received: sum(|link| link.received) }
    }
}

/// The bytes that went over the links to each member, for samples.
pub(crate) fn bytes(api: &Api) -> BTreeMap<MemberNumber, LinkBytes> {
    let Some(cluster) = api.node().cluster() else { return BTreeMap::new() };
    let topology = api.topology();
    let of = |member: MemberNumber| Some((member, LinkBytes::of(&cluster.links_to(member)?)));
    topology.members().filter_map(|member| of(member.number)).collect()
}

/// Entries that a member hasn't got yet: of the placements of queues that this node leads, as it knows at once, and of the metadata, as
/// the member says once a second.
fn entries_behind(seen: &ClusterSeen, other: &OtherMember) -> u64 {
    let member = other.member.number;
    let led = seen.placements.values().filter(|placement| placement.leader == seen.member);
    let missing = led.filter_map(|placement| {
        let (_, matched) = placement.matched.iter().find(|(number, _)| *number == member)?;
        Some(placement.replica.last.saturating_sub(*matched))
    });
    let leads = seen.leader.is_some() && seen.leader == seen.member;
    let replica = other.told.as_ref().and_then(|told| told.words.replica.as_ref()).filter(|_| leads);
    let of_metadata = replica.map_or(0, |replica| seen.applied.saturating_sub(replica.applied));
    missing.sum::<u64>() + of_metadata
}

fn traffic(api: &Api, member: MemberNumber, links: &MemberLinks) -> Map<String, Value> {
    let now = LinkBytes::of(links);
    let (before, seconds) = api.sampler().link_before(member, now);
    let mut stats = Map::new();
    put(&mut stats, "send_bytes", now.sent, rate(now.sent, before.sent, seconds));
    put(&mut stats, "recv_bytes", now.received, rate(now.received, before.received, seconds));
    stats
}

/// The other members, whose numbers are in the order in which they joined.
fn by_name(api: &Api) -> Vec<OtherMember> {
    let mut others = api.other_members();
    others.sort_by(|one, other| one.name().cmp(other.name()));
    others
}

/// `cluster_links`: the members that this node has a link with, with RabbitMQ's keys.
pub(crate) fn standing(api: &Api) -> Vec<Value> {
    let Some(cluster) = api.node().cluster() else { return Vec::new() };
    let row = |other: OtherMember| {
        let links = cluster.links_to(other.member.number).filter(|_| other.is_running())?;
        let stats = traffic(api, other.member.number, &links);
        let mut row = json!({
            "name": other.name(),
            "send_bytes": stats["send_bytes"],
            "recv_bytes": stats["recv_bytes"],
            "stats": stats,
        });
        if let Some((own, theirs)) = links.addresses {
            row["sock_addr"] = json!(own.ip().to_canonical().to_string());
            row["sock_port"] = json!(own.port());
            row["peer_addr"] = json!(theirs.ip().to_canonical().to_string());
            row["peer_port"] = json!(theirs.port());
        }
        Some(row)
    };
    by_name(api).into_iter().filter_map(row).collect()
}

/// `links`, a key of our own: the way to every other member, also to one that can't be reached.
pub(crate) fn of_all(api: &Api) -> Vec<Value> {
    let Some(cluster) = api.node().cluster() else { return Vec::new() };
    let seen = api.cluster_seen();
    let row = |other: OtherMember| {
        let mut row = json!({"name": other.name(), "state": if other.is_running() { "up" } else { "down" }});
        if let Some(links) = cluster.links_to(other.member.number) {
            row["stats"] = json!(traffic(api, other.member.number, &links));
            // A link that is kept for questions of nodes that aren't members isn't one.
            let kinds = links.links.iter().filter(|link| link.up > 0 || link.sent + link.received > 0);
            let kind = |link: &leveret_node::LinkFigures| json!({"kind": link.kind, "up": link.up, "send_bytes": link.sent, "recv_bytes": link.received});
            row["kinds"] = kinds.map(kind).collect();
        }
        match other.is_running() {
            true => row["entries_behind"] = json!(entries_behind(&seen, &other)),
            false => row["reason"] = json!(other.failure.as_deref().unwrap_or("there is no link at the moment")),
        }
        row
    };
    by_name(api).into_iter().map(row).collect()
}
