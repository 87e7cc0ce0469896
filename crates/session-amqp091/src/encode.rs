//! Deliveries as frames.

use leveret_amqp091::{encode_content_body, encode_deliver, encode_header};
use leveret_message::StoredMessage;
use leveret_message::deliver::{Delivery, to_amqp091, within};
use leveret_queue::Taken;

use leveret_broker::settings::Settings;
use leveret_broker::time::Now;

/// Class of all content (specification 1.8).
pub(super) const CLASS_BASIC: u16 = 60;

/// The client that deliveries are encoded for.
pub(crate) struct Recipient<'a> {
    pub channel: u16,
    pub tag: &'a [u8],
    pub frame_max: u32,
    /// Largest size of a message's properties, in bytes.
    pub properties_max: usize,
    pub delivery: Delivery,
}

/// One `basic.deliver` with its content.
///
/// # Errors
/// The size of its properties if they are larger than the recipient's frames: nothing was encoded then.
pub(crate) fn encode_delivery(
    out: &mut Vec<u8>,
    to: &Recipient<'_>,
    delivery_tag: u64,
    message: &StoredMessage<'_>,
) -> Result<(), usize> {
    let envelope = &message.envelope;
    let content = to_amqp091(message, &to.delivery);
    let properties = within(message, content.properties, to.properties_max)?;
    let redelivered = to.delivery.redelivered;
    encode_deliver(out, to.channel, to.tag, delivery_tag, redelivered, envelope.exchange, envelope.routing_key);
    encode_header(out, to.channel, CLASS_BASIC, content.body.len() as u64, &properties);
    encode_content_body(out, to.channel, &content.body, to.frame_max);
    Ok(())
}

/// The part of messages that belongs to their delivery.
pub(crate) fn delivery_of(taken: &Taken, settings: &Settings, now: Now) -> Delivery {
    Delivery {
        redelivered: taken.redelivered,
        delivery_count: taken.attempts.failed,
        acquired_count: taken.attempts.acquired,
        now_ms: now.wall_ms,
        sent_time: settings.sent_time,
        stream_offset: None,
    }
}

/// A name that came over the wire as a short string, and so fits one again.
pub(crate) fn short(bytes: &[u8]) -> leveret_amqp091::ShortStr<'_> {
    leveret_amqp091::ShortStr::new(bytes).unwrap_or(leveret_amqp091::ShortStr::EMPTY)
}
