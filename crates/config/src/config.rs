use std::collections::BTreeMap;

use crate::amqp10::Amqp10;
use crate::http::{HttpLimits, ManagementApi};
use crate::interceptors::Interceptors;
use crate::logging::Logging;
use crate::plugins::EnabledPlugins;
use crate::quotas::Quotas;
use crate::tls::{CertificateLogin, Tls, TlsEndpoint};
use crate::vhost_defaults::VhostDefaults;

/// Messages may not be allowed to be larger than this: a body is held in memory while it arrives.
pub const MAX_MESSAGE_SIZE_CAP: u64 = 512 << 20;

/// Everything that can be configured, with the defaults of the table of keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `listeners.tcp.*` by their last word; `None` where nothing was said, which means port 5672 everywhere.
    pub(crate) tcp_listeners: Option<BTreeMap<String, Listener>>,
    /// `listeners.ssl.*` by their last word.
    pub(crate) ssl_listeners: BTreeMap<String, Listener>,
    /// `ssl_options.*`.
    pub ssl_options: Tls,
    /// `ssl_handshake_timeout`.
    pub ssl_handshake_timeout_ms: u64,
    /// `ssl_cert_login_*`.
    pub certificate_login: CertificateLogin,
    /// `management.ssl.*`; `None` where nothing was said, which means no listener.
    pub management_ssl: Option<TlsEndpoint>,
    /// `prometheus.ssl.*`; as `management_ssl`.
    pub prometheus_ssl: Option<TlsEndpoint>,
    /// `tcp_listen_options.*`.
    pub tcp_options: TcpOptions,
    /// `proxy_protocol`: whether connections of AMQP begin with the header of a proxy.
    pub proxy_protocol: bool,
    /// `management.tcp.*`.
    pub management: Endpoint,
    /// Limits and restrictions of the management API, and headers of its answers.
    pub management_api: ManagementApi,
    /// `management.path_prefix`: what every path of the HTTP API begins with; empty, or a slash and more.
    pub management_path_prefix: String,
    /// `prometheus.tcp.*`.
    pub prometheus: Endpoint,
    /// `prometheus.tcp.listener` is `none`.
    pub(crate) prometheus_is_off: bool,
    /// What the metrics port serves.
    pub metrics: MetricsPages,
    /// `loopback_users`: those that may only log in from this machine.
    pub loopback_users: Vec<String>,
    /// Whom a node creates when it starts on an empty directory.
    pub default_user: DefaultUser,
    /// `default_limits.vhosts.*` and `default_users.*`: what every new vhost gets.
    pub vhost_defaults: VhostDefaults,
    /// `heartbeat` in seconds, as the server proposes it; 0 for none.
    pub heartbeat_s: u16,
    /// `frame_max` in bytes.
    pub frame_max: u32,
    /// `initial_frame_max` in bytes.
    pub initial_frame_max: u32,
    /// `max_channels_per_connection` or `channel_max`; 0 for no limit but the protocol's.
    pub channel_max: u16,
    /// `max_connections` or `connection_max`: connections at most; `None` for no limit.
    pub max_connections: Option<u32>,
    /// `handshake_timeout`: so long may a socket live without having logged in.
    pub handshake_timeout_ms: u64,
    /// Limits on what clients do.
    pub limits: Limits,
    /// Limits on how much there may be of what clients open and declare.
    pub quotas: Quotas,
    /// `default_queue_durability`.
    pub queue_durability: Durability,
    /// AMQP 1.0, and how to log in.
    pub amqp10: Amqp10,
    /// `message_interceptors.*`.
    pub interceptors: Interceptors,
    /// `disk_free_limit.*`.
    pub disk_free_limit: DiskFreeLimit,
    /// `vm_memory_high_watermark.*`.
    pub memory_high_watermark: MemoryWatermark,
    /// `log.*`.
    pub log: Logging,
    /// `RABBITMQ_NODENAME`, perhaps without the host; `None` for one made of the host name.
    pub node_name: Option<String>,
    /// `cluster_name`; `None` for one made of the host name.
    pub cluster_name: Option<String>,
    /// The keys that were set, with what they were set to.
    pub(crate) assigned: Assigned,
    /// What the file enabled_plugins says.
    pub plugins: EnabledPlugins,
    /// A file or folder with definitions to load at every start (`load_definitions`).
    pub load_definitions: Option<String>,
    /// Whether definitions that were loaded before are loaded again (`definitions.skip_if_unchanged`).
    pub definitions_skip_if_unchanged: bool,
    /// `strict_compat`: does what RabbitMQ 4.3 does where we differ for our users' sake.
    pub strict_compat: bool,
    /// `identity.rabbitmq_compatible`: whether `product` in server-properties is RabbitMQ.
    pub rabbitmq_compatible_identity: bool,
    /// `total_memory_available_override_value` in bytes; `None` for what the system says.
    pub total_memory_bytes: Option<u64>,
    /// `debug.alarms_file`: a file whose words name alarms that are raised. For tests.
    pub alarms_file: Option<String>,
    /// `debug.sync_delay_ms`: so much longer does every sync take. For tests.
    pub sync_delay_ms: f64,
    /// `storage.reserve`: bytes kept on the disk for when it is full; `None` for two and a half files of the log.
    pub storage_reserve: Option<u64>,
    /// `debug.wal_file_bytes`: length of a file of the write-ahead log; `None` for what suits the volume. For tests.
    pub wal_file_bytes: Option<u64>,
    /// `cores`: how many threads serve connections; `None` for one per core that we may use.
    pub cores: Option<u16>,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// An address of this machine; `None` for all of them.
    pub host: Option<String>,
    /// A port; 0 for any free one.
    pub port: u16,
}

/// What the metrics port serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsPages {
    /// `prometheus.path`: where its pages are.
    pub path: String,
    /// `prometheus.return_per_object_metrics`.
    pub per_object: bool,
    /// `prometheus.authentication.enabled`.
    pub authentication: bool,
}

impl Default for MetricsPages {
    fn default() -> Self {
        Self { path: "/metrics".to_owned(), per_object: false, authentication: false }
    }
}

/// Where an HTTP server listens, and what it bears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// An address of this machine; `None` for all of them.
    pub ip: Option<String>,
    /// A port; 0 for any free one.
    pub port: u16,
    /// Times and numbers of its connections.
    pub limits: HttpLimits,
}

impl Endpoint {
    /// At all addresses of this machine.
    pub(crate) fn on(port: u16) -> Self {
        Self { ip: None, port, limits: HttpLimits::default() }
    }
}

/// See [`Config::tcp_options`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// How many connections may wait to be accepted.
    pub backlog: u32,
    /// Whether small segments are sent at once.
    pub nodelay: bool,
    /// Bytes of the socket's send buffer; `None` for the system's choice.
    pub sndbuf: Option<u32>,
    /// Bytes of the socket's receive buffer; `None` for the system's choice.
    pub recbuf: Option<u32>,
    /// Whether the system probes idle connections.
    pub keepalive: bool,
}

/// See [`Config::default_user`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultUser {
    /// `default_user`.
    pub name: String,
    /// `default_pass`.
    pub password: String,
    /// `default_vhost`.
    pub vhost: String,
    /// `default_permissions.configure`.
    pub configure: String,
    /// `default_permissions.write`.
    pub write: String,
    /// `default_permissions.read`.
    pub read: String,
    /// `default_user_tags.*`.
    pub tags: Vec<String>,
}

/// See [`Config::limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `max_message_size` in bytes.
    pub max_message_size: u64,
    /// `partial_message_bytes_max_per_connection`.
    pub partial_message_bytes_max: u64,
    /// `unauthenticated_bytes_max_per_node`.
    pub unauthenticated_bytes_max: u64,
    /// `default_consumer_prefetch`; 0 for none.
    pub default_consumer_prefetch: u16,
}

/// See [`Config::disk_free_limit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DiskFreeLimit {
    /// Bytes.
    Absolute(u64),
    /// A multiple of the memory of the machine.
    Relative(f64),
}

/// See [`Config::memory_high_watermark`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryWatermark {
    /// Bytes.
    Absolute(u64),
    /// A share of the memory that we may use.
    Relative(f64),
}

/// What a confirm means in durable queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Flushed to disk.
    Synced,
    /// Written into the operating system.
    Os,
    /// In memory.
    Memory,
}

/// What was said, whether or not it is the default: it makes no two configurations differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assigned(pub(crate) BTreeMap<String, String>);

impl Assigned {
    fn is_any(&self, prefix: &str) -> bool {
        self.0.keys().any(|key| key.starts_with(prefix))
    }
}

impl PartialEq for Assigned {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            tcp_listeners: None,
            ssl_listeners: BTreeMap::new(),
            ssl_options: Tls::default(),
            ssl_handshake_timeout_ms: 5_000,
            certificate_login: CertificateLogin::default(),
            management_ssl: None,
            prometheus_ssl: None,
            proxy_protocol: false,
            tcp_options: TcpOptions { backlog: 128, nodelay: true, sndbuf: None, recbuf: None, keepalive: false },
            management: Endpoint::on(15672),
            prometheus: Endpoint::on(15692),
            prometheus_is_off: false,
            metrics: MetricsPages::default(),
            loopback_users: vec!["guest".to_owned()],
            default_user: DefaultUser {
                name: "guest".to_owned(),
                password: "guest".to_owned(),
                vhost: "/".to_owned(),
                configure: ".*".to_owned(),
                write: ".*".to_owned(),
                read: ".*".to_owned(),
                tags: vec!["administrator".to_owned()],
            },
            vhost_defaults: VhostDefaults::default(),
            heartbeat_s: 60,
            frame_max: 131_072,
            initial_frame_max: 8192,
            channel_max: 2047,
            max_connections: Some(200_000),
            handshake_timeout_ms: 10_000,
            quotas: Quotas::default(),
            queue_durability: Durability::Synced,
            amqp10: Amqp10::default(),
            interceptors: Interceptors::default(),
            limits: Limits {
                max_message_size: 16 << 20,
                partial_message_bytes_max: 64 << 20,
                unauthenticated_bytes_max: 64 << 20,
                default_consumer_prefetch: 0,
            },
            disk_free_limit: DiskFreeLimit::Absolute(50_000_000),
            memory_high_watermark: MemoryWatermark::Relative(0.6),
            log: Logging::default(),
            node_name: None,
            cluster_name: None,
            assigned: Assigned::default(),
            plugins: EnabledPlugins::default(),
            management_api: ManagementApi::default(),
            management_path_prefix: String::new(),
            load_definitions: None,
            definitions_skip_if_unchanged: false,
            strict_compat: false,
            rabbitmq_compatible_identity: true,
            total_memory_bytes: None,
            alarms_file: None,
            sync_delay_ms: 0.0,
            storage_reserve: None,
            wal_file_bytes: None,
            cores: None,
        }
    }
}

impl Config {
    /// Where to listen for AMQP without TLS.
    pub fn tcp_listeners(&self) -> Vec<Listener> {
        const AMQP: u16 = 5672;
        match &self.tcp_listeners {
            None => vec![Listener { host: None, port: AMQP }],
            Some(listeners) => listeners.values().cloned().collect(),
        }
    }

    /// Where to listen for AMQP with TLS.
    pub fn ssl_listeners(&self) -> Vec<Listener> {
        self.ssl_listeners.values().cloned().collect()
    }

    /// Where the HTTP API listens without TLS: nowhere, as in RabbitMQ, if only a listener with TLS was configured.
    pub fn plain_management(&self) -> Option<&Endpoint> {
        let is_asked_for = self.assigned.is_any("management.tcp.") || self.assigned.is_any("management.listener.");
        (is_asked_for || self.management_ssl.is_none()).then_some(&self.management)
    }

    /// As [`Config::plain_management`], of the metrics.
    pub fn plain_prometheus(&self) -> Option<&Endpoint> {
        let is_asked_for = self.assigned.is_any("prometheus.tcp.") || self.prometheus_ssl.is_none();
        (is_asked_for && !self.prometheus_is_off).then_some(&self.prometheus)
    }
}
