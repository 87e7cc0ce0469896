//! The outcome of a publish over AMQP 0-9-1, by its properties, its size and its queue.

use leveret_amqp091::{FieldTable, FieldValue, Properties, ShortStr};
use leveret_broker::Settings;
use leveret_model::{Command, PutUser};
use leveret_strict_client::amqp091::{Consume, Event, Options, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

/// The first word of property flags with the headers flag.
const HAS_HEADERS: u16 = 1 << 13;

fn encoded(properties: Properties<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    properties.encode(&mut out);
    out
}

impl Stage {
    /// Publishes to a queue. Returns the close of the channel, if there is one.
    fn publish_on(&mut self, link: usize, queue: &str, properties: &[u8], body: &[u8]) -> Option<(u16, String)> {
        self.links[link].client.publish(1, Publication::to_queue(queue.as_bytes(), body).with(properties));
        self.settle();
        self.links[link].refusal()
    }

    /// Bodies that a consumer gets from each queue.
    fn deliveries(&mut self, link: usize, queue: &str) -> Vec<(Vec<u8>, String)> {
        let flags = Consume { no_ack: true, ..Consume::default() };
        self.links[link].client.consume(1, queue.as_bytes(), b"", flags, &FieldTable::new());
        self.settle();
        let told = self.links[link].told().into_iter();
        told.filter_map(|told| match told {
            Told::Delivered { properties, body, .. } => Some((properties, body)),
            Told::Event(_) => None,
        })
        .collect()
    }

    fn declare_all(&mut self, link: usize, queues: &[&str], arguments: &FieldTable) {
        for queue in queues {
            self.links[link].client.declare_queue(1, queue.as_bytes(), QueueDeclare::default(), arguments);
        }
        self.settle();
        let told = self.links[link].told();
        assert!(told.iter().all(|told| matches!(told, Told::Event(Event::QueueDeclared { .. }))), "{told:?}");
    }
}

#[test]
fn copies_reach_the_queues_of_their_keys_and_bcc_is_removed() {
    let mut stage = Stage::new();
    let link = stage.connect();
    stage.declare_all(link, &["a", "b", "c", "d"], &FieldTable::new());
    let keys = |key: &str| FieldValue::Array(vec![key.into()]);
    let headers = FieldTable::new().with("CC", keys("b")).with("BCC", keys("c")).encoded();
    let copied = encoded(Properties { headers: Some(headers.as_table()), ..Properties::default() });
    assert_eq!(stage.publish_on(link, "a", &copied, b"x"), None);
    for queue in ["a", "b", "c"] {
        let got = stage.deliveries(link, queue);
        assert_eq!(got.len(), 1, "{queue}");
        let (properties, body) = &got[0];
        assert_eq!((&**body, properties[0] & (HAS_HEADERS >> 8) as u8 != 0), ("x", true));
        let has = |name: &[u8]| properties.windows(name.len()).any(|window| window == name);
        assert!(has(b"\x02CC") && !has(b"BCC"), "{queue}: {properties:?}");
    }
    assert_eq!(stage.deliveries(link, "d"), []);
}

#[test]
fn only_an_impersonator_speaks_for_others() {
    let mut stage = Stage::new();
    stage.user("actor");
    let link = stage.connect_with(Options { user: "actor".into(), ..Options::default() });
    stage.declare_all(link, &["q"], &FieldTable::new());
    let of = |user: &'static str| {
        encoded(Properties { user_id: ShortStr::new(user.as_bytes()).ok(), ..Properties::default() })
    };
    assert_eq!(stage.publish_on(link, "q", &of("actor"), b"x"), None);
    stage.command(Command::PutUser(PutUser {
        name: "actor".into(),
        password_hash: None,
        hashing_algorithm: "rabbit_password_hashing_sha256".into(),
        tags: vec!["impersonator".into()],
    }));
    assert_eq!(stage.publish_on(link, "q", &of("guest"), b"x"), None);
    let honest = stage.connect();
    let text = "PRECONDITION_FAILED - user_id property set to 'actor' but authenticated user was 'guest'";
    assert_eq!(stage.publish_on(honest, "q", &of("actor"), b"x"), Some((406, text.to_owned())));
}

#[test]
fn a_body_above_the_limit_closes_its_channel() {
    let mut stage = Stage::with(Settings { max_message_size: 10, ..Settings::default() });
    let link = stage.connect();
    stage.declare_all(link, &["q"], &FieldTable::new());
    assert_eq!(stage.publish_on(link, "q", &[0, 0], b"0123456789"), None);
    let (code, text) = stage.publish_on(link, "q", &[0, 0], b"0123456789a").expect("the channel is closed");
    assert_eq!(code, 406);
    assert!(text.starts_with("PRECONDITION_FAILED - message size 11 is larger than configured max size 10"), "{text}");
}

#[test]
fn a_queue_drops_its_head_above_its_byte_limit() {
    let mut stage = Stage::new();
    let link = stage.connect();
    stage.declare_all(link, &["q"], &FieldTable::new().with("x-max-length-bytes", FieldValue::I32(8)));
    for body in [&b"four"[..], b"five5", b"six"] {
        assert_eq!(stage.publish_on(link, "q", &[0, 0], body), None);
    }
    let bodies: Vec<String> = stage.deliveries(link, "q").into_iter().map(|(_, body)| body).collect();
    assert_eq!(bodies, ["five5", "six"], "the head is dropped");
}

/// Nothing was durable or confirmed when the requests came; messages published before them count all the same.
#[test]
fn a_client_finds_what_it_published_before() {
    let mut stage = Stage::new();
    let link = stage.connect();
    let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
    stage.links[link].client.declare_queue(1, b"own", durable, &FieldTable::new());
    stage.settle();
    stage.links[link].told();
    let client = &mut stage.links[link].client;
    for _ in 0..3 {
        client.publish(1, Publication::to_queue(b"own", b"x").with(&[0x10, 0, 2]));
    }
    client.get(1, b"own", true);
    client.publish(1, Publication::to_queue(b"own", b"x").with(&[0x10, 0, 2]));
    client.declare_queue(1, b"own", QueueDeclare { passive: true, ..durable }, &FieldTable::new());
    client.publish(1, Publication::to_queue(b"own", b"x").with(&[0x10, 0, 2]));
    client.purge_queue(1, b"own");
    client.publish(1, Publication::to_queue(b"own", b"x").with(&[0x10, 0, 2]));
    client.get(1, b"own", true);
    stage.settle();
    let counts: Vec<_> = stage.links[link]
        .told()
        .into_iter()
        .map(|told| match told {
            Told::Event(Event::Got { message_count, .. }) => ("got", message_count),
            Told::Event(Event::QueueDeclared { message_count, .. }) => ("declared", message_count),
            Told::Event(Event::Removed { message_count, .. }) => ("purged", message_count),
            told => panic!("{told:?}"),
        })
        .collect();
    assert_eq!(counts, [("got", 2), ("declared", 3), ("purged", 4), ("got", 0)]);
}
