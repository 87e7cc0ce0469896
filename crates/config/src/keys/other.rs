use super::{KeyState, Other};

const fn obsolete(name: &'static str, why: &'static str) -> Other {
    Other { name, state: KeyState::Obsolete, why, taken: &[] }
}

const fn not_yet(name: &'static str, why: &'static str) -> Other {
    Other { name, state: KeyState::NotYet, why, taken: &[] }
}

const fn refused(name: &'static str, why: &'static str) -> Other {
    Other { name, state: KeyState::Refused, why, taken: &[] }
}

/// Refused, but for values that say what happens anyway.
const fn refused_but(name: &'static str, taken: &'static [&'static str], why: &'static str) -> Other {
    Other { name, state: KeyState::Refused, why, taken }
}

/// The one backend that decides who may log in and do what, by both of its names.
const INTERNAL: &[&str] = &["internal", "rabbit_auth_backend_internal"];
const OFF: &[&str] = &["false"];
const ERLANG: &str = "it tunes the Erlang runtime";
const REMOVED: &str = "RabbitMQ removed it";
const CLUSTER: &str = "there is no clustering yet";
const QUORUM: &str = "there are no quorum queues yet";
const TUNING: &str = "it tunes how RabbitMQ stores or sends";
const TLS: &str = "the handshake has fixed settings";
const WEAKER: &str = "what it would forbid would be let in";
const CRL: &str = "lists of revoked certificates aren't read, so that their clients would be let in; have roots issue for a short time";
const KEY: &str = "only a PEM file is read; name it in keyfile";
const LEGACY: &str = "it isn't offered: TLS 1.3 and 1.2 with ephemeral elliptic curves are";
const AUTH: &str = "only the internal backend with PLAIN, AMQPLAIN, ANONYMOUS and EXTERNAL exists, and others would decide who may log in";
const LIMIT: &str = "the limit would not be enforced";
const PROTOCOL: &str = "the protocol isn't spoken yet";
const CLIENT: &str = "there is no outgoing connection yet";
const LOGS: &str = "no log goes there; there are log.file, log.console, log.syslog and log.journald";
const SHUTDOWN: &str = "a stop doesn't wait for answers of HTTP";
const BACKLOG: &str = "as many as the system allows may wait to be accepted";
const HTTP: &str = "the HTTP server has fixed settings";

/// Every key, or family of keys, that takes no effect.
pub(super) const KEYS: &[Other] = &[
    // Before their families, so that these win.
    refused("management.ssl.cert", KEY),
    refused("management.ssl.cert.**", KEY),
    refused("management.ssl.key", KEY),
    refused("management.ssl.key.**", KEY),
    refused_but("management.ssl.crl_check", OFF, CRL),
    refused("management.ssl.crl_sources.**", CRL),
    refused("management.ssl.cacerts.**", KEY),
    obsolete("management.ssl.client_renegotiation", LEGACY),
    obsolete("management.ssl.secure_renegotiate", LEGACY),
    obsolete("management.ssl.dh", LEGACY),
    obsolete("management.ssl.dhfile", LEGACY),
    obsolete("management.ssl.psk_identity", LEGACY),
    obsolete("management.ssl.honor_ecc_order", TLS),
    obsolete("management.ssl.reuse_session", TLS),
    obsolete("management.ssl.reuse_sessions", TLS),
    obsolete("management.ssl.log_alert", TLS),
    obsolete("management.ssl.log_level", TLS),
    obsolete("management.ssl.handshake_timeout", TLS),
    obsolete("management.ssl.hibernate_after", ERLANG),
    obsolete("management.ssl.bypass_pem_cache", TLS),
    not_yet("management.ssl.**", HTTP),
    not_yet("management.ssl.compress", "answers aren't compressed"),
    not_yet("management.tcp.compress", "answers aren't compressed"),
    not_yet("management.listener.server.compress", "answers aren't compressed"),
    not_yet("prometheus.tcp.compress", "answers aren't compressed"),
    not_yet("prometheus.ssl.compress", "answers aren't compressed"),
    obsolete("management.tcp.shutdown_timeout", SHUTDOWN),
    obsolete("management.ssl.shutdown_timeout", SHUTDOWN),
    obsolete("management.listener.server.shutdown_timeout", SHUTDOWN),
    obsolete("prometheus.tcp.shutdown_timeout", SHUTDOWN),
    obsolete("prometheus.ssl.shutdown_timeout", SHUTDOWN),
    obsolete("management.ssl.backlog", BACKLOG),
    obsolete("prometheus.ssl.backlog", BACKLOG),
    obsolete("management.login_session_timeout", "there are no sessions: every request has its password"),
    obsolete("management.credential_encryption_secret", "there are no sessions: every request has its password"),
    obsolete(
        "management.disable_stats",
        "counts are exact and cost nothing to collect; who may see them is up to tags of users",
    ),
    obsolete("management.enable_queue_totals", "they are always shown"),
    obsolete("management.rates_mode", "rates cost nothing that could be saved"),
    obsolete("management.db_cache_multiplier", "nothing is cached"),
    obsolete("management.delegate_count", ERLANG),
    obsolete("management_agent.disable_metrics_collector", "counts are exact and cost nothing to collect"),
    not_yet("management.cors.**", "pages of other origins can't read answers"),
    not_yet("management.http_log_dir", LOGS),
    refused_but("management.listener.ssl", OFF, "name the listener with management.ssl.port"),
    refused("management.listener.ssl_opts.**", "these options are called management.ssl.* by now"),
    refused_but("management.oauth_enabled", OFF, AUTH),
    refused("log.syslog.ssl_options.password", KEY),
    refused("log.syslog.ssl_options.cert", KEY),
    refused("log.syslog.ssl_options.key.**", KEY),
    refused_but("log.syslog.ssl_options.crl_check", OFF, CRL),
    obsolete("log.syslog.ssl_options.**", TLS),
    refused("prometheus.ssl.cert", KEY),
    refused("prometheus.ssl.cert.**", KEY),
    refused("prometheus.ssl.key", KEY),
    refused("prometheus.ssl.key.**", KEY),
    refused_but("prometheus.ssl.crl_check", OFF, CRL),
    refused("prometheus.ssl.crl_sources.**", CRL),
    refused("prometheus.ssl.cacerts.**", KEY),
    obsolete("prometheus.ssl.client_renegotiation", LEGACY),
    obsolete("prometheus.ssl.secure_renegotiate", LEGACY),
    obsolete("prometheus.ssl.dh", LEGACY),
    obsolete("prometheus.ssl.dhfile", LEGACY),
    obsolete("prometheus.ssl.psk_identity", LEGACY),
    obsolete("prometheus.ssl.honor_ecc_order", TLS),
    obsolete("prometheus.ssl.reuse_session", TLS),
    obsolete("prometheus.ssl.reuse_sessions", TLS),
    obsolete("prometheus.ssl.log_alert", TLS),
    obsolete("prometheus.ssl.log_level", TLS),
    obsolete("prometheus.ssl.handshake_timeout", TLS),
    obsolete("prometheus.ssl.hibernate_after", ERLANG),
    obsolete("prometheus.ssl.bypass_pem_cache", TLS),
    not_yet("prometheus.ssl.**", HTTP),
    obsolete("amqp1_0.**", "AMQP 1.0 is always on, and messages are converted by fixed rules"),
    obsolete("background_gc_enabled", ERLANG),
    obsolete("background_gc_target_interval", ERLANG),
    obsolete("classic_queue.default_version", "there is one storage format"),
    obsolete("cluster_keepalive_interval", CLUSTER),
    obsolete("cluster_partition_handling", CLUSTER),
    obsolete("cluster_partition_handling.**", CLUSTER),
    obsolete("collect_statistics", "counts are exact and cost nothing to collect"),
    obsolete("collect_statistics_interval", "counts are exact and cost nothing to collect"),
    obsolete("credentials_obfuscation.**", ERLANG),
    obsolete("default_worker_pool_size", ERLANG),
    obsolete("delegate_count", ERLANG),
    obsolete("distribution.**", ERLANG),
    obsolete("erlang.**", ERLANG),
    obsolete("hipe_compile", REMOVED),
    obsolete("listeners.startup_delay", "listeners open when the node is ready"),
    obsolete("log.console.color_esc_seqs.**", "the colours are fixed"),
    obsolete("log.summarize_process_state", ERLANG),
    obsolete("log.error_logger_format_depth", ERLANG),
    obsolete("memory_monitor_interval", "memory is measured five times a second"),
    obsolete("message_store_shutdown_timeout", "a stop waits for the last sync"),
    obsolete("metadata_store.**", "there is one metadata store"),
    obsolete("mirroring_sync_batch_size", REMOVED),
    obsolete("mirroring_sync_max_throughput", REMOVED),
    obsolete("mnesia_table_loading_retry_limit", REMOVED),
    obsolete("mnesia_table_loading_retry_timeout", REMOVED),
    obsolete("net_ticktime", CLUSTER),
    obsolete("num_acceptors.**", "every core accepts"),
    obsolete("queue_index_embed_msgs_below", TUNING),
    obsolete("queue_leader_locator", CLUSTER),
    obsolete("queue_master_locator", CLUSTER),
    obsolete("socket_writer.gc_threshold", ERLANG),
    obsolete("ssl_allow_poodle_attack", REMOVED),
    obsolete("sysmon_handler.**", ERLANG),
    obsolete("tcp_listen_options.buffer", "buffers follow what is read"),
    obsolete("tcp_listen_options.exit_on_close", ERLANG),
    obsolete("tcp_listen_options.linger.**", "closing a socket sends what it has"),
    obsolete("vhost_restart_strategy", ERLANG),
    obsolete("vm_memory_calculation_strategy", "memory is what the system says"),
    obsolete("vm_memory_high_watermark_paging_ratio", REMOVED),
    not_yet("channel_interceptor.**", "there are no interceptors"),
    not_yet("cluster_formation.**", CLUSTER),
    not_yet("cluster_tags.**", CLUSTER),
    not_yet("consumer_disconnected_timeout", QUORUM),
    not_yet("consumer_timeout", QUORUM),
    refused_but(
        "deprecated_features.permit.transient_nonexcl_queues",
        &["true"],
        "queues that are neither durable nor exclusive would go on being declared",
    ),
    not_yet("deprecated_features.**", "every feature has one state"),
    not_yet("event_exchange.**", "there is no event exchange"),
    not_yet("exchange_types.**", "the types are fixed"),
    not_yet("federation.**", CLIENT),
    not_yet("http_dispatch.access_log_dir", LOGS),
    not_yet("log.exchange", LOGS),
    not_yet("log.exchange.**", LOGS),
    not_yet("management.**", HTTP),
    not_yet("management_agent.**", HTTP),
    not_yet("motd_file", "the banner is fixed"),
    not_yet("node_tags.**", CLUSTER),
    not_yet("product.**", "see identity.rabbitmq_compatible"),
    not_yet("prometheus.**", HTTP),
    refused_but("queue_types.classic.enabled", &["true"], "classic queues would go on being declared"),
    not_yet("queue_types.**", "the types are fixed"),
    not_yet("quorum_queue.**", QUORUM),
    not_yet("raft.**", QUORUM),
    not_yet("reverse_dns_lookups", "peers are named by address"),
    not_yet("runtime_parameters.**", "there are no parameters yet"),
    not_yet("shovel.**", CLIENT),
    not_yet("stream.**", PROTOCOL),
    not_yet("tracing.**", "there is no tracing yet"),
    not_yet("amqp_client.**", CLIENT),
    not_yet("amqp10_client.**", CLIENT),
    not_yet("aws.**", CLIENT),
    refused_but("auth_backends.**", INTERNAL, AUTH),
    refused("auth_cache.**", AUTH),
    refused("auth_http.**", AUTH),
    refused("auth_ldap.**", AUTH),
    refused("auth_oauth2.**", AUTH),
    refused_but("channel_tx_message_max", &["infinity"], LIMIT),
    refused_but(
        "credential_validator.validation_backend",
        &["rabbit_credential_validator_accept_everything"],
        "passwords would not be looked at",
    ),
    refused("credential_validator.**", LIMIT),
    refused_but("ranch_connection_max", &["infinity"], "the limit would not be enforced; max_connections is"),
    refused("default_limits.**", LIMIT),
    refused("default_policies.**", "there are no policies yet"),
    refused_but("default_queue_type", &["classic", "rabbit_classic_queue"], "there are classic queues only"),
    obsolete("definitions.hashing.algorithm", "definitions are told apart by SHA-256"),
    obsolete("definitions.tls.**", "definitions are loaded from local files only, which needs no TLS"),
    refused("definitions.**", "definitions are loaded from local files only"),
    refused_but("http_dispatch.auth_backends.**", INTERNAL, AUTH),
    refused("message_interceptors.**", "messages would pass unchanged"),
    not_yet("mqtt.**", PROTOCOL),
    refused_but("password_hashing_module", &["rabbit_password_hashing_sha256"], "passwords are hashed with SHA-256"),
    refused_but("prevent_startup_if_node_was_reset", OFF, "the check would not be made"),
    refused("ssl_options.cert", KEY),
    refused("ssl_options.cert.**", KEY),
    refused("ssl_options.key", KEY),
    refused("ssl_options.key.**", KEY),
    refused("ssl_options.crl_sources.**", CRL),
    refused("ssl_options.cacerts.**", KEY),
    obsolete("ssl_options.client_renegotiation", LEGACY),
    obsolete("ssl_options.secure_renegotiate", LEGACY),
    obsolete("ssl_options.dh", LEGACY),
    obsolete("ssl_options.dhfile", LEGACY),
    obsolete("ssl_options.psk_identity", LEGACY),
    obsolete("ssl_options.honor_ecc_order", TLS),
    obsolete("ssl_options.reuse_session", TLS),
    obsolete("ssl_options.reuse_sessions", TLS),
    obsolete("ssl_options.log_alert", TLS),
    obsolete("ssl_options.log_level", TLS),
    obsolete("ssl_options.handshake_timeout", TLS),
    obsolete("ssl_options.hibernate_after", ERLANG),
    obsolete("ssl_options.bypass_pem_cache", TLS),
    not_yet("stomp.**", PROTOCOL),
    refused("trust_store.**", WEAKER),
    not_yet("web_mqtt.**", PROTOCOL),
    not_yet("web_stomp.**", PROTOCOL),
];
