//! Nodes that don't belong together: each gets a text that says what to do, nothing joins, and nothing is lost.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use leveret_tests::node::{Node, Options, new_directory};
use leveret_tests::tls::Authority;
use leveret_tests::wire::Wire;

use crate::Cluster;

/// The key of the listener for other nodes.
const LISTENER: &str = "cluster.listeners.tcp.default";

fn declare(node: &Node, queue: &str) {
    let mut wire = Wire::open(node.amqp());
    let _ = wire.declare(1, queue, true);
    wire.close();
}

#[test]
fn members_of_two_clusters_refuse_each_other_with_both_ids() {
    let mut ours = Cluster::start(2);
    let mut theirs = Cluster::start(2);
    let id = |cluster: &Cluster| {
        let shown = cluster.nodes[0].http().get("/api/global-parameters/internal_cluster_id").expect("an answer");
        let id = shown.json()["value"].as_str().expect("an id").to_owned();
        id.rsplit('-').next().expect("its digits").to_owned()
    };
    let ids = [id(&ours), id(&theirs)];
    assert_ne!(ids[0], ids[1]);
    declare(&theirs.nodes[1], "kept");
    // A member of the other cluster has the address of one of ours from now on.
    ours.nodes[1].kill();
    theirs.nodes[1].restart_with(LISTENER, format!("{}:25672", ours.host(1)));
    for node in [&mut ours.nodes[0], &mut theirs.nodes[1]] {
        for id in &ids {
            assert!(node.wait_for_line(id), "the id {id} is named in {}", node.log());
        }
        assert!(node.log().contains("rabbitmqctl reset"), "{}", node.log());
    }
    theirs.wait_until("it is kept", |theirs| theirs.queues(0) == ["kept"]);
    assert!(ours.queues(0).is_empty());
    let names = [ours.name(0), theirs.name(1)];
    assert!(!ours.members(&ours.nodes[0]).contains(&names[1]) && !theirs.members(&theirs.nodes[1]).contains(&names[0]));
}

#[test]
fn a_name_that_a_member_has_is_taken() {
    let mut cluster = Cluster::start(2);
    let host = cluster.host(2);
    let options = Options::new()
        .set(LISTENER, format!("{host}:25672"))
        .with_variable("RABBITMQ_NODENAME", cluster.name(1))
        .with_variable("RABBITMQ_ERLANG_COOKIE", crate::COOKIE);
    cluster.nodes.push(Node::start(options));
    declare(&cluster.nodes[2], "own");
    let (exit, text) = cluster.ctl(2, &["join_cluster", &cluster.name(0)]);
    assert!(exit != 0 && text.contains("another name") && text.contains(&cluster.name(1)), "{exit} {text}");
    assert_eq!(cluster.queues(2), ["own"], "it goes on alone");
    assert_eq!(cluster.members(&cluster.nodes[0]).len(), 2);
}

#[test]
fn nodes_with_data_whose_files_name_each_other_go_on_alone() {
    let mut cluster = Cluster::alone(2);
    for at in 0..2 {
        declare(&cluster.nodes[at], &format!("of-{at}"));
    }
    for at in 0..2 {
        for other in 0..2 {
            let key = format!("cluster_formation.classic_config.nodes.{}", other + 1);
            let name = cluster.name(other);
            cluster.nodes[at].restart_with(&key, name);
        }
    }
    for at in 0..2 {
        let node = &mut cluster.nodes[at];
        assert!(node.wait_for_line("has data of its own and goes on alone"), "{}", node.log());
        assert!(node.log().contains("rabbitmqctl join_cluster"), "{}", node.log());
        assert_eq!(cluster.queues(at), [format!("of-{at}")]);
        assert_eq!(cluster.members(&cluster.nodes[at]), [cluster.name(at)]);
    }
}

#[test]
fn garbage_on_the_port_for_nodes_is_refused() {
    let mut cluster = Cluster::start(2);
    let address = format!("{}:25672", cluster.host(0));
    for garbage in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], b"AMQP\x00\x00\x09\x01", &[0xff; 64 << 10], &[0; 8]] {
        let mut socket = TcpStream::connect(&address).expect("the port is open");
        socket.set_read_timeout(Some(leveret_tests::PATIENCE)).expect("a timeout");
        // It may be closed before all is written.
        let _ = socket.write_all(garbage);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        assert!(answer.len() < 1024, "{} bytes", answer.len());
    }
    assert!(cluster.nodes[0].wait_for_line("was refused"), "{}", cluster.nodes[0].log());
    declare(&cluster.nodes[1], "still");
    assert_eq!(cluster.members(&cluster.nodes[1]).len(), 2, "the nodes keep their links");
}

#[test]
fn a_forgotten_node_is_told_on_both_sides_and_joins_anew() {
    let mut cluster = Cluster::start(3);
    // The last one has the highest number.
    for gone in [1, 2] {
        let name = cluster.name(gone);
        cluster.nodes[gone].kill();
        cluster.wait_until("it is seen", |cluster| !cluster.members(&cluster.nodes[0]).contains(&name));
        cluster.well(0, &["forget_cluster_node", &name]);
        cluster.nodes[gone].restart();
        for at in [0, gone] {
            let node = &mut cluster.nodes[at];
            assert!(node.wait_for_line("isn't a member any more: it was forgotten"), "{at}: {}", node.log());
            assert!(node.log().contains("rabbitmqctl reset"), "{}", node.log());
        }
        assert!(!cluster.members(&cluster.nodes[0]).contains(&name));
        // A list names others, so it joins by itself once it has no data.
        cluster.well(gone, &["force_reset"]);
        cluster.wait_until("it is a member again", |cluster| cluster.members(&cluster.nodes[0]).contains(&name));
        declare(&cluster.nodes[gone], &format!("new-{gone}"));
        cluster.wait_until("it is in agreement", |cluster| cluster.queues(0).contains(&format!("new-{gone}")));
    }
}

/// Copies the files of a node that doesn't run.
fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            fs::create_dir(&copy).expect("a directory");
            copy_files(&path, &copy);
        } else if kind.is_file() {
            fs::copy(&path, &copy).expect("it can be read");
        }
    }
}

/// The number of a member's last start that a node knows of.
fn starts(cluster: &Cluster, at: usize, member: &str) -> Option<u64> {
    let status = cluster.nodes[at].http().get("/api/cluster/status").ok()?.json();
    let row = status["nodes"].as_array()?.iter().find(|row| row["name"] == member)?.clone();
    row["starts"].as_u64()
}

#[test]
fn an_older_copy_of_a_directory_is_refused_on_both_sides() {
    let (net, options) = Cluster::options(3);
    let mut cluster = Cluster { net, nodes: Cluster::started(options.clone()) };
    let name = cluster.name(2);
    cluster.wait_until("all are members", |cluster| (0..3).all(|at| cluster.members(&cluster.nodes[at]).len() == 3));
    cluster.wait_until("its start is known", |cluster| starts(cluster, 0, &name).is_some());
    cluster.nodes[2].kill();
    let copy = new_directory();
    copy_files(cluster.nodes[2].directory(), copy.path());
    let before = starts(&cluster, 0, &name).expect("it is a member");
    cluster.nodes[2].restart();
    // The copy begins with the start after its own last one, as the restarted node did. Another one makes it older.
    for more in 1..=2 {
        cluster.wait_until("the start is agreed on", |cluster| {
            (0..2).all(|at| starts(cluster, at, &name) == Some(before + more))
        });
        if more == 1 {
            cluster.nodes[2].restart();
        }
    }
    declare(&cluster.nodes[2], "new");
    cluster.nodes[2].kill();
    // The disk of the member is replaced by its backup.
    cluster.nodes[2] = Node::start_in(copy, options[2].clone());
    for at in [0, 2] {
        let node = &mut cluster.nodes[at];
        assert!(node.wait_for_line("is an older copy"), "{at}: {}", node.log());
        assert!(node.log().contains("forget_cluster_node"), "{at}: {}", node.log());
    }
    for at in 0..2 {
        assert!(!cluster.members(&cluster.nodes[at]).contains(&name), "it is no running member");
        assert!(cluster.queues(at).contains(&"new".to_owned()), "nothing is lost");
    }
    declare(&cluster.nodes[0], "still");
    cluster.wait_until("the others go on", |cluster| cluster.queues(1).contains(&"still".to_owned()));
}

#[test]
fn a_certificate_of_another_authority_is_refused_on_both_sides() {
    let directory = new_directory();
    let authorities = ["ours", "theirs"].map(|name| (name, Authority::new(name)));
    let (net, options) = Cluster::options(2);
    let options = options.into_iter().zip(&authorities).map(|(options, (name, authority))| {
        let (certificate, key) = authority.issue(name, 2126).write(directory.path(), name);
        let root = directory.path().join(format!("{name}.root.pem"));
        fs::write(&root, authority.pem()).expect("is written");
        let options = options
            .set("cluster.ssl_options.certfile", certificate.display())
            .set("cluster.ssl_options.keyfile", key.display())
            .set("cluster.ssl_options.cacertfile", root.display());
        let key = |other: usize| format!("cluster_formation.classic_config.nodes.{}", other + 1);
        Node::start((0..2).fold(options, |options, other| options.without(&key(other))))
    });
    let mut cluster = Cluster { net, nodes: options.collect() };
    declare(&cluster.nodes[1], "own");
    let (exit, text) = cluster.ctl(1, &["join_cluster", &cluster.name(0)]);
    assert!(exit != 0 && text.contains("cluster.ssl_options.cacertfile"), "{exit} {text}");
    let first = &mut cluster.nodes[0];
    assert!(first.wait_for_line("was refused"), "{}", first.log());
    assert!(first.log().contains("cluster.ssl_options.cacertfile"), "{}", first.log());
    assert_eq!(cluster.queues(1), ["own"], "it goes on alone");
    assert_eq!(cluster.members(&cluster.nodes[0]).len(), 1);
}
