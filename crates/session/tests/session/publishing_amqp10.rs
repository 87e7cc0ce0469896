//! Routing of messages from AMQP 1.0 senders.

use leveret_amqp10::OwnedValue;
use leveret_amqp10::message::{Header, MapSection, Properties, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::queue_handle::Size;
use leveret_model::{Command, PutUser};
use leveret_strict_client::amqp10::{Event, Send, State};
use leveret_strict_client::amqp091::QueueDeclare;

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::Stage;

#[test]
fn a_message_goes_by_its_own_key_and_by_those_of_its_annotation() {
    let mut stage = Stage::new();
    let link = stage.connect();
    for queue in ["a", "b", "c", "d"] {
        let client = &mut stage.links[link].client;
        client.declare_queue(1, queue.as_bytes(), QueueDeclare::default(), &FieldTable::new());
        client.bind_queue(1, queue.as_bytes(), b"amq.direct", queue.as_bytes(), &FieldTable::new());
        stage.settle();
    }
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.attach_sender(CHANNEL, 0, "sender", Some("/exchanges/amq.direct/a"));
    client.run(&mut stage);
    let keys = ["b", "c", "b", "nobody"].map(|key| OwnedValue::String(key.into()));
    let mut annotations = EncodedMap::new();
    annotations.push_owned(leveret_amqp10::Symbol::new("x-cc"), &OwnedValue::List(keys.into()));
    let mut message = Vec::new();
    write_map_section(&mut message, MapSection::MessageAnnotations, annotations.as_map());
    write_data(&mut message, b"one for many");
    client.client.send(CHANNEL, 0, b"1", &message, &Send::default());
    client.run(&mut stage);
    stage.settle();
    assert_eq!(["a", "b", "c", "d"].map(|queue| ready(&stage, queue)), [1, 1, 1, 0]);
}

/// Number of ready messages in a queue.
fn ready(stage: &Stage, queue: &str) -> u64 {
    let queue = stage.broker.registry.snapshot().queue("/", queue).expect("it was declared").clone();
    queue.apply();
    queue.look(Size { used: None }).0
}

#[test]
fn a_link_s_messages_follow_the_bindings_as_they_change() {
    let mut stage = Stage::new();
    let link = stage.connect();
    for queue in [b"a", b"b"] {
        stage.links[link].client.declare_queue(1, queue, QueueDeclare::default(), &FieldTable::new());
        stage.settle();
    }
    stage.links[link].client.bind_queue(
        1,
        b"a",
        b"amq.headers",
        b"k",
        &FieldTable::new().with("x-match", "all-with-x"),
    );
    stage.links[link].client.bind_queue(1, b"a", b"amq.direct", b"k", &FieldTable::new());
    stage.settle();
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.attach_sender(CHANNEL, 0, "sender", Some("/exchanges/amq.direct/k"));
    client.client.attach_sender(CHANNEL, 1, "by headers", Some("/exchanges/amq.headers/k"));
    client.run(&mut stage);
    let mut plain = Vec::new();
    write_data(&mut plain, b"plain");
    let mut send = |stage: &mut Stage, handle: u32, message: &[u8]| {
        client.client.send(CHANNEL, handle, b"1", message, &Send::default());
        client.run(stage);
        stage.settle();
        [ready(stage, "a"), ready(stage, "b")]
    };
    assert_eq!(send(&mut stage, 0, &plain), [1, 0]);
    assert_eq!(send(&mut stage, 0, &plain), [2, 0]);
    stage.links[link].client.bind_queue(1, b"b", b"amq.direct", b"k", &FieldTable::new());
    stage.settle();
    assert_eq!(send(&mut stage, 0, &plain), [3, 1], "a new binding counts for the next message");
    stage.links[link].client.unbind_queue(1, b"a", b"amq.direct", b"k", &FieldTable::new());
    stage.settle();
    assert_eq!(send(&mut stage, 0, &plain), [3, 2], "and so does one that has gone");

    // Each message's own headers decide, not those of the message before it.
    let only = FieldTable::new().with("x-match", "all").with("kind", "b");
    stage.links[link].client.bind_queue(1, b"b", b"amq.headers", b"k", &only);
    stage.settle();
    let mut properties = EncodedMap::new();
    properties.push_owned("kind", &OwnedValue::String("b".into()));
    let mut of_a_kind = Vec::new();
    write_map_section(&mut of_a_kind, MapSection::ApplicationProperties, properties.as_map());
    write_data(&mut of_a_kind, b"of a kind");
    assert_eq!(send(&mut stage, 1, &plain), [4, 2]);
    assert_eq!(send(&mut stage, 1, &of_a_kind), [5, 3]);
    assert_eq!(send(&mut stage, 1, &plain), [6, 3]);
}

/// Sends a message of this user in the name of `claimed`. Returns its outcome, or why its link or session ended.
fn outcome(stage: &mut Stage, user: &str, claimed: &str) -> Result<State, Option<String>> {
    let mut client = Client10::connect(stage, user);
    client.client.attach_sender(CHANNEL, 0, "sender", Some("/queues/q"));
    client.run(stage);
    let mut message = Vec::new();
    Properties { user_id: Some(claimed.as_bytes()), ..Properties::default() }.encode(&mut message);
    write_data(&mut message, b"in another's name");
    client.client.send(CHANNEL, 0, b"1", &message, &Send::default());
    client.run(stage);
    let state = client.events.iter().find_map(|event| match event {
        Event::Disposition { state, .. } => state.clone(),
        _ => None,
    });
    state.ok_or_else(|| client.refusal())
}

#[test]
fn only_an_impersonator_sends_in_the_name_of_others() {
    let mut stage = Stage::new();
    let link = stage.connect();
    stage.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    stage.settle();
    stage.user("speaker");
    assert_eq!(outcome(&mut stage, "speaker", "speaker"), Ok(State::Accepted));
    let refused = outcome(&mut stage, "speaker", "guest");
    assert_eq!(refused, Err(Some("amqp:unauthorized-access".to_owned())));
    stage.command(Command::PutUser(PutUser {
        name: "speaker".into(),
        password_hash: None,
        hashing_algorithm: "rabbit_password_hashing_sha256".into(),
        tags: vec!["impersonator".into()],
    }));
    assert_eq!(outcome(&mut stage, "speaker", "guest"), Ok(State::Accepted));
}

/// Sends a message behind others that led to a queue. Returns the error that ends the link, and the queue's message
/// count then.
fn refusal_behind_others(message: &[u8], send: &Send<'_>) -> (Option<String>, u64) {
    let mut stage = Stage::with(Settings { max_message_size: 64, ..Settings::default() });
    let link = stage.connect();
    stage.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    stage.settle();
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.attach_sender(CHANNEL, 0, "sender", Some("/queues/q"));
    client.run(&mut stage);
    for with_properties in [false, true, true] {
        let mut plain = Vec::new();
        Header { durable: Some(true), ..Header::default() }.encode(&mut plain);
        if with_properties {
            Properties { subject: Some("like the one before"), ..Properties::default() }.encode(&mut plain);
        }
        write_data(&mut plain, b"like the one before");
        client.client.send(CHANNEL, 0, b"1", &plain, &Send::default());
    }
    client.client.send(CHANNEL, 0, b"2", message, send);
    client.run(&mut stage);
    stage.settle();
    (client.refusal(), ready(&stage, "q"))
}

#[test]
fn a_message_is_checked_regardless_of_the_one_before_it() {
    let mut large = Vec::new();
    write_data(&mut large, &[0; 64]);
    let mut foreign = Vec::new();
    Properties { user_id: Some(b"somebody"), ..Properties::default() }.encode(&mut foreign);
    write_data(&mut foreign, b"");
    let cases: [(&[u8], &str); 9] = [
        (b"", "amqp:decode-error"),
        (b"\x00\x53\x70\xc0\x02\x01\x42", "amqp:decode-error"),
        (b"\x00\x53\x70\xc0\x02\x01\xa1\x00\x53\x75\xa0\x00", "amqp:decode-error"),
        (b"\x00\x53\x75\xa0\x05data", "amqp:decode-error"),
        (b"\x00\x53\x73\xc0\x02\x01\x42\x00\x53\x75\xa0\x00", "amqp:decode-error"),
        (b"\x00\x53\x74\xc1\x03\x02\x40\x56\x00\x53\x75\xa0\x00", "amqp:decode-error"),
        (b"\x00\x53\x75\xa0\x04data\x00\x53\x70\x45", "amqp:decode-error"),
        (&large, "amqp:link:message-size-exceeded"),
        (&foreign, "amqp:unauthorized-access"),
    ];
    for (message, condition) in cases {
        let refused = refusal_behind_others(message, &Send::default());
        assert_eq!(refused, (Some(condition.to_owned()), 3), "{message:?}");
    }
    let mut good = Vec::new();
    write_data(&mut good, &[0; 59]);
    assert_eq!(refusal_behind_others(&good, &Send::default()), (None, 4));
    assert_eq!(refusal_behind_others(&good, &Send { settled: true, ..Send::default() }), (None, 4));
}
