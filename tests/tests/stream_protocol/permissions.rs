//! Permissions: each command needs that of RabbitMQ.

use std::time::{Duration, Instant};

use leveret_stream_protocol::client::{ServerCommand, request};
use leveret_tests::node::Node;
use leveret_tests::stream::{Login, OK, OffsetSpec, ResponseCode, StreamClient, number};
use leveret_tests::wire::{Wire, Writer, method};
use serde_json::json;

use super::{finish, node, numbered};

/// Refused logins are answered no sooner.
const REFUSED_AFTER: Duration = Duration::from_secs(3);

const REFUSED: u16 = ResponseCode::AccessRefused as u16;

/// A user whose permissions are these patterns: configure, write, read.
fn user(node: &Node, name: &str, [configure, write, read]: [&str; 3]) -> StreamClient {
    let http = node.http();
    let made = http.put(&format!("/api/users/{name}"), &json!({"password": "stream-secret", "tags": ""}));
    assert!(matches!(made.expect("an answer").status, 201 | 204));
    permit(node, name, [configure, write, read]);
    let mut client = StreamClient::connect(node.streams());
    client.log_in(&Login { user: name, password: "stream-secret", ..Login::default() }).expect("a login");
    client
}

fn permit(node: &Node, name: &str, [configure, write, read]: [&str; 3]) {
    let body = json!({"configure": configure, "write": write, "read": read});
    let answer = node.http().put(&format!("/api/permissions/%2F/{name}"), &body).expect("an answer");
    assert!(matches!(answer.status, 201 | 204), "{answer:?}");
}

#[test]
fn each_command_needs_its_permission() {
    let Some(node) = node() else { return };
    let mut guest = StreamClient::open(node.streams());
    guest.create("s");
    let create = |client: &mut StreamClient, stream: &str| {
        client.code(|out, correlation| request::create(out, correlation, stream, []))
    };
    let mut configures = user(&node, "configures", [".*", "^$", "^$"]);
    assert_eq!(create(&mut configures, "own"), OK);
    assert_eq!(configures.declare(1, "", "own"), REFUSED);
    assert_eq!(configures.try_subscribe(1, "own", OffsetSpec::First, 1, &[]), REFUSED);
    assert_eq!(configures.delete("own"), OK);

    let mut writes = user(&node, "writes", ["^$", ".*", "^$"]);
    assert_eq!(create(&mut writes, "another"), REFUSED);
    assert_eq!(writes.delete("s"), REFUSED);
    writes.publisher(1, "", "s");
    writes.publish(1, numbered(1..=3));
    writes.confirms();
    assert_eq!(writes.try_subscribe(1, "s", OffsetSpec::First, 1, &[]), REFUSED);
    assert_eq!(writes.stored_offset("app", "s"), Err(REFUSED));

    let mut reads = user(&node, "reads", ["^$", "^$", ".*"]);
    assert_eq!(reads.declare(1, "", "s"), REFUSED);
    reads.subscribe(1, "s", OffsetSpec::First, 10);
    reads.read_to(1, 3);
    reads.store_offset("app", "s", 2);
    assert_eq!(reads.stored_offset("app", "s"), Ok(2));
    let mut nothing = user(&node, "nothing", ["^$", "^$", "^$"]);
    assert_eq!(nothing.leader("s"), Err(REFUSED));
    finish(&node);
}

/// Logs in once more on an open connection. Returns the code of the answer.
fn renew(client: &mut StreamClient, user: &str) -> u16 {
    let response = format!("\0{user}\0stream-secret");
    client.call(
        |out, correlation| request::sasl_authenticate(out, correlation, "PLAIN", response.as_bytes()),
        |answer| match answer {
            ServerCommand::SaslAuthenticated { code, .. } => code,
            other => panic!("an answer to the login expected: {other:?}"),
        },
    )
}

#[test]
fn a_renewed_secret_ends_what_is_no_longer_allowed() {
    let Some(node) = node() else { return };
    let mut guest = StreamClient::open(node.streams());
    guest.create("s");
    let mut client = user(&node, "renews", ["^$", ".*", ".*"]);
    client.publisher(1, "", "s");
    client.subscribe(1, "s", OffsetSpec::First, 10);
    assert_eq!(renew(&mut client, "renews"), OK);
    client.publish(1, numbered(1..=3));
    client.confirms();
    client.read_to(1, 3);
    assert_eq!(renew(&mut client, "guest"), number(ResponseCode::AuthenticationFailure));

    let mut client = user(&node, "renews", ["^$", ".*", ".*"]);
    client.subscribe(1, "s", OffsetSpec::First, 10);
    permit(&node, "renews", ["^$", ".*", "^$"]);
    assert_eq!(renew(&mut client, "renews"), OK);
    client.wait("the end of the subscription", |client| !client.gone.is_empty());
    let cleared = node.http().delete("/api/permissions/%2F/renews").expect("an answer");
    assert_eq!(cleared.status, 204);
    assert_eq!(renew(&mut client, "renews"), number(ResponseCode::VhostAccessFailure));
    client.until_closed();
    finish(&node);
}

#[test]
fn metadata_and_listings_tell_what_their_user_may_know() {
    let Some(node) = node() else { return };
    let mut guest = StreamClient::open(node.streams());
    guest.create("s");
    let mut nobody = user(&node, "nobody", ["^$", "^$", "^$"]);
    assert_eq!(["s", "none"].map(|stream| nobody.leader(stream)), [Err(REFUSED), Err(REFUSED)]);
    // A monitor sees all connections, whatever it may do in their vhost.
    let monitor = json!({"password": "stream-secret", "tags": "monitoring"});
    assert_eq!(node.http().put("/api/users/monitor", &monitor).expect("an answer").status, 201);
    for (list, count) in [("connections", 2), ("publishers", 0), ("consumers", 0)] {
        let path = format!("/api/stream/{list}/%2F");
        let listed = node.http().as_user("monitor", "stream-secret").get(&path).expect("an answer");
        assert_eq!(listed.status, 200, "{path}");
        assert_eq!(listed.json().as_array().expect("a list").len(), count, "{path}");
    }
    nobody.close();
    guest.close();
    finish(&node);
}

#[test]
fn wrong_logins_are_refused_with_their_code() {
    let Some(node) = node() else { return };
    let login = |login: Login<'_>| StreamClient::connect(node.streams()).log_in(&login);
    let refused = number(ResponseCode::AuthenticationFailure);
    let began = Instant::now();
    assert_eq!(login(Login { password: "wrong", ..Login::default() }), Err(refused));
    assert!(began.elapsed() >= REFUSED_AFTER, "passwords can be tried in quick succession");
    assert_eq!(login(Login { user: "nobody", ..Login::default() }), Err(refused));
    assert_eq!(login(Login { vhost: "none", ..Login::default() }), Err(number(ResponseCode::VhostAccessFailure)));
    // A connection that was refused is closed.
    let mut client = StreamClient::connect(node.streams());
    assert!(client.log_in(&Login { password: "wrong", ..Login::default() }).is_err());
    assert_eq!(client.until_closed(), None);
    finish(&node);
}

#[test]
fn an_exclusive_queue_of_another_connection_is_no_stream() {
    let Some(node) = node() else { return };
    let mut owner = Wire::open(node.amqp());
    let mut declare = Writer::new();
    declare.put_short(0).put_short_string("theirs").put_octet(4).put_empty_table();
    owner.call(1, method::QUEUE_DECLARE, &declare, method::QUEUE_DECLARE_OK);
    let mut client = StreamClient::open(node.streams());
    let missing = number(ResponseCode::StreamDoesNotExist);
    for stream in ["theirs", "none"] {
        assert_eq!(client.declare(1, "", stream), missing, "{stream}");
        assert_eq!(client.try_subscribe(1, stream, OffsetSpec::First, 1, &[]), missing, "{stream}");
        assert_eq!(client.stored_offset("reader", stream), Err(missing), "{stream}");
    }
    // The name is taken all the same.
    let code = client.code(|out, correlation| request::create(out, correlation, "theirs", []));
    assert_eq!(code, number(ResponseCode::PreconditionFailed));
    client.close();
    owner.close();
    finish(&node);
}
