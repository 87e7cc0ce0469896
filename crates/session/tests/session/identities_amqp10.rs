//! Identities whose grants come from a backend that takes its time, over AMQP 1.0.

use std::sync::Arc;

use leveret_amqp10::OwnedValue;
use leveret_amqp10::message::write_data;
use leveret_amqp10::value::OwnedMap;
use leveret_broker::Settings;
use leveret_model::{GrantQuestion, Identity};
use leveret_strict_client::amqp10::{Event, ManagementRequest, Mechanism, Options, Send, SessionOptions};

use crate::backend::{Backend, backend};
use crate::client_amqp10::{CHANNEL, Client10};
use crate::identities::{asked, token};
use crate::stage::Stage;

const MANAGEMENT: u32 = 8;

fn stage() -> (Stage, Arc<Backend>) {
    let backend = backend();
    (Stage::with_backend(Settings { frame_max: 1024, ..Settings::default() }, backend.clone()), backend)
}

fn options(user: &str) -> Options {
    let mechanism = Mechanism::Plain { user: user.into(), password: "secret".into() };
    Options { mechanism, max_frame_size: 1024, ..Options::default() }
}

/// Runs until nothing is left, and grants whatever is asked, one by one.
fn run(stage: &mut Stage, client: &mut Client10, backend: &Backend) -> Vec<GrantQuestion> {
    let mut questions = Vec::new();
    client.run(stage);
    while !backend.is_idle() {
        questions.push(backend.answer(leveret_model::GrantAnswer::Granted));
        client.run(stage);
        assert!(questions.len() < 1_000, "it asks again and again: {:?}", questions.last());
    }
    questions
}

fn connect(stage: &mut Stage, backend: &Backend, user: &str, who: Option<Identity>) -> Client10 {
    let mut client = Client10::dial(stage, options(user));
    if let Some(who) = who {
        assert!(!client.client.is_open());
        backend.answer_login(Ok(who));
    }
    run(stage, &mut client, backend);
    assert!(client.client.is_open());
    client.client.begin(CHANNEL, SessionOptions::default());
    client.client.begin(1, SessionOptions::default());
    client.client.attach_management(1, MANAGEMENT);
    run(stage, &mut client, backend);
    client
}

fn message(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    write_data(&mut message, body);
    message
}

/// A bit of everything; returns the statuses of management requests, and the names of the events.
fn everything(
    stage: &mut Stage,
    client: &mut Client10,
    backend: &Backend,
    questions: &mut Vec<GrantQuestion>,
) -> (Vec<u16>, Vec<String>) {
    client.events.clear();
    let declare = leveret_strict_client::amqp10::Client::queue_to_declare(true, false, false, OwnedMap::default());
    let mut bind = OwnedMap::default();
    for (key, value) in [("source", "amq.topic"), ("binding_key", "a.*"), ("destination_queue", "q")] {
        bind.push(key, value);
    }
    bind.push("arguments", OwnedMap::default());
    let bind = OwnedValue::Map(bind);
    let requests = [
        ("PUT", "/queues/q", declare),
        ("POST", "/bindings", bind),
        ("GET", "/queues/q", OwnedValue::Null),
        ("DELETE", "/queues/none", OwnedValue::Null),
    ];
    for (id, (method, path, body)) in requests.iter().enumerate() {
        let request = ManagementRequest { id: id as u64 + 1, method, path, body };
        client.client.request(1, MANAGEMENT, &request).expect("there is credit");
    }
    questions.extend(run(stage, client, backend));
    client.client.attach_sender(CHANNEL, 0, "topic", Some("/exchanges/amq.topic/a.b"));
    client.client.attach_sender(CHANNEL, 1, "queue", Some("/queues/q"));
    client.client.attach_receiver(CHANNEL, 2, "r", "/queues/q", true);
    client.attach_dynamic(CHANNEL, "d", 3, &[leveret_amqp10::Symbol::new("temporary-queue")]);
    questions.extend(run(stage, client, backend));
    client.client.grant(CHANNEL, 2, 10, false);
    for (handle, body) in [(0, vec![b'x'; 5_000]), (1, b"small".to_vec()), (0, b"small".to_vec())] {
        client.client.send(CHANNEL, handle, b"1", &message(&body), &Send::default()).expect("there is credit");
    }
    questions.extend(run(stage, client, backend));
    let name = |event: &Event| format!("{event:?}").split([' ', '{', '(']).next().unwrap_or_default().to_owned();
    let mut names: Vec<String> = client.events.iter().map(name).collect();
    names.sort();
    (client.responses.iter().map(|response| response.status).collect(), names)
}

#[test]
fn a_client_of_amqp_1_0_is_told_the_same_whoever_judges() {
    let mut told = Vec::new();
    let mut questions = Vec::new();
    for (user, who) in [("guest", None), ("robot", Some(token())), ("robot", Some(asked()))] {
        let (mut stage, backend) = stage();
        let mut client = connect(&mut stage, &backend, user, who);
        told.push(everything(&mut stage, &mut client, &backend, &mut questions));
        assert_eq!(client.refusal(), None);
    }
    assert_eq!(told[0].0, [201, 204, 200, 200]);
    assert!(told[0].1.iter().filter(|name| *name == "Delivered").count() >= 3, "{:?}", told[0].1);
    assert_eq!(told[1], told[0]);
    assert_eq!(told[2], told[0]);
    let topics = questions.iter().filter(|question| matches!(question, GrantQuestion::Topic { .. })).count();
    assert_eq!(topics, 2, "a binding and a message: {questions:?}");
}

#[test]
fn a_connection_of_amqp_1_0_is_closed_when_its_credential_ends() {
    let (mut stage, backend) = stage();
    let who = token().ending_at(stage.now.wall_ms + 5_000);
    let mut client = connect(&mut stage, &backend, "robot", Some(who));
    stage.pass(4);
    client.run(&mut stage);
    assert_eq!(client.refusal(), None);
    stage.pass(2);
    client.run(&mut stage);
    let closed = client.events.iter().find_map(|event| match event {
        Event::Closed { error: Some(error), .. } => Some((&*error.condition, format!("{error:?}"))),
        _ => None,
    });
    let (condition, error) = closed.expect("it is closed");
    assert_eq!((condition, error.contains("credential expired")), ("amqp:unauthorized-access", true), "{error}");
}
