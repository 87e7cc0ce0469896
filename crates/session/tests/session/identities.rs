//! Identities whose login, grants and end come from a backend that takes its time, over AMQP 0-9-1.

use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue, Properties};
use leveret_broker::Settings;
use leveret_broker::authenticate::NotRenewed;
use leveret_model::{AskedGrants, Glob, GrantAnswer, GrantQuestion, Grants, Identity, Right, ScopeRule, Scopes};
use leveret_strict_client::amqp091::{Consume, Event, Options, Publication, QueueDeclare};

use crate::backend::{Backend, backend};
use crate::stage::{Stage, Told};

/// A stage and its backend.
fn stage() -> (Stage, Arc<Backend>) {
    let backend = backend();
    (Stage::with_backend(Settings::default(), backend.clone()), backend)
}

/// An identity that is no user of the model, and whose grants are asked for.
pub(crate) fn asked() -> Identity {
    Identity::new("robot", Vec::new(), Grants::Asked(AskedGrants::default()), "ldap")
}

/// An identity that may do anything in the vhost `/`.
pub(crate) fn token() -> Identity {
    let all = || Glob::parse("*").expect("is a pattern");
    let rule = |right| ScopeRule { right, vhost: Glob::literal("/"), name: all(), routing_key: Some(all()) };
    let scopes = Scopes::new([Right::Configure, Right::Write, Right::Read].map(rule).to_vec());
    Identity::new("robot", Vec::new(), Grants::Scopes(scopes), "oauth2")
}

fn options(user: &str) -> Options {
    Options { user: user.into(), frame_max: 4096, ..Options::default() }
}

fn is_connected(stage: &mut Stage, link: usize) -> bool {
    stage.links[link].told().contains(&Told::Event(Event::Connected))
}

impl Stage {
    /// Lets the backend grant whatever is asked, one by one. Returns the questions.
    pub(crate) fn grant_all(&mut self, backend: &Backend) -> Vec<GrantQuestion> {
        let mut questions = Vec::new();
        self.settle();
        while !backend.is_idle() {
            questions.push(backend.answer(GrantAnswer::Granted));
            self.settle();
            assert!(questions.len() < 1_000, "it asks again and again: {:?}", questions.last());
        }
        questions
    }

    fn connect_as(&mut self, backend: &Backend, who: Identity) -> usize {
        let link = self.dial(options("robot"));
        backend.answer_login(Ok(who));
        self.grant_all(backend);
        assert!(is_connected(self, link));
        self.links[link].client.open_channel(1);
        self.settle();
        self.links[link].told();
        link
    }
}

#[test]
fn a_login_comes_late_and_stops_nobody_else() {
    let (mut stage, backend) = stage();
    let late = stage.dial(options("robot"));
    assert!(!is_connected(&mut stage, late) && !stage.links[late].connection.wants_read());
    let other = stage.connect();
    stage.pass(2);
    assert!(stage.links[other].refusal().is_none());
    backend.answer_login(Ok(token()));
    stage.settle();
    assert!(is_connected(&mut stage, late));
    let users: Vec<String> = stage.broker.clients().iter().map(|client| client.user.to_string()).collect();
    assert!(users.contains(&"robot".to_owned()), "{users:?}");
}

#[test]
fn a_late_refusal_and_a_backend_that_is_gone_refuse_the_login() {
    for is_gone in [false, true] {
        let (mut stage, backend) = stage();
        let link = stage.dial(options("robot"));
        match is_gone {
            false => backend.answer_login(Err("no".into())),
            true => backend.logins.lock().expect("no panic").clear(),
        }
        stage.settle();
        let (code, text) = stage.links[link].refusal().expect("it is refused");
        assert_eq!((code, text.contains("Login was refused")), (403, true), "{text}");
    }
}

#[test]
fn a_login_that_never_comes_ends_with_the_handshake() {
    let (mut stage, backend) = stage();
    let link = stage.dial(options("robot"));
    stage.pass(9);
    assert!(!stage.links[link].connection.is_finished());
    stage.pass(2);
    assert!(stage.links[link].connection.is_finished());
    stage.links[link].connection.disconnected(stage.now);
    backend.answer_login(Ok(token()));
    stage.settle();
}

/// Does a bit of everything on channel 1, and returns what the client was told.
fn everything(stage: &mut Stage, link: usize, mut then: impl FnMut(&mut Stage)) -> Vec<Told> {
    let none = FieldTable::new();
    let mut told = Vec::new();
    let mut step = |stage: &mut Stage| {
        then(stage);
        stage.settle();
        told.extend(stage.links[link].told());
    };
    macro_rules! client {
        () => {
            stage.links[link].client
        };
    }
    client!().confirm_select(1);
    client!().declare_queue(1, b"q", QueueDeclare { durable: true, ..QueueDeclare::default() }, &none);
    let dead = FieldTable::new().with("x-dead-letter-exchange", FieldValue::from("amq.direct"));
    client!().declare_queue(1, b"r", QueueDeclare::default(), &dead);
    client!().declare_exchange(1, b"x", "fanout", false, &none);
    client!().bind_queue(1, b"q", b"amq.topic", b"a.*", &none);
    client!().bind_exchange(1, b"x", b"amq.topic", b"b");
    step(stage);
    client!().publish(1, Publication::to_queue(b"q", b"small"));
    client!().publish(1, Publication::to(b"amq.topic", b"a.b", &[b'x'; 20_000]));
    client!().publish(1, Publication::to(b"amq.topic", b"a.c", b""));
    let copies = FieldTable::new().with("CC", FieldValue::Array(vec!["a.d".into(), "a.e".into()])).encoded();
    let mut properties = Vec::new();
    Properties { headers: Some(copies.as_table()), ..Properties::default() }.encode(&mut properties);
    client!().publish(1, Publication::to(b"amq.topic", b"c", &[b'y'; 9_000]).with(&properties));
    step(stage);
    client!().get(1, b"q", true);
    client!().consume(1, b"q", b"tag", Consume::default(), &none);
    step(stage);
    client!().delete_queue(1, b"r");
    step(stage);
    client!().declare_queue(1, b"", QueueDeclare { exclusive: true, ..QueueDeclare::default() }, &none);
    client!().bind_queue(1, b"", b"amq.topic", b"d", &none);
    step(stage);
    told
}

/// The same as texts, without names that the broker chose and places in buffers. Confirms may come together or not.
fn texts(told: Vec<Told>) -> Vec<String> {
    let mut confirmed = 0;
    let mut texts: Vec<String> = told
        .into_iter()
        .filter_map(|told| match told {
            Told::Event(Event::Confirmed { first, last, .. }) => {
                confirmed += last - first + 1;
                None
            }
            Told::Event(Event::QueueDeclared { queue, .. }) if queue.starts_with(b"amq.gen-") => {
                Some("declared a new queue".to_owned())
            }
            Told::Event(Event::Got { message_count, .. }) => Some(format!("got one of {message_count}")),
            Told::Delivered { routing_key, properties, body } => {
                Some(format!("{routing_key} {properties:?} {} bytes", body.len()))
            }
            other => Some(format!("{other:?}")),
        })
        .collect();
    texts.push(format!("{confirmed} confirms"));
    texts
}

#[test]
fn a_client_is_told_the_same_whoever_judges_and_however_late() {
    let (mut stage, _) = stage();
    let link = stage.connect_with(options("guest"));
    let expected = texts(everything(&mut stage, link, |_| {}));
    assert!(expected.len() > 12, "{} answers", expected.len());

    let (mut stage, backend) = self::stage();
    let link = stage.connect_as(&backend, token());
    assert_eq!(texts(everything(&mut stage, link, |_| {})), expected);

    let (mut stage, backend) = self::stage();
    let link = stage.connect_as(&backend, asked());
    let mut questions = Vec::new();
    let told = everything(&mut stage, link, |stage| questions.extend(stage.grant_all(&backend)));
    assert_eq!(texts(told), expected);
    let topics = questions.iter().filter(|question| matches!(question, GrantQuestion::Topic { .. })).count();
    assert_eq!(topics, 3 + 5, "keys of bindings and of messages: {questions:?}");
    for (index, question) in questions.iter().enumerate() {
        assert!(!questions[..index].contains(question), "{question:?} is asked twice");
    }
}

#[test]
fn a_refused_grant_is_a_refusal_and_is_not_asked_again() {
    let (mut stage, backend) = stage();
    let link = stage.connect_as(&backend, asked());
    let text = "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'robot'";
    for round in 0..2 {
        stage.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
        stage.settle();
        if round == 0 {
            backend.answer(GrantAnswer::Refused);
            stage.settle();
        }
        assert_eq!(stage.links[link].refusal(), Some((403, text.into())));
        assert!(backend.is_idle());
        stage.links[link].client.open_channel(1);
        stage.settle();
    }
}

#[test]
fn a_grant_that_never_comes_is_refused_once_and_asked_again() {
    let (mut stage, backend) = stage();
    let link = stage.connect_as(&backend, asked());
    let declare = |stage: &mut Stage| {
        stage.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
        stage.settle();
    };
    declare(&mut stage);
    stage.pass(29);
    assert!(stage.links[link].refusal().is_none() && !stage.links[link].connection.wants_read());
    stage.pass(2);
    assert_eq!(stage.links[link].refusal().map(|(code, _)| code), Some(403));
    // It comes when nobody waits any more.
    backend.answer(GrantAnswer::Granted);
    stage.links[link].client.open_channel(1);
    stage.settle();
    declare(&mut stage);
    // The backend is gone.
    backend.grants.lock().expect("no panic").clear();
    stage.settle();
    assert_eq!(stage.links[link].refusal().map(|(code, _)| code), Some(403));
    stage.links[link].client.open_channel(1);
    stage.settle();
    declare(&mut stage);
    stage.grant_all(&backend);
    assert_eq!(stage.links[link].refusal(), None);
}

#[test]
fn an_answer_after_the_connection_is_gone_is_dropped() {
    let (mut stage, backend) = stage();
    let link = stage.connect_as(&backend, asked());
    stage.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    stage.settle();
    stage.links[link].connection.disconnected(stage.now);
    backend.answer(GrantAnswer::Granted);
    stage.settle();
    assert!(stage.broker.registry.snapshot_full().queue("/", "q").is_none());
}

#[test]
fn deliveries_go_on_while_a_frame_waits_for_its_answer() {
    let (mut stage, backend) = stage();
    let link = stage.connect_as(&backend, asked());
    let none = FieldTable::new();
    stage.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &none);
    stage.links[link].client.consume(1, b"q", b"tag", Consume::default(), &none);
    stage.grant_all(&backend);
    stage.links[link].told();
    stage.links[link].client.declare_queue(1, b"other", QueueDeclare::default(), &none);
    stage.settle();
    let other = stage.connect();
    stage.links[other].client.publish(1, Publication::to_queue(b"q", b"x"));
    stage.settle();
    assert!(matches!(&stage.links[link].told()[..], [Told::Delivered { body, .. }] if body == "x"));
    assert!(!backend.is_idle());
}

#[test]
fn a_connection_is_closed_when_its_credential_ends() {
    let (mut stage, backend) = stage();
    let ends_ms = stage.now.wall_ms + 60_000;
    let link = stage.connect_as(&backend, token().ending_at(ends_ms));
    let lasting = stage.connect_as(&backend, token());
    let next = stage.links[link].connection.next_deadline().expect("it ends");
    assert!(next <= stage.now.monotonic + 60_000_000_000, "the node looks again in time");
    while stage.now.wall_ms + 200 < ends_ms {
        stage.now.wall_ms += 100;
        stage.now.monotonic += 100_000_000;
    }
    stage.settle();
    assert_eq!(stage.links[link].refusal(), None);
    stage.pass(1);
    let (code, text) = stage.links[link].refusal().expect("it is closed");
    assert_eq!((code, &*text), (320, "CONNECTION_FORCED - credential expired"));
    assert_eq!(stage.links[lasting].refusal(), None);
}

#[test]
fn limits_and_user_ids_go_by_the_name() {
    let (mut stage, backend) = stage();
    let link = stage.connect_as(&backend, token());
    stage.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    stage.settle();
    let mut publish = |user: &'static str| {
        let user_id = Some(leveret_amqp091::ShortStr::new(user.as_bytes()).expect("is short"));
        let mut properties = Vec::new();
        Properties { user_id, ..Properties::default() }.encode(&mut properties);
        stage.links[link].told();
        stage.links[link].client.publish(1, Publication::to_queue(b"q", b"x").with(&properties));
        stage.settle();
        stage.links[link].refusal()
    };
    assert_eq!(publish("robot"), None);
    let text = "PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'robot'";
    assert_eq!(publish("other"), Some((406, text.into())));
}

#[test]
fn a_new_secret_waits_for_its_backend_and_stops_nobody_else() {
    let (mut stage, backend) = stage();
    let link = stage.connect_as(&backend, token().ending_at(1_700_000_005_000));
    stage.links[link].client.update_secret(b"new");
    stage.settle();
    assert!(stage.links[link].told().is_empty() && !stage.links[link].connection.wants_read());
    let other = stage.connect();
    assert!(stage.links[other].refusal().is_none());
    assert_eq!(backend.answer_renewal(Ok(token().ending_at(1_700_000_030_000))), b"new");
    stage.settle();
    assert_eq!(stage.links[link].told().len(), 1, "update-secret-ok");
    stage.pass(10);
    assert!(stage.links[link].refusal().is_none(), "the first end is over");
    stage.pass(30);
    assert_eq!(stage.links[link].refusal().map(|(code, _)| code), Some(320));
}

#[test]
fn a_new_secret_that_is_refused_closes_the_connection() {
    for (not_renewed, text) in [
        (Some(NotRenewed::Refused("ended".into())), "NOT_ALLOWED - New secret was refused by one of the backends"),
        (Some(NotRenewed::Failed("no token".into())), "NOT_ALLOWED - Secret update failed"),
        (None, "NOT_ALLOWED - New secret was refused by one of the backends"),
    ] {
        let (mut stage, backend) = stage();
        let link = stage.connect_as(&backend, token());
        stage.links[link].client.update_secret(b"new");
        stage.settle();
        match not_renewed {
            Some(not_renewed) => _ = backend.answer_renewal(Err(not_renewed)),
            // It is gone.
            None => backend.renewals.lock().expect("no panic").clear(),
        }
        stage.settle();
        assert_eq!(stage.links[link].refusal(), Some((530, text.to_owned())));
    }
}
