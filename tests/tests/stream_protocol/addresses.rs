//! The address that clients are told: behind a proxy, over TLS, and as configured.

use leveret_stream_protocol::client::{ServerCommand, request};
use leveret_tests::node::{Node, Options};
use leveret_tests::stream::{Login, StreamClient};
use leveret_tests::tls::{self, Authority};

use super::{finish, node, node_with};

/// Year in which certificates of tests expire.
const LATE: i32 = 2199;

fn told(client: &mut StreamClient) -> (String, u32) {
    let told = client.leader("s").expect("the stream's leader");
    let (host, port) = (&client.properties["advertised_host"], &client.properties["advertised_port"]);
    assert_eq!((host, port), (&told.0, &told.1.to_string()), "open and metadata say the same");
    told
}

#[test]
fn a_client_is_told_the_address_that_it_used() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    assert_eq!(told(&mut client), ("127.0.0.1".to_owned(), u32::from(node.streams().port())));
    client.close();
    finish(&node);
}

#[test]
fn an_advertised_address_is_told_instead() {
    let options = Options::new().set("stream.advertised_host", "outside.example").set("stream.advertised_port", 999);
    let Some(node) = node_with(options) else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    assert_eq!(told(&mut client), ("outside.example".to_owned(), 999));
    client.close();
}

#[test]
fn a_client_behind_a_proxy_is_told_the_address_of_the_proxy() {
    let options = Options::new().set("stream.proxy_protocol", true).set("stream.advertised_port", 999);
    let Some(node) = node_with(options) else { return };
    let mut client = StreamClient::connect(node.streams());
    client.send(b"PROXY TCP4 127.0.0.9 127.0.0.8 40001 5552\r\n");
    client.log_in(&Login::default()).expect("a login");
    client.create("s");
    assert_eq!(told(&mut client), ("127.0.0.8".to_owned(), 999));
    let listed = node.http().get("/api/connections").expect("an answer").json();
    assert_eq!(listed[0]["name"], "127.0.0.9:40001 -> 127.0.0.8:5552");
    // guest may only come from this machine.
    let mut elsewhere = StreamClient::connect(node.streams());
    elsewhere.send(b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 5552\r\n");
    let code = leveret_tests::stream::number(leveret_tests::stream::ResponseCode::AuthenticationFailureLoopback);
    assert_eq!(elsewhere.log_in(&Login::default()), Err(code));
    // Without the header nothing is answered.
    let mut bare = StreamClient::connect(node.streams());
    let mut out = Vec::new();
    request::sasl_handshake(&mut out, 1);
    bare.send(&out);
    assert_eq!(bare.until_closed(), None);
    client.close();
}

fn node_over_tls(authority: &Authority, files: &std::path::Path) -> Option<Node> {
    authority.issue("the node", LATE).write(files, "node");
    let file = |name: &str| files.join(name).display().to_string();
    node_with(
        Options::new()
            .set("stream.listeners.ssl.default", 0)
            .set("ssl_options.certfile", file("node.pem"))
            .set("ssl_options.keyfile", file("node.key")),
    )
}

#[test]
fn a_client_over_tls_is_told_the_name_that_it_verified() {
    let (authority, files) = (Authority::new("the root"), tempfile::tempdir().expect("a directory"));
    let Some(node) = node_over_tls(&authority, files.path()) else { return };
    let port = node.ports().stream_tls;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = StreamClient::over(tls::connect(address, &authority.client(None)).expect("a handshake"));
    client.log_in(&Login::default()).expect("a login");
    client.create("s");
    assert_eq!(told(&mut client), ("localhost".to_owned(), u32::from(port)));
    client.publisher(1, "", "s");
    // More than one record of TLS.
    client.publish(1, (0..100).map(|id| (id, vec![b'x'; 5_000])));
    client.confirms();
    client.subscribe(1, "s", leveret_tests::stream::OffsetSpec::First, 10);
    client.read_to(1, 100);
    let mut plain = StreamClient::open(node.streams());
    assert_eq!(told(&mut plain).1, u32::from(node.streams().port()), "each transport has its port");
    let overview = node.http().get("/api/overview").expect("an answer").json();
    let listeners = overview["listeners"].as_array().expect("an array");
    let has_tls = |name: &str| listeners.iter().find(|one| one["protocol"] == name).map(|one| one["tls"] == true);
    assert_eq!(["stream/ssl", "stream"].map(has_tls), [Some(true), Some(false)]);
    let stranger = Authority::new("another");
    tls::connect(address, &stranger.client(None)).expect_err("the certificate isn't that authority's");
    client.close();
    plain.close();
    finish(&node);
}

#[test]
fn properties_of_the_server_name_it() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::connect(node.streams());
    let named = client.call(
        |out, correlation| request::peer_properties(out, correlation, [("product", "a test")]),
        |answer| match answer {
            ServerCommand::PeerProperties { properties, .. } => properties.get("product").map(str::to_owned),
            other => panic!("properties expected: {other:?}"),
        },
    );
    assert!(named.is_some_and(|product| !product.is_empty()));
    client.log_in(&Login::default()).expect("a login");
    client.close();
}
