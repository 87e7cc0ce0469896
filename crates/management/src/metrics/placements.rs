//! Families of the cluster that the node is a member of: its replica of the metadata, its links, its entry log.

use leveret_metrics::Kind::{self, Counter, Gauge};
use leveret_metrics::{Name, Sample, Text};
use leveret_node::{ClusterFigures, ClusterSeen, LinkFigures, ReplicaRole, ReplicaStatus};

use super::own::PREFIX;
use super::queues;
use crate::api::Api;

/// The value of a family of Raft's logs for a replica of a placement.
fn of_replica(family: &str, replica: &ReplicaStatus) -> Option<Sample> {
    let value = match family {
        "raft_term" => replica.term,
        "raft_commit_index" => replica.committed,
        "raft_last_applied" => replica.applied,
        "raft_last_written_index" => replica.last,
        "raft_snapshot_index" => replica.snapshot,
        _ => return None,
    };
    Some(value.into())
}

/// The node's replicas with their placements, if it is a member of a cluster. The metadata is placement 0.
fn replicas(api: &Api) -> Vec<(String, ReplicaStatus)> {
    let seen = api.cluster_seen();
    let metadata = seen.member.map(|_| ("0".to_owned(), seen.replica.clone()));
    let of_queues = seen.placements.iter().map(|(number, seen)| (number.to_string(), seen.replica.clone()));
    metadata.into_iter().chain(of_queues).collect()
}

fn write_samples(replicas: &[(String, ReplicaStatus)], family: &str, name: Name<'_>, text: &mut Text) {
    for (placement, replica) in replicas {
        if let Some(value) = of_replica(family, replica) {
            text.sample(name, &[("placement", placement)], value);
        }
    }
}

/// A function that writes the samples of the node's replicas of placements, for [`Group::objects_behind`](super::family::Group).
pub(super) fn samples(api: &Api) -> impl Fn(&str, Name<'_>, &mut Text) + Send + 'static {
    let replicas = replicas(api);
    move |family, name, text| write_samples(&replicas, family, name, text)
}

/// Writes the families of Raft's logs with the node's replicas of placements alone.
pub(super) fn write_raft(prefix: &str, api: &Api, text: &mut Text) {
    let replicas = replicas(api);
    if replicas.is_empty() {
        return;
    }
    for family in queues::RAFT.families {
        let name = Name(prefix, family.name);
        text.family(name, family.kind, family.help);
        write_samples(&replicas, family.name, name, text);
    }
}

/// The figures of a cluster.
struct Cluster {
    members: u64,
    seen: ClusterSeen,
    figures: ClusterFigures,
}

/// A family of a cluster: its name behind `leveret_cluster_`, its kind, its meaning and its value.
type Of = (&'static str, Kind, &'static str, fn(&Cluster) -> Sample);

const NANOSECONDS: f64 = 1e9;

#[rustfmt::skip]
const FAMILIES: [Of; 11] = [
    ("members", Gauge, "Members of the cluster", |cluster| cluster.members.into()),
    ("members_reachable", Gauge, "Members that can be reached, this node among them", |cluster| (cluster.seen.reached.len() as u64 + 1).into()),
    ("leads", Gauge, "Whether this node leads the metadata", |cluster| (cluster.seen.replica.role == ReplicaRole::Leader).into()),
    ("clock_skew_max_seconds", Gauge, "Largest difference of another member's clock, if it has been more than a second for a while", skew),
    ("requests_in_flight", Gauge, "Changes of the metadata that clients of this node wait for", |cluster| (cluster.seen.in_flight as u64).into()),
    ("dials_total", Counter, "Attempts to connect to other members", |cluster| cluster.figures.dials.into()),
    ("dials_failed_total", Counter, "Attempts that failed", |cluster| cluster.figures.dials_failed.into()),
    ("links_refused_total", Counter, "Connections of other nodes that were refused", |cluster| cluster.figures.refused.into()),
    ("entry_log_syncs_total", Counter, "Syncs of the entry log", |cluster| cluster.figures.syncs.into()),
    ("entry_log_sync_seconds_total", Counter, "Time of all syncs of the entry log", |cluster| (cluster.figures.sync_ns as f64 / NANOSECONDS).into()),
    ("entry_log_sync_last_seconds", Gauge, "Time of the last sync of the entry log", |cluster| (cluster.figures.last_sync_ns as f64 / NANOSECONDS).into()),
];

/// A family of the links of a kind.
type OfLink = (&'static str, Kind, &'static str, fn(&LinkFigures) -> u64);

const LINK_FAMILIES: [OfLink; 3] = [
    ("links", Gauge, "Links to other members that stand", |links| links.up),
    ("received_bytes_total", Counter, "Bytes that came over links", |links| links.received),
    ("sent_bytes_total", Counter, "Bytes that went over links", |links| links.sent),
];

/// The label of the kind of a link.
const KIND: &str = "kind";

fn skew(cluster: &Cluster) -> Sample {
    let skews = cluster.seen.told.values().filter_map(|told| told.skew_ms);
    (skews.map(i64::unsigned_abs).max().unwrap_or(0) as f64 / 1000.0).into()
}

/// Writes the families of the cluster, if the node can be a member of one.
pub(super) fn write(api: &Api, text: &mut Text) {
    let Some(view) = api.node().cluster() else { return };
    let cluster = Cluster { members: api.cluster_size().into(), seen: view.seen(), figures: view.figures() };
    let begin = |name: &str, kind: Kind, help: &str, text: &mut Text, samples: &dyn Fn(Name<'_>, &mut Text)| {
        let name = format!("cluster_{name}");
        let name = Name(PREFIX, &name);
        text.family(name, kind, help);
        samples(name, text);
    };
    for (name, kind, help, value) in FAMILIES {
        begin(name, kind, help, text, &|name, text| text.sample(name, &[], value(&cluster)));
    }
    for (name, kind, help, value) in LINK_FAMILIES {
        begin(name, kind, help, text, &|name, text| {
            cluster.figures.links.iter().for_each(|links| text.sample(name, &[(KIND, links.kind)], value(links)));
        });
    }
}

/// Name, kind, meaning and label of the families of the cluster, for the documentation.
#[cfg(test)]
pub(super) fn documented() -> impl Iterator<Item = (String, Kind, &'static str, &'static str)> {
    let plain = FAMILIES.into_iter().map(|(name, kind, help, _)| (name, kind, help, ""));
    let of_links = LINK_FAMILIES.into_iter().map(|(name, kind, help, _)| (name, kind, help, KIND));
    plain.chain(of_links).map(|(name, kind, help, label)| (format!("{PREFIX}cluster_{name}"), kind, help, label))
}
