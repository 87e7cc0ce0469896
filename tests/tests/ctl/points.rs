//! Points of RabbitMQ's native AMQP 1.0 work about commands, each with its number.

use leveret_tests::amqp10::Amqp10;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::Wire;

use crate::tool::run;

/// AMQP 1.0 needs no plugin; scripts that enable and disable it still work.
#[test]
fn point_39_the_plugin_of_amqp10_does_nothing() {
    let node = Node::start(Options::new());
    let mut client = Amqp10::open(node.amqp());
    for line in ["enable", "disable", "enable --offline", "disable --offline", "enable --all"] {
        let said = run(node.directory(), &format!("rabbitmq-plugins {line} rabbitmq_amqp1_0"), "");
        assert_eq!((said.exit, said.stderr.as_str()), (0, ""), "{line}: {said:?}");
        // AMQP 1.0 still works, for existing and new connections.
        client.barrier(0);
        Amqp10::open(node.amqp()).close();
    }
    assert_eq!(run(node.directory(), "rabbitmq-plugins is_enabled rabbitmq_amqp1_0", "").exit, 0);
}

/// Connections of both protocols are in one list.
#[test]
fn point_40_one_list_of_connections() {
    let node = Node::start(Options::new());
    let amqp10 = Amqp10::open(node.amqp());
    let wire = Wire::open(node.amqp());
    let said = run(node.directory(), "rabbitmqctl list_connections protocol", "");
    let mut lines: Vec<&str> = said.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!((said.exit, lines), (0, vec!["Listing connections ...", "protocol", "{0,9,1}", "{1,0}"]), "{said:?}");
    for (tool, list) in
        [("rabbitmqctl", "list_amqp10_connections"), ("rabbitmq-diagnostics", "list_amqp10_connections")]
    {
        let said = run(node.directory(), &format!("{tool} {list}"), "");
        assert!(said.exit == 64 && said.stderr.contains("not found"), "{said:?}");
    }
    amqp10.close();
    wire.close();
}
