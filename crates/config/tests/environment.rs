//! Environment variables by RabbitMQ's names, and rabbitmq-env.conf.

use leveret_config::{Config, Place, environment_file};

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
    expected.log.only = Some(Place::Stdout);
    expected.node_name = Some("rabbit@my-host.local".to_owned());
    assert_eq!(config, expected);
    let told: Vec<String> = warnings.expect("are right").iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("environment: RABBITMQ_ERLANG_COOKIE has no effect: "), "{told:?}");
    assert!(!told[0].contains("secret"));
}

#[test]
fn a_port_moves_no_listener_of_a_file() {
    let mut config = Config::default();
    config.read("rabbitmq.conf", "listeners.tcp.mine = 1111").expect("is right");
    let before = config.clone();
    config.read_environment(variables(&[("RABBITMQ_NODE_PORT", "5673")])).expect("is right");
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
    let expected = variables(&[
        ("RABBITMQ_NODENAME", "rabbit@here"),
        ("RABBITMQ_NODE_PORT", "5673"),
        ("RABBITMQ_DEFAULT_PASS", "a b # c"),
        ("RABBITMQ_LOGS", "-"),
    ]);
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
