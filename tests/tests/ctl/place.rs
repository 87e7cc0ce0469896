//! Locating a node, and access to it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use leveret_tests::node::{Node, Options, binary, new_directory, run as leveret};

use crate::tool::{finish, run};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("is there").permissions().mode() & 0o777
}

#[test]
fn only_the_nodes_user_has_access_and_a_stop_removes_the_socket() {
    let mut node = Node::start(Options::new());
    let socket = node.directory().join("control/socket");
    assert_eq!((mode(&node.directory().join("control")), mode(&socket)), (0o700, 0o600));
    node.kill();
    assert!(socket.exists(), "nobody takes it away when the node is killed");
    let said = run(node.directory(), "rabbitmqctl ping", "");
    assert_eq!(said.exit, 69, "{}", said.stderr);
    node.restart();
    assert_eq!(run(node.directory(), "rabbitmqctl ping", "").exit, 0, "the new node has replaced it");
    assert!(node.terminate().success());
    assert!(!socket.exists());
}

#[test]
fn a_node_is_found_by_directory_variable_and_name() {
    let node = Node::start(Options::new());
    let directory = node.directory().to_str().expect("text");
    assert_eq!(leveret(&["ctl", "--data-dir", directory, "ping"]).0, 0);
    assert_eq!(leveret(&["ctl", "ping", "--data-dir", directory]).0, 0, "options may stand behind");
    let nodes = node.http().get("/api/nodes").expect("the nodes").json();
    let name = nodes[0]["name"].as_str().expect("a name");
    assert_eq!(run(node.directory(), &format!("rabbitmqctl -n {name} ping"), "").exit, 0);
    let short = name.split('@').next().expect("a name");
    assert_eq!(run(node.directory(), &format!("rabbitmqctl -n {short} ping"), "").exit, 0);
    let said = run(node.directory(), "rabbitmqctl -n other@host ping", "");
    assert_eq!(said.exit, 69);
    assert!(said.stderr.contains(&format!("The node that runs here is {name}")), "{}", said.stderr);
    let mut command = Command::new(binary());
    command.args(["ctl", "ping"]).env("LEVERET_DATA_DIR", directory).env("RABBITMQ_NODENAME", "other@host");
    assert_eq!(finish(command, "").exit, 69, "the name of the environment counts too");
}

#[test]
fn without_a_node_the_places_searched_are_listed() {
    let empty = new_directory();
    let said = run(empty.path(), "rabbitmqctl status", "");
    assert_eq!(said.exit, 69);
    assert!(said.stderr.contains(&format!("No node runs in {}", empty.path().display())), "{}", said.stderr);
}

#[test]
fn a_link_with_the_name_of_a_tool_runs_that_tool() {
    let node = Node::start(Options::new());
    let links = new_directory();
    for (tool, command, expected) in [
        ("rabbitmqctl", "list_vhosts", "/\n"),
        ("rabbitmq-diagnostics", "ping", "Ping succeeded\n"),
        ("rabbitmq-plugins", "list", "rabbitmq_amqp1_0"),
        ("rabbitmq-upgrade", "await_online_quorum_plus_one", ""),
    ] {
        let link = links.path().join(tool);
        symlink(binary().canonicalize().expect("is built"), &link).expect("links");
        let mut called = Command::new(&link);
        called.args(["-s", command]).env("LEVERET_DATA_DIR", node.directory());
        let said = finish(called, "");
        assert!(said.exit == 0 && said.stdout.contains(expected), "{tool}: {said:?}");
    }
}

#[test]
fn a_path_too_long_for_a_socket_disables_commands() {
    let parent = new_directory();
    let long = parent.path().join("a".repeat(100));
    let directory = tempfile::Builder::new().tempdir_in({
        fs::create_dir(&long).expect("is made");
        &long
    });
    let mut node = Node::start_in(directory.expect("a directory"), Options::new());
    // The log is written by a separate thread: others are served meanwhile.
    let begin = std::time::Instant::now();
    while !node.log().contains("rabbitmqctl can't reach this node: the path of the local socket has") {
        assert!(begin.elapsed() < leveret_tests::PATIENCE, "{}", node.log());
        assert_eq!(node.http().get("/api/overview").expect("an answer").status, 200, "clients are served");
    }
    let said = run(node.directory(), "rabbitmqctl ping", "");
    assert_eq!(said.exit, 69);
}
