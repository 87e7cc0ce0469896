//! No frame is larger than its receiver negotiated, whatever another client published.

use leveret_amqp10::condition;
use leveret_amqp091::{FieldTable, FieldValue, Properties};
use leveret_broker::Settings;
use leveret_strict_client::amqp10;
use leveret_strict_client::amqp091::{Consume, Event, Options, Publication, QueueDeclare};

use crate::client_amqp10::Client10;
use crate::stage::{Stage, Told};
use leveret_broker::queue_handle::Size;

const SMALL: u32 = 4096;

fn properties(header_bytes: usize) -> Vec<u8> {
    let mut headers = FieldTable::new();
    headers.insert(b"h", FieldValue::LongString(vec![b'x'; header_bytes]));
    let headers = headers.encoded();
    let mut out = Vec::new();
    Properties { headers: Some(headers.as_table()), ..Properties::default() }.encode(&mut out);
    out
}

/// A stage with a queue, a client with large frames that publishes and one with small frames.
fn stage() -> (Stage, usize, usize) {
    let mut stage = Stage::new();
    let publisher = stage.connect();
    let small = stage.dial(Options { frame_max: SMALL, ..Options::default() });
    stage.links[small].client.open_channel(1);
    stage.links[publisher].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    stage.settle();
    (stage, publisher, small)
}

fn ready(stage: &Stage) -> u64 {
    stage.broker.registry.snapshot_full().queue("/", "q").expect("is declared").look(Size { used: None }).0
}

fn refused(stage: &mut Stage, link: usize) {
    let (code, text) = stage.links[link].refusal().expect("the channel is closed");
    assert_eq!(code, 501);
    assert!(text.starts_with("FRAME_ERROR - a content header takes a frame of 5"), "{text}");
    assert!(text.contains("frame_max is 4096"), "{text}");
    assert!(stage.links[link].client.is_open(), "its connection goes on");
}

#[test]
fn a_header_above_the_consumers_frames_stays_in_the_queue() {
    let (mut stage, publisher, small) = stage();
    stage.links[small].client.consume(1, b"q", b"tag", Consume::default(), &FieldTable::new());
    stage.settle();
    for bytes in [10, 5000, 10] {
        stage.links[publisher].client.publish(1, Publication::to_queue(b"q", b"x").with(&properties(bytes)));
    }
    stage.settle();
    refused(&mut stage, small);
    assert_eq!(ready(&stage), 3);
    // A client with larger frames gets it.
    stage.links[publisher].client.consume(1, b"q", b"tag", Consume::default(), &FieldTable::new());
    stage.settle();
    let delivered = stage.links[publisher].told().into_iter().filter(|told| matches!(told, Told::Delivered { .. }));
    assert_eq!(delivered.count(), 3);
}

#[test]
fn a_header_above_the_getters_frames_stays_in_the_queue() {
    let (mut stage, publisher, small) = stage();
    stage.links[publisher].client.publish(1, Publication::to_queue(b"q", b"x").with(&properties(5000)));
    stage.settle();
    stage.links[small].client.get(1, b"q", false);
    stage.settle();
    refused(&mut stage, small);
    assert_eq!(ready(&stage), 1);
}

#[test]
fn a_frame_above_initial_frame_max_is_refused_before_tune() {
    let mut stage = Stage::new();
    let mut properties = Options::default().properties;
    properties.insert(b"long", FieldValue::LongString(vec![b'x'; 73_728]));
    let link = stage.dial(Options { properties, ..Options::default() });
    let (code, text) = stage.links[link].refusal().expect("the connection is closed");
    assert_eq!(code, 501);
    assert!(text.contains("73728"), "{text}");
}

#[test]
fn a_frame_before_tune_may_be_as_large_as_configured() {
    let mut stage = Stage::with(Settings { initial_frame_max: 20_000, ..Settings::default() });
    let long = |length| {
        let mut properties = Options::default().properties;
        properties.insert(b"long", FieldValue::LongString(vec![b'x'; length]));
        Options { properties, ..Options::default() }
    };
    let link = stage.dial(long(18_000));
    assert_eq!(stage.links[link].told().last(), Some(&Told::Event(Event::Connected)));
    let link = stage.dial(long(20_000));
    let (code, text) = stage.links[link].refusal().expect("the connection is closed");
    assert_eq!(code, 501);
    assert!(text.contains("20000"), "{text}");
}

#[test]
fn a_frame_of_amqp_10_before_open_is_held_to_the_same_limit() {
    for limit in [8192, 20_000] {
        let mut stage = Stage::with(Settings { initial_frame_max: limit, ..Settings::default() });
        let mut open = |length| {
            let container_id = "x".repeat(length);
            let client = Client10::dial(&mut stage, amqp10::Options { container_id, ..amqp10::Options::default() });
            client.events.last().cloned()
        };
        let limit = limit as usize;
        let opened = open(limit - 192);
        assert!(matches!(opened, Some(amqp10::Event::Opened { .. })), "{opened:?}");
        let refused = open(limit);
        let Some(amqp10::Event::Closed { error: Some(error), .. }) = &refused else { panic!("{refused:?}") };
        assert_eq!(error.condition, condition::FRAMING_ERROR.as_str());
        let words = format!("> maximum frame size ({limit} bytes)");
        assert!(error.description.ends_with(&words), "{error:?}");
    }
}
