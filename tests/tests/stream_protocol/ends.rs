//! The end of streams and vhosts under their clients, alarms, maintenance, and an orderly stop.

use std::io::ErrorKind;
use std::net::TcpStream;

use leveret_stream_protocol::client::request;
use leveret_tests::node::Options;
use leveret_tests::stream::{Login, OK, OffsetSpec, ResponseCode, StreamClient, number};
use serde_json::{Value, json};

use super::{bodies, finish, node, node_with, numbered, texts};

#[test]
fn a_deleted_stream_ends_its_publishers_and_subscriptions() {
    let Some(node) = node() else { return };
    let mut owner = StreamClient::open(node.streams());
    owner.create("s");
    owner.create("other");
    let mut clients = [(); 2].map(|()| StreamClient::open(node.streams()));
    for client in &mut clients {
        client.publisher(1, "", "s");
        client.publisher(2, "", "other");
    }
    clients[0].subscribe(1, "s", OffsetSpec::Next, 10);
    clients[0].subscribe(2, "other", OffsetSpec::Next, 10);
    assert_eq!(owner.delete("s"), OK);
    for client in &mut clients {
        client.wait("the end of the stream", |client| !client.gone.is_empty());
        client.barrier();
        assert_eq!(client.gone, [("s".to_owned(), number(ResponseCode::StreamNotAvailable))], "once");
        client.publish(1, numbered(1..=2));
        client.wait("refusals", StreamClient::is_answered);
        let code = number(ResponseCode::PublisherDoesNotExist);
        assert_eq!(std::mem::take(&mut client.refused), [(1, 1, code), (1, 2, code)]);
        client.publish(2, numbered(1..=1));
        client.confirms();
        assert_eq!(client.leader("s"), Err(number(ResponseCode::StreamDoesNotExist)));
    }
    clients[0].grant(1, 1);
    clients[0].read_to(2, 2);
    clients[0].barrier();
    assert_eq!(clients[0].credit_refused, [(1, number(ResponseCode::SubscriptionIdDoesNotExist))]);
    assert_eq!(owner.gone, [], "it had neither");
    assert_eq!(owner.delete("s"), number(ResponseCode::StreamDoesNotExist));
    // Its ids can be used again, for a new stream of the name.
    owner.create("s");
    clients[0].publisher(1, "", "s");
    clients[0].publish(1, numbered(7..=7));
    clients[0].confirms();
    assert_eq!(bodies(node.streams(), "s", 1), texts([7]));
    finish(&node);
}

#[test]
fn the_deletion_of_a_vhost_closes_its_connections() {
    let Some(node) = node() else { return };
    let http = node.http();
    assert_eq!(http.put("/api/vhosts/v", &json!({})).expect("an answer").status, 201);
    let mut inside = StreamClient::connect(node.streams());
    inside.log_in(&Login { vhost: "v", ..Login::default() }).expect("the vhost");
    inside.create("s");
    inside.publisher(1, "", "s");
    inside.subscribe(1, "s", OffsetSpec::First, 10);
    inside.publish(1, numbered(1..=10));
    inside.confirms();
    let mut outside = StreamClient::open(node.streams());
    assert_eq!(http.delete("/api/vhosts/v").expect("an answer").status, 204);
    assert_eq!(inside.until_closed(), None, "it is dropped without a word");
    outside.barrier();
    let mut late = StreamClient::connect(node.streams());
    let refused = late.log_in(&Login { vhost: "v", ..Login::default() });
    assert_eq!(refused, Err(number(ResponseCode::VhostAccessFailure)));
    outside.close();
    finish(&node);
}

#[test]
fn an_operator_and_the_end_of_a_user_drop_connections() {
    let Some(node) = node() else { return };
    let http = node.http();
    assert_eq!(http.put("/api/users/u", &json!({"password": "u", "tags": ""})).expect("an answer").status, 201);
    let permissions = json!({"configure": ".*", "write": ".*", "read": ".*"});
    assert_eq!(http.put("/api/permissions/%2F/u", &permissions).expect("an answer").status, 201);
    let mut theirs = StreamClient::connect(node.streams());
    theirs.log_in(&Login { user: "u", password: "u", ..Login::default() }).expect("a login");
    theirs.barrier();
    let mut own = StreamClient::open(node.streams());
    own.barrier();
    let listed = http.get("/api/stream/connections").expect("an answer").json();
    let of = |user: &str| {
        let all = listed.as_array().expect("a list");
        all.iter().find(|row| row["user"] == *user).and_then(|row| row["name"].as_str()).expect("a name").to_owned()
    };
    let path = format!("/api/connections/{}", of("guest").replace(' ', "%20").replace('>', "%3E"));
    assert_eq!(http.delete(&path).expect("an answer").status, 204);
    assert_eq!(own.until_closed(), None, "by an operator");
    assert_eq!(http.delete("/api/users/u").expect("an answer").status, 204);
    assert_eq!(theirs.until_closed(), None, "with its user");
    finish(&node);
}

#[test]
fn publishes_wait_for_the_end_of_an_alarm_of_the_disk_only() {
    let Some(node) = node_with(Options::new().with_alarms()) else { return };
    let mut publisher = StreamClient::open(node.streams());
    publisher.create("s");
    publisher.publisher(1, "", "s");
    let mut other = StreamClient::open(node.streams());
    other.subscribe(1, "s", OffsetSpec::Next, 10);
    // Memory alone doesn't concern streams, as in RabbitMQ.
    node.raise_alarms("memory");
    let alarms = || node.http().get("/api/health/checks/alarms").expect("an answer");
    while alarms().status == 200 {}
    let mut third = StreamClient::open(node.streams());
    third.publisher(1, "third", "s");
    third.publish(1, [(1, "during")]);
    third.confirms();
    third.close();
    node.raise_alarms("memory disk");
    // Publishers aren't declared during an alarm of the disk: the refusal shows that it is there.
    let refused = number(ResponseCode::PreconditionFailed);
    while other.declare(9, "", "s") != refused {
        other.code(|out, correlation| request::delete_publisher(out, correlation, 9));
    }
    publisher.publish(1, numbered(1..=100));
    for _ in 0..20 {
        other.barrier();
    }
    assert_eq!(other.statistic("s", "committed_offset"), 0, "nothing more is published during an alarm of the disk");
    node.raise_alarms("memory");
    publisher.confirms();
    other.read_to(1, 101);
    node.raise_alarms("");
    publisher.close();
    other.close();
    finish(&node);
}

#[test]
fn maintenance_closes_connections_and_keeps_what_was_confirmed() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    client.publish(1, numbered(1..=10));
    client.confirms();
    // A client in the middle of its login, which the node has accepted: it answered.
    let mut early = StreamClient::connect(node.streams());
    early.call(request::sasl_handshake, |_| ());
    let overview = node.http().get("/api/overview").expect("an answer").json();
    let path = format!("/api/nodes/{}/maintenance", overview["node"].as_str().expect("a name"));
    assert_eq!(node.http().put(&path, &Value::Null).expect("an answer").status, 200);
    assert_eq!(client.until_closed(), None, "clients come back only if they lose the node");
    let refused = TcpStream::connect(node.streams()).expect_err("the listener is closed");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(early.log_in(&Login::default()), Err(number(ResponseCode::VhostAccessFailure)));
    assert_eq!(node.http().delete(&path).expect("an answer").status, 200);
    assert_eq!(bodies(node.streams(), "s", 10), texts(1..=10));
    finish(&node);
}

#[test]
fn a_stop_drops_connections() {
    let Some(mut node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "name", "s");
    client.publish(1, numbered(1..=50));
    client.confirms();
    node.ask_to_stop();
    assert_eq!(client.until_closed(), None, "clients come back only if they lose the node");
    assert!(node.terminate_asked().success());
    node.restart();
    let mut client = StreamClient::open(node.streams());
    assert_eq!(client.last_id("name", "s"), 50);
    assert_eq!(bodies(node.streams(), "s", 50), texts(1..=50));
    client.close();
    finish(&node);
}
