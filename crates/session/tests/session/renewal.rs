//! A client renews the secret that it logged in with: what its user's permissions don't allow any more ends.

use leveret_amqp10::OwnedValue;
use leveret_broker::queue_handle::Size;
use leveret_model::{Command, SetPermissions};
use leveret_strict_client::amqp10::ManagementRequest;
use leveret_strict_client::amqp091::{Consume, Event, Options, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};
use leveret_amqp091::FieldTable;

/// The handle of the links for management requests.
const MANAGEMENT: u32 = 8;

/// A stage with the user `user` and the queues `kept` and `lost`.
fn stage() -> Stage {
    let mut stage = Stage::new();
    let admin = stage.connect();
    stage.user("user");
    let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
    for queue in [&b"kept"[..], b"lost"] {
        stage.links[admin].client.declare_queue(1, queue, durable, &FieldTable::new());
    }
    stage.settle();
    stage
}

fn allow(stage: &mut Stage, write: &str, read: &str) {
    stage.command(Command::SetPermissions(SetPermissions {
        user: "user".into(),
        vhost: "/".into(),
        configure: ".*".into(),
        write: write.into(),
        read: read.into(),
    }));
}

fn consumers(stage: &Stage, queue: &str) -> usize {
    stage.broker.registry.snapshot_full().queue("/", queue).expect("it is declared").look(Size { used: None }).1
}

#[test]
fn consumers_end_that_are_not_allowed_any_more() {
    let mut stage = stage();
    let link = stage.connect_with(Options { user: "user".into(), ..Options::default() });
    stage.links[link].client.open_channel(2);
    stage.settle();
    for (channel, queue) in [(1, &b"kept"[..]), (2, b"lost")] {
        stage.links[link].client.consume(channel, queue, queue, Consume::default(), &FieldTable::new());
    }
    stage.settle();
    stage.links[link].told();
    stage.links[link].client.update_secret(b"new");
    stage.settle();
    assert_eq!((consumers(&stage, "kept"), consumers(&stage, "lost")), (1, 1), "both are allowed");
    allow(&mut stage, ".*", "^kept$");
    stage.settle();
    assert_eq!(consumers(&stage, "lost"), 1, "the permissions of a connection's user change for what comes");
    stage.links[link].told();
    stage.links[link].client.update_secret(b"newer");
    stage.settle();
    let told = stage.links[link].told();
    let cancelled =
        told.iter().filter(|told| matches!(told, Told::Event(Event::ConsumerCancelled { channel: 2, .. }))).count();
    assert_eq!((cancelled, told.len()), (1, 2), "and the answer: {told:?}");
    assert_eq!((consumers(&stage, "kept"), consumers(&stage, "lost")), (1, 0));
    stage.command(Command::ClearPermissions { user: "user".into(), vhost: "/".into() });
    stage.links[link].client.update_secret(b"newest");
    stage.settle();
    let (code, text) = stage.links[link].refusal().expect("the connection is closed");
    assert_eq!((code, &*text), (530, "NOT_ALLOWED - access to vhost '/' refused for user 'user'"));
    assert_eq!(consumers(&stage, "kept"), 0);
}

/// A client of AMQP 1.0 with links on a session, and a management link pair on another one.
fn client(stage: &mut Stage) -> Client10 {
    let mut client = Client10::connect(stage, "user");
    client.client.begin(1, leveret_strict_client::amqp10::SessionOptions::default());
    client.client.attach_management(1, MANAGEMENT);
    client.run(stage);
    client
}

fn renew(stage: &mut Stage, client: &mut Client10, token: OwnedValue) -> u16 {
    client.responses.clear();
    let renewal = ManagementRequest { id: 1, method: "PUT", path: "/auth/tokens", body: &token };
    client.client.request(1, MANAGEMENT, &renewal).expect("there is credit");
    client.run(stage);
    client.responses.first().expect("a response").status
}

fn token() -> OwnedValue {
    OwnedValue::Binary(b"token".to_vec())
}

#[test]
fn sessions_end_whose_links_are_not_allowed_any_more() {
    type Attach = fn(&mut Client10);
    let cases: [(&str, &str, Attach, &str); 3] = [
        (".*", "^$", |client| client.client.attach_receiver(CHANNEL, 0, "r", "/queues/lost", false), "read"),
        ("^$", ".*", |client| client.client.attach_sender(CHANNEL, 0, "s", Some("/exchanges/amq.direct/k")), "write"),
        ("^$", ".*", |client| client.client.attach_sender(CHANNEL, 0, "s", Some("/queues/lost")), "write"),
    ];
    for (write, read, attach, what) in cases {
        let mut stage = stage();
        let mut client = client(&mut stage);
        attach(&mut client);
        client.run(&mut stage);
        assert_eq!(renew(&mut stage, &mut client, token()), 204);
        assert_eq!(client.refusal(), None, "{what} is allowed");
        allow(&mut stage, write, read);
        client.run(&mut stage);
        assert_eq!(client.refusal(), None, "nothing happens before the token is renewed");
        assert_eq!(renew(&mut stage, &mut client, token()), 204, "the session of the request goes on");
        assert_eq!(client.refusal().as_deref(), Some("amqp:unauthorized-access"), "{what}");
        assert_eq!(consumers(&stage, "lost"), 0);
        assert_eq!(renew(&mut stage, &mut client, token()), 204);
    }
}

#[test]
fn a_token_is_a_binary() {
    let mut stage = stage();
    let mut client = client(&mut stage);
    assert_eq!(renew(&mut stage, &mut client, OwnedValue::String("token".into())), 400);
    assert_eq!(renew(&mut stage, &mut client, OwnedValue::Null), 400);
    assert_eq!(client.refusal(), None);
}
