//! Direct reply-to over AMQP 0-9-1.

use leveret_amqp091::{FieldTable, Properties, ShortStr};
use leveret_broker::reply_to::{REPLY_TO, VOLATILE_PREFIX};
use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

fn with_reply_to(name: &str) -> Vec<u8> {
    let properties = Properties {
        correlation_id: ShortStr::new(b"7").ok(),
        reply_to: ShortStr::new(name.as_bytes()).ok(),
        ..Properties::default()
    };
    let mut out = Vec::new();
    properties.encode(&mut out);
    out
}

impl Stage {
    fn consume_replies(&mut self, link: usize, no_ack: bool) {
        let flags = Consume { no_ack, ..Consume::default() };
        self.links[link].client.consume(1, REPLY_TO.as_bytes(), b"answers", flags, &FieldTable::new());
        self.settle();
    }

    fn declare(&mut self, link: usize, name: &str, passive: bool) {
        let flags = QueueDeclare { passive, ..QueueDeclare::default() };
        self.links[link].client.declare_queue(1, name.as_bytes(), flags, &FieldTable::new());
        self.settle();
    }

    fn send(&mut self, link: usize, key: &str, mandatory: bool, properties: &[u8], body: &[u8]) {
        self.links[link]
            .client
            .publish(1, Publication { mandatory, ..Publication::to_queue(key.as_bytes(), body).with(properties) });
        self.settle();
    }

    /// A requester that has sent a request over the queue q, a responder, and the reply name that the responder got.
    fn request(&mut self) -> (usize, usize, String) {
        let (requester, responder) = (self.connect(), self.connect());
        self.declare(responder, "q", false);
        let flags = Consume { no_ack: true, ..Consume::default() };
        self.links[responder].client.consume(1, b"q", b"", flags, &FieldTable::new());
        self.consume_replies(requester, true);
        let ok = Told::Event(Event::ConsumeOk { channel: 1, consumer_tag: b"answers".to_vec() });
        assert_eq!(self.links[requester].told(), [ok]);
        self.send(requester, "q", true, &with_reply_to(REPLY_TO), b"ask");
        let told = self.links[responder].told();
        let Some(Told::Delivered { properties, body, .. }) = told.last() else { panic!("{told:?}") };
        assert_eq!(body, "ask");
        let properties = Properties::decode(properties).expect("properties");
        assert_eq!(properties.correlation_id.map(|id| id.as_bytes()), Some(&b"7"[..]), "what else there was is kept");
        let name = String::from_utf8_lossy(properties.reply_to.expect("reply-to").as_bytes()).into_owned();
        assert!(name.starts_with(VOLATILE_PREFIX), "{name}");
        (requester, responder, name)
    }
}

fn ok(refusal: Option<(u16, String)>) -> (u16, String) {
    refusal.expect("the channel is closed")
}

#[test]
fn an_answer_reaches_the_requester_without_a_queue() {
    let mut stage = Stage::new();
    let (requester, responder, name) = stage.request();
    stage.links[responder].client.confirm_select(1);
    for body in [b"one", b"two"] {
        stage.links[responder]
            .client
            .publish(1, Publication::to_queue(name.as_bytes(), body).with(&with_reply_to("x")).mandatory());
    }
    stage.settle();
    let told = stage.links[requester].told();
    let answers: Vec<_> = told
        .iter()
        .map(|told| match told {
            Told::Delivered { routing_key, body, .. } => (routing_key.as_str(), body.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(answers, [(name.as_str(), "one"), (name.as_str(), "two")]);
    let confirmed = Told::Event(Event::Confirmed { channel: 1, first: 1, last: 2, positive: true });
    assert_eq!(stage.links[responder].told().last(), Some(&confirmed), "nothing came back");
    assert_eq!(stage.broker.registry.snapshot().queues.len(), 1, "q alone");
}

#[test]
fn more_answers_than_one_write_takes_come_in_order() {
    let mut stage = Stage::new();
    let (requester, responder, name) = stage.request();
    for number in 0..200u32 {
        let body = format!("{number}:{}", "x".repeat(10_000));
        stage.links[responder].client.publish(1, Publication::to_queue(name.as_bytes(), body.as_bytes()).mandatory());
    }
    stage.settle();
    let told = stage.links[requester].told();
    assert_eq!(told.len(), 200);
    for (number, told) in told.iter().enumerate() {
        let Told::Delivered { body, .. } = told else { panic!("{told:?}") };
        assert!(body.starts_with(&format!("{number}:")), "{number}");
    }
}

#[test]
fn a_reply_name_is_unroutable_after_its_consumer_is_gone() {
    for cancel in [true, false] {
        let mut stage = Stage::new();
        let (requester, responder, name) = stage.request();
        // The responder's route is cached.
        stage.send(responder, &name, true, &[0, 0], b"in time");
        assert_eq!(stage.links[requester].told().len(), 1);
        if cancel {
            stage.links[requester].client.cancel(1, b"answers");
        } else {
            stage.links[requester].client.close_channel(1);
        }
        stage.settle();
        stage.links[requester].told();
        stage.send(responder, &name, true, &[0, 0], b"late");
        let told = stage.links[responder].told();
        assert!(matches!(told[..], [Told::Event(Event::Returned { code: 312, .. })]), "{told:?}");
        assert_eq!(stage.links[requester].told(), []);
        stage.declare(responder, &name, true);
        let gone = format!("NOT_FOUND - no queue '{name}' in vhost '/'");
        assert_eq!(ok(stage.links[responder].refusal()), (404, gone));
    }
}

#[test]
fn the_pseudo_queue_always_exists_and_a_name_while_consumed() {
    let mut stage = Stage::new();
    let (_, responder, name) = stage.request();
    for (name, passive) in [(REPLY_TO, true), (REPLY_TO, false), (&name, true), (&name, false)] {
        stage.declare(responder, name, passive);
        let (queue, message_count, consumer_count) = (name.as_bytes().to_vec(), 0, 1);
        let declared = Event::QueueDeclared { channel: 1, queue, message_count, consumer_count };
        assert_eq!(stage.links[responder].told(), [Told::Event(declared)]);
    }
    let other = format!("{VOLATILE_PREFIX}nobody");
    stage.declare(responder, &other, false);
    let gone = format!("NOT_FOUND - no queue '{other}' in vhost '/'");
    assert_eq!(ok(stage.links[responder].refusal()), (404, gone));
}

#[test]
fn unsupported_pseudo_queue_methods_fail_in_rabbitmqs_words() {
    let refused = |act: &dyn Fn(&mut Stage, usize)| {
        let mut stage = Stage::new();
        let link = stage.connect();
        act(&mut stage, link);
        stage.settle();
        ok(stage.links[link].refusal())
    };
    let precondition = |text: &str| (406, format!("PRECONDITION_FAILED - {text}"));
    assert_eq!(
        refused(&|stage, link| stage.consume_replies(link, false)),
        precondition("reply consumer cannot acknowledge")
    );
    let twice = |stage: &mut Stage, link: usize| {
        stage.consume_replies(link, true);
        let flags = Consume { no_ack: true, ..Consume::default() };
        stage.links[link].client.consume(1, REPLY_TO.as_bytes(), b"other", flags, &FieldTable::new());
    };
    assert_eq!(refused(&twice), precondition("reply consumer already set"));
    assert_eq!(
        refused(&|stage, link| stage.send(link, "q", false, &with_reply_to(REPLY_TO), b"ask")),
        precondition("fast reply consumer does not exist")
    );
    let bind = |stage: &mut Stage, link: usize, name: &str| {
        stage.links[link].client.bind_queue(1, name.as_bytes(), b"amq.direct", b"k", &FieldTable::new());
    };
    let volatile = format!("{VOLATILE_PREFIX}nobody");
    let text = "ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue";
    assert_eq!(refused(&|stage, link| bind(stage, link, &volatile)), (403, text.to_owned()));
    let missing = format!("NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'");
    assert_eq!(refused(&|stage, link| bind(stage, link, REPLY_TO)), (404, missing.clone()));
    let get = |stage: &mut Stage, link: usize| stage.links[link].client.get(1, REPLY_TO.as_bytes(), true);
    assert_eq!(refused(&get), (404, missing));
    let reuse = |stage: &mut Stage, link: usize| {
        stage.consume_replies(link, true);
        stage.declare(link, "q", false);
        stage.links[link].client.consume(1, b"q", b"answers", Consume::default(), &FieldTable::new());
    };
    assert_eq!(refused(&reuse), (530, "NOT_ALLOWED - attempt to reuse consumer tag 'answers'".to_owned()));
}

#[test]
fn answers_are_not_accessible_to_other_connections() {
    let mut stage = Stage::new();
    let (requester, responder, name) = stage.request();
    let thief = stage.connect();
    let flags = Consume { no_ack: true, ..Consume::default() };
    stage.links[thief].client.consume(1, name.as_bytes(), b"", flags, &FieldTable::new());
    stage.settle();
    let text = format!("PRECONDITION_FAILED - only creator channel may consume from queue '{name}' in vhost '/'");
    assert_eq!(ok(stage.links[thief].refusal()), (406, text));
    stage.links[responder].client.get(1, name.as_bytes(), true);
    stage.settle();
    let text = format!("NOT_IMPLEMENTED - basic.get not supported by volatile queue '{name}' in vhost '/'");
    assert_eq!(ok(stage.links[responder].refusal()), (540, text));
    assert_eq!(stage.links[requester].told(), []);
}

#[test]
fn an_answer_in_a_transaction_comes_with_its_commit() {
    let mut stage = Stage::new();
    let (requester, responder, name) = stage.request();
    stage.links[responder].client.tx_select(1);
    stage.send(responder, &name, true, &[0, 0], b"forgotten");
    stage.links[responder].client.tx_rollback(1);
    stage.send(responder, &name, true, &[0, 0], b"answer");
    assert_eq!(stage.links[requester].told(), []);
    stage.links[responder].client.tx_commit(1);
    stage.settle();
    let told = stage.links[requester].told();
    assert!(matches!(&told[..], [Told::Delivered { body, .. }] if body == "answer"), "{told:?}");
}

#[test]
fn a_requester_that_does_not_read_costs_bounded_memory() {
    let mut stage = Stage::new();
    let (requester, responder, name) = stage.request();
    stage.links[requester].reads = false;
    for _ in 0..40 {
        stage.send(responder, &name, true, &[0, 0], &vec![b'x'; 1 << 20]);
    }
    assert!(stage.links[responder].connection.wants_read(), "nobody waits for it");
    stage.links[requester].reads = true;
    stage.settle();
    let arrived = stage.links[requester].told().len();
    assert!((4..8).contains(&arrived), "{arrived} of 40 MiB were kept");
}
