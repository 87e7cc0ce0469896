//! The own suite of RabbitMQ's stream client for Rust. Its fixed ports and its certificates are replaced by the broker's in the copy.

use std::fs;
use std::path::Path;

use leveret_tests::broker::is_given;
use leveret_tests::go_suite::replace_number;
use leveret_tests::node::{Node, Options};
use leveret_tests::tls::Authority;
use leveret_tests::{conservation, crate_suite};

/// Number of tests in the pinned version.
const NAMES: usize = 90;

/// The files with ports.
const FILES: [&str; 4] =
    ["src/client/options.rs", "tests/client_test.rs", "tests/common.rs", "tests/environment_test.rs"];

/// A year until whose end certificates are valid.
const LATE: i32 = 2199;

#[test]
#[ignore = "builds 160 crates first: make -C tests suite-stream-rust"]
fn every_test_of_the_crate_passes_or_is_listed() {
    if is_given() {
        return;
    }
    let copy = crate_suite::copy("stream-rust", "rabbitmq-stream-client");
    let (authority, certificates) = (Authority::new("the root"), copy.path().join(".ci/certs"));
    let (certificate, key) = authority.issue("the node", LATE).write(&certificates, "node");
    let client = authority.issue("a client", LATE);
    for (file, text) in [
        ("ca_certificate.pem", authority.pem()),
        ("client_certificate.pem", client.certificate),
        ("client_key.pem", client.key),
    ] {
        fs::write(certificates.join(file), text).expect("is written");
    }
    let node = Node::start(
        Options::new()
            // The suite expects it.
            .set("stream.advertised_host", "localhost")
            .set("stream.listeners.ssl.default", 0)
            .set("ssl_options.certfile", certificate.display())
            .set("ssl_options.keyfile", key.display()),
    );
    let ports = node.ports();
    let ports =
        [("15672", ports.http), ("5672", node.amqp().port()), ("5552", ports.stream), ("5551", ports.stream_tls)];
    for file in FILES {
        copy.edit(file, |text| {
            ports.iter().fold(text.to_owned(), |text, (from, to)| replace_number(&text, from, &to.to_string()))
        });
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stream-rust");
    fs::create_dir_all(&target).expect("a folder");
    let output = crate_suite::test(&copy, &target, &["--tests", "--features", "serde"]);
    crate_suite::results(&output).judge("rabbitmq-stream-rust-client.txt", NAMES, &output);
    conservation::check(&node.http());
}
