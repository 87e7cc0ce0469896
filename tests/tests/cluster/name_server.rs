//! Nodes that find each other by a name server (`cluster_formation.dns.hostname`), as those of RabbitMQ do: the addresses of a name, and
//! the name of each address.

use leveret_tests::name_server::{NameServer, Zone};
use leveret_tests::node::{Node, Options};

use crate::Cluster;

const DOMAIN: &str = "mq.test";

/// The name of a node's host.
fn host(at: usize) -> String {
    format!("node-{}.{DOMAIN}", at + 1)
}

/// Options of nodes that are named by their hosts, and look for each other under one name.
fn options(cluster: &Cluster, server: &NameServer, count: usize) -> Vec<Options> {
    let of = |at: usize| {
        Options::new()
            .set("cluster.listeners.tcp.default", format!("{}:25672", cluster.host(at)))
            .set("cluster_formation.peer_discovery_backend", "dns")
            .set("cluster_formation.dns.hostname", DOMAIN)
            .set("cluster_formation.target_cluster_size_hint", count)
            .with_variable("RABBITMQ_NODENAME", format!("leveret@{}", host(at)))
            .with_variable("RABBITMQ_USE_LONGNAME", "true")
            .with_variable("RABBITMQ_ERLANG_COOKIE", crate::COOKIE)
            .with_files_in_place(server.files())
    };
    (0..count).map(of).collect()
}

#[test]
fn nodes_find_each_other_by_a_name_server() {
    let (net, _) = Cluster::options(3);
    let mut cluster = Cluster { net, nodes: Vec::new() };
    let address = |at: usize| cluster.host(at).parse().expect("an address");
    let zone = (0..3).fold(Zone::default(), |zone, at| {
        zone.with_address(DOMAIN, address(at)).with_address(&host(at), address(at)).with_name(address(at), &host(at))
    });
    // One has an address of the other kind besides, which is the same node's.
    let other = "fd00::2".parse().expect("an address");
    let zone = zone.with_address(DOMAIN, other).with_name(other, &host(1));
    let Some(server) = NameServer::start(&cluster.host(199), zone) else { return };
    let addresses = [address(0), address(1), address(2), other];
    cluster.nodes = Cluster::started(options(&cluster, &server, 3));
    let names: Vec<String> = (0..3).map(|at| format!("leveret@{}", host(at))).collect();
    cluster.wait_until("all are members of one cluster", |cluster| {
        cluster.nodes.iter().all(|node| cluster.members(node) == names)
    });
    assert!(server.was_asked_for_addresses_of(DOMAIN));
    for address in addresses {
        assert!(server.was_asked_for_name_of(address), "{address}");
    }
    let peers = cluster.nodes[0].http().get("/api/cluster/peers").expect("an answer").json();
    assert_eq!(peers, serde_json::json!(names), "each once");
}

#[test]
fn a_node_whose_name_has_no_addresses_says_so() {
    let (net, _) = Cluster::options(1);
    let cluster = Cluster { net, nodes: Vec::new() };
    let Some(server) = NameServer::start(&cluster.host(199), Zone::default()) else { return };
    let [options] = &options(&cluster, &server, 1)[..] else { panic!("one node") };
    // Without a hint it goes on alone after its last try, so that it starts.
    let options = options.clone().without("cluster_formation.target_cluster_size_hint");
    let options = options.set("cluster_formation.discovery_retry_limit", 1);
    let mut node = Node::start(options.set("cluster_formation.discovery_retry_interval", 100));
    assert!(node.wait_for_line(&format!("{DOMAIN} has no addresses")), "{}", node.log());
    assert!(server.was_asked_for_addresses_of(DOMAIN));
}
