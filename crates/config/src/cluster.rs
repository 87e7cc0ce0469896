//! Settings of clusters.

use std::collections::BTreeMap;

use crate::listener::Listener;
use crate::tls::Tls;

/// The port of links between nodes, as RabbitMQ's.
pub const CLUSTER_PORT: u16 = 25672;

/// Settings of clusters: the keys `cluster.*` and `cluster_formation.*`, and the variables that belong to them.
///
/// The hint of the cluster's size is [`Config::target_cluster_size`], its name [`Config::cluster_name`], and the node's name
/// [`Config::node_name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// `cluster_formation.peer_discovery_backend`, with the settings of that backend in the fields below.
    pub backend: DiscoveryBackend,
    /// `cluster_formation.classic_config.nodes.*` by the last part of their key; see [`ClusterConfig::classic_nodes`].
    pub(crate) classic_nodes: BTreeMap<String, String>,
    /// `cluster_formation.dns.hostname`.
    pub dns_hostname: Option<String>,
    /// `cluster_formation.k8s.ordinal_start`: the number of the first pod.
    pub k8s_ordinal_start: u32,
    /// `cluster_formation.k8s.seed_node`: the node that seeds the cluster; `None` for the one with the first number.
    pub k8s_seed_node: Option<String>,
    /// `cluster_formation.discovery_retry_limit`; `None` for no limit.
    pub retry_limit: Option<u32>,
    /// `cluster_formation.discovery_retry_interval`.
    pub retry_interval_ms: u64,
    /// `cluster_formation.node_cleanup.interval`: interval of the warnings about members that discovery doesn't name.
    pub cleanup_interval_s: u64,
    /// `cluster.listeners.tcp.*`; see [`Config::cluster_listener`].
    pub(crate) listener: ClusterListener,
    /// `cluster.advertised_address`: where others reach the listener, if not where it is.
    pub advertised_address: Option<String>,
    /// `RABBITMQ_DIST_PORT`: the port of the listener where no file names one.
    pub(crate) port: Option<u16>,
    /// `cluster.tls`: whether links are encrypted.
    pub tls: bool,
    /// `cluster.ssl_options.*`; without a certificate each node makes one for itself. Certificates are always verified both ways.
    pub ssl_options: Tls,
    /// `cluster.metadata_timeout`: time after which a change of metadata fails that no majority has agreed on.
    pub metadata_timeout_ms: u64,
    /// `cluster.alarm_scope`.
    pub alarm_scope: AlarmScope,
    /// `queue_leader_locator`.
    pub leader_locator: LeaderLocator,
    /// `quorum_queue.initial_cluster_size`.
    pub quorum_group_size: u32,
    /// `cluster.placements_per_node`.
    pub placements_per_node: u32,
    /// `cluster.catch_up_bytes`.
    pub catch_up_bytes: u64,
    /// `cluster.return_leaders`; `None` for never.
    pub return_leaders_ms: Option<u64>,
    /// `RABBITMQ_ERLANG_COOKIE`: the secret that nodes of a cluster share; `None` for the one in a file.
    pub cookie: Option<String>,
}

/// Values of [`ClusterConfig::backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryBackend {
    /// `classic_config`: a list of names.
    ClassicConfig,
    /// `dns`: the addresses of a host name.
    Dns,
    /// `k8s`: the pods of a stateful set, which are numbered.
    K8s,
}

/// Values of [`ClusterConfig::alarm_scope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmScope {
    /// `store`: an alarm stops publishers whose messages that node would store.
    Store,
    /// `cluster`: an alarm of one node stops the publishers of all.
    Cluster,
}

/// Values of [`ClusterConfig::leader_locator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderLocator {
    /// `client-local`: a new queue is on the node of the client that declares it.
    ClientLocal,
    /// `balanced`: it is on the node with the fewest queues.
    Balanced,
}

/// The listener of links between nodes, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterListener {
    /// The default.
    Unset,
    /// None: the node can't have a cluster.
    Off,
    /// This one.
    At(Listener),
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            backend: DiscoveryBackend::ClassicConfig,
            classic_nodes: BTreeMap::new(),
            dns_hostname: None,
            k8s_ordinal_start: 0,
            k8s_seed_node: None,
            retry_limit: Some(30),
            retry_interval_ms: 1000,
            cleanup_interval_s: 60,
            listener: ClusterListener::Unset,
            advertised_address: None,
            port: None,
            tls: true,
            ssl_options: Tls { verify_peer: true, fail_if_no_peer_cert: true, ..Tls::default() },
            metadata_timeout_ms: 10_000,
            alarm_scope: AlarmScope::Store,
            leader_locator: LeaderLocator::ClientLocal,
            quorum_group_size: 3,
            placements_per_node: 8,
            catch_up_bytes: 1 << 30,
            return_leaders_ms: Some(30_000),
            cookie: None,
        }
    }
}

impl ClusterConfig {
    /// The names of `cluster_formation.classic_config.nodes.*` in their order: numbers before words, each once.
    #[must_use]
    pub fn classic_nodes(&self) -> Vec<String> {
        let mut rows: Vec<(&String, &String)> = self.classic_nodes.iter().collect();
        rows.sort_by_key(|(key, _)| (key.parse::<u64>().unwrap_or(u64::MAX), *key));
        let mut names: Vec<String> = Vec::new();
        for (_, name) in rows {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

/// Checks the name of a node, `name@host`, or also without its host.
pub(crate) fn node_name(value: &str, needs_host: bool) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@');
    let parts: Vec<&str> = value.split('@').collect();
    let is_whole = parts.iter().all(|part| !part.is_empty()) && (parts.len() == 2 || parts.len() == 1 && !needs_host);
    if is_whole && value.chars().all(allowed) {
        return Ok(value.to_owned());
    }
    let or = if needs_host { "" } else { "name or " };
    Err(format!("'{value}' is no name of a node: expected {or}name@host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_nodes_are_in_the_order_of_their_numbers() {
        let nodes = |text: &str| {
            let mut config = crate::Config::default();
            config.read("file", text).expect("is right");
            config.cluster.classic_nodes()
        };
        let key = "cluster_formation.classic_config.nodes";
        let text =
            format!("{key}.10 = r@d\n{key}.x = r@e\n{key}.2 = r@b\n{key}.9 = r@c\n{key}.1 = r@a\n{key}.3 = r@b\n");
        assert_eq!(nodes(&text), ["r@a", "r@b", "r@c", "r@d", "r@e"]);
        assert_eq!(nodes(""), [""; 0]);
    }

    #[test]
    fn names_of_nodes_have_a_name_and_a_host() {
        for (name, with_host, without) in [
            ("rabbit@host-1.local", true, true),
            ("leveret@127.0.0.1", true, true),
            ("rabbit", false, true),
            ("rabbit@", false, false),
            ("@host", false, false),
            ("a@b@c", false, false),
            ("rabbit@host:1", false, false),
            ("", false, false),
        ] {
            assert_eq!(node_name(name, true).is_ok(), with_host, "{name}");
            assert_eq!(node_name(name, false).is_ok(), without, "{name}");
        }
    }
}
