//! Reassembles contents from frames.

use leveret_amqp091::ContentHeader;

use super::event::{Delivery, Event, Span};
use crate::{Rule, Violation};

/// Class basic, the only class with content.
const BASIC: u16 = 60;

/// The method of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    Deliver { delivery_tag: u64, redelivered: bool },
    Get { delivery_tag: u64, redelivered: bool, message_count: u32 },
    Return { code: u16 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// No content has begun.
    #[default]
    Idle,
    /// The method arrived; the header is due.
    Header(Carrier),
    /// Bodies with this many bytes are due.
    Body(Carrier, u64),
}

/// The current content on a channel. Buffers are reused, so that a message needs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    stage: Stage,
    /// Consumer tag, exchange and routing key, concatenated.
    names: Vec<u8>,
    lengths: [u32; 3],
    properties: Vec<u8>,
    body: Vec<u8>,
}

impl Assembly {
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    pub(crate) fn begin(&mut self, carrier: Carrier, names: [&[u8]; 3]) {
        self.names.clear();
        for (name, length) in names.iter().zip(&mut self.lengths) {
            self.names.extend_from_slice(name);
            *length = name.len() as u32;
        }
        self.body.clear();
        self.stage = Stage::Header(carrier);
    }

    /// Processes a header frame. Returns an event if the body is empty.
    pub(crate) fn header(
        &mut self,
        channel: u16,
        payload: &[u8],
        arena: &mut Vec<u8>,
    ) -> Result<Option<Event>, Violation> {
        let header = ContentHeader::decode(payload)?;
        let Stage::Header(carrier) = self.stage else {
            return Err(Violation::new(
                Rule::ContentOrder,
                format!("a content header on channel {channel} with no method before it"),
            ));
        };
        if header.class_id != BASIC {
            return Err(Violation::new(
                Rule::ContentOrder,
                format!("a content header of class {} on channel {channel}, expected 60", header.class_id),
            ));
        }
        self.properties.clear();
        self.properties.extend_from_slice(header.properties);
        if header.body_size == 0 {
            return Ok(Some(self.finish(channel, carrier, &[], arena)));
        }
        self.stage = Stage::Body(carrier, header.body_size);
        Ok(None)
    }

    /// Processes a body frame. Returns an event if it was the last one.
    pub(crate) fn body(
        &mut self,
        channel: u16,
        payload: &[u8],
        arena: &mut Vec<u8>,
    ) -> Result<Option<Event>, Violation> {
        let Stage::Body(carrier, due) = self.stage else {
            return Err(Violation::new(
                Rule::ContentOrder,
                format!("a body frame on channel {channel} with no header before it"),
            ));
        };
        let Some(left) = due.checked_sub(payload.len() as u64) else {
            return Err(Violation::new(
                Rule::BodySize,
                format!("{} body bytes on channel {channel} where {due} were due", payload.len()),
            ));
        };
        if left == 0 {
            return Ok(Some(self.finish(channel, carrier, payload, arena)));
        }
        self.body.extend_from_slice(payload);
        self.stage = Stage::Body(carrier, left);
        Ok(None)
    }

    fn finish(&mut self, channel: u16, carrier: Carrier, last: &[u8], arena: &mut Vec<u8>) -> Event {
        self.stage = Stage::Idle;
        let mut start = arena.len() as u32;
        let mut span = |length: u32| {
            let span = Span { start, length };
            start += length;
            span
        };
        let [tag, exchange, key] = self.lengths;
        let mut delivery = Delivery {
            channel,
            consumer_tag: span(tag),
            delivery_tag: 0,
            redelivered: false,
            exchange: span(exchange),
            routing_key: span(key),
            properties: span(self.properties.len() as u32),
            body: span((self.body.len() + last.len()) as u32),
        };
        for part in [&self.names, &self.properties, &self.body, last] {
            arena.extend_from_slice(part);
        }
        match carrier {
            Carrier::Deliver { delivery_tag, redelivered } => {
                (delivery.delivery_tag, delivery.redelivered) = (delivery_tag, redelivered);
                Event::Delivered(delivery)
            }
            Carrier::Get { delivery_tag, redelivered, message_count } => {
                (delivery.delivery_tag, delivery.redelivered) = (delivery_tag, redelivered);
                Event::Got { delivery, message_count }
            }
            Carrier::Return { code } => Event::Returned { message: delivery, code },
        }
    }
}
