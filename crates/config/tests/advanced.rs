//! advanced.config, as RabbitMQ's users have it.

use leveret_config::Config;

fn read(text: &str) -> (Config, Vec<String>) {
    let mut config = Config::default();
    let warnings = config.read_advanced("advanced.config", text).unwrap_or_else(|errors| panic!("{errors:?}"));
    (config, warnings.iter().map(ToString::to_string).collect())
}

fn mistakes(text: &str) -> Vec<String> {
    let errors = Config::default().read_advanced("advanced.config", text).expect_err("can't be taken");
    errors.iter().map(ToString::to_string).collect()
}

/// The same keys in the form of rabbitmq.conf.
fn set(lines: &[&str]) -> Config {
    let mut config = Config::default();
    config.read("rabbitmq.conf", &lines.join("\n")).unwrap_or_else(|errors| panic!("{errors:?}"));
    config
}

#[test]
fn the_terms_of_benchmarks_are_taken() {
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
fn terms_of_other_forms_come_to_their_keys() {
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
fn what_can_not_be_taken_is_named_with_its_line() {
    assert_eq!(
        mistakes("[{rabbit, [{heartbeet, 5},\n{heartbeat, soon}]},\n{rabbitmq_shovel, [{shovels, []}]}, oops]."),
        [
            "advanced.config:1: unknown key 'heartbeet'; did you mean 'heartbeat'?",
            "advanced.config:2: heartbeat: expected a time such as 10s, 500ms or a bare number, got 'soon'",
            "advanced.config:3: the application 'rabbitmq_shovel' isn't there; its term is 'shovels'",
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
