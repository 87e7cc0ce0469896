//! `leveret bench` over TLS: trusted certificates, and its own.

use std::path::Path;
use std::process::{Command, Stdio};

use leveret_tests::node::binary;

use crate::stage::{LATE, TlsStage};

/// Runs a small load. Returns its output if it is valid, otherwise the error.
fn bench(uri: &str, arguments: &[&str], system: &Path) -> Result<String, String> {
    let mut command = Command::new(binary());
    command.args(["bench", "classic-amqp091", "classic-amqp10", "--messages", "500", "--size", "40000", "--uri", uri]);
    // Overrides the system's certificates.
    command.args(arguments).env("SSL_CERT_FILE", system).env_remove("SSL_CERT_DIR").stdin(Stdio::null());
    let output = command.output().expect("is run");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn the_load_trusts_named_or_system_roots_and_checks_the_host() {
    let stage = TlsStage::new(|options, _| options);
    let port = stage.address("amqps").port();
    let root = stage.files.path().join("root.pem");
    let nobody = stage.files.path().join("empty.pem");
    std::fs::write(&nobody, "").expect("is written");
    let by_name = format!("amqps://guest:guest@localhost:{port}");
    let named = ["--cacertfile", root.to_str().expect("text")];

    for report in [bench(&by_name, &named, &nobody), bench(&by_name, &[], &root)] {
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        assert!(report.contains("500"), "{report}");
    }
    let refused = |uri: &str, arguments: &[&str], system: &Path| bench(uri, arguments, system).expect_err("refused");
    let error = refused(&by_name, &[], &nobody);
    assert!(error.contains("the system has no certificates to trust"), "{error}");
    let other = leveret_tests::tls::Authority::new("another root").pem();
    std::fs::write(&nobody, other).expect("is written");
    let error = refused(&by_name, &[], &nobody);
    assert!(error.contains("make the TLS handshake: invalid peer certificate: UnknownIssuer"), "{error}");
    let error = refused(&format!("amqps://127.0.0.1:{port}"), &named, &nobody);
    assert!(error.contains("invalid peer certificate: certificate not valid for name"), "{error}");
    let error = refused(&format!("amqp://localhost:{port}"), &named, &nobody);
    assert!(error.contains("the URI must begin with amqps://"), "{error}");
    let key = stage.files.path().join("node.key");
    let error = refused(&by_name, &["--cacertfile", key.to_str().expect("text")], &nobody);
    assert!(error.contains("node.key holds no certificate in PEM"), "{error}");
}

#[test]
fn the_load_shows_its_own_certificate() {
    let stage = TlsStage::new(|options, files| {
        let options = options.set("ssl_options.cacertfile", files.join("root.pem").display());
        options.set("ssl_options.verify", "verify_peer").set("ssl_options.fail_if_no_peer_cert", "true")
    });
    let root = stage.files.path().join("root.pem");
    let (certificate, key) = stage.authority.issue("a load", LATE).write(stage.files.path(), "load");
    let uri = format!("amqps://guest:guest@localhost:{}", stage.address("amqps").port());
    let own = ["--certfile", certificate.to_str().expect("text"), "--keyfile", key.to_str().expect("text")];
    bench(&uri, &own, &root).unwrap_or_else(|error| panic!("{error}"));
    let error = bench(&uri, &[], &root).expect_err("nobody");
    assert!(error.contains("CertificateRequired"), "{error}");
    let node_key = stage.files.path().join("node.key");
    let wrong = [own[0], own[1], own[2], node_key.to_str().expect("text")];
    let error = bench(&uri, &wrong, &root).expect_err("another's key");
    assert!(error.contains("can't be used together"), "{error}");
}
