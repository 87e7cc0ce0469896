//! Logins: which users are accepted, by which mechanism.

use std::net::SocketAddr;
use std::sync::Arc;

use leveret_amqp10::sasl::{self, SaslCode};
use leveret_amqp10::{HEADER_SASL, SaslFrame, Symbol, Symbols};
use leveret_amqp091::method::connection;
use leveret_amqp091::{FieldTable, Method, ShortStr, encode_method};
use leveret_broker::{Peer, Settings};
use leveret_strict_client::amqp091::{Event, Options};

use crate::stage::{Nobody, Stage, Told};

#[test]
fn an_anonymous_login_becomes_the_configured_user() {
    let login = Some(("guest".to_owned(), "guest".to_owned()));
    let mut stage = Stage::with(Settings { anonymous_login: login, ..Settings::default() });
    let link = stage.dial(Options { anonymous: true, ..Options::default() });
    assert_eq!(stage.links[link].told().last(), Some(&Told::Event(Event::Connected)));
}

#[test]
fn an_anonymous_login_is_refused_without_a_configured_user() {
    let mut stage = Stage::with(Settings { anonymous_login: None, ..Settings::default() });
    let link = stage.dial(Options { anonymous: true, ..Options::default() });
    let (code, text) = stage.links[link].refusal().expect("it is refused");
    assert_eq!(code, 403);
    assert!(text.contains("Login was refused using authentication mechanism ANONYMOUS"), "{text}");
}

/// Passwords can't be tried in quick succession.
#[test]
fn a_refused_client_without_the_capability_is_closed_late() {
    let mut stage = Stage::with(Settings { anonymous_login: None, ..Settings::default() });
    let link = stage.dial(Options { anonymous: true, properties: FieldTable::new(), ..Options::default() });
    let refused = |stage: &mut Stage| {
        let link = &mut stage.links[link];
        assert_eq!(link.refusal(), None);
        assert!(!link.connection.wants_read(), "nothing that it says counts");
        link.connection.is_finished()
    };
    assert!(!refused(&mut stage));
    stage.pass(2);
    assert!(!refused(&mut stage));
    stage.pass(1);
    assert!(refused(&mut stage));
}

/// The output of a connection of AMQP 1.0 after this `sasl-init`, at once and after three seconds, and whether it ends.
fn after_init(mechanism: &str, response: &[u8]) -> ([Vec<u8>; 2], bool) {
    let mut stage = Stage::with(Settings { anonymous_login: None, ..Settings::default() });
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let peer = Peer::new(address(50_001), address(5672));
    let mut connection = stage.broker.accept(&stage.broker.protocols, peer, Arc::new(Nobody), 0, stage.now);
    connection.receive(&HEADER_SASL, stage.now);
    let greeting = connection.output().len();
    connection.output().written(greeting);
    let mechanism = Symbol::checked(mechanism).expect("a symbol");
    let mut input = Vec::new();
    SaslFrame::Init(sasl::Init { mechanism, initial_response: Some(response), hostname: None }).encode(&mut input);
    connection.receive(&input, stage.now);
    let said = [2_900, 100].map(|ms| {
        stage.now.monotonic += ms * 1_000_000;
        connection.turn(stage.now);
        connection.output().pending().to_vec()
    });
    (said, connection.is_finished())
}

#[test]
fn a_refused_login_over_amqp10_is_answered_with_a_delay() {
    let mut outcome = Vec::new();
    SaslFrame::Outcome(sasl::Outcome { code: SaslCode::Auth, additional_data: None }).encode(&mut outcome);
    for mechanism in ["ANONYMOUS", "NONSENSE"] {
        assert_eq!(after_init(mechanism, b""), ([Vec::new(), outcome.clone()], true), "{mechanism}");
    }
}

#[test]
fn only_the_configured_mechanisms_are_offered_and_taken() {
    let settings = || Settings { auth_mechanisms: vec!["PLAIN".into()], ..Settings::default() };
    let mut stage = Stage::with(settings());
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let peer = Peer::new(address(50_001), address(5672));
    let mut connection = stage.broker.accept(&stage.broker.protocols, peer, Arc::new(Nobody), 0, stage.now);
    connection.receive(&HEADER_SASL, stage.now);
    let mut expected = HEADER_SASL.to_vec();
    let plain = [Symbol::new("PLAIN")];
    SaslFrame::Mechanisms(sasl::Mechanisms { sasl_server_mechanisms: Symbols::of(&plain) }).encode(&mut expected);
    assert_eq!(connection.output().pending(), expected);
    // A mechanism that isn't offered isn't accepted either: otherwise this user could log in by it.
    let refused = SaslFrame::Init(sasl::Init {
        mechanism: Symbol::new("AMQPLAIN"),
        initial_response: Some(b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05guest"),
        hostname: None,
    });
    let greeting = connection.output().len();
    connection.output().written(greeting);
    let mut input = Vec::new();
    refused.encode(&mut input);
    connection.receive(&input, stage.now);
    stage.now.monotonic += 3_000_000_000;
    connection.turn(stage.now);
    assert!(connection.is_finished());
    let link = stage.dial(Options::default());
    assert_eq!(stage.links[link].told().last(), Some(&Told::Event(Event::Connected)), "PLAIN is taken");
}

/// As in RabbitMQ 4.3: a user of the node's own database has no token that could expire, so that any secret is taken.
#[test]
fn a_secret_is_renewed_whatever_it_is() {
    let mut stage = Stage::new();
    let link = stage.connect();
    let mut answer = Vec::new();
    encode_method(&mut answer, 0, &Method::ConnectionUpdateSecretOk(connection::UpdateSecretOk {}));
    for new_secret in [&b"guest"[..], b"not the password", b""] {
        let reason = ShortStr::literal("it expires");
        let update = Method::ConnectionUpdateSecret(connection::UpdateSecret { new_secret, reason });
        let connection = &mut stage.links[link].connection;
        let mut input = Vec::new();
        encode_method(&mut input, 0, &update);
        connection.receive(&input, stage.now);
        connection.turn(stage.now);
        assert_eq!(connection.output().pending(), answer);
        connection.output().written(answer.len());
    }
}
