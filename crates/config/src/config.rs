use std::collections::BTreeMap;

use crate::amqp10::Amqp10Settings;
use crate::backends::LoginBackends;
use crate::cluster::ClusterConfig;
use crate::credentials::CredentialValidator;
use crate::deprecated::DeprecatedSettings;
use crate::event_exchange::EventExchange;
use crate::http::ManagementApi;
use crate::interceptors::Interceptors;
use crate::listener::{Endpoint, Listener};
use crate::logging::Logging;
use crate::mqtt::MqttConfig;
use crate::plugins::EnabledPlugins;
use crate::quotas::Quotas;
use crate::stream::StreamConfig;
use crate::tls::{CertificateLogin, Tls, TlsEndpoint};
use crate::vhost_defaults::VhostDefaults;

/// Highest allowed limit of a message's size: a body is held in memory while it arrives.
pub const MAX_MESSAGE_SIZE_CAP: u64 = 512 << 20;

/// The configuration, whose defaults are those of the table of keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `listeners.tcp.*` by the last part of their key; `None` if unset, which means port 5672 at all addresses.
    pub(crate) tcp_listeners: Option<BTreeMap<String, Listener>>,
    /// `listeners.ssl.*` by the last part of their key.
    pub(crate) ssl_listeners: BTreeMap<String, Listener>,
    /// `ssl_options.*`.
    pub ssl_options: Tls,
    /// `ssl_handshake_timeout`.
    pub ssl_handshake_timeout_ms: u64,
    /// `ssl_cert_login_*`.
    pub certificate_login: CertificateLogin,
    /// `management.ssl.*`; `None` if unset, which means no listener.
    pub management_ssl: Option<TlsEndpoint>,
    /// `prometheus.ssl.*`; `None` if unset, which means no listener.
    pub prometheus_ssl: Option<TlsEndpoint>,
    /// `tcp_listen_options.*`.
    pub tcp_options: TcpOptions,
    /// The backends of logins.
    pub backends: LoginBackends,
    /// The keys `mqtt.*`.
    pub mqtt: MqttConfig,
    /// The keys `stream.*`.
    pub stream: StreamConfig,
    /// `proxy_protocol`: whether AMQP connections begin with the header of a proxy.
    pub proxy_protocol: bool,
    /// `management.tcp.*`.
    pub management: Endpoint,
    /// Limits and restrictions of the management API, and headers of its responses.
    pub management_api: ManagementApi,
    /// `management.path_prefix`: prefix of every path of the HTTP API; empty, or beginning with a slash.
    pub management_path_prefix: String,
    /// `prometheus.tcp.*`.
    pub prometheus: Endpoint,
    /// Whether `prometheus.tcp.listener` is `none`.
    pub(crate) prometheus_is_off: bool,
    /// The pages of the metrics port.
    pub metrics: MetricsPages,
    /// `loopback_users`: users that may only log in from this machine.
    pub loopback_users: Vec<String>,
    /// The user that a node creates when it starts on an empty directory.
    pub default_user: DefaultUser,
    /// `default_limits.vhosts.*` and `default_users.*`: defaults of new vhosts.
    pub vhost_defaults: VhostDefaults,
    /// `credential_validator.*`: the rule for new passwords.
    pub credential_validator: CredentialValidator,
    /// `exchange_types.local_random.enabled`.
    pub local_random_exchanges: bool,
    /// `heartbeat` in seconds, as proposed by the server; 0 for none.
    pub heartbeat_s: u16,
    /// `frame_max` in bytes.
    pub frame_max: u32,
    /// `initial_frame_max` in bytes.
    pub initial_frame_max: u32,
    /// `max_channels_per_connection` or `channel_max`; 0 for the protocol's limit only.
    pub channel_max: u16,
    /// `max_connections` or `connection_max`; `None` for no limit.
    pub max_connections: Option<u32>,
    /// `handshake_timeout`: longest time between the connection of a socket and its login.
    pub handshake_timeout_ms: u64,
    /// Limits on clients' messages and prefetch.
    pub limits: Limits,
    /// Limits on the numbers of objects that clients open and declare.
    pub quotas: Quotas,
    /// `consumer_timeout`: longest time that a consumer of a quorum queue may leave a delivery unsettled, in milliseconds.
    pub consumer_timeout_ms: u64,
    /// `consumer_disconnected_timeout`: time for which a replicated queue waits for its single active consumer while that one's node can't be
    /// reached, in milliseconds.
    pub consumer_disconnected_timeout_ms: u64,
    /// `default_queue_durability`.
    pub queue_durability: Durability,
    /// AMQP 1.0, and authentication.
    pub amqp10: Amqp10Settings,
    /// `deprecated_features.permit.*`, but for addresses of AMQP 1.0.
    pub deprecated: DeprecatedSettings,
    /// `message_interceptors.*`.
    pub interceptors: Interceptors,
    /// `event_exchange.*`.
    pub event_exchange: EventExchange,
    /// `tracing.dir`.
    pub trace_directory: Option<String>,
    /// `disk_free_limit.*`.
    pub disk_free_limit: DiskFreeLimit,
    /// `vm_memory_high_watermark.*`.
    pub memory_high_watermark: MemoryWatermark,
    /// `log.*`.
    pub log: Logging,
    /// `RABBITMQ_NODENAME`, possibly without the host; `None` for a name derived from the host name.
    pub node_name: Option<String>,
    /// The keys `cluster.*` and `cluster_formation.*`.
    pub cluster: ClusterConfig,
    /// `cluster_formation.target_cluster_size_hint`: the number of nodes that the operator wants.
    pub target_cluster_size: u32,
    /// `cluster_name`; `None` for a name derived from the host name.
    pub cluster_name: Option<String>,
    /// The keys that were set, with their values.
    pub(crate) assigned: Assigned,
    /// Content of the file enabled_plugins.
    pub plugins: EnabledPlugins,
    /// `load_definitions`: a file or folder with definitions to load at every start.
    pub load_definitions: Option<String>,
    /// `definitions.skip_if_unchanged`: whether definitions that were loaded before are skipped.
    pub definitions_skip_if_unchanged: bool,
    /// `definitions.skip_unsupported`: whether objects of definitions that can't be imported are left out.
    pub definitions_skip_unsupported: bool,
    /// `strict_compat`: whether to behave as RabbitMQ 4.3 where we would otherwise differ in our users' interest.
    pub strict_compat: bool,
    /// `quorum_queue.property_equivalence.relaxed_checks_on_redeclaration`: whether a quorum queue can be declared again as a
    /// classic one.
    pub relaxed_quorum_redeclaration: bool,
    /// `flow.standing_delay_target`: publishers are paced while messages stand for longer, in milliseconds; 0 if never.
    pub standing_delay_target_ms: u64,
    /// `identity.rabbitmq_compatible`: whether `product` in server-properties is RabbitMQ.
    pub rabbitmq_compatible_identity: bool,
    /// `total_memory_available_override_value` in bytes; `None` for the system's value.
    pub total_memory_bytes: Option<u64>,
    /// `debug.alarms_file`: a file with the names of alarms to raise. For tests.
    pub alarms_file: Option<String>,
    /// `debug.sync_delay_ms`: added to the duration of every sync. For tests.
    pub sync_delay_ms: f64,
    /// `debug.clock_ahead_ms`: by how much the machine's clock is taken to be ahead of what it says. For tests.
    pub clock_ahead_ms: u64,
    /// `debug.refused_login_delay_ms`: after this time refused logins are answered. For tests.
    pub refused_login_delay_ms: u64,
    /// `storage.reserve`: disk space reserved for a full disk, in bytes; `None` for two and a half files of the log.
    pub storage_reserve: Option<u64>,
    /// `debug.wal_file_bytes`: length of a file of the write-ahead log; `None` for one that suits the volume. For
    /// tests.
    pub wal_file_bytes: Option<u64>,
    /// `cores`: number of threads that serve connections; `None` for one per core available to us.
    pub cores: Option<u16>,
}

/// The pages of the metrics port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsPages {
    /// `prometheus.path`: path of its pages.
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

/// Settings in [`Config::tcp_options`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// Most connections waiting to be accepted.
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

/// Settings in [`Config::default_user`].
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

/// Settings in [`Config::limits`].
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

/// Settings in [`Config::disk_free_limit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DiskFreeLimit {
    /// Bytes.
    Absolute(u64),
    /// A multiple of the memory of the machine.
    Relative(f64),
}

/// Settings in [`Config::memory_high_watermark`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryWatermark {
    /// Bytes.
    Absolute(u64),
    /// A fraction of the memory available to us.
    Relative(f64),
}

/// The meaning of a confirm in durable queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The message is flushed to disk.
    Synced,
    /// The message is written to the operating system.
    Os,
    /// The message is in memory.
    Memory,
}

/// The values that were set, even if they equal the defaults. Ignored when two configurations are compared.
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
            backends: LoginBackends::default(),
            mqtt: MqttConfig::default(),
            stream: StreamConfig::default(),
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
            initial_frame_max: 73_728,
            channel_max: 2047,
            max_connections: Some(200_000),
            handshake_timeout_ms: 10_000,
            quotas: Quotas::default(),
            queue_durability: Durability::Synced,
            amqp10: Amqp10Settings::default(),
            deprecated: DeprecatedSettings::default(),
            interceptors: Interceptors::default(),
            event_exchange: EventExchange::default(),
            trace_directory: None,
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
            cluster: ClusterConfig::default(),
            target_cluster_size: 1,
            cluster_name: None,
            assigned: Assigned::default(),
            plugins: EnabledPlugins::default(),
            credential_validator: CredentialValidator::default(),
            local_random_exchanges: true,
            management_api: ManagementApi::default(),
            management_path_prefix: String::new(),
            load_definitions: None,
            definitions_skip_if_unchanged: false,
            definitions_skip_unsupported: false,
            strict_compat: false,
            relaxed_quorum_redeclaration: false,
            standing_delay_target_ms: 1,
            consumer_timeout_ms: 1_800_000,
            consumer_disconnected_timeout_ms: 60_000,
            rabbitmq_compatible_identity: true,
            total_memory_bytes: None,
            alarms_file: None,
            sync_delay_ms: 0.0,
            clock_ahead_ms: 0,
            refused_login_delay_ms: 3000,
            storage_reserve: None,
            wal_file_bytes: None,
            cores: None,
        }
    }
}

impl Config {
    /// The listeners for AMQP without TLS.
    pub fn tcp_listeners(&self) -> Vec<Listener> {
        const AMQP: u16 = 5672;
        match &self.tcp_listeners {
            None => vec![Listener { host: None, port: AMQP }],
            Some(listeners) => listeners.values().cloned().collect(),
        }
    }

    /// The listeners for AMQP with TLS.
    pub fn ssl_listeners(&self) -> Vec<Listener> {
        self.ssl_listeners.values().cloned().collect()
    }

    /// The listener of the HTTP API without TLS. As in RabbitMQ there is none if only a listener with TLS was
    /// configured.
    pub fn plain_management(&self) -> Option<&Endpoint> {
        let is_asked_for = self.assigned.is_any("management.tcp.") || self.assigned.is_any("management.listener.");
        (is_asked_for || self.management_ssl.is_none()).then_some(&self.management)
    }

    /// As [`Config::plain_management`], for the metrics.
    pub fn plain_prometheus(&self) -> Option<&Endpoint> {
        let is_asked_for = self.assigned.is_any("prometheus.tcp.") || self.prometheus_ssl.is_none();
        (is_asked_for && !self.prometheus_is_off).then_some(&self.prometheus)
    }

    /// Whether there is an exchange for events: the plugin is enabled, or a setting of the exchange was made.
    #[must_use]
    pub fn has_event_exchange(&self) -> bool {
        self.event_exchange != EventExchange::default() || self.plugins.is_running("rabbitmq_event_exchange")
    }
}
