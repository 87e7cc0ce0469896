//! Login by certificate: EXTERNAL, over both protocols.

use leveret_strict_client::amqp10::{Mechanism, Options, SessionOptions};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::tls::TlsProxy;
use leveret_tests::wire::{Frame, Wire, Writer, method, method_frame};
use serde_json::json;

use crate::stage::{LATE, TlsStage};

/// A node that requests certificates but doesn't require them.
fn stage(from: &str) -> TlsStage {
    TlsStage::new(|options, files| {
        let options = options.set("ssl_options.cacertfile", files.join("root.pem").display());
        let options = options.set("ssl_options.verify", "verify_peer").set("ssl_cert_login_from", from);
        options.set("auth_mechanisms.1", "EXTERNAL").set("auth_mechanisms.2", "PLAIN")
    })
}

/// A user without a password, with all permissions.
fn declare(stage: &TlsStage, user: &str) {
    let (http, user) = (stage.node.http(), user.replace('=', "%3D").replace(' ', "%20"));
    let put = |path: &str, body| http.put(path, &body).expect("an answer").status;
    assert_eq!(put(&format!("/api/users/{user}"), json!({"password_hash": "", "tags": ""})), 201);
    let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
    assert_eq!(put(&format!("/api/permissions/%2F/{user}"), all), 201);
}

fn proxy(stage: &TlsStage, name: Option<&str>) -> TlsProxy {
    let identity = name.map(|name| stage.authority.issue(name, LATE));
    TlsProxy::start(stage.address("amqps"), stage.authority.client(identity.as_ref()))
}

/// The mechanisms offered in AMQP 0-9-1.
fn offered(wire: &mut Wire) -> String {
    wire.send(b"AMQP\x00\x00\x09\x01");
    let start = wire.next_method(method::CONNECTION_START).expect("connection.start");
    let bytes = start.payload;
    // Mechanisms and locales are the last two strings.
    let (rest, _) = bytes.split_at(bytes.len() - b"\0\0\0\x05en_US".len());
    let text = String::from_utf8_lossy(rest).into_owned();
    let begin = text.find("EXTERNAL").or_else(|| text.rfind("PLAIN")).expect("mechanisms");
    text[begin..].to_owned()
}

fn external(wire: &mut Wire) -> Result<Frame, Frame> {
    let mut capabilities = Writer::new();
    capabilities.put_short_string("authentication_failure_close").put(b"t\x01");
    let mut properties = Writer::new();
    properties.put_short_string("capabilities").put_octet(b'F').put_long_string(capabilities.bytes());
    let mut arguments = Writer::new();
    arguments.put_long_string(properties.bytes());
    arguments.put_short_string("EXTERNAL").put_long_string(b"guest").put_short_string("en_US");
    wire.send(&method_frame(0, method::CONNECTION_START_OK, &arguments));
    wire.next_method(method::CONNECTION_TUNE)
}

fn over_amqp10() -> Options {
    let mechanism = Mechanism::Other { name: "EXTERNAL".to_owned(), initial_response: None };
    Options { mechanism, ..Options::default() }
}

#[test]
fn a_certificate_logs_its_user_in_over_both_protocols() {
    let stage = stage("distinguished_name");
    declare(&stage, "CN=one client");
    let proxy = proxy(&stage, Some("one client"));
    let mut wire = Wire::connect(proxy.address);
    assert_eq!(offered(&mut wire), "EXTERNAL PLAIN");
    external(&mut wire).unwrap_or_else(|frame| panic!("refused: {:?}", frame.reason()));
    let mut peer = Amqp10::open_with(proxy.address, over_amqp10(), SessionOptions::default());
    peer.barrier(0);

    let listed = stage.node.http().get("/api/connections").expect("an answer").json();
    let one = listed.as_array().and_then(|list| list.first()).expect("a connection");
    for (key, value) in [
        ("user", "CN=one client"),
        ("auth_mechanism", "EXTERNAL"),
        ("peer_cert_subject", "CN=one client"),
        ("peer_cert_issuer", "CN=the root"),
        ("peer_cert_validity", "1975-01-01T00:00:00Z - 2199-12-31T00:00:00Z"),
    ] {
        assert_eq!(one[key], value, "{one}");
    }
    assert!(!one["peer_cert_serial_number"].as_str().expect("a text").is_empty(), "{one}");
    peer.close();
}

#[test]
fn the_common_name_is_used_if_configured() {
    let mut stage = stage("common_name");
    declare(&stage, "two");
    let known = proxy(&stage, Some("two"));
    let mut wire = Wire::connect(known.address);
    offered(&mut wire);
    external(&mut wire).unwrap_or_else(|frame| panic!("refused: {:?}", frame.reason()));
    // A certificate without a user is refused, although it is valid and the response names an existing user.
    let stranger = proxy(&stage, Some("nobody"));
    let mut wire = Wire::connect(stranger.address);
    offered(&mut wire);
    let (code, text) = external(&mut wire).expect_err("no user").reason().expect("connection.close");
    assert_eq!(code, 403);
    assert!(text.starts_with("ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL"), "{text}");
    assert!(stage.node.wait_for_line("user 'nobody' - invalid credentials"), "{}", stage.node.log());
}

#[test]
fn external_is_only_offered_to_clients_with_a_certificate() {
    let stage = stage("distinguished_name");
    declare(&stage, "CN=one client");
    let nobody = proxy(&stage, None);
    for address in [nobody.address, stage.node.amqp()] {
        let mut wire = Wire::connect(address);
        assert_eq!(offered(&mut wire), "PLAIN");
        let (code, text) = external(&mut wire).expect_err("not offered").reason().expect("connection.close");
        assert_eq!(code, 540, "{text}");
    }
}
