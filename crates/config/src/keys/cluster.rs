//! The keys of clusters.

use super::Key;
use super::tls::file;
use super::working::{in_bytes, key, listener, none, port};
use crate::cluster::{AlarmScope, ClusterListener, DiscoveryBackend, LeaderLocator, node_name};
use crate::units::{boolean, integer, milliseconds};

/// Shortest time for a change of metadata: an election takes most of a second.
const METADATA_TIMEOUT_MS_MIN: u64 = 1000;
/// Longest intervals and timeouts: a day.
const MS_MAX: u64 = 86_400_000;

/// The backend of this name, with or without RabbitMQ's prefix of modules.
fn backend(value: &str) -> Result<DiscoveryBackend, String> {
    match value.strip_prefix("rabbit_peer_discovery_").unwrap_or(value) {
        "classic_config" => Ok(DiscoveryBackend::ClassicConfig),
        "dns" => Ok(DiscoveryBackend::Dns),
        "k8s" | "kubernetes" => Ok(DiscoveryBackend::K8s),
        "consul" | "etcd" | "aws" => Err(format!(
            "'{value}' isn't built yet; name the nodes with classic_config, dns or k8s, or remove the key for a node that is to be alone"
        )),
        _ => Err(format!("expected classic_config, dns or k8s, got '{value}'")),
    }
}

fn interval(value: &str, unit_ms: u64, min: u64) -> Result<u64, String> {
    integer(&milliseconds(value, unit_ms)?.to_string(), min, MS_MAX)
}

/// Every key that takes effect.
/// Most members of a queue.
const GROUP_SIZE_MAX: u32 = 5;
/// Most placements that a node is to lead.
const PLACEMENTS_MAX: u32 = 32;

pub(super) const KEYS: &[Key] = &[
    key(
        "cluster_formation.peer_discovery_backend",
        "classic_config, dns, k8s",
        "classic_config",
        "how a node that has no data yet finds the nodes of its cluster, see cluster.md; also by the names of RabbitMQ's modules, such as \
         rabbit_peer_discovery_dns",
        |config, _, value| {
            config.cluster.backend = backend(value)?;
            Ok(())
        },
    ),
    key(
        "cluster_formation.classic_config.nodes.$n",
        "name@host",
        "",
        "a node of the cluster; the first one founds it",
        |config, name, value| {
            let node = node_name(value, true)?;
            config.cluster.classic_nodes.insert(name.to_owned(), node);
            Ok(())
        },
    ),
    key(
        "cluster_formation.dns.hostname",
        "host",
        "",
        "the host whose addresses are those of the nodes",
        |config, _, value| {
            if value.is_empty() {
                return Err("must name a host".to_owned());
            }
            config.cluster.dns_hostname = Some(value.to_owned());
            Ok(())
        },
    ),
    key(
        "cluster_formation.k8s.ordinal_start",
        "integer",
        "0",
        "the number of the first pod, which founds the cluster",
        |config, _, value| {
            config.cluster.k8s_ordinal_start = integer(value, 0, 1_000_000)? as u32;
            Ok(())
        },
    ),
    key(
        "cluster_formation.k8s.seed_node",
        "name@host",
        "",
        "the node that founds the cluster, if it isn't the first pod",
        |config, _, value| {
            config.cluster.k8s_seed_node = Some(node_name(value, true)?);
            Ok(())
        },
    ),
    key(
        "cluster_formation.discovery_retry_limit",
        "integer or infinity",
        "30",
        "how often nodes that don't answer are asked again before a cluster is founded without them",
        |config, _, value| {
            config.cluster.retry_limit = match value {
                "infinity" | "unlimited" => None,
                _ => Some(integer(value, 0, u64::from(u32::MAX))? as u32),
            };
            Ok(())
        },
    ),
    key(
        "cluster_formation.discovery_retry_interval",
        "milliseconds",
        "1000",
        "time between two questions",
        |config, _, value| {
            config.cluster.retry_interval_ms = interval(value, 1, 10)?;
            Ok(())
        },
    ),
    key(
        "cluster_formation.node_cleanup.interval",
        "seconds",
        "60",
        "interval of warnings about members that discovery doesn't name",
        |config, _, value| {
            config.cluster.cleanup_interval_s = integer(value, 1, MS_MAX / 1000)?;
            Ok(())
        },
    ),
    key("cluster.listeners.tcp", "none", "", "no listener for links between nodes: no cluster", |config, _, value| {
        none::<()>(value)?;
        config.cluster.listener = ClusterListener::Off;
        Ok(())
    }),
    key(
        "cluster.listeners.tcp.default",
        "[address:]port",
        "25672, or a free one",
        "the listener for links between nodes; by default a free port if all of AMQP's are, and only on this machine if AMQP's are. Other \
         nodes are looked for at the same port",
        |config, _, value| {
            config.cluster.listener = ClusterListener::At(listener(value)?);
            Ok(())
        },
    ),
    key(
        "cluster.advertised_address",
        "host:port",
        "the address of the listener",
        "where members reach the listener for links between nodes, if it isn't the address that it has here; nodes that form or join a cluster look for each other by their names",
        |config, _, value| {
            let (host, number) = value.rsplit_once(':').ok_or("it isn't host:port")?;
            let is_bracketed = host.starts_with('[') && host.ends_with(']');
            if host.is_empty() || host.contains([' ', '/']) || port(number)? == 0 {
                return Err("it isn't host:port".to_owned());
            }
            if host.contains(':') && !is_bracketed {
                return Err("an IPv6 address stands in brackets: [address]:port".to_owned());
            }
            config.cluster.advertised_address = Some(value.to_owned());
            Ok(())
        },
    ),
    key(
        "cluster.tls",
        "boolean",
        "true",
        "whether links between nodes are encrypted, with TLS 1.3; the same for all nodes",
        |config, _, value| {
            config.cluster.tls = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "cluster.ssl_options.certfile",
        "file",
        "",
        "the node's certificate for links and its intermediate certificates, in PEM; without it the node makes one for itself",
        |config, _, value| {
            config.cluster.ssl_options.certfile = file(value)?;
            Ok(())
        },
    ),
    key("cluster.ssl_options.keyfile", "file", "", "its private key in PEM", |config, _, value| {
        config.cluster.ssl_options.keyfile = file(value)?;
        Ok(())
    }),
    key("cluster.ssl_options.password", "text", "", "passphrase of the private key", |config, _, value| {
        config.cluster.ssl_options.password = Some(value.to_owned());
        Ok(())
    }),
    key("cluster.ssl_options.cacertfile", "file", "", "the roots of nodes' certificates in PEM", |config, _, value| {
        config.cluster.ssl_options.cacertfile = file(value)?;
        Ok(())
    }),
    key(
        "cluster.ssl_options.depth",
        "integer",
        "10",
        "number of intermediate certificates that a node's chain may have",
        |config, _, value| {
            config.cluster.ssl_options.depth = integer(value, 0, 255)? as u8;
            Ok(())
        },
    ),
    key(
        "cluster.metadata_timeout",
        "time",
        "10s",
        "time after which a declare or another change of metadata fails if no majority of the nodes has agreed on it",
        |config, _, value| {
            config.cluster.metadata_timeout_ms = interval(value, 1, METADATA_TIMEOUT_MS_MIN)?;
            Ok(())
        },
    ),
    key(
        "cluster.alarm_scope",
        "store, cluster",
        "store",
        "whom an alarm of a node stops: publishers of that node, or those of all nodes as in RabbitMQ",
        |config, _, value| {
            config.cluster.alarm_scope = match value {
                "store" => AlarmScope::Store,
                "cluster" => AlarmScope::Cluster,
                _ => return Err(format!("expected store or cluster, got '{value}'")),
            };
            Ok(())
        },
    ),
    key(
        "queue_leader_locator",
        "client-local, balanced",
        "client-local",
        "where new queues of a cluster are: on the node of the client that declares them, or on the node with the fewest queues",
        |config, _, value| {
            config.cluster.leader_locator = match value {
                "client-local" => LeaderLocator::ClientLocal,
                // The latter are older names.
                "balanced" | "random" | "least-leaders" | "min-masters" => LeaderLocator::Balanced,
                _ => return Err(format!("expected client-local or balanced, got '{value}'")),
            };
            Ok(())
        },
    ),
    key(
        "quorum_queue.initial_cluster_size",
        "integer",
        "3",
        "members of a new quorum queue of a cluster, unless an argument says otherwise; 1 isn't replicated",
        |config, _, value| {
            let size = value.parse().ok().filter(|size| (1..=GROUP_SIZE_MAX).contains(size));
            config.cluster.quorum_group_size =
                size.ok_or_else(|| format!("expected a number from 1 to {GROUP_SIZE_MAX}, got '{value}'"))?;
            Ok(())
        },
    ),
    key(
        "cluster.placements_per_node",
        "integer",
        "8",
        "groups of replicated queues that each node of a cluster is to lead; the queues of a group have their leader together",
        |config, _, value| {
            let count = value.parse().ok().filter(|count| (1..=PLACEMENTS_MAX).contains(count));
            config.cluster.placements_per_node =
                count.ok_or_else(|| format!("expected a number from 1 to {PLACEMENTS_MAX}, got '{value}'"))?;
            Ok(())
        },
    ),
    key(
        "cluster.catch_up_bytes",
        "bytes",
        "1073741824",
        "disk space for entries that replicas which lag behind lack; one that lags further gets the messages that are left instead",
        |config, _, value| {
            config.cluster.catch_up_bytes = in_bytes(value, 1 << 20, 1 << 50)?;
            Ok(())
        },
    ),
    key(
        "cluster.return_leaders",
        "time, off",
        "30s",
        "time after which a node that was away, and has all entries again, gets back the leaderships of replicated queues that it is to have",
        |config, _, value| {
            config.cluster.return_leaders_ms = match value {
                "off" => None,
                value => Some(interval(value, 1, 1)?),
            };
            Ok(())
        },
    ),
];
