//! Certificates: of clients, and of the node when its files change or expire.

use std::io::{Read, Write};
use std::time::Instant;

use leveret_tests::PATIENCE;
use leveret_tests::node::{Options, Process};
use leveret_tests::tls::{Authority, connect, shown};
use leveret_tests::wire::Wire;

use crate::stage::{LATE, TlsStage};

/// The first bytes of an AMQP 0-9-1 client.
const HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";

#[test]
fn a_changed_certificate_is_used_if_it_fits_its_key() {
    let mut stage = TlsStage::new(|options, _| options);
    let (address, client) = (stage.address("amqps"), stage.authority.client(None));
    assert_eq!(shown(address, &client).expect("a handshake"), stage.identity.der());
    let mut old = connect(address, &client).expect("a handshake");

    let next = stage.authority.issue("the next", LATE);
    // Half of the pair: its key isn't there yet.
    std::fs::write(stage.files.path().join("node.pem"), &next.certificate).expect("is written");
    assert!(
        stage.node.wait_for_line("the old certificate stays: certfile and keyfile don't fit together"),
        "{}",
        stage.node.log()
    );
    assert_eq!(shown(address, &client).expect("a handshake"), stage.identity.der());
    // Not PEM at all.
    std::fs::write(stage.files.path().join("node.pem"), "not yet").expect("is written");
    assert!(stage.node.wait_for_line("there is no certificate in it"), "{}", stage.node.log());
    assert_eq!(shown(address, &client).expect("a handshake"), stage.identity.der());

    next.write(stage.files.path(), "node");
    let deadline = Instant::now() + PATIENCE;
    while shown(address, &client).expect("a handshake") != next.der() {
        assert!(Instant::now() < deadline, "the new certificate isn't shown: {}", stage.node.log());
    }
    // An existing connection continues.
    old.write_all(HEADER).expect("is sent");
    let mut first = [0; 1];
    old.read_exact(&mut first).expect("connection.start");
    assert_eq!(first, [1]);
}

#[test]
fn clients_need_a_certificate_of_the_root_if_required() {
    let stage = TlsStage::new(|options, files| {
        let options = options.set("ssl_options.cacertfile", files.join("root.pem").display());
        options.set("ssl_options.verify", "verify_peer").set("ssl_options.fail_if_no_peer_cert", "true")
    });
    let address = stage.address("amqps");
    // With TLS 1.3 a client learns only from a read that it was refused.
    let is_served = |client: std::sync::Arc<rustls::ClientConfig>| {
        let served = connect(address, &client).and_then(|mut stream| {
            stream.write_all(HEADER)?;
            stream.read_exact(&mut [0; 1])
        });
        served.is_ok()
    };
    let known = stage.authority.issue("a client", LATE);
    assert!(is_served(stage.authority.client(Some(&known))));
    assert!(!is_served(stage.authority.client(None)), "nobody");
    let unknown = Authority::new("another root").issue("a stranger", LATE);
    assert!(!is_served(stage.authority.client(Some(&unknown))), "a stranger");
}

#[test]
fn the_health_check_names_listeners_with_expiring_certificates() {
    let stage = TlsStage::new(|options, _| options);
    let check = |time: &str| {
        stage.node.http().get(&format!("/api/health/checks/certificate-expiration/{time}")).expect("an answer")
    };
    assert_eq!(check("1/years").status, 200);
    let answer = check("300/years");
    assert_eq!(answer.status, 503, "{}", answer.body);
    let mut names: Vec<_> = answer.json()["expired"].as_array().expect("a list").clone();
    names.sort_by_key(|one| one["protocol"].to_string());
    let names: Vec<_> = names.iter().map(|one| one["protocol"].as_str().expect("a name")).collect();
    assert_eq!(names, ["amqp/ssl", "https", "https/prometheus"]);
    assert!(answer.body.contains("2199-12-31"), "{}", answer.body);
}

#[test]
fn a_node_names_missing_files_and_does_not_start() {
    let files = tempfile::tempdir().expect("a directory");
    let missing = files.path().join("not-there.pem").display().to_string();
    let identity = Authority::new("a root").issue("a node", LATE);
    let (certificate, _) = identity.write(files.path(), "node");
    let other = Authority::new("another").issue("another", LATE);
    let (_, other_key) = other.write(files.path(), "other");
    std::fs::write(
        files.path().join("locked.key"),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .expect("is written");
    let locked = files.path().join("locked.key").display().to_string();
    let (certificate, other_key) = (certificate.display().to_string(), other_key.display().to_string());
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[], "ssl_options: certfile isn't set"),
        (&[("certfile", &missing)], "not-there.pem"),
        (&[("certfile", &certificate)], "ssl_options: keyfile isn't set"),
        (&[("certfile", &certificate), ("keyfile", &locked)], "the key is encrypted, and password isn't set"),
        (&[("certfile", &certificate), ("keyfile", &other_key)], "certfile and keyfile don't fit together"),
    ];
    for (set, expected) in cases {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = Options::new().set("listeners.ssl.default", 0);
        for (key, value) in set {
            options = options.set(&format!("ssl_options.{key}"), value);
        }
        let mut process = Process::spawn(&options.arguments(directory.path()));
        assert!(!process.wait().success(), "{expected}");
        assert!(process.log().contains(expected), "{expected}: {}", process.log());
    }
}

#[test]
fn only_tls_is_served_if_nothing_else_is_configured() {
    let stage = TlsStage::new(|options, _| options.without("management.tcp.port").set("listeners.tcp", "none"));
    let text = std::fs::read_to_string(stage.node.directory().join("ports.json")).expect("is there");
    assert!(!text.contains("\"http\"") && !text.contains("\"amqp\"") && text.contains("\"https\""), "{text}");
    let proxy = leveret_tests::tls::TlsProxy::start(stage.address("amqps"), stage.authority.client(None));
    Wire::open(proxy.address).close();
}
