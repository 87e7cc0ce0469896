use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use leveret_backends::{Backends, BackendsError, LoopbackUsers, Passwords};
use leveret_broker::notices::{EVENT_EXCHANGE, LOG_EXCHANGE, NoticeVhosts};
use leveret_broker::quota::{QuotaLimits, Scoped};
use leveret_broker::settings::{EventForm, GlobalPrefetch, IfPresent, LinkCredit, Stamps};
use leveret_broker::{Protocol, Settings};
use leveret_config::{
    AlarmScope, BackendKind, ClientTls, Config, DefaultUser, DiscoveryBackend, DiskFreeLimit, Endpoint, Listener,
    LoginBackends, MemoryWatermark,
};
use leveret_model::{DeprecatedFeatures, Durability, LeaderLocator, Limits};
use leveret_peer::GossipSetting;
use tracing::warn;

use crate::alarms::AlarmLimits;
use crate::cluster::discovery::Discovery;
use crate::cluster::gossip::{AdvertisedAddress, OwnWords};
use crate::cluster::placements::ReplicaOptions;
use crate::clustering::ClusterOptions;
use crate::cores::SocketOptions;
use crate::first_user::{self, FirstUser};
use crate::listener_kind::ListenerKind;
use crate::memory;
use crate::node::{NodeOptions, StartError};
use crate::{listener_kind, tls, volume};

impl NodeOptions {
    /// The options by the configuration, for a node that speaks `protocols`. `fatal` is called with the text of a
    /// storage error and must end the process.
    #[must_use]
    pub fn new(config: &Config, protocols: Vec<Arc<dyn Protocol>>, fatal: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        let loopback_users = LoopbackUsers::new(config.loopback_users.clone());
        Self {
            cores: config.cores.map(usize::from),
            sync_delay: Duration::from_secs_f64(config.sync_delay_ms / 1_000.0),
            clock_ahead_ms: config.clock_ahead_ms,
            log: log_options(config),
            fits_log_to_volume: config.wal_file_bytes.is_none(),
            broker: settings(config),
            first_user: Some(first_user(&config.default_user)),
            vhost_defaults: config.vhost_defaults.clone(),
            own_exchanges: own_exchanges(config),
            alarms: alarm_limits(config),
            sockets: SocketOptions {
                no_delay: config.tcp_options.nodelay,
                keep_alive: config.tcp_options.keepalive,
                send_buffer: config.tcp_options.sndbuf,
                receive_buffer: config.tcp_options.recbuf,
            },
            protocols,
            authenticate: Arc::new(Passwords::new(loopback_users.clone())),
            loopback_users,
            cluster: None,
            fatal,
        }
    }
}

impl NodeOptions {
    /// Sets the backends of logins by the configuration. A chain of users of the node alone needs none.
    ///
    /// # Errors
    /// An address, a file or a key is of no use.
    pub fn set_backends(&mut self, config: &Config) -> Result<(), BackendsError> {
        let settings = &config.backends;
        if Backends::are_internal(settings) {
            return Ok(());
        }
        warn_of_unverified(settings);
        let tls = |settings: &ClientTls| tls::backend_config(settings).map_err(|error| error.to_string());
        self.authenticate = Backends::start(settings, self.loopback_users.clone(), &tls)?;
        Ok(())
    }
}

/// Warns of servers whose certificates aren't verified: anybody between us and them could log anybody in.
fn warn_of_unverified(settings: &LoginBackends) {
    let oauth2 = &settings.oauth2;
    let providers = oauth2.providers.iter().map(|(name, provider)| {
        (format!("auth_oauth2.oauth_providers.{name}.https"), &provider.tls, BackendKind::OAuth2)
    });
    let all = [
        ("auth_http.ssl_options".to_owned(), &settings.http.tls, BackendKind::Http),
        ("auth_oauth2.https".to_owned(), &oauth2.provider.tls, BackendKind::OAuth2),
    ];
    for (prefix, tls, kind) in all.into_iter().chain(providers) {
        if settings.use_kind(kind) && (tls.trusts_any || tls.takes_any_name) {
            let what = if tls.trusts_any { "certificate" } else { "name" };
            warn!(
                "{prefix}: the {what} of the server isn't verified, so another one could take its place and let anybody in"
            );
        }
    }
}

impl ClusterOptions {
    /// The options by the configuration, with these listeners for other nodes. With `is_founding`, a node that is alone becomes the first
    /// member of a cluster.
    #[must_use]
    pub fn new(config: &Config, listeners: Vec<TcpListener>, release: String, is_founding: bool) -> Self {
        let (cluster, name) = (&config.cluster, node_name(config));
        let forms = match cluster.backend {
            DiscoveryBackend::ClassicConfig => !cluster.classic_nodes().is_empty(),
            DiscoveryBackend::Dns => true,
            // See `Config::asks_for_cluster`.
            DiscoveryBackend::K8s => config.target_cluster_size > 1,
        };
        Self {
            listeners,
            advertised_address: cluster.advertised_address.clone(),
            cookie: cluster.cookie.clone(),
            is_encrypted: cluster.tls,
            ssl_options: cluster.ssl_options.clone(),
            discovery: forms.then(|| Arc::new(Discovery::new(config, &name))),
            node_name: name,
            peer_port: config.peer_port(),
            retry_limit: cluster.retry_limit,
            retry_interval: Duration::from_millis(cluster.retry_interval_ms),
            target_size: config.target_cluster_size,
            cleanup_interval: Duration::from_secs(cluster.cleanup_interval_s),
            metadata_timeout: Duration::from_millis(cluster.metadata_timeout_ms),
            replicas: ReplicaOptions {
                catch_up_bytes: cluster.catch_up_bytes,
                return_leaders: cluster.return_leaders_ms.map(Duration::from_millis),
            },
            is_founding,
            release,
            words: Arc::new(OwnWords::new(
                shared_settings(config),
                cluster.alarm_scope == AlarmScope::Cluster,
                advertised(config),
            )),
        }
    }
}

/// The addresses that clients are told of this node's listeners.
fn advertised(config: &Config) -> Vec<AdvertisedAddress> {
    let stream = &config.stream;
    let of = |kind: &ListenerKind, host: &Option<String>, port| AdvertisedAddress {
        protocol: kind.protocol,
        host: host.clone(),
        port,
    };
    vec![
        of(&listener_kind::STREAM, &stream.advertised_host, stream.advertised_port),
        of(&listener_kind::STREAM_TLS, &stream.advertised_tls_host, stream.advertised_tls_port),
    ]
}

/// The parts of keys whose values are a node's own: addresses, names and files.
const OWN_KEYS: [&str; 11] =
    ["advertised", "listener", "port", ".ip", "node_name", "nodename", "node_tags", "file", "directory", "dir", "path"];

/// Digests of the keys that were set, but for those that are a node's own, and those of discovery: to find keys that differ between nodes.
fn shared_settings(config: &Config) -> Vec<GossipSetting> {
    let effective = config.effective();
    let set = effective.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    let shared = set.filter(|(key, _)| {
        !key.starts_with("cluster_formation.")
            && !key.starts_with("debug.")
            && !OWN_KEYS.iter().any(|own| key.contains(own))
    });
    let setting = |(key, value): (&str, &str)| GossipSetting {
        key: key.to_owned(),
        digest: u64::from(crc32c::crc32c(value.as_bytes())) << 32 | value.len() as u64,
    };
    shared.map(setting).collect()
}

fn log_options(config: &Config) -> leveret_log::Options {
    let options = leveret_log::Options { disk_reserve: config.storage_reserve, ..leveret_log::Options::default() };
    match config.wal_file_bytes {
        Some(file_bytes) => volume::with_files_of(options, file_bytes),
        None => options,
    }
}

/// The addresses that listeners for AMQP without TLS bind.
///
/// # Errors
/// A host can't be resolved.
pub fn amqp_addresses(config: &Config) -> Result<Vec<SocketAddr>, StartError> {
    let listeners = config.tcp_listeners();
    listeners.iter().map(|listener| address(listener.host.as_deref(), listener.port)).collect()
}

/// The addresses that listeners for AMQP with TLS bind.
///
/// # Errors
/// A host can't be resolved.
pub fn amqps_addresses(config: &Config) -> Result<Vec<SocketAddr>, StartError> {
    let listeners = config.ssl_listeners();
    listeners.iter().map(|listener| address(listener.host.as_deref(), listener.port)).collect()
}

/// The addresses that listeners for the stream protocol bind, without TLS and with it.
///
/// # Errors
/// A host can't be resolved.
pub fn stream_addresses(config: &Config) -> Result<[Vec<SocketAddr>; 2], StartError> {
    let resolve = |listeners: Vec<Listener>| {
        listeners.iter().map(|listener| address(listener.host.as_deref(), listener.port)).collect::<Result<_, _>>()
    };
    Ok([resolve(config.stream_tcp_listeners())?, resolve(config.stream_ssl_listeners())?])
}

/// The addresses that listeners for MQTT bind: without TLS, and with it.
///
/// # Errors
/// A host can't be resolved.
pub fn mqtt_addresses(config: &Config) -> Result<[Vec<SocketAddr>; 2], StartError> {
    let resolve = |listeners: Vec<Listener>| {
        listeners.iter().map(|listener| address(listener.host.as_deref(), listener.port)).collect::<Result<_, _>>()
    };
    Ok([resolve(config.mqtt_tcp_listeners())?, resolve(config.mqtt_ssl_listeners())?])
}

/// The addresses that listeners for other nodes bind.
///
/// # Errors
/// The host can't be resolved.
pub fn cluster_addresses(config: &Config) -> Result<Vec<SocketAddr>, StartError> {
    let listeners = config.cluster_listener().into_iter();
    listeners.map(|listener| address(listener.host.as_deref(), listener.port)).collect()
}

/// The address that an HTTP server binds.
///
/// # Errors
/// The host can't be resolved.
pub fn http_address(endpoint: &Endpoint) -> Result<SocketAddr, StartError> {
    address(endpoint.ip.as_deref(), endpoint.port)
}

fn total_memory_bytes(config: &Config) -> u64 {
    config.total_memory_bytes.unwrap_or_else(memory::allowed_memory_bytes)
}

/// Resident memory above which publishers are blocked.
fn memory_watermark_bytes(config: &Config) -> u64 {
    match config.memory_high_watermark {
        MemoryWatermark::Absolute(bytes) => bytes,
        MemoryWatermark::Relative(factor) => (factor * total_memory_bytes(config) as f64) as u64,
    }
}

/// The limits beyond which publishers are blocked.
#[must_use]
pub fn alarm_limits(config: &Config) -> AlarmLimits {
    AlarmLimits {
        memory_bytes: Some(memory_watermark_bytes(config)),
        disk_free_bytes: match config.disk_free_limit {
            DiskFreeLimit::Absolute(bytes) => bytes,
            DiskFreeLimit::Relative(factor) => (factor * total_memory_bytes(config) as f64) as u64,
        },
        total_memory_bytes: total_memory_bytes(config),
        memory_factor: match config.memory_high_watermark {
            MemoryWatermark::Absolute(_) => None,
            MemoryWatermark::Relative(factor) => Some(factor),
        },
        disk_free_factor: match config.disk_free_limit {
            DiskFreeLimit::Absolute(_) => None,
            DiskFreeLimit::Relative(factor) => Some(factor),
        },
        follows_system: config.total_memory_bytes.is_none(),
        raised_by: config.alarms_file.clone().map(Into::into),
    }
}

fn address(host: Option<&str>, port: u16) -> Result<SocketAddr, StartError> {
    let Some(host) = host else { return Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)) };
    let unknown = |source| StartError::Host { host: host.to_owned(), source };
    let mut found = (host.trim_matches(['[', ']']), port).to_socket_addrs().map_err(unknown)?;
    found.next().ok_or_else(|| unknown(io::ErrorKind::NotFound.into()))
}

fn quota(config: &Config) -> QuotaLimits {
    QuotaLimits {
        connections: scoped(config.quotas.connections),
        channels: scoped(config.quotas.channels),
        links: scoped(config.quotas.links),
        consumers: scoped(config.quotas.consumers),
        unsettled: scoped(config.quotas.unsettled),
    }
}

fn settings(config: &Config) -> Settings {
    let defaults = Settings::default();
    let mut settings = Settings {
        // On a node with little memory the share of queues' heads is small too.
        queue_memory_bytes: defaults.queue_memory_bytes.min(memory_watermark_bytes(config) / 8),
        volatile_memory_bytes: memory_watermark_bytes(config) / 4,
        frame_max: config.frame_max,
        initial_frame_max: config.initial_frame_max,
        // 0 means no limit except the protocol's.
        channel_max: if config.channel_max == 0 { u16::MAX } else { config.channel_max },
        heartbeat_s: config.heartbeat_s,
        max_message_size: config.limits.max_message_size,
        partial_message_bytes_max: config.limits.partial_message_bytes_max,
        default_prefetch: config.limits.default_consumer_prefetch,
        max_connections: config.max_connections.map(|limit| limit as usize),
        handshake_timeout_ms: config.handshake_timeout_ms,
        unauthenticated_bytes_max: config.limits.unauthenticated_bytes_max,
        cluster_name: config.cluster_name.clone().unwrap_or_else(|| node_name(config)),
        node_name: node_name(config),
        default_vhost: config.default_user.vhost.clone(),
        auth_mechanisms: config.amqp10.mechanisms.clone(),
        auth_failure_delay_ms: config.refused_login_delay_ms,
        anonymous_login: config
            .amqp10
            .anonymous_user
            .clone()
            .map(|user| (user, config.amqp10.anonymous_password.clone())),
        durability: match config.queue_durability {
            leveret_config::Durability::Synced => Durability::Synced,
            leveret_config::Durability::Os => Durability::Os,
            leveret_config::Durability::Memory => Durability::Memory,
        },
        quota: quota(config),
        limits: Limits {
            vhosts: config.quotas.vhosts,
            queues: config.quotas.queues,
            queues_per_vhost: config.quotas.queues_per_vhost,
            exclusive_queues_per_connection: config.quotas.exclusive_queues_per_connection,
            exchanges: config.quotas.exchanges,
            exchanges_per_vhost: config.quotas.exchanges_per_vhost,
            bindings: config.quotas.bindings,
            bindings_per_vhost: config.quotas.bindings_per_vhost,
            queue_types: first_user::enabled(config.vhost_defaults.queue_types),
            local_random_exchanges: config.local_random_exchanges,
            relaxed_quorum_redeclaration: config.relaxed_quorum_redeclaration,
            deprecated: DeprecatedFeatures {
                transient_queues: config.deprecated.transient_queues,
                master_locator: config.deprecated.master_locator,
            },
            quorum_group_size: config.cluster.quorum_group_size as usize,
            cluster_size: config.target_cluster_size as usize,
            placements_per_node: config.cluster.placements_per_node,
            leader_locator: match config.cluster.leader_locator {
                leveret_config::LeaderLocator::ClientLocal => LeaderLocator::ClientLocal,
                leveret_config::LeaderLocator::Balanced => LeaderLocator::Balanced,
            },
        },
        consumers_per_channel_max: config.quotas.consumers_per_channel,
        unsettled_per_channel_max: config.quotas.unsettled_per_channel,
        session_max: config.amqp10.session_max,
        link_max: config.amqp10.link_max,
        unsettled_max: config.amqp10.unsettled_max,
        max_incoming_window: config.amqp10.incoming_window_max,
        max_queue_credit: config.amqp10.queue_credit,
        amqp_address_v1: config.amqp10.address_v1,
        link_credit: LinkCredit {
            start: config.amqp10.link_credit,
            adaptive: config.amqp10.adaptive,
            unconfirmed_messages_max: config.amqp10.unconfirmed_messages_max,
            unconfirmed_bytes_max: config.amqp10.unconfirmed_bytes_max,
        },
        global_prefetch: match (config.deprecated.global_qos, config.strict_compat) {
            (None, false) => GlobalPrefetch::Shared,
            (Some(true), _) => GlobalPrefetch::SharedStrictly,
            (Some(false), _) | (None, true) => GlobalPrefetch::PerConsumer,
        },
        strict_compat: config.strict_compat,
        standing_delay_target: config.standing_delay_target_ms * 1_000_000,
        consumer_timeout_ms: config.consumer_timeout_ms,
        consumer_disconnected_timeout_ms: config.consumer_disconnected_timeout_ms,
        stamps: stamps(config),
        sent_time: config.interceptors.sent_time,
        notice_vhosts: notice_vhosts(config),
        event_form: match config.event_exchange.amqp10 {
            Some(true) => EventForm::Amqp10,
            _ => EventForm::Amqp091,
        },
        ..defaults
    };
    if !config.rabbitmq_compatible_identity {
        settings.product = "Leveret".to_owned();
        settings.version = env!("CARGO_PKG_VERSION").to_owned();
    }
    settings
}

/// The vhosts of the node's own exchanges.
fn notice_vhosts(config: &Config) -> NoticeVhosts {
    let lines = config.default_user.vhost.clone();
    NoticeVhosts { events: config.event_exchange.vhost.clone().unwrap_or_else(|| lines.clone()), lines }
}

/// The node's own exchanges that are configured, by vhost and name.
fn own_exchanges(config: &Config) -> Vec<(String, &'static str)> {
    let NoticeVhosts { events, lines } = notice_vhosts(config);
    let events = config.has_event_exchange().then_some((events, EVENT_EXCHANGE));
    let lines = config.log.exchange.is_on().then_some((lines, LOG_EXCHANGE));
    events.into_iter().chain(lines).collect()
}

/// The stamps that messages get as they come in: the time of receipt and the node that routed them.
fn stamps(config: &Config) -> Option<Stamps> {
    let configured = config.interceptors;
    let if_present = |overwrite| if overwrite { IfPresent::Overwrite } else { IfPresent::Keep };
    let stamps = Stamps {
        received_time: configured.received_time.map(if_present),
        routed_by: configured.routing_node.map(|overwrite| (if_present(overwrite), node_name(config))),
    };
    (stamps != Stamps::default()).then_some(stamps)
}

fn scoped(quota: leveret_config::Quota) -> Scoped {
    Scoped { node: quota.node, vhost: quota.vhost, user: quota.user }
}

/// The name of this node: as configured, or `leveret`; at the configured host name, or this host's.
#[must_use]
pub fn node_name(config: &Config) -> String {
    let name = config.node_name.as_deref().unwrap_or("leveret");
    if name.contains('@') {
        return name.to_owned();
    }
    let system = rustix::system::uname();
    format!("{name}@{}", system.nodename().to_string_lossy())
}

fn first_user(configured: &DefaultUser) -> FirstUser {
    let configured = configured.clone();
    FirstUser {
        name: configured.name,
        password: configured.password,
        tags: configured.tags,
        vhost: configured.vhost,
        configure: configured.configure,
        write: configured.write,
        read: configured.read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        let mut config = Config::default();
        config.read("test", text).expect("is accepted");
        config
    }

    #[test]
    fn a_listener_binds_its_address_or_all_if_it_has_none() {
        let all = amqp_addresses(&Config::default()).expect("resolves");
        assert_eq!(all, ["[::]:5672".parse().expect("an address")]);
        let two = config("listeners.tcp.1 = 127.0.0.1:0\nlisteners.tcp.2 = 127.0.0.2:5673\n");
        let expected = ["127.0.0.1:0", "127.0.0.2:5673"].map(|text| text.parse::<SocketAddr>().expect("an address"));
        assert_eq!(amqp_addresses(&two).expect("resolves"), expected);
    }

    #[test]
    fn a_host_that_is_unknown_is_named() {
        let endpoint = Endpoint { ip: Some("no such host".to_owned()), ..Config::default().management };
        let error = http_address(&endpoint).expect_err("unknown").to_string();
        assert!(error.starts_with("cannot listen on host no such host: "), "{error}");
    }

    #[test]
    fn settings_reach_broker_and_node() {
        let config = config(
            "heartbeat = 7\nframe_max = 4096\nchannel_max = 0\nmax_message_size = 1000\ncores = 3\n\
             debug.sync_delay_ms = 0.5\ndebug.wal_file_bytes = 1MiB\nstorage.reserve = 3MiB\ncluster_name = here\ndefault_user = me\ndefault_vhost = mine\n",
        );
        let options = NodeOptions::new(&config, Vec::new(), Arc::new(|_| ()));
        assert_eq!((options.broker.heartbeat_s, options.broker.frame_max), (7, 4096));
        assert_eq!((options.broker.channel_max, options.broker.max_message_size), (u16::MAX, 1000));
        assert_eq!((options.cores, options.sync_delay), (Some(3), Duration::from_micros(500)));
        assert_eq!(options.broker.cluster_name, "here");
        let first_user = options.first_user.expect("one is made");
        assert_eq!((&*first_user.name, &*first_user.vhost), ("me", "mine"));
        assert_eq!((options.log.file_bytes, options.log.mixed_below), (1 << 20, 4 << 10));
        assert_eq!(options.log.disk_reserve(), 3 << 20);
        assert_eq!(options.broker.product, "RabbitMQ");
    }

    #[test]
    fn relative_limits_are_shares_of_memory() {
        let limits = |text: &str| alarm_limits(&config(text));
        assert_eq!(limits("disk_free_limit.absolute = 1000\n").disk_free_bytes, 1000);
        let total = limits("disk_free_limit.relative = 1.0\n").disk_free_bytes;
        assert!(total > 1 << 20);
        assert_eq!(limits("disk_free_limit.relative = 2.0\n").disk_free_bytes, 2 * total);
        assert_eq!(limits("").memory_bytes, Some((0.6 * total as f64) as u64));
        assert_eq!(limits("vm_memory_high_watermark.absolute = 1GB\n").memory_bytes, Some(1_000_000_000));
        let given = "total_memory_available_override_value = 1000\n";
        assert_eq!(limits(given).memory_bytes, Some(600));
        assert_eq!(limits(&format!("{given}vm_memory_high_watermark.relative = 0.25\n")).memory_bytes, Some(250));
    }

    #[test]
    fn one_key_switches_the_borrowed_identity_off() {
        let settings = settings(&config("identity.rabbitmq_compatible = false\n"));
        assert_eq!((&*settings.product, &*settings.version), ("Leveret", env!("CARGO_PKG_VERSION")));
        let mut config = Config::default();
        assert!(node_name(&config).starts_with("leveret@"));
        config.node_name = Some("rabbit".to_owned());
        assert!(node_name(&config).starts_with("rabbit@"));
        config.node_name = Some("rabbit@far".to_owned());
        assert_eq!(node_name(&config), "rabbit@far");
    }
}
