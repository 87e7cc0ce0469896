//! The metrics port.

mod families;
mod pages;

use leveret_strict_client::amqp091::{Event, Publication, QueueDeclare};

use crate::stage::{Amqp, HttpStage, request};

/// A page's text.
pub(crate) fn page(stage: &HttpStage, path: &str) -> String {
    let (status, text) = request(stage.prometheus, "GET", path, "", "");
    assert_eq!(status, 200, "{path}: {text}");
    text
}

/// The value of a sample by its name with labels, as written.
fn value(text: &str, sample: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{sample} in {text}")).parse().expect("a number")
}

/// A connection with a queue `q` that got three persistent messages of 150 bytes and one of 5; another message had no
/// queue.
fn traffic(stage: &HttpStage) -> Amqp {
    // With a timestamp in 2023.
    const PERSISTENT: [u8; 11] = [0x10, 0x40, 2, 0, 0, 0, 0, 0x65, 0x53, 0xf1, 0];
    let mut amqp = Amqp::connect(stage.amqp);
    let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
    amqp.client.declare_queue(1, b"q", durable, &Default::default());
    amqp.until(|event| matches!(event, Event::QueueDeclared { .. }));
    amqp.client.confirm_select(1);
    amqp.reply("confirm.select-ok");
    for _ in 0..3 {
        amqp.client.publish(1, Publication::to_queue(b"q", &[7; 150]).with(&PERSISTENT).mandatory());
    }
    amqp.client.publish(1, Publication::to_queue(b"q", b"small").mandatory());
    amqp.client.publish(1, Publication::to(b"amq.direct", b"nowhere", b"gone").mandatory());
    amqp.until(|event| matches!(event, Event::Confirmed { last: 5, .. }));
    amqp
}
