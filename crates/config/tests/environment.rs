//! Environment variables with RabbitMQ's names, and rabbitmq-env.conf.

use leveret_config::{Config, LogPlace, Variable, environment_file};

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn variables_stand_for_keys_and_win_over_files() {
    let mut config = Config::default();
    config.read("rabbitmq.conf", "default_user = file\ndefault_vhost = file").expect("is right");
    let warnings = config.read_environment(variables(&[
        ("RABBITMQ_DEFAULT_USER", "me"),
        ("RABBITMQ_DEFAULT_PASS", "hush # hush"),
        ("RABBITMQ_NODENAME", "rabbit@my-host.local"),
        ("RABBITMQ_NODE_PORT", "5673"),
        ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1"),
        ("RABBITMQ_LOG", "debug"),
        ("RABBITMQ_LOGS", "-"),
        ("RABBITMQ_ERLANG_COOKIE", "secret"),
        ("RABBITMQ_DEFAULT_VHOST", ""),
        ("RABBITMQ_SERVICE_HOST", "10.0.0.1"),
        ("PATH", "/bin"),
    ]));
    let mut expected = Config::default();
    expected.read("rabbitmq.conf", "default_user = file\ndefault_vhost = file").expect("is right");
    for assignment in
        ["default_user=me", "default_pass='hush # hush'", "log.level=debug", "listeners.tcp.default=127.0.0.1:5673"]
    {
        expected.set(assignment).expect("is right");
    }
    expected.cluster.cookie = Some("secret".to_owned());
    expected.log.only = Some(LogPlace::Stdout);
    expected.node_name = Some("rabbit@my-host.local".to_owned());
    assert_eq!(config, expected);
    assert_eq!(warnings, Ok(Vec::new()));
    assert!(!config.effective().contains("secret"));
}

#[test]
fn the_port_of_links_is_a_variable_unless_a_file_has_it() {
    let port = |text: &str, value: &str| {
        let mut config = Config::default();
        config.read("rabbitmq.conf", text).expect("is right");
        let told =
            config.read_environment(variables(&[("RABBITMQ_DIST_PORT", value), ("RABBITMQ_USE_LONGNAME", "true")]));
        told.map(|told| (config.cluster_listener().map(|listener| listener.port), config.peer_port(), told.len()))
    };
    assert_eq!(port("", "30000"), Ok((Some(30000), 30000, 0)));
    assert_eq!(port("listeners.tcp.1 = 0", "30000"), Ok((Some(30000), 30000, 0)));
    assert_eq!(port("cluster.listeners.tcp.default = 7", "30000"), Ok((Some(7), 7, 1)));
    assert_eq!(port("", "tcp://10.0.0.1:25672"), Ok((Some(25672), 25672, 0)));
    assert!(port("", "none").is_err_and(|errors| errors[0].text.starts_with("RABBITMQ_DIST_PORT: expected")));
}

#[test]
fn a_port_variable_changes_no_listener_of_a_file() {
    let mut config = Config::default();
    config.read("rabbitmq.conf", "listeners.tcp.mine = 1111").expect("is right");
    let before = config.clone();
    let warnings = config.read_environment(variables(&[("RABBITMQ_NODE_PORT", "5673")])).expect("is right");
    assert_eq!(
        warnings[0].to_string(),
        "environment: RABBITMQ_NODE_PORT has no effect: the configuration has listeners.tcp"
    );
    assert_eq!(config, before);
}

#[test]
fn variables_that_make_no_sense_are_named() {
    let wrong =
        variables(&[("RABBITMQ_NODENAME", "a@b@c"), ("RABBITMQ_NODE_PORT", "none at all"), ("RABBITMQ_LOG", "loud")]);
    let errors = Config::default().read_environment(wrong).expect_err("are wrong");
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0], "environment: RABBITMQ_NODENAME: 'a@b@c' is no name of a node: expected name or name@host");
    assert!(told[1].starts_with("environment: RABBITMQ_LOG: log.level: "), "{told:?}");
    assert!(told[2].starts_with("environment: RABBITMQ_NODE_PORT: "), "{told:?}");
}

#[test]
fn a_file_of_variables_is_read_without_a_shell() {
    let text = "# the node\nNODENAME=rabbit@here\nexport RABBITMQ_NODE_PORT=5673 # moved\n\
                DEFAULT_PASS='a b # c'\n\nLOGS=\"-\"\n";
    let expected = [
        (2, "RABBITMQ_NODENAME", "rabbit@here"),
        (3, "RABBITMQ_NODE_PORT", "5673"),
        (4, "RABBITMQ_DEFAULT_PASS", "a b # c"),
        (6, "RABBITMQ_LOGS", "-"),
    ];
    let expected = expected.map(|(line, name, value)| Variable {
        source: "rabbitmq-env.conf".to_owned(),
        line: Some(line),
        name: name.to_owned(),
        value: value.to_owned(),
    });
    assert_eq!(environment_file("rabbitmq-env.conf", text).expect("is right"), expected);
    let errors =
        environment_file("rabbitmq-env.conf", "A=1\nif true; then\nB=$(hostname)\nC=a b\n").expect_err("is wrong");
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [2, 3, 4].map(|line| {
            let text = ["if true; then", "B=$(hostname)", "C=a b"][line - 2];
            format!(
                "rabbitmq-env.conf:{line}: expected NAME=value, got '{text}': no shell is run, so nothing else can be taken"
            )
        })
    );
}

#[test]
fn an_address_without_a_port_is_listened_on() {
    let mut config = Config::default();
    let told = config.read_environment(variables(&[("RABBITMQ_NODE_IP_ADDRESS", "::1")]));
    assert_eq!(told, Ok(Vec::new()));
    let listener = &config.tcp_listeners()[0];
    assert_eq!((listener.host.as_deref(), listener.port), (Some("::1"), 5672));
}

#[test]
fn plugins_of_the_environment_win_over_the_file() {
    let mut config = Config::default();
    config.read_plugins("enabled_plugins", "[rabbitmq_management].").expect("is right");
    let told =
        config.read_environment(variables(&[("RABBITMQ_ENABLED_PLUGINS", "rabbitmq_prometheus,rabbitmq_stomp")]));
    assert!(told.expect("is right")[0].to_string().contains("the plugin 'rabbitmq_stomp' isn't built yet"));
    assert_eq!(config.plugins.explicit(), ["rabbitmq_prometheus"]);
    config.read_environment(variables(&[("RABBITMQ_ENABLED_PLUGINS", "ALL")])).expect("is right");
    assert!(config.plugins.is_running("rabbitmq_management"));
}

#[test]
fn no_variable_is_ignored_silently() {
    // Variables that RabbitMQ 4.3 reads, in rabbit_env and in the scripts of its server.
    let read = "ALLOW_INPUT BASE DBG FEATURE_FLAGS FEATURE_FLAGS_FILE HOME LOG_FF_REGISTRY MOTD_FILE PLUGINS_DIR \
                PLUGINS_EXPAND_DIR PRODUCT_NAME PRODUCT_VERSION QUORUM_DIR STREAM_DIR UPGRADE_LOG \
                IO_THREAD_POOL_SIZE SERVER_ERL_ARGS SERVER_ADDITIONAL_ERL_ARGS SERVER_START_ARGS CTL_ERL_ARGS \
                DEFAULT_ALLOC_ARGS MAX_NUMBER_OF_PROCESSES MAX_NUMBER_OF_ATOMS SCHEDULER_BIND_TYPE \
                VM_MEMORY_HIGH_WATERMARK PASSWORD";
    for name in read.split_whitespace() {
        let full = format!("RABBITMQ_{name}");
        let warnings = Config::default().read_environment(variables(&[(&full, "x-value")])).expect("is taken");
        assert_eq!(warnings.len(), 1, "{name}");
        let told = warnings[0].to_string();
        assert!(told.contains(&format!("{full} has no effect")) && !told.contains("x-value"), "{told}");
    }
    // Other variables tell where services are.
    let of_services = variables(&[
        ("RABBITMQ_SERVICE_HOST", "10.0.0.1"),
        ("RABBITMQ_SERVICE_PORT_AMQP", "5672"),
        ("RABBITMQ_PORT", "tcp://10.0.0.1:5672"),
        ("RABBITMQ_NODE_PORT", "tcp://10.0.0.1:5672"),
        ("RABBITMQ_HEADLESS_PORT_5672_TCP_ADDR", "10.0.0.1"),
    ]);
    assert_eq!(Config::default().read_environment(of_services), Ok(Vec::new()));
    // In RabbitMQ's own file such a variable is an error.
    let file = environment_file("env", "SERVICE_HOST=a\nNODENAM=b\n").expect("is right");
    let told = Config::default().read_variables(file).expect("is taken");
    assert_eq!(told[0].to_string(), "env:1: RABBITMQ_SERVICE_HOST has no effect: there is no such variable");
    assert!(told[1].to_string().ends_with("; did you mean RABBITMQ_NODENAME?"), "{told:?}");
}
