//! A node that finds nothing asks whether it is behind the others, before it says so: over each protocol, right after another node has
//! answered that the object exists.

use leveret_amqp10::Role;
use leveret_amqp10::message::{MessageId, Properties};
use leveret_amqp10::value::EncodedMap;
use leveret_stream_protocol::client::request;
use leveret_strict_client::amqp10::{Mechanism, Options as Amqp10Options, Send, SessionOptions, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL, management_link};
use leveret_tests::mqtt::{Login as MqttLogin, MqttClient};
use leveret_tests::node::Node;
use leveret_tests::stream::{Login as StreamLogin, OK, StreamClient, number};
use leveret_tests::wire::{
    Login, PROTOCOL_HEADER, Tuning, Wire, Writer, declare_arguments, method, method_frame, publish,
};
use serde_json::{Value, json};

use crate::Cluster;

/// Number of objects that are looked up at once on another node. A follower has an entry a moment after its leader: without the question,
/// about one lookup in three finds nothing.
const OBJECTS: usize = 30;
const PASSWORD: &str = "s3cret-word";

fn put(node: &Node, path: &str, body: &Value) {
    let answer = node.http().put(path, body).expect("an answer");
    assert!(answer.status < 300, "{path}: {} {}", answer.status, answer.body);
}

/// The nodes in turns: one that is asked for a change, and the next one, which is asked for the result.
fn pairs(cluster: &Cluster) -> impl Iterator<Item = (usize, &Node, &Node)> {
    (0..OBJECTS).map(|number| (number, &cluster.nodes[number % 3], &cluster.nodes[(number + 1) % 3]))
}

/// Logs in and enters a vhost, over each protocol in turns.
fn enter(number: usize, node: &Node, user: &str, vhost: &str) {
    let password = PASSWORD;
    match number % 4 {
        0 => {
            let mut wire = Wire::connect(node.amqp());
            wire.send(PROTOCOL_HEADER);
            wire.next_method(method::CONNECTION_START).expect("a start");
            let login = Login { user, password, vhost, ..Login::default() };
            wire.log_in(Tuning { frame_max: 0, heartbeat: 0 }, &login).expect("the login is let in");
        }
        1 => {
            let mechanism = Mechanism::Plain { user: user.to_owned(), password: password.to_owned() };
            let hostname = Some(format!("vhost:{vhost}"));
            let options = Amqp10Options { mechanism, hostname, ..Amqp10Options::default() };
            Amqp10::open_with(node.amqp(), options, SessionOptions::default()).close();
        }
        2 => {
            let mut client = StreamClient::connect(node.streams());
            client.log_in(&StreamLogin { user, password, vhost, ..StreamLogin::default() }).expect("it is let in");
        }
        _ => {
            let name = format!("{vhost}:{user}");
            let login = MqttLogin { user: Some((&name, password)), ..MqttLogin::default() };
            MqttClient::open(node.mqtt(), user, login).0.close();
        }
    }
}

#[test]
fn a_user_who_was_just_made_logs_in_on_another_node() {
    let cluster = Cluster::start(3);
    for (number, at, other) in pairs(&cluster) {
        let (user, vhost) = (format!("u-{number}"), format!("v-{number}"));
        let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
        put(at, &format!("/api/users/{user}"), &json!({"password": PASSWORD, "tags": "management"}));
        let who = other.http().as_user(&user, PASSWORD).get("/api/whoami").expect("an answer");
        assert_eq!(who.status, 200, "{number}: the user is there");
        put(at, &format!("/api/vhosts/{vhost}"), &json!({}));
        put(at, &format!("/api/permissions/{vhost}/{user}"), &rights);
        enter(number, other, &user, &vhost);
    }
    // The other way round: the user is the last that comes.
    for (number, at, other) in pairs(&cluster) {
        let (user, vhost) = (format!("later-{number}"), format!("v-{number}"));
        let rights = [json!({"user": user, "vhost": vhost, "configure": "", "write": "", "read": ""})];
        leveret_tests::secrets::used(&user, PASSWORD);
        let users = [json!({"name": user, "password": PASSWORD, "tags": ""})];
        let definitions = json!({"users": users, "permissions": rights});
        let answer = at.http().post("/api/definitions", &definitions).expect("an answer");
        assert_eq!(answer.status, 204, "{}", answer.body);
        enter(number, other, &user, &vhost);
    }
    let unknown = cluster.nodes[1].http().as_user("nobody", PASSWORD).get("/api/whoami").expect("an answer");
    assert_eq!(unknown.status, 401);
}

#[test]
fn a_changed_password_counts_on_another_node_at_once() {
    let cluster = Cluster::start(3);
    for (number, at, other) in pairs(&cluster) {
        let password = format!("{PASSWORD}-{number}");
        put(at, "/api/users/ops", &json!({"password": password, "tags": "management"}));
        let who = other.http().as_user("ops", &password).get("/api/whoami").expect("an answer");
        assert_eq!(who.status, 200, "{number}: {}", who.body);
    }
}

/// A publish whose content comes later than its method.
fn publish_in_two(wire: &mut Wire, exchange: &str) {
    let whole = publish(1, exchange, "", b"body", false, true);
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(exchange).put_short_string("").put_octet(0);
    let first = method_frame(1, method::BASIC_PUBLISH, &arguments).len();
    wire.send(&whole[..first]);
    wire.send(&whole[first..]);
}

#[test]
fn an_exchange_that_was_just_made_is_found_on_another_node() {
    let cluster = Cluster::start(3);
    let mut wires: Vec<_> = cluster.nodes.iter().map(|node| Wire::open(node.amqp())).collect();
    wires.iter_mut().for_each(|wire| wire.confirm_select(1));
    let mut relays: Vec<_> = cluster.nodes.iter().map(|node| Amqp10::open(node.amqp())).collect();
    for relay in &mut relays {
        relay.client.attach_sender(CHANNEL, 1, "relay", None);
        relay.attached(CHANNEL, 1);
        relay.wait_credit(CHANNEL, 1);
    }
    for (number, at, _) in pairs(&cluster) {
        let (name, other) = (format!("x-{number}"), (number + 1) % 3);
        put(at, &format!("/api/exchanges/%2F/{name}"), &json!({"type": "fanout", "durable": true}));
        let wire = &mut wires[other];
        match number % 4 {
            0 => {
                let mut arguments = Writer::new();
                arguments.put_short(0).put_short_string(&name).put_short_string("").put_octet(1).put_empty_table();
                wire.call(1, method::EXCHANGE_DECLARE, &arguments, method::EXCHANGE_DECLARE_OK);
            }
            1 => {
                wire.send(&publish(1, &name, "", b"body", false, true));
                wire.confirms(1);
            }
            2 => {
                publish_in_two(wire, &name);
                wire.confirms(1);
            }
            _ => {
                let to = format!("/exchanges/{name}");
                let mut payload = Vec::new();
                Properties { to: Some(&to), ..Properties::default() }.encode(&mut payload);
                payload.extend([0x00, 0x53, 0x75, 0xa0, 1, b'b']);
                let id = relays[other].send(1, &payload, &Send::default());
                // No queue is bound to it. Without the exchange it would be rejected.
                assert!(matches!(relays[other].outcome(id), State::Released), "{number}");
            }
        }
    }
    publish_in_two(&mut wires[0], "none");
    let refused = wires[0].next_method(method::BASIC_ACK).expect_err("there is none");
    assert_eq!(refused.reason().map(|(code, _)| code), Some(404));
}

#[test]
fn a_stream_that_was_just_made_is_found_on_another_node() {
    let cluster = Cluster::start(3);
    let mut clients: Vec<_> = cluster.nodes.iter().map(|node| StreamClient::open(node.streams())).collect();
    for number in 0..OBJECTS {
        let (at, other, name) = (number % 3, (number + 1) % 3, format!("s-{number}"));
        clients[at].create(&name);
        let client = &mut clients[other];
        match number % 3 {
            0 => assert!(client.leader(&name).is_ok(), "{number}: Metadata"),
            1 => assert_eq!(client.declare(number as u8, "", &name), OK, "{number}: DeclarePublisher"),
            _ => assert_eq!(client.delete(&name), OK, "{number}: Delete"),
        }
        let (name, partition) = (format!("super-{number}"), format!("super-{number}-0"));
        let code = clients[at].code(|out, id| {
            request::create_super_stream(out, id, &name, [&*partition], ["0"], []);
        });
        assert_eq!(code, OK);
        assert_eq!(clients[other].partitions(&name), [partition], "{number}: Partitions");
    }
    let missing = number(leveret_tests::stream::ResponseCode::StreamDoesNotExist);
    assert_eq!(clients[1].declare(200, "", "none"), missing);
}

/// The status of a management request without a body.
fn managed(client: &mut Amqp10, verb: &str, to: &str) -> String {
    let mut payload = Vec::new();
    let message_id = Some(MessageId::Ulong(1));
    let properties =
        Properties { message_id, to: Some(to), subject: Some(verb), reply_to: Some("$me"), ..Properties::default() };
    properties.encode(&mut payload);
    payload.extend([0x00, 0x53, 0x77, 0x40]);
    client.send(0, &payload, &Send { settled: true, ..Send::default() });
    let response = client.receive(1);
    response.sections().properties.and_then(|properties| properties.subject.map(str::to_owned)).expect("a status")
}

#[test]
fn a_management_request_finds_what_was_just_made_elsewhere() {
    let cluster = Cluster::start(3);
    let manager = |node: &Node| {
        let mut client = Amqp10::open(node.amqp());
        let properties = EncodedMap::new().with("paired", true);
        for role in [Role::Sender, Role::Receiver] {
            client.attach(CHANNEL, &management_link(role, &properties));
        }
        client.grant(1, 1000);
        client
    };
    let mut managers: Vec<_> = cluster.nodes.iter().map(manager).collect();
    let bindings = |node: &Node, queue: &str| {
        let listed = node.http().get(&format!("/api/queues/%2F/{queue}/bindings")).expect("an answer").json();
        listed.as_array().expect("a list").len()
    };
    for (number, at, _) in pairs(&cluster) {
        let (name, other) = (format!("q-{number}"), (number + 1) % 3);
        put(at, &format!("/api/queues/%2F/{name}"), &json!({"durable": true}));
        let (verb, to) = match number % 2 {
            0 => ("GET", format!("/queues/{name}")),
            _ => ("DELETE", format!("/queues/{name}/messages")),
        };
        assert_eq!(managed(&mut managers[other], verb, &to), "200", "{verb} {to}");
        let bound = at.http().post(&format!("/api/bindings/%2F/e/amq.fanout/q/{name}"), &json!({"routing_key": "k"}));
        assert_eq!(bound.expect("an answer").status, 201);
        let to = format!("/bindings/src=amq.fanout;dstq={name};key=k;args=");
        assert_eq!(managed(&mut managers[other], "DELETE", &to), "204");
        assert_eq!(bindings(&cluster.nodes[other], &name), 1, "{number}: only that with the queue's name is left");
    }
    assert_eq!(managed(&mut managers[0], "GET", "/queues/none"), "404");
    // A request that finds nothing keeps nothing from going on.
    assert_eq!(managed(&mut managers[0], "GET", "/queues/q-0"), "200");
}

#[test]
fn a_condition_holds_for_a_queue_that_was_just_made() {
    let cluster = Cluster::start(3);
    let mut wires: Vec<_> = cluster.nodes.iter().map(|node| Wire::open(node.amqp())).collect();
    for number in 0..OBJECTS {
        let (at, other, name) = (number % 3, (number + 1) % 3, format!("q-{number}"));
        let mut deleter = Wire::open(cluster.nodes[other].amqp());
        let mut consume = Writer::new();
        consume.put_short(0).put_short_string(&name).put_short_string("").put_octet(0b10).put_empty_table();
        let mut both = method_frame(1, method::QUEUE_DECLARE, &declare_arguments(&name, true));
        both.extend(method_frame(1, method::BASIC_CONSUME, &consume));
        wires[at].send(&both);
        wires[at].next_method(method::QUEUE_DECLARE_OK).expect("it is declared");
        wires[at].next_method(method::BASIC_CONSUME_OK).expect("it has a consumer");
        let mut unused = Writer::new();
        unused.put_short(0).put_short_string(&name).put_octet(1);
        deleter.send(&method_frame(1, method::QUEUE_DELETE, &unused));
        let refused = deleter.next_method(method::QUEUE_DELETE_OK).expect_err("it has a consumer");
        assert_eq!(refused.reason().map(|(code, _)| code), Some(406), "{number}: {refused:?}");
    }
}

#[test]
fn an_http_request_finds_the_user_that_was_just_made() {
    let cluster = Cluster::start(3);
    let permissions = json!({"configure": ".*", "write": ".*", "read": ".*"});
    for (number, at, other) in pairs(&cluster) {
        put(at, &format!("/api/users/user-{number}"), &json!({"password": PASSWORD, "tags": ""}));
        put(other, &format!("/api/permissions/%2F/user-{number}"), &permissions);
    }
    let missing = cluster.nodes[0].http().put("/api/permissions/%2F/none", &permissions).expect("an answer");
    assert_eq!((missing.status, missing.json()["reason"].as_str()), (400, Some("vhost_or_user_not_found")));
}
