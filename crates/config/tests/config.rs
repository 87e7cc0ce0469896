//! Files and `--set` as users write them.

use leveret_config::{
    AlarmScope, BackendKind, Config, DefaultQueueType, DiscoveryBackend, DiskFreeLimit, KeyState, Listener, LogLevel,
    LoginBackends, MemoryWatermark, TlsVersion, documented,
};

fn read(text: &str) -> Config {
    let mut config = Config::default();
    config.read("rabbitmq.conf", text).unwrap();
    config
}

fn error(text: &str) -> String {
    let errors = Config::default().read("rabbitmq.conf", text).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].to_string()
}

fn set(text: &str) -> Result<Config, String> {
    let mut config = Config::default();
    config.set(text).map_err(|error| error.to_string())?;
    Ok(config)
}

#[test]
fn a_usual_file() {
    let config = read(
        "
## what everybody sets
listeners.tcp.default = 127.0.0.1:0
listeners.tcp.v6 = ::1:5673
management.tcp.port = 0
management.tcp.ip = 127.0.0.1
prometheus.tcp.port = 15693
loopback_users.guest = false
default_user = admin
default_pass = 'p#ss'
default_vhost = main
default_permissions.read = ^a
default_user_tags.administrator = false
default_user_tags.monitoring = true
heartbeat = 30
frame_max = 64KiB
channel_max = 100
max_message_size = 32MiB
handshake_timeout = 5s
disk_free_limit.absolute = 1GB
vm_memory_high_watermark.absolute = 2GiB
log.console.level = debug
cluster_name = rabbit@here
tcp_listen_options.nodelay = off
tcp_listen_options.sndbuf = 196608
debug.sync_delay_ms = 0.5
debug.clock_ahead_ms = 1500
debug.wal_file_bytes = 1MiB
storage.reserve = 1GiB
identity.rabbitmq_compatible = false
cores = 2
",
    );
    let listener = |host: &str, port| Listener { host: Some(host.to_owned()), port };
    assert_eq!(config.tcp_listeners(), [listener("127.0.0.1", 0), listener("::1", 5673)]);
    assert_eq!((config.management.port, config.management.ip.as_deref()), (0, Some("127.0.0.1")));
    assert_eq!(config.prometheus.port, 15693);
    assert!(config.loopback_users.is_empty());
    assert_eq!((&*config.default_user.name, &*config.default_user.password), ("admin", "p#ss"));
    assert_eq!((&*config.default_user.vhost, &*config.default_user.read), ("main", "^a"));
    assert_eq!(config.default_user.tags, ["monitoring"]);
    assert_eq!((config.heartbeat_s, config.frame_max, config.channel_max), (30, 65_536, 100));
    assert_eq!(config.limits.max_message_size, 32 << 20);
    assert_eq!(config.handshake_timeout_ms, 5000);
    assert_eq!(config.disk_free_limit, DiskFreeLimit::Absolute(1_000_000_000));
    assert_eq!(config.memory_high_watermark, MemoryWatermark::Absolute(2 << 30));
    assert_eq!(config.log.console.level, Some(LogLevel::Debug));
    assert_eq!(config.cluster_name.as_deref(), Some("rabbit@here"));
    assert!(!config.tcp_options.nodelay);
    assert_eq!(config.tcp_options.sndbuf, Some(196_608));
    assert_eq!((config.sync_delay_ms, config.wal_file_bytes), (0.5, Some(1 << 20)));
    assert_eq!(config.clock_ahead_ms, 1500);
    assert_eq!(config.storage_reserve, Some(1 << 30));
    assert!(!config.rabbitmq_compatible_identity);
    assert_eq!(config.cores, Some(2));
}

#[test]
fn unset_listeners_use_the_standard_ports_and_none_means_none() {
    let standard = Config::default();
    assert_eq!(standard.tcp_listeners(), [Listener { host: None, port: 5672 }]);
    assert_eq!(standard.loopback_users, ["guest"]);
    assert!(read("listeners.tcp = none").tcp_listeners().is_empty());
    assert!(read("loopback_users = none").loopback_users.is_empty());
}

#[test]
fn an_unknown_key_names_its_line_and_the_nearest_key() {
    assert_eq!(error("\n\nhartbeat = 5\n"), "rabbitmq.conf:3: unknown key 'hartbeat'; did you mean 'heartbeat'?");
    assert_eq!(
        set("listener.tcp.default=1").unwrap_err(),
        "--set: unknown key 'listener.tcp.default'; did you mean 'listeners.tcp.$name'?"
    );
    assert_eq!(set("zzzzzzzzzzzz=1").unwrap_err(), "--set: unknown key 'zzzzzzzzzzzz'");
}

#[test]
fn a_wrong_value_names_key_value_and_what_was_expected() {
    for (text, part) in [
        ("heartbeat = often", "heartbeat: expected a time"),
        ("heartbeat = 70000", "at most 65535 seconds, got '70000'"),
        ("frame_max = 4095", "frame_max: expected a whole number from 4096 to 16777216, got '4095'"),
        ("initial_frame_max = 4095", "initial_frame_max: expected a whole number from 4096 to 16777216, got '4095'"),
        ("listeners.tcp.default = 70000", "from 0 to 65535, got '70000'"),
        ("listeners.tcp.default = :5672", "expected a port or address:port"),
        ("loopback_users = guest", "expected none, got 'guest'"),
        ("max_message_size = 513MiB", "more than 512 MiB"),
        ("disk_free_limit.absolute = lots", "number of bytes"),
        ("log.console.level = loud", "got 'loud'"),
        ("cores = 0", "from 1 to 256"),
    ] {
        let error = error(text);
        assert!(error.starts_with("rabbitmq.conf:1: "), "{error}");
        assert!(error.contains(part), "{error}");
        let assignment = text.replace(" = ", "=");
        assert!(set(&assignment).unwrap_err().contains(part), "{assignment}");
    }
}

#[test]
fn every_error_of_a_file_is_reported() {
    let errors = Config::default().read("a.conf", "x = 1\nheartbeat = y\nnothing\n").unwrap_err();
    let lines: Vec<_> = errors.iter().map(|error| error.line.unwrap()).collect();
    assert_eq!(lines, [1, 2, 3]);
}

#[test]
fn obsolete_and_harmless_keys_warn_and_others_are_refused() {
    let mut config = Config::default();
    let warnings = config
        .read("rabbitmq.conf", "vm_memory_high_watermark_paging_ratio = 0.99\nmotd_file = x\nstomp.default_user = x\n")
        .unwrap();
    assert_eq!(warnings[0].line, Some(1));
    assert!(warnings[0].text.contains("'vm_memory_high_watermark_paging_ratio' has no effect"));
    assert!(warnings[1].text.contains("'motd_file' is not built yet"));
    assert!(
        warnings[2]
            .text
            .contains("'stomp.default_user' is not built yet and has no effect: the protocol isn't spoken yet")
    );
    assert_eq!(config, Config::default());
    let error = error("management.ssl.crl_check = peer");
    assert!(
        error.contains("'management.ssl.crl_check' is not built yet: lists of revoked certificates aren't read"),
        "{error}"
    );
    assert!(set("definitions.https.url=https://x").is_err());
}

#[test]
fn a_refused_key_accepts_a_value_that_changes_nothing() {
    for (taken, refused) in [
        ("auth_oauth2.https.crl_check = false", "auth_oauth2.https.crl_check = true"),
        ("management.listener.ssl = false", "management.listener.ssl = true"),
        ("management.oauth_enabled = false", "management.oauth_enabled = true"),
        ("management.ssl.crl_check = false", "management.ssl.crl_check = true"),
        ("prometheus.ssl.crl_check = false", "prometheus.ssl.crl_check = peer"),
        ("log.syslog.ssl_options.crl_check = false", "log.syslog.ssl_options.crl_check = true"),
        ("log.syslog.ssl_options.depth = 10", "log.syslog.ssl_options.depth = 1"),
        (
            "password_hashing_module = rabbit_password_hashing_sha256",
            "password_hashing_module = rabbit_password_hashing_md5",
        ),
        ("prevent_startup_if_node_was_reset = false", "prevent_startup_if_node_was_reset = true"),
        ("channel_tx_message_max = infinity", "channel_tx_message_max = 5"),
        ("ranch_connection_max = infinity", "ranch_connection_max = 5"),
        ("definitions.import_backend = local", "definitions.import_backend = https"),
    ] {
        let mut config = Config::default();
        assert_eq!(config.read("rabbitmq.conf", taken), Ok(Vec::new()), "{taken}");
        assert_eq!(config, Config::default(), "{taken}");
        assert!(Config::default().read("rabbitmq.conf", refused).is_err(), "{refused}");
    }
    let mut config = Config::default();
    let text = "motd_file = x\nreverse_dns_lookups = true\ndefinitions.tls.versions.1 = tlsv1.2\n";
    assert_eq!(config.read("rabbitmq.conf", text).unwrap().len(), 3);
    assert_eq!(config, Config::default());
}

#[test]
fn keys_of_clusters_are_kept() {
    let names = |text: &str| read(text).cluster.classic_nodes();
    for backend in ["classic_config", "rabbit_peer_discovery_classic_config"] {
        let text = format!(
            "cluster_formation.peer_discovery_backend = {backend}\ncluster_formation.classic_config.nodes.1 = rabbit@a\n"
        );
        assert_eq!(names(&text), ["rabbit@a"]);
    }
    let config = read(
        "cluster_formation.peer_discovery_backend = rabbit_peer_discovery_dns\ncluster_formation.dns.hostname = nodes.local\n\
         cluster_formation.discovery_retry_limit = infinity\ncluster_formation.discovery_retry_interval = 500\n\
         cluster_formation.target_cluster_size_hint = 3\ncluster_formation.node_cleanup.only_log_warning = true\n\
         cluster.tls = false\ncluster.ssl_options.cacertfile = /ca.pem\ncluster.ssl_options.verify = verify_peer\n\
         cluster.metadata_timeout = 30s\ncluster.alarm_scope = cluster\n",
    );
    let cluster = &config.cluster;
    assert_eq!((cluster.backend, cluster.dns_hostname.as_deref()), (DiscoveryBackend::Dns, Some("nodes.local")));
    assert_eq!((cluster.retry_limit, cluster.retry_interval_ms, config.target_cluster_size), (None, 500, 3));
    assert!(!cluster.tls && cluster.ssl_options.verify_peer);
    assert_eq!(cluster.ssl_options.cacertfile.as_deref(), Some("/ca.pem"));
    assert_eq!((cluster.metadata_timeout_ms, cluster.alarm_scope), (30_000, AlarmScope::Cluster));
    // As the operator of Kubernetes writes it, and as charts do.
    let mut config = Config::default();
    let warnings = config.read(
        "conf",
        "cluster_formation.peer_discovery_backend = kubernetes\ncluster_formation.k8s.host = kubernetes.default\n\
         cluster_formation.k8s.address_type = hostname\ncluster_formation.node_cleanup.interval = 10\n",
    );
    assert_eq!(warnings.map(|warnings| warnings.len()), Ok(2));
    assert_eq!(config.cluster.backend, DiscoveryBackend::K8s);
    for (wrong, told) in [
        (
            "cluster_formation.peer_discovery_backend = consul",
            "'consul' isn't built yet; name the nodes with classic_config",
        ),
        ("cluster_formation.peer_discovery_backend = rabbit_peer_discovery_zoo", "expected classic_config, dns or k8s"),
        ("cluster_formation.classic_config.nodes.1 = host", "'host' is no name of a node: expected name@host"),
        ("cluster_formation.classic_config.node.1 = a@b", "did you mean 'cluster_formation.classic_config.nodes.$n'?"),
        ("cluster_formation.node_cleanup.only_log_warning = false", "forget_cluster_node"),
        ("cluster.ssl_options.verify = verify_none", "nodes always verify each other's certificates"),
        ("cluster.metadata_timeout = 10", "expected a whole number from 1000"),
    ] {
        assert!(error(wrong).contains(told), "{wrong}: {}", error(wrong));
    }
}

#[test]
fn a_misspelt_key_of_a_protection_is_an_error() {
    for (wrong, near) in [
        ("management.tcp.ipp = 127.0.0.1", "management.tcp.ip"),
        ("management.ssl.verfy = verify_peer", "management.ssl.verify"),
        ("management.hsts.polcy = max-age=1", "management.hsts.policy"),
        ("management.disable_basic_aut = true", "management.disable_basic_auth"),
        (
            "management.restrictions.operator_policy_change.disabled = true",
            "management.restrictions.operator_policy_changes.disabled",
        ),
        ("prometheus.authentication.enable = true", "prometheus.authentication.enabled"),
        ("prometheus.ssl.verfy = verify_peer", "prometheus.ssl.verify"),
        ("log.syslog.ssl_options.cacertfle = /ca.pem", "log.syslog.ssl_options.cacertfile"),
        ("queue_types.clasic.enabled = false", "queue_types.classic.enabled"),
    ] {
        let key = wrong.split(' ').next().unwrap_or_default();
        let error = error(wrong);
        assert_eq!(error, format!("rabbitmq.conf:1: unknown key '{key}'; did you mean '{near}'?"));
    }
    let error =
        Config::default().read_advanced("a.config", "[{rabbitmq_management, [{content_security_polcy, \"x\"}]}].");
    assert!(error.is_err_and(|errors| errors[0].text.contains("content_security_polcy")));
}

#[test]
fn an_encrypted_value_is_refused_for_every_key() {
    for doc in documented().filter(|doc| doc.state == KeyState::Working) {
        let key = doc.name.replace('$', "");
        let error = set(&format!("{key}=encrypted:AAAA")).expect_err(doc.name);
        assert!(error.contains(&format!("{key}: values that are encrypted ('encrypted:') aren't read yet")), "{error}");
    }
    let variables = [("RABBITMQ_DEFAULT_PASS".to_owned(), "encrypted:AAAA".to_owned())];
    assert!(Config::default().read_environment(variables).is_err());
}

#[test]
fn variables_of_the_environment_are_replaced_in_values() {
    let environment = |name: &str| match name {
        "SEED_USERNAME" => Some("alice".to_owned()),
        "SEED_PASSWORD" => Some("s3#cret".to_owned()),
        "PORT" => Some("5673".to_owned()),
        _ => None,
    };
    let mut config = Config::default();
    let text = "default_user = $(SEED_USERNAME) # not $(THIS)\ndefault_pass = '$(SEED_PASSWORD)'\n## nor $(THIS)\n\
                cluster_name = site-$(PORT)-$(SEED_USERNAME)\nlisteners.tcp.1 = 127.0.0.1:$(PORT)\n";
    assert_eq!(config.read_with("rabbitmq.conf", text, &environment), Ok(Vec::new()));
    assert_eq!((&*config.default_user.name, &*config.default_user.password), ("alice", "s3#cret"));
    assert_eq!(config.cluster_name.as_deref(), Some("site-5673-alice"));
    assert_eq!(config.tcp_listeners()[0].port, 5673);

    let errors = Config::default().read_with("a.conf", "heartbeat = 5\ndefault_user = $(UNSET)\n", &environment);
    let errors = errors.expect_err("a variable isn't set");
    assert_eq!(
        errors[0].to_string(),
        "a.conf:2: 'default_user' substitution requires a config variable 'UNSET' to be set: the environment has no UNSET"
    );
}

#[test]
fn listeners_with_tls_have_the_same_keys_behind_each_prefix() {
    let mut config = Config::default();
    let text = "listeners.ssl.default = 5671\nssl_options.verify = verify_peer\nssl_options.versions.1 = tlsv1.3\n\
                management.ssl.certfile = /m.pem\nprometheus.ssl.ciphers.1 = TLS_AES_256_GCM_SHA384\n\
                prometheus.tcp.port = 1\n";
    assert_eq!(config.read("rabbitmq.conf", text).unwrap(), []);
    assert_eq!(config.ssl_listeners()[0].port, 5671);
    assert!(config.ssl_options.verify_peer);
    assert_eq!(config.ssl_options.versions.values().copied().collect::<Vec<_>>(), [TlsVersion::V13]);
    let management = config.management_ssl.as_ref().unwrap();
    assert_eq!((management.endpoint.port, management.tls.certfile.as_deref()), (15671, Some("/m.pem")));
    assert_eq!(config.prometheus_ssl.as_ref().unwrap().tls.ciphers["1"], "TLS_AES_256_GCM_SHA384");
    // As in RabbitMQ, a listener with TLS replaces the one without, unless both are configured.
    assert!(config.plain_management().is_none() && config.plain_prometheus().is_some());
    for (wrong, told) in [
        ("ssl_options.versions.1 = tlsv1.1", "no longer safe"),
        ("ssl_options.verify = maybe", "neither verify_peer nor verify_none"),
        ("ssl_options.certfil = x", "did you mean 'ssl_options.certfile'?"),
    ] {
        assert!(error(wrong).contains(told), "{wrong}: {}", error(wrong));
    }
}

#[test]
fn defaults_of_new_vhosts_are_kept_by_name() {
    let mut config = Config::default();
    assert_eq!(config.vhost_defaults.queue_type, DefaultQueueType::Classic);
    let text = "default_queue_type = rabbit_quorum_queue\ndefault_limits.vhosts.1.pattern = ^qa\ndefault_limits.vhosts.1.max_connections = -1\n\
                default_users.qa.tags = policymaker, monitoring\ndefault_users.qa.read = ^r\n";
    config.read("rabbitmq.conf", text).unwrap();
    assert_eq!(config.vhost_defaults.queue_type, DefaultQueueType::Quorum);
    let wrong = error("default_queue_type = log");
    assert!(wrong.contains("expected classic, quorum or stream, got 'log'"), "{wrong}");
    let limits = &config.vhost_defaults.limits["1"];
    assert_eq!((&*limits.pattern, limits.max_connections, limits.max_queues), ("^qa", Some(-1), None));
    let user = &config.vhost_defaults.users["qa"];
    assert_eq!((&*user.read, &*user.write, &user.password), ("^r", ".*", &None));
    assert_eq!(user.tags, ["policymaker", "monitoring"]);
    let error = error("default_limits.vhosts.1.max_queues = many");
    assert!(error.contains("expected a whole number, got 'many'"), "{error}");
}

fn backends(text: &str) -> LoginBackends {
    let mut config = Config::default();
    config.read("rabbitmq.conf", text).expect("is right");
    config.backends
}

#[test]
fn chains_of_backends_are_kept_in_their_order() {
    use BackendKind::{Cache, Http, Internal, OAuth2};
    let backends = backends(
        "auth_backends.2 = rabbit_auth_backend_internal\nauth_backends.1 = oauth2\nauth_backends.10.authn = http\n\
         auth_backends.10.authz = internal, http\nauth_backends.11.authz = cache\n\
         http_dispatch.auth_backends.1 = rabbit_auth_backend_uaa",
    );
    let chain: Vec<_> = backends.chain.values().map(|entry| (entry.login(), entry.grants())).collect();
    let expected =
        [(OAuth2, vec![OAuth2]), (Internal, vec![Internal]), (Http, vec![Internal, Http]), (Cache, vec![Cache])];
    assert_eq!(chain, expected);
    assert!(backends.chain[&1].is_one() && !backends.chain[&10].is_one());
    assert_eq!(backends.http_chain[&1].login(), OAuth2);
    assert!(backends.use_kind(Http) && !self::backends("auth_backends.1 = cache").use_kind(Http));
    assert!(self::backends("auth_backends.1 = cache\nauth_cache.cached_backend.authz = http").use_kind(Http));
    for (wrong, part) in [
        ("auth_backends.1 = ldap", "the backend 'ldap' isn't built yet; there are internal"),
        ("auth_backends.1 = rabbit_auth_backend_ldap", "isn't built yet"),
        ("auth_backends.2 = kerberos", "there is no backend 'kerberos'"),
        ("auth_backends.x = internal", "expected a whole number"),
        ("auth_backends.1.authz = internal ldap", "isn't built yet"),
        ("auth_cache.cached_backend = cache", "a cache can't be cached"),
        ("auth_cache.cache_ttl = 0", "expected 1 to 86400000"),
        ("auth_http.http_method = put", "expected get or post"),
        ("auth_http.user_path = localhost", "expected a URL"),
        ("auth_oauth2.jwks_url = http://x", "expected a URL that begins with https://"),
        ("auth_oauth2.preferred_username_claims.x = a", "expected a whole number"),
        ("auth_ldap.servers.1 = x", "'auth_ldap.servers.1' is not built yet"),
    ] {
        let error = error(wrong);
        assert!(error.contains(part), "{wrong}: {error}");
    }
}

#[test]
fn servers_and_providers_of_tokens_are_kept_by_name() {
    let oauth2 = backends(
        "auth_oauth2.resource_server_id = r\nauth_oauth2.scope_prefix = ''\n\
         auth_oauth2.scope_aliases.admin = a b\nauth_oauth2.scope_aliases.1.alias = x/y\n\
         auth_oauth2.scope_aliases.1.scope = c\nauth_oauth2.preferred_username_claims.2 = sub\n\
         auth_oauth2.resource_servers.one.id = other\nauth_oauth2.resource_servers.one.oauth_provider_id = kc\n\
         auth_oauth2.resource_servers.one.preferred_username_claims.1 = email\n\
         auth_oauth2.resource_servers.one.scope_aliases.dev = d\n\
         auth_oauth2.resource_servers.one.scope_aliases.7.alias = z\n\
         auth_oauth2.oauth_providers.kc.issuer = https://kc\nauth_oauth2.oauth_providers.kc.signing_keys.k1 = /key\n\
         auth_oauth2.oauth_providers.kc.https.verify = verify_none\nauth_oauth2.oauth_providers.kc.algorithms.1 = RS256\n\
         auth_oauth2.discovery_endpoint_params.appid = 5",
    )
    .oauth2;
    let (root, one, kc) = (&oauth2.server, &oauth2.servers["one"], &oauth2.providers["kc"]);
    assert_eq!((root.id.as_deref(), root.scope_prefix.as_deref()), (Some("r"), Some("")));
    assert_eq!((&*root.aliases["admin"], &root.numbered_aliases["1"].0), ("a b", &Some("x/y".to_owned())));
    assert_eq!((&*root.username_claims[&2], &*one.username_claims[&1]), ("sub", "email"));
    assert_eq!((one.id.as_deref(), one.provider.as_deref()), (Some("other"), Some("kc")));
    assert_eq!((&*one.aliases["dev"], &one.numbered_aliases["7"].0), ("d", &Some("z".to_owned())));
    assert_eq!((kc.issuer.as_deref(), &*kc.signing_keys["k1"]), (Some("https://kc"), "/key"));
    assert!(kc.tls.trusts_any && !oauth2.provider.tls.trusts_any);
    assert_eq!((&*kc.algorithms[&1], &*oauth2.provider.discovery_params["appid"]), ("RS256", "5"));
}

#[test]
fn every_key_of_rabbitmq_is_known() {
    let keys = include_str!("../../../tests/golden/rabbitmq-4.3.6-conf-keys.txt");
    let unknown: Vec<&str> = keys
        .lines()
        .filter(|key| {
            let key = key.replace('$', "");
            set(&format!("{key}=x")).is_err_and(|error| error.contains("unknown key"))
        })
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(documented().filter(|doc| doc.state == KeyState::Working).count() > 35);
}

#[test]
fn defaults_in_the_table_are_those_of_the_config() {
    for doc in documented().filter(|doc| doc.state == KeyState::Working) {
        let spoken = [
            "",
            "all",
            "two and a half files of the log",
            "a 32nd of the volume, 64MiB at most",
            "the system's",
            "made of the host name",
            "all that we may use",
            "/var/log/rabbitmq, or `log` in the data directory",
            "true, if there is no other output",
            "true, if its level is set",
            "log.level",
            "NODE.log if installed",
            "514, 6514 with TLS",
            "rfc3164, rfc5424 with TLS",
            "default_vhost",
            "`traces` in the data directory",
            "amqp_0_9_1",
            "the address that the client used, in a cluster the host in the node's name",
            "the name or address that the client used, in a cluster the host in the node's name",
            "the port that the client used",
            "25672, or a free one",
            "the address of the listener",
            "those of auth_backends",
            "the id and a dot",
            "true, if unset",
            "all that fit the key",
            "30 for nbf, 0 for exp",
            "the name",
            "the host",
            // An entry of a cache says who is asked.
            "internal",
            ".well-known/openid-configuration",
        ];
        if spoken.contains(&doc.default) || doc.name.contains('$') {
            continue;
        }
        let config = set(&format!("{}={}", doc.name, doc.default)).unwrap();
        // A listener with TLS exists as soon as one of its keys is set.
        let unset = match doc.name.split_once(".ssl.") {
            Some((of @ ("management" | "prometheus"), _)) => set(&format!("{of}.ssl.honor_cipher_order=true")).unwrap(),
            _ => Config::default(),
        };
        assert_eq!(config, unset, "{}", doc.name);
    }
}

/// Compares the table with docs/configuration.md; `UPDATE_DOCS=1` writes it there.
#[test]
fn the_document_is_the_table() {
    let mut text = String::from(include_str!("configuration-head.md"));
    text.push_str("\n| key | value | default | what |\n| --- | --- | --- | --- |\n");
    let cell = |text: &str| text.replace('|', "\\|");
    let with = |state: KeyState| documented().filter(move |doc| doc.state == state);
    for doc in with(KeyState::Working) {
        let (name, default) = (doc.name, if doc.default.is_empty() { "-".into() } else { cell(doc.default) });
        text.push_str(&format!("| `{name}` | {} | {default} | {} |\n", doc.kind, cell(doc.doc)));
    }
    for (state, title) in [
        (KeyState::Obsolete, "Accepted with a warning, since they have no meaning here"),
        (KeyState::NotYet, "Accepted with a warning, since they aren't built yet"),
        (KeyState::Refused, "Refused, since they aren't built yet and running without them would do harm"),
    ] {
        // A refused key accepts values that describe what happens anyway.
        let is_refused = state == KeyState::Refused;
        text.push_str(&format!("\n## {title}\n\n"));
        text.push_str(if is_refused {
            "| key | why | accepted values |\n| --- | --- | --- |\n"
        } else {
            "| key | why |\n| --- | --- |\n"
        });
        for doc in with(state) {
            let taken = if is_refused {
                format!(" {} |", if doc.kind.is_empty() { "-" } else { &doc.kind })
            } else {
                String::new()
            };
            text.push_str(&format!("| `{}` | {} |{taken}\n", doc.name, cell(doc.doc)));
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text, "run with UPDATE_DOCS=1");
}

#[test]
fn listeners_of_http_have_times_and_numbers() {
    for (prefix, of) in [
        ("management.tcp", "management"),
        ("management.listener.server", "management"),
        ("management.ssl", "management.ssl"),
        ("prometheus.tcp", "prometheus"),
        ("prometheus.ssl", "prometheus.ssl"),
    ] {
        let text = format!(
            "{prefix}.request_timeout = 1000\n{prefix}.idle_timeout = 2s\n{prefix}.inactivity_timeout = 3000\n\
             {prefix}.max_keepalive = 4\n"
        );
        let mut config = Config::default();
        assert_eq!(config.read("test", &text), Ok(Vec::new()), "{prefix}");
        let limits = match of {
            "management" => &config.management.limits,
            "prometheus" => &config.prometheus.limits,
            "management.ssl" => &config.management_ssl.as_ref().expect("is there").endpoint.limits,
            _ => &config.prometheus_ssl.as_ref().expect("is there").endpoint.limits,
        };
        let times = (limits.request_timeout_ms, limits.idle_timeout_ms, limits.inactivity_timeout_ms);
        assert_eq!((times, limits.max_keepalive), ((1000, 2000, 3000), 4), "{prefix}");
        if prefix != "management.listener.server" {
            config.set(&format!("{prefix}.max_connections=infinity")).expect("is a key");
            config.set(&format!("{prefix}.max_connections_per_address=9")).expect("is a key");
        }
        assert!(error(&format!("{prefix}.idle_timeout = 0")).contains("would close every connection at once"));
    }
}

#[test]
fn the_listener_of_metrics_can_be_none() {
    assert!(set("prometheus.tcp.listener=none").unwrap().plain_prometheus().is_none());
    let config = set("prometheus.tcp.listener=127.0.0.1:1234").unwrap();
    let endpoint = config.plain_prometheus().expect("is there");
    assert_eq!((endpoint.ip.as_deref(), endpoint.port), (Some("127.0.0.1"), 1234));
}

#[test]
fn keys_that_protect_the_http_api_are_kept() {
    let text = "management.disable_basic_auth = true\nmanagement.http.max_body_size = 5\nmanagement.csp.policy = default-src 'self'\n\
                management.hsts.policy = max-age=1\nmanagement.restrictions.operator_policy_changes.disabled = true\n";
    let mut config = Config::default();
    assert_eq!(config.read("test", text), Ok(Vec::new()));
    let api = config.management_api;
    assert!(api.disable_basic_auth && api.operator_policy_changes_disabled && !api.hide_allow_header);
    assert_eq!((api.max_body_size, api.headers.len()), (5, 2));
    assert!(error("management.csp.policy = ä").contains("is no value of a header"));
}
