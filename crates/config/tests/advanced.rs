//! advanced.config as RabbitMQ's users write it.

use leveret_config::{BackendKind, Config};

fn read(text: &str) -> (Config, Vec<String>) {
    let mut config = Config::default();
    let warnings = config.read_advanced("advanced.config", text).unwrap_or_else(|errors| panic!("{errors:?}"));
    (config, warnings.iter().map(ToString::to_string).collect())
}

fn mistakes(text: &str) -> Vec<String> {
    let errors = Config::default().read_advanced("advanced.config", text).expect_err("can't be taken");
    errors.iter().map(ToString::to_string).collect()
}

/// The configuration for the same keys in rabbitmq.conf.
fn set(lines: &[&str]) -> Config {
    let mut config = Config::default();
    config.read("rabbitmq.conf", &lines.join("\n")).unwrap_or_else(|errors| panic!("{errors:?}"));
    config
}

#[test]
fn the_terms_of_benchmarks_are_accepted() {
    let (config, warnings) = read(
        "%% tuned\n[{rabbit, [{max_link_credit, 2000},\n  {max_incoming_window, 1000}, {max_queue_credit, 200},\n  \
         {credit_flow_default_credit, {400, 200}}, {loopback_users, []}]},\n \
         {rabbitmq_management_agent, [{disable_metrics_collector, true}]}].\n",
    );
    let expected = set(&[
        "max_link_credit = 2000",
        "max_incoming_window = 1000",
        "max_queue_credit = 200",
        "loopback_users = none",
    ]);
    assert_eq!(config, expected);
    assert_eq!(
        warnings,
        [
            "advanced.config:4: 'credit_flow_default_credit' has no effect: what it tunes isn't built that way here",
            "advanced.config:5: 'rabbitmq_management_agent' has no effect: there is no such application here",
        ]
    );
}

#[test]
fn terms_of_other_forms_set_their_keys() {
    let (config, warnings) = read(
        r#"[
          {rabbit, [
            {tcp_listeners, [5673, {"127.0.0.1", 5674}, {"::1", 5675}]},
            {vm_memory_high_watermark, {absolute, "2GB"}},
            {disk_free_limit, {mem_relative, 1.5}},
            {default_user, <<"admin">>}, {default_pass, <<"se cret#">>},
            {default_permissions, [<<".*">>, <<"^w">>, <<"">>]},
            {loopback_users, [<<"admin">>]},
            {heartbeat, 30}, {channel_max, 100}, {connection_max, infinity},
            {auth_mechanisms, ['PLAIN', 'AMQPLAIN']},
            {default_consumer_prefetch, {false, 250}},
            {tcp_listen_options, [{nodelay, false}, {sndbuf, 32768}]}
          ]},
          {rabbitmq_management, [{tcp_config, [{port, 15673}, {ip, "127.0.0.1"}]}, {path_prefix, "/mq"}]},
          {rabbitmq_prometheus, [{tcp_config, [{port, 15693}]}]},
          {kernel, [{net_ticktime, 120}]}
        ]."#,
    );
    let expected = set(&[
        "listeners.tcp.1 = 5673",
        "listeners.tcp.2 = 127.0.0.1:5674",
        "listeners.tcp.3 = [::1]:5675",
        "vm_memory_high_watermark.absolute = 2GB",
        "disk_free_limit.relative = 1.5",
        "default_user = admin",
        "default_pass = 'se cret#'",
        "default_permissions.configure = .*",
        "default_permissions.write = ^w",
        "default_permissions.read = ''",
        "loopback_users = none",
        "loopback_users.admin = true",
        "heartbeat = 30",
        "channel_max = 100",
        "connection_max = infinity",
        "auth_mechanisms.1 = PLAIN",
        "auth_mechanisms.2 = AMQPLAIN",
        "default_consumer_prefetch = 250",
        "tcp_listen_options.nodelay = false",
        "tcp_listen_options.sndbuf = 32768",
        "management.tcp.port = 15673",
        "management.tcp.ip = 127.0.0.1",
        "management.path_prefix = /mq",
        "prometheus.tcp.port = 15693",
    ]);
    assert_eq!(config, expected);
    assert_eq!(warnings, ["advanced.config:16: 'kernel' has no effect: there is no such application here"]);
    assert_eq!(read(""), (Config::default(), Vec::new()));
    assert_eq!(read("[]."), (Config::default(), Vec::new()));
}

#[test]
fn terms_of_clusters_are_their_keys() {
    let (config, warnings) = read(
        "[{rabbit, [{cluster_nodes, {['rabbit@b', 'rabbit@a'], disc}}]},\n\
         {rabbit, [{cluster_formation, [{peer_discovery_backend, rabbit_peer_discovery_k8s},\n\
         {peer_discovery_k8s, [{k8s_host, \"kubernetes.default\"}, {ordinal_start, 1}]}, {discovery_retry_limit, 5},\n\
         {node_cleanup, [{cleanup_only_log_warning, true}, {cleanup_interval, 10}]}]}]},\n\
         {rabbitmq_peer_discovery_k8s, [{x, 1}]}].",
    );
    let expected = set(&[
        "cluster_formation.classic_config.nodes.1 = rabbit@b",
        "cluster_formation.classic_config.nodes.2 = rabbit@a",
        "cluster_formation.peer_discovery_backend = k8s",
        "cluster_formation.k8s.ordinal_start = 1",
        "cluster_formation.discovery_retry_limit = 5",
        "cluster_formation.node_cleanup.interval = 10",
    ]);
    assert_eq!(config, expected);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("'cluster_formation.k8s.host' has no effect: pods are found"), "{warnings:?}");
    assert_eq!(read("[{rabbit, [{cluster_nodes, ['rabbit@b']}]}].").0.cluster.classic_nodes(), ["rabbit@b"]);
}

#[test]
fn a_refused_term_is_named_with_its_line() {
    assert_eq!(
        mistakes("[{rabbit, [{heartbeet, 5},\n{heartbeat, soon}]},\n{rabbitmq_shove, [{shovels, []}]}, oops]."),
        [
            "advanced.config:1: unknown key 'heartbeet'; did you mean 'heartbeat'?",
            "advanced.config:2: heartbeat: expected a time such as 10s, 500ms or a bare number, got 'soon'",
            "advanced.config:3: unknown application 'rabbitmq_shove'; did you mean 'rabbitmq_shovel'?",
            "advanced.config:3: expected {application, [...]}",
        ]
    );
    assert_eq!(mistakes("{rabbit, []}."), ["advanced.config:1: expected a list of applications"]);
    assert_eq!(
        mistakes("[{rabbit, []}]\n"),
        ["advanced.config:2: expected '.' after the list, found the end of the line or file"]
    );
    assert_eq!(
        mistakes("[{rabbit, [{log, {a, b, c}}]}]."),
        ["advanced.config:1: 'log' can't be taken from here as it stands; rabbitmq.conf may have a key for it"]
    );
}

#[test]
fn a_term_is_a_warning_where_its_key_is_one() {
    let text = "[{rabbitmq_shovel, [{shovels, []}]},\n{rabbitmq_auth_backend_ldap, []},\n\
                {rabbitmq_stomp, [{implicit_connect, true}]},\n\
                {rabbitmq_management, [{sample_retention_policies, [{global, [{60, 5}, {3600, 60}]}, {basic, []}]}]},\n\
                {rabbit, [{tcp_listen_options, [{backlog, 7}, {linger, {true, 0}}, {exit_on_close, false}]},\n\
                {log_levels, [{connection, info}]}]}].";
    let (config, warnings) = read(text);
    assert_eq!(config, set(&["tcp_listen_options.backlog = 7"]));
    let told = [
        (1, "'shovel.shovels' is not built yet"),
        (3, "'stomp.implicit_connect' is not built yet"),
        (4, "'management.sample_retention_policies.global' is not built yet"),
        (5, "'tcp_listen_options.linger' has no effect"),
        (5, "'tcp_listen_options.exit_on_close' has no effect"),
        (6, "'log_levels' has no effect"),
    ];
    assert_eq!(warnings.len(), told.len(), "{warnings:?}");
    for ((line, part), warning) in told.iter().zip(&warnings) {
        assert!(warning.starts_with(&format!("advanced.config:{line}: {part}")), "{part} in {warning}");
    }
}

#[test]
fn a_term_is_refused_where_its_key_is_refused() {
    for (text, part) in [
        ("[{rabbitmq_auth_backend_ldap, [{servers, [\"ldap\"]}]}].", "'auth_ldap.servers' is not built yet"),
        (
            "[{rabbit, [{auth_backends, [rabbit_auth_backend_ldap]}]}].",
            "the backend 'rabbit_auth_backend_ldap' isn't built yet",
        ),
        (
            "[{rabbit, [{default_pass, {encrypted, <<\"x\">>}}]}].",
            "default_pass: values that are encrypted aren't read",
        ),
        ("[{rabbit, [{default_pass, <<\"encrypted:x\">>}]}].", "default_pass: values that are encrypted"),
        ("[{rabbitmq_trust_store, [{directory, \"/x\"}]}].", "'trust_store.directory' is not built yet"),
    ] {
        let mistakes = mistakes(text);
        assert!(mistakes[0].contains(part), "{text}: {mistakes:?}");
    }
    let (_, warnings) = read("[{rabbit, [{auth_backends, [rabbit_auth_backend_internal]}]}].");
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn terms_of_backends_are_their_keys() {
    let (config, warnings) = read(
        "[{rabbit, [{auth_backends, [{rabbit_auth_backend_oauth2, [rabbit_auth_backend_internal, rabbit_auth_backend_http]},\n\
                                     rabbit_auth_backend_cache]}]},\n\
          {rabbitmq_auth_backend_http, [{http_method, post}, {user_path, \"https://a/user\"},\n\
                                        {ssl_options, [{verify, verify_none}]}]},\n\
          {rabbitmq_auth_backend_cache, [{cached_backend, {rabbit_auth_backend_http, rabbit_auth_backend_internal}}]},\n\
          {rabbitmq_auth_backend_oauth2, [{resource_server_id, <<\"r\">>}, {extra_scopes_source, <<\"roles\">>},\n\
                                          {key_config, [{jwks_url, <<\"https://a/keys\">>}, {cacertfile, \"/roots\"}]}]}].",
    );
    assert_eq!(warnings, [""; 0]);
    let backends = config.backends;
    assert_eq!(backends.chain[&1].login(), BackendKind::OAuth2);
    assert_eq!(backends.chain[&1].grants(), [BackendKind::Internal, BackendKind::Http]);
    assert_eq!(backends.chain[&2].login(), BackendKind::Cache);
    assert!(backends.http.posts && backends.http.tls.trusts_any);
    assert_eq!(backends.cache.cached.grants(), [BackendKind::Internal]);
    let oauth2 = &backends.oauth2;
    assert_eq!(oauth2.server.additional_scopes_key.as_deref(), Some("roles"));
    assert_eq!(oauth2.provider.jwks_uri.as_deref(), Some("https://a/keys"));
    assert_eq!(oauth2.provider.tls.tls.cacertfile.as_deref(), Some("/roots"));
}

/// RabbitMQ's own example, without its comments.
#[test]
fn the_example_of_rabbitmq_is_accepted() {
    let (config, _) = read(
        "[\n {rabbitmq_shovel,\n  [{shovels,\n    [\n    ]}\n  ]},\n\n {rabbitmq_auth_backend_ldap, [\n  ]}\n].\n",
    );
    assert_eq!(config, Config::default());
}

#[test]
fn options_of_cowboy_are_those_of_the_listener() {
    let mut config = Config::default();
    let text = "[{rabbitmq_management, [{tcp_config, [{port, 1}, {cowboy_opts, [{idle_timeout, 7000}, {request_timeout, 8000}]}]}]}].";
    assert_eq!(config.read_advanced("advanced.config", text), Ok(Vec::new()));
    let limits = &config.management.limits;
    assert_eq!((config.management.port, limits.idle_timeout_ms, limits.request_timeout_ms), (1, 7000, 8000));
}

#[test]
fn terms_of_the_http_api_that_protect_take_effect() {
    let text = "[{rabbitmq_management, [{content_security_policy, \"default-src 'self'\"},\n\
                {strict_transport_security, \"max-age=1\"}, {max_http_body_size, 70000},\n\
                {restrictions, [{operator_policy_changes, [{disabled, true}]}]},\n\
                {cors_allow_origins, [\"https://a\"]}, {stats_event_max_backlog, 250}]}].";
    let (config, warnings) = read(text);
    let same = [
        "management.csp.policy = default-src 'self'",
        "management.hsts.policy = max-age=1",
        "management.http.max_body_size = 70000",
        "management.restrictions.operator_policy_changes.disabled = true",
    ];
    assert_eq!(config, set(&same));
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("'management.cors.allow_origins.1' is not built yet"), "{warnings:?}");
    assert!(warnings[1].contains("'stats_event_max_backlog' has no effect"), "{warnings:?}");
}
