use super::{KeyState, Other};

const fn obsolete(name: &'static str, why: &'static str) -> Other {
    Other { name, state: KeyState::Obsolete, why }
}

const fn not_yet(name: &'static str, why: &'static str) -> Other {
    Other { name, state: KeyState::NotYet, why }
}

const fn refused(name: &'static str, why: &'static str) -> Other {
    Other { name, state: KeyState::Refused, why }
}

const ERLANG: &str = "it tunes the Erlang runtime";
const REMOVED: &str = "RabbitMQ removed it";
const CLUSTER: &str = "there is no clustering yet";
const QUORUM: &str = "there are no quorum queues yet";
const TUNING: &str = "it tunes how RabbitMQ stores or sends";
const TLS: &str = "there is no TLS yet, and a listener without it would be open where encryption was asked for";
const AUTH: &str =
    "only the internal backend with PLAIN, AMQPLAIN and ANONYMOUS exists, and others would decide who may log in";
const LIMIT: &str = "the limit would not be enforced";
const PROTOCOL: &str = "the protocol isn't spoken yet";
const CLIENT: &str = "there is no outgoing connection yet";
const LOGS: &str = "the log goes to standard output";
const HTTP: &str = "the HTTP server has fixed settings";

/// Every key, or family of keys, that takes no effect.
pub(super) const KEYS: &[Other] = &[
    // Before their families, so that these win.
    refused("management.ssl.**", TLS),
    refused("management.listener.ssl", TLS),
    refused("management.listener.ssl_opts.**", TLS),
    refused("management.oauth_enabled", AUTH),
    refused("prometheus.ssl.**", TLS),
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
    obsolete("ranch_connection_max", ERLANG),
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
    not_yet("deprecated_features.**", "every feature has one state"),
    not_yet("event_exchange.**", "there is no event exchange"),
    not_yet("exchange_types.**", "the types are fixed"),
    not_yet("federation.**", CLIENT),
    not_yet("http_dispatch.access_log_dir", LOGS),
    not_yet("initial_frame_max", "frames before login have a fixed limit"),
    not_yet("log.**", LOGS),
    not_yet("management.**", HTTP),
    not_yet("management_agent.**", HTTP),
    not_yet("motd_file", "the banner is fixed"),
    not_yet("node_tags.**", CLUSTER),
    not_yet("product.**", "see identity.rabbitmq_compatible"),
    not_yet("prometheus.**", HTTP),
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
    refused("auth_backends.**", AUTH),
    refused("auth_cache.**", AUTH),
    refused("auth_http.**", AUTH),
    refused("auth_ldap.**", AUTH),
    refused("auth_oauth2.**", AUTH),
    refused("channel_tx_message_max", LIMIT),
    refused("credential_validator.**", LIMIT),
    refused("default_limits.**", LIMIT),
    refused("default_policies.**", "there are no policies yet"),
    refused("default_queue_type", "there are classic queues only"),
    obsolete("definitions.hashing.algorithm", "definitions are told apart by SHA-256"),
    refused("definitions.**", "definitions are loaded from local files only"),
    refused("http_dispatch.auth_backends.**", AUTH),
    refused("listeners.ssl", TLS),
    refused("listeners.ssl.**", TLS),
    refused("message_interceptors.**", "messages would pass unchanged"),
    refused("mqtt.**", PROTOCOL),
    refused("password_hashing_module", "passwords are hashed with SHA-256"),
    refused("prevent_startup_if_node_was_reset", "the check would not be made"),
    refused("proxy_protocol", "the header of a proxy would be taken for a client's"),
    refused("ssl_cert_login_from", AUTH),
    refused("ssl_cert_login_san_index", AUTH),
    refused("ssl_cert_login_san_type", AUTH),
    refused("ssl_handshake_timeout", TLS),
    refused("ssl_options.**", TLS),
    refused("stomp.**", PROTOCOL),
    refused("trust_store.**", TLS),
    refused("web_mqtt.**", PROTOCOL),
    refused("web_stomp.**", PROTOCOL),
];
