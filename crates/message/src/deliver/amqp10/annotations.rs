//! Message annotations (AMQP 1.0, 3.2.3).

use leveret_amqp10::{MapRef, descriptor};

use super::map_writer::MapWriter;
use super::{deaths, value};
use crate::added::raw_pairs;
use crate::annotations::{RawAnnotations, X_STREAM_OFFSET, is_of_deaths};
use crate::deliver::stamps::Stamps;
use crate::envelope::Envelope;
use crate::hub::Message;
use crate::stored::StoredMessage;

/// Appends the section for a message published over AMQP 1.0: the publisher's annotations are copied without
/// decoding.
#[inline]
pub(super) fn write_stored(message: &StoredMessage<'_>, stamps: &Stamps<'_>, out: &mut Vec<u8>) {
    let mut map = MapWriter::section(out, descriptor::MESSAGE_ANNOTATIONS);
    write_route(&message.envelope, out, &mut map);
    let has_offset = write_offset(stamps, out, &mut map);
    let kept = RawAnnotations::of(message.properties).unwrap_or_default();
    // A publisher may have copied a message with the offset that it had.
    let is_double =
        has_offset && kept.items.windows(X_STREAM_OFFSET.len()).any(|name| name == X_STREAM_OFFSET.as_bytes());
    match message.overlay.deaths() {
        None if stamps.is_empty() && !is_double => map.raw(out, kept.count, kept.items),
        history => {
            let takes = |name: &str| stamps.takes(name) || history.is_some() && is_of_deaths(name);
            let pairs = leveret_amqp10::message::Sections::parse(message.properties);
            let pairs = pairs.ok().and_then(|sections| sections.message_annotations).unwrap_or(MapRef::EMPTY);
            let mut pairs = pairs.iter();
            while let Some((key, raw)) = pairs.next_raw() {
                if !key.as_text().is_some_and(takes) {
                    map.raw(out, 2, raw);
                }
            }
            stamps.add_annotations(|name, value| map.symbol(out, name, value));
            stamps.added().into_iter().flat_map(raw_pairs).for_each(|(_, raw)| map.raw(out, 2, raw));
            if let Some(history) = history {
                deaths::add_annotations(&history, out, &mut map);
            }
        }
    }
    map.finish(out);
}

/// Appends the section for any other message.
#[inline(always)]
pub(super) fn write(message: &Message<'_>, stamps: &Stamps<'_>, out: &mut Vec<u8>) {
    let mut map = MapWriter::section(out, descriptor::MESSAGE_ANNOTATIONS);
    write_route(&message.envelope, out, &mut map);
    write_offset(stamps, out, &mut map);
    let history = message.overlay.deaths();
    let takes = |name: &str| stamps.takes(name) || history.is_some() && is_of_deaths(name);
    message.annotations.each(|name, value| {
        if !takes(name) {
            map.key(out, name);
            value::write(value, out);
        }
    });
    stamps.add_annotations(|name, value| map.symbol(out, name, value));
    stamps.added().into_iter().flat_map(raw_pairs).for_each(|(_, raw)| map.raw(out, 2, raw));
    if let Some(history) = history {
        deaths::add_annotations(&history, out, &mut map);
    }
    map.finish(out);
}

/// Writes exchange and routing key, whose annotation names are always the same bytes.
#[inline(always)]
fn write_route(envelope: &Envelope<'_>, out: &mut Vec<u8>, map: &mut MapWriter) {
    map.raw(out, 2, b"\xa3\x0ax-exchange");
    value::text(envelope.exchange).encode(out);
    map.raw(out, 2, b"\xa3\x0dx-routing-key");
    value::text(envelope.routing_key).encode(out);
}

/// The annotation with an offset, up to its 8 bytes: the name, and the type, which is `long` in RabbitMQ.
pub(super) const OFFSET_START: &[u8] = b"\xa3\x0fx-stream-offset\x81";

/// Writes the offset of a message from a stream, if it has one. The 8 bytes stand where the next message of a series has its own.
#[inline]
fn write_offset(stamps: &Stamps<'_>, out: &mut Vec<u8>, map: &mut MapWriter) -> bool {
    let Some(offset) = stamps.stream_offset() else { return false };
    map.raw(out, 2, OFFSET_START);
    out.extend_from_slice(&offset.to_be_bytes());
    true
}
