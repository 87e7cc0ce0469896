//! Discovery: the names of the nodes that may form a cluster with this one.
//!
//! Names of hosts are looked up by the system, which blocks: for a thread of its own. A name that was found by an address is a guess until
//! the node there has said its own: it may call itself otherwise, or be this node.

mod resolver;

use std::net::{IpAddr, ToSocketAddrs};

use leveret_cluster::forming::{SeedRule, pods, resolved_name, with_data};
use leveret_config::{Config, DiscoveryBackend};

use resolver::Resolver;

/// The way in which a node finds others.
#[derive(Debug)]
pub(crate) struct Discovery {
    /// The node's own name.
    own: String,
    source: NodeSource,
    resolver: Resolver,
}

/// The source of names.
#[derive(Debug)]
enum NodeSource {
    /// These names, which don't change, and the node that may seed.
    Known(SeedRule, Vec<String>),
    /// The addresses of this host.
    Host(String),
    /// None, for this reason.
    Wrong(SeedRule, String),
}

impl Discovery {
    /// The discovery that is configured, for the node of this name.
    pub(crate) fn new(config: &Config, own: &str) -> Self {
        let cluster = &config.cluster;
        let source = match cluster.backend {
            DiscoveryBackend::ClassicConfig => NodeSource::Known(SeedRule::FirstListed, cluster.classic_nodes()),
            DiscoveryBackend::Dns => match &cluster.dns_hostname {
                Some(host) => NodeSource::Host(host.clone()),
                None => {
                    let text = "cluster_formation.dns.hostname isn't set".to_owned();
                    NodeSource::Wrong(SeedRule::FirstOfOrder, text)
                }
            },
            DiscoveryBackend::K8s => {
                let seed = cluster.k8s_seed_node.as_deref();
                match pods(own, cluster.k8s_ordinal_start, seed, config.target_cluster_size) {
                    Ok((seed, names)) => NodeSource::Known(SeedRule::Named(seed), names),
                    // No node has an empty name, so none seeds.
                    Err(error) => NodeSource::Wrong(SeedRule::Named(String::new()), error.to_string()),
                }
            }
        };
        Self { own: own.to_owned(), source, resolver: Resolver::default() }
    }

    /// The node that may seed a cluster.
    pub(crate) fn rule(&self) -> SeedRule {
        match &self.source {
            NodeSource::Known(rule, _) | NodeSource::Wrong(rule, _) => rule.clone(),
            NodeSource::Host(_) => SeedRule::FirstOfOrder,
        }
    }

    /// The text of a node with data of its own, which forms no cluster with the others that are named; `None` if there are none.
    pub(crate) fn passed_over(&self) -> Option<String> {
        let names = match &self.source {
            NodeSource::Known(_, names) => names.clone(),
            // They would have to be looked up, which may take seconds.
            NodeSource::Host(_) => vec![String::new()],
            NodeSource::Wrong(..) => Vec::new(),
        };
        names.iter().any(|name| *name != self.own).then(|| with_data(&self.own, &Ok(names)))
    }

    /// The names of the nodes, or the reason why there are none. May take some seconds.
    ///
    /// # Errors
    /// Names can't be found.
    pub(crate) fn names(&self) -> Result<Vec<String>, String> {
        let host = match &self.source {
            NodeSource::Known(_, names) => return Ok(names.clone()),
            NodeSource::Wrong(_, text) => return Err(text.clone()),
            NodeSource::Host(host) => host,
        };
        let addresses =
            (host.as_str(), 0).to_socket_addrs().map_err(|error| format!("{host} has no addresses: {error}"))?;
        let mut addresses: Vec<IpAddr> = addresses.map(|address| address.ip()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut names: Vec<String> = Vec::new();
        for address in addresses {
            let name = resolved_name(&self.own, address, self.resolver.host(address).as_deref());
            // A node may have addresses of both kinds.
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discovery(text: &str, own: &str) -> Discovery {
        let mut config = Config::default();
        config.read("file", text).expect("is right");
        Discovery::new(&config, own)
    }

    #[test]
    fn listed_nodes_are_known() {
        let key = "cluster_formation.classic_config.nodes";
        let found = discovery(&format!("{key}.2 = r@b\n{key}.1 = r@a\n"), "r@b");
        assert_eq!(
            (found.rule(), found.names()),
            (SeedRule::FirstListed, Ok(vec!["r@a".to_owned(), "r@b".to_owned()]))
        );
        assert_eq!(discovery("", "r@a").names(), Ok(Vec::new()));
    }

    #[test]
    fn pods_are_found_by_their_numbers() {
        let text = "cluster_formation.peer_discovery_backend = k8s\ncluster_formation.target_cluster_size_hint = 3\n";
        let found = discovery(text, "r@mq-1.nodes");
        assert_eq!(found.rule(), SeedRule::Named("r@mq-0.nodes".to_owned()));
        assert_eq!(found.names().expect("pods"), ["r@mq-0.nodes", "r@mq-1.nodes", "r@mq-2.nodes"]);
        let found = discovery(text, "r@host");
        assert_eq!(found.rule(), SeedRule::Named(String::new()));
        assert!(found.names().is_err_and(|text| text.contains("r@host")));
    }

    #[test]
    fn nodes_of_a_host_have_the_names_of_its_addresses() {
        let text = "cluster_formation.peer_discovery_backend = dns\n";
        assert!(discovery(text, "r@a").names().is_err_and(|text| text.contains("dns.hostname isn't set")));
        let found = discovery(&format!("{text}cluster_formation.dns.hostname = 127.0.0.3\n"), "r@127.0.0.1");
        assert_eq!((found.rule(), found.names()), (SeedRule::FirstOfOrder, Ok(vec!["r@127.0.0.3".to_owned()])));
    }
}
