//! A node that is stopped and started again within one process.

use std::net::TcpStream;

use leveret_tests::conservation;
use leveret_tests::node::{Node, Options, Ports};
use leveret_tests::wire::{Wire, publish};

use crate::tool::{Said, run};

fn said(node: &Node, line: &str) -> Said {
    run(node.directory(), line, "")
}

fn well(node: &Node, line: &str) -> String {
    let said = said(node, line);
    assert_eq!(said.exit, 0, "{line}: {}", said.stderr);
    said.stdout
}

#[test]
fn a_stopped_node_answers_tools_only_and_starts_from_its_disk() {
    let mut node = Node::start(Options::new());
    let (amqp, http, pid) = (node.amqp(), node.ports().http, node.ports().pid);
    let mut wire = Wire::open(amqp);
    wire.declare(1, "kept", true);
    wire.confirm_select(1);
    wire.send(&publish(1, "", "kept", b"body", false, true));
    wire.confirms(1);
    well(&node, "rabbitmqctl start_app");
    well(&node, "rabbitmqctl stop_app");
    let (code, text) = wire.until_closed().expect("a reason");
    assert!(code == 320 && text.starts_with("CONNECTION_FORCED"), "{code} {text}");
    assert!(TcpStream::connect(amqp).is_err(), "AMQP is closed");
    assert!(TcpStream::connect(("127.0.0.1", http)).is_err(), "HTTP is closed");
    assert!(!node.directory().join("ports.json").exists());

    well(&node, "rabbitmqctl ping");
    well(&node, "rabbitmqctl stop_app");
    assert!(well(&node, "rabbitmq-diagnostics is_running").contains("is not running"));
    for (line, exit, part) in [
        ("rabbitmq-diagnostics check_running", 69, "is not running"),
        ("rabbitmqctl await_startup", 69, "rabbit_is_not_running"),
        ("rabbitmqctl status", 64, "Start it with 'rabbitmqctl start_app'"),
        ("rabbitmqctl list_queues", 64, "Start it with 'rabbitmqctl start_app'"),
        ("rabbitmq-diagnostics check_alarms", 64, "Start it with 'rabbitmqctl start_app'"),
        ("rabbitmq-diagnostics check_port_connectivity", 64, "Start it with 'rabbitmqctl start_app'"),
    ] {
        let said = said(&node, line);
        assert!(said.exit == exit && said.stderr.contains(part), "{line}: {said:?}");
    }

    well(&node, "rabbitmqctl start_app");
    well(&node, "rabbitmq-diagnostics check_running");
    well(&node, "rabbitmqctl await_startup");
    assert!(node.wait_for_line("clean stop"), "the log was closed as by a signal");
    let ports = Ports::read(node.directory());
    assert_eq!(ports.pid, pid, "it is the same process");
    let mut wire = Wire::open(([127, 0, 0, 1], ports.amqp).into());
    let declared = wire.declare(1, "kept", true);
    let mut arguments = declared.arguments();
    let _name = arguments.short_string();
    assert_eq!(arguments.long(), 1, "the message is there");
    drop(wire);
    conservation::check(&leveret_tests::http::Http::guest(format!("127.0.0.1:{}", ports.http)));

    // Again; then the process is ended by a signal while it has no node.
    well(&node, "rabbitmqctl stop_app");
    assert_eq!(node.terminate().code(), Some(0));
    assert_eq!(said(&node, "rabbitmqctl ping").exit, 69);
}

#[test]
fn a_node_that_can_not_start_says_why_and_its_process_stays() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = taken.local_addr().expect("is bound").port();
    drop(taken);
    let mut node = Node::start(
        Options::new().set("listeners.tcp.default", format!("127.0.0.1:{port}")).set("stream.listeners.tcp.default", 0),
    );
    well(&node, "rabbitmqctl stop_app");
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).expect("nobody listens there");
    let refused = said(&node, "rabbitmqctl start_app");
    assert!(
        refused.exit == 70 && refused.stderr.contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{refused:?}"
    );
    well(&node, "rabbitmqctl ping");
    drop(taken);
    well(&node, "rabbitmqctl start_app");
    Wire::open(([127, 0, 0, 1], port).into());
    well(&node, "rabbitmqctl stop_app");
    well(&node, "rabbitmqctl stop");
    assert_eq!(node.terminate_asked().code(), Some(0));
}

#[test]
fn listeners_with_port_0_keep_the_ports_that_they_had() {
    let node = Node::start(Options::new());
    let restart = |between: &dyn Fn()| {
        let had = Ports::read(node.directory());
        well(&node, "rabbitmqctl stop_app");
        between();
        well(&node, "rabbitmqctl start_app");
        (had, Ports::read(node.directory()))
    };
    let all = |ports: Ports| [ports.amqp, ports.http, ports.prometheus];
    for _ in 0..2 {
        let (had, has) = restart(&|| ());
        assert_eq!(all(has), all(had));
    }
    // A port that is taken meanwhile doesn't prevent the start.
    let port = Ports::read(node.directory()).amqp;
    let taken = std::cell::OnceCell::new();
    let (had, has) = restart(&|| {
        let listener = std::net::TcpListener::bind(("0.0.0.0", port)).expect("the port is free");
        taken.set(listener).expect("is taken once");
    });
    assert_ne!(has.amqp, had.amqp);
    assert_eq!([has.http, has.prometheus], [had.http, had.prometheus]);
    drop(taken);
    Wire::open(([127, 0, 0, 1], has.amqp).into());
}
