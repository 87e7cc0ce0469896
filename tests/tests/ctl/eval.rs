//! Expressions evaluated by start scripts and clients' test suites, answered as by RabbitMQ 4.3.6.

use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Tuning, Wire};

use crate::tool::run;

fn eval(node: &Node, expression: &str) -> String {
    let said = run(node.directory(), &format!("rabbitmqctl eval '{expression}'"), "");
    assert_eq!(said.exit, 0, "{expression}: {}", said.stderr);
    said.stdout.trim_end().to_owned()
}

fn alarms(node: &Node) -> i32 {
    run(node.directory(), "rabbitmq-diagnostics -q check_local_alarms", "").exit
}

#[test]
fn questions_are_answered() {
    let node = Node::start(Options::new());
    let name = node.http().get("/api/overview").expect("an answer").json()["node"].as_str().expect("a name").to_owned();
    assert_eq!(eval(&node, "node().").trim_matches('\''), name);
    for (expression, answer) in [
        ("nodes().", "[]"),
        ("rabbit_nodes:reached_target_cluster_size().", "true"),
        ("rabbit_deprecated_features:is_permitted(transient_nonexcl_queues).", "true"),
        ("rabbit_deprecated_features:is_permitted(queue_master_locator).", "false"),
        ("rabbit_deprecated_features:is_permitted(nonsense).", "true"),
    ] {
        assert_eq!(eval(&node, expression), answer, "{expression}");
    }
    let said = run(node.directory(), "rabbitmqctl eval 'rabbit_amqqueue:list().'", "");
    assert!(said.exit == 64 && said.stderr.contains("Use instead: rabbitmqctl list_queues"), "{said:?}");
    assert_eq!(run(node.directory(), "rabbitmqctl eval 1+1", "").exit, 64);
}

#[test]
fn alarms_are_set_and_cleared() {
    let node = Node::start(Options::new().set("disk_free_limit.absolute", 0));
    assert_eq!(alarms(&node), 0);
    for resource in ["memory", "disk"] {
        assert_eq!(
            eval(&node, &format!("rabbit_alarm:set_alarm({{{{resource_limit, {resource}, node()}}, []}}).")),
            "ok"
        );
        assert_eq!(alarms(&node), 69, "{resource}");
        assert_eq!(eval(&node, &format!("rabbit_alarm:clear_alarm({{resource_limit, {resource}, node()}}).")), "ok");
        assert_eq!(alarms(&node), 0, "{resource}");
    }
}

#[test]
fn channel_max_and_loopback_users_change_until_the_node_stops() {
    let mut node = Node::start(Options::new());
    assert_eq!(eval(&node, "application:get_env(rabbit, channel_max)."), "{ok,2047}");
    assert_eq!(eval(&node, "application:set_env(rabbit, channel_max, 5)."), "ok");
    assert_eq!(eval(&node, "application:get_env(rabbit, channel_max)."), "{ok,5}");
    let mut wire = Wire::open_connection(node.amqp(), Tuning { frame_max: 0, heartbeat: 0 });
    (1..=5).for_each(|channel| wire.open_channel(channel));
    // channel.open of a sixth channel.
    wire.send(&[1, 0, 6, 0, 0, 0, 5, 0, 20, 0, 10, 0, 0xce]);
    let (code, text) = wire.until_closed().expect("a reason");
    assert!(code == 530 && text.contains('5'), "{code} {text}");
    assert_eq!(eval(&node, "application:get_env(rabbit, loopback_users)."), "{ok,[<<\"guest\">>]}");
    assert_eq!(eval(&node, "application:set_env(rabbit, loopback_users, [])."), "ok");
    assert_eq!(eval(&node, "application:get_env(rabbit, loopback_users)."), "{ok,[]}");
    node.terminate();
    node.restart();
    assert_eq!(eval(&node, "application:get_env(rabbit, channel_max)."), "{ok,2047}");
    assert_eq!(eval(&node, "application:get_env(rabbit, loopback_users)."), "{ok,[<<\"guest\">>]}");
}

#[test]
fn a_connection_is_killed_without_a_word() {
    let mut node = Node::start(Options::new());
    for expression in ["exit(rabbit_misc:string_to_pid(\"NAME\"), kill).", "rabbit_stream:kill_connection(\"NAME\")."] {
        let pids = || run(node.directory(), "rabbitmqctl -s list_connections pid", "").stdout;
        let mut other = Wire::open(node.amqp());
        let before = pids();
        let mut wire = Wire::open(node.amqp());
        let all = pids();
        let pid = all.lines().find(|pid| !before.contains(pid)).expect("its pid");
        let answer = if expression.starts_with("exit") { "true" } else { "ok" };
        assert_eq!(eval(&node, &expression.replace("NAME", pid)), answer);
        assert_eq!(wire.until_closed(), None, "its socket ends, and no method says why");
        assert_eq!(eval(&node, &expression.replace("NAME", pid)), answer, "as of a process that has ended");
        other.declare(1, "only-the-other-one-ended", false);
    }
    assert!(node.wait_for_line("is killed, as eval asked for"));
}
