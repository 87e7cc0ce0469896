//! A node's start as a part of a cluster.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};

use leveret_broker::Broker;
use leveret_cluster::forming::{FormingOptions, SeedRule, host_of};
use leveret_log::{Disk, EntryOptions};
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::cluster::cookie;
use crate::cluster::discovery::Discovery;
use crate::cluster::forwarded::ForwardedHttp;
use crate::cluster::gossip::OwnWords;
use crate::cluster::member::{Attach, ClusterNode, ClusterSetup, Discover, Membership, OwnNode};
use crate::cluster::placements::ReplicaOptions;
use crate::cluster::tls::ClusterTls;
use crate::data_link::DataSeats;
use crate::disk::Fatal;
use crate::identity::{Identity, Standing};
use crate::node::StartError;
use crate::signals;

/// The requester's name for the restart of a node that another one wants to join: it becomes the first member of a cluster.
pub const FOUND_CLUSTER: &str = "found_cluster";

/// The part of a node's options that concerns other nodes.
#[derive(Debug)]
pub struct ClusterOptions {
    /// The node's name, such as `rabbit@host`.
    pub node_name: String,
    /// Its listeners for other nodes.
    pub listeners: Vec<TcpListener>,
    /// Where others reach them, if not where they are.
    pub advertised_address: Option<String>,
    /// The cookie, if a variable gives it.
    pub cookie: Option<String>,
    /// Whether links are encrypted.
    pub is_encrypted: bool,
    /// The files of its certificate and of those that it trusts; without, it makes a certificate for itself.
    pub ssl_options: leveret_config::Tls,
    /// The nodes that it forms a cluster with if it has no data; `None` if it stays alone.
    pub(crate) discovery: Option<Arc<Discovery>>,
    /// The port at which these are looked for.
    pub peer_port: u16,
    /// Number of retries; `None` for no limit.
    pub retry_limit: Option<u32>,
    /// Time between two rounds of questions.
    pub retry_interval: Duration,
    /// The number of nodes that the operator wants.
    pub target_size: u32,
    /// Interval of warnings about members that discovery doesn't name. A fixed list says nothing of those that joined by a command.
    pub cleanup_interval: Duration,
    /// Time after which a change fails that no majority has agreed on.
    pub metadata_timeout: Duration,
    /// Of the node's replicas.
    pub replicas: ReplicaOptions,
    /// Whether an alone node becomes the first member of a cluster.
    pub is_founding: bool,
    /// The release, as other nodes see it.
    pub release: String,
    /// The node's words about itself.
    pub(crate) words: Arc<OwnWords>,
}

/// A node's links, and what it is among others.
pub(crate) struct Clustering {
    pub node: ClusterNode,
    pub metadata_timeout: Duration,
    pub replicas: ReplicaOptions,
    /// The port at which other nodes are looked for.
    pub peer_port: u16,
    pub words: Arc<OwnWords>,
    pub http: ForwardedHttp,
    pub discovery: Option<Arc<Discovery>>,
    pub cleanup_interval: Duration,
}

impl ClusterOptions {
    /// The standing of a node without data.
    pub(crate) fn first_standing(&self) -> Standing {
        if self.discovery.is_none() { Standing::Alone } else { Standing::Forming }
    }

    fn own(&self, identity: &Identity) -> OwnNode {
        let addresses = self.listeners.iter().filter_map(|listener| listener.local_addr().ok());
        let address_of = |address: SocketAddr| match address.ip().is_unspecified() {
            true => self::address_of(&self.node_name, address.port()),
            false => address.to_string(),
        };
        OwnNode {
            name: self.node_name.clone(),
            node_id: identity.node_id,
            cluster_id: identity.cluster_id,
            boot: identity.boot,
            nonce: identity.nonce,
            started_at_ms: SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_millis() as u64),
            addresses: match &self.advertised_address {
                Some(address) => vec![address.clone()],
                None => addresses.map(address_of).collect(),
            },
            release: self.release.clone(),
        }
    }

    /// Opens the links, and makes a node without data a member of a cluster, which may take long. `identity` says afterwards what it is;
    /// it has to be written if it has changed.
    ///
    /// # Errors
    /// The cookie can't be read, there are no threads, or the node was asked to stop.
    pub(crate) fn begin(
        self,
        identity: &mut Identity,
        data_directory: &Path,
        stop: Sender<&'static str>,
        fatal: &Fatal,
    ) -> Result<Clustering, StartError> {
        let home = std::env::var_os("HOME");
        let found = cookie::find(self.cookie.as_deref(), home.as_deref().map(Path::new), data_directory);
        let found = found.map_err(|error| StartError::Cluster(error.to_string()))?;
        let source = &found.source;
        match found.is_new {
            true => {
                info!("made a cookie: other nodes can form a cluster with this one if they have the same as {source}")
            }
            false => debug!("the cookie is that of {source}"),
        }
        if self.is_founding && identity.standing == Standing::Alone {
            identity.standing = Standing::Member;
        }
        if identity.standing == Standing::Alone {
            self.discovery.iter().filter_map(|discovery| discovery.passed_over()).for_each(|text| warn!("{text}"));
        }
        let is_member = identity.standing == Standing::Member;
        let Identity { member, cluster_id, .. } = *identity;
        // Files that are named prove who a node is; without, the cookie alone does.
        let tls = match (self.is_encrypted, &self.ssl_options.certfile) {
            (false, _) => None,
            (true, None) => Some(ClusterTls::own()),
            (true, Some(_)) => Some(ClusterTls::configured(&self.ssl_options)),
        };
        let tls = tls.transpose()?;
        let own = self.own(identity);
        let started_at_ms = own.started_at_ms;
        let (http, cookie) = (ForwardedHttp::default(), found.cookie.clone());
        let setup = ClusterSetup {
            own,
            membership: is_member.then_some(Membership { member, cluster_id }),
            is_forming: identity.standing == Standing::Forming,
            listeners: self.listeners,
            cookie: found.cookie,
            tls,
            // It only fails if the node is stopping already.
            on_first_join: Box::new(move || stop.send(FOUND_CLUSTER).unwrap_or_default()),
            words: self.words.clone(),
            http: http.clone(),
        };
        let node = ClusterNode::start(setup, fatal).map_err(StartError::Cluster)?;
        if identity.standing == Standing::Forming
            && let Some(discovery) = self.discovery.clone()
        {
            let options = FormingOptions {
                name: self.node_name.clone(),
                started_at_ms,
                is_blank: true,
                is_first_start: identity.boot <= 1,
                rule: discovery.rule(),
                retry_limit: self.retry_limit,
                target_size: self.target_size,
            };
            let discover = found_by(discovery, self.peer_port);
            let is_stopping = || signals::asked_to_end().is_some();
            let formed = node.form(options, discover, self.retry_interval, is_stopping).map_err(StartError::Cluster)?;
            identity.standing = Standing::Alone;
            if let Some(Membership { member, cluster_id }) = formed {
                *identity = Identity { member, cluster_id, standing: Standing::Member, ..*identity };
            }
        }
        if identity.standing == Standing::Member {
            self.words.page_sessions.begin(cookie.token_key(identity.cluster_id), started_at_ms);
        }
        let (metadata_timeout, replicas, peer_port) = (self.metadata_timeout, self.replicas, self.peer_port);
        let (words, discovery, cleanup_interval) = (self.words, self.discovery, self.cleanup_interval);
        Ok(Clustering { node, metadata_timeout, replicas, peer_port, words, http, discovery, cleanup_interval })
    }
}

/// The address of a node's listener for other nodes.
pub(crate) fn address_of(node: &str, port: u16) -> String {
    let host = host_of(node);
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Nodes that discovery names, with their addresses. Names are looked up by the system, which blocks.
fn found_by(discovery: Arc<Discovery>, port: u16) -> Discover {
    Box::new(move || {
        let discovery = discovery.clone();
        let names = tokio::task::spawn_blocking(move || discovery.names());
        Box::pin(async move {
            let names = names.await.unwrap_or_else(|_| Err("the node stops".to_owned()))?;
            Ok(names.into_iter().map(|name| (name.clone(), address_of(&name, port))).collect())
        })
    })
}

impl Clustering {
    /// Starts the replica of the metadata, and waits until the node has what the cluster has if it has just joined.
    ///
    /// # Errors
    /// The entry log can't be used, or contradicts the store.
    pub(crate) fn attach(
        &self,
        broker: &Arc<Broker>,
        identity: &Identity,
        disk: &Arc<dyn Disk>,
        (clock, entry_options): (&Clock, EntryOptions),
        seats: Arc<dyn DataSeats>,
        fatal: &Fatal,
    ) -> Result<(), StartError> {
        let attach = Attach {
            broker: broker.clone(),
            seats,
            clock: clock.clone(),
            disk: disk.clone(),
            entry_options,
            membership: Membership { member: identity.member, cluster_id: identity.cluster_id },
            patience: self.metadata_timeout,
            replicas: self.replicas,
            fatal: fatal.clone(),
        };
        self.node.attach(attach).map_err(StartError::Cluster)?;
        if broker.registry.snapshot().topology.members().next().is_none() {
            self.node.wait_until_member().map_err(StartError::Cluster)?;
        }
        if let Some(discovery) = self.discovery.clone().filter(|discovery| discovery.rule() != SeedRule::FirstListed) {
            self.node.warn_of_unnamed(found_by(discovery, self.peer_port), self.cleanup_interval);
        }
        Ok(())
    }
}
