//! Messages without a connection: their properties by the names that RabbitMQ's HTTP API has for AMQP 0-9-1's.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_amqp091::{HEADER_OVERHEAD, Properties, ShortStr};
use leveret_broker::expiration::time_to_live_ms;
use leveret_broker::protocol::{Encoded, PlainForm};
use leveret_broker::{Broker, Now};
use leveret_message::deliver::{Amqp091, Delivery, to_amqp091};
use leveret_message::{Encoding, Envelope, StoredMessage};
use leveret_model::{Arguments, Identity, Refused, RefusedKind, Value};

use super::field_tables;
use super::protocol::Amqp091Protocol;
use super::run::DELIVERY_MODE_PERSISTENT;

impl PlainForm for Amqp091Protocol {
    fn encode(&self, broker: &Broker, who: &Identity, properties: &Arguments, now: Now) -> Result<Encoded, Refused> {
        let Checked { encoded, persistent, priority, time_to_live_ms } = Checked::of(properties, who, broker)?;
        // A client would have this frame_max itself.
        let (size, limit) = (encoded.len() + HEADER_OVERHEAD, broker.settings.frame_max);
        if limit != 0 && size > limit as usize {
            return Err(wrong(format!(
                "properties make a content header of {size} bytes, larger than frame_max ({limit})"
            )));
        }
        let mut overlay = Vec::new();
        if let Some(stamps) = &broker.settings.stamps {
            stamps.encode_amqp091(&encoded, now.wall_ms, &mut overlay);
        }
        let expiry_ms = time_to_live_ms.map_or(0, |ms| Envelope::expiry(now.wall_ms, ms));
        Ok(Encoded { encoding: Encoding::Amqp091, properties: encoded, overlay, persistent, priority, expiry_ms })
    }

    fn show<'a>(&self, message: &StoredMessage<'a>, delivery: &Delivery) -> (Arguments, Cow<'a, [u8]>) {
        let Amqp091 { properties, body } = to_amqp091(message, delivery);
        (shown(&properties), body)
    }
}

fn wrong(text: String) -> Refused {
    Refused::new(RefusedKind::PreconditionFailed, text)
}

/// Properties under the names that the HTTP API uses.
fn shown(encoded: &[u8]) -> Arguments {
    let Ok(properties) = Properties::decode(encoded) else { return Arguments::default() };
    let mut pairs: Vec<(Arc<str>, Value)> = Vec::new();
    let mut text = |name: &str, value: Option<ShortStr<'_>>| {
        pairs.extend(value.map(|value| (Arc::from(name), Value::string(value.as_bytes()))));
    };
    text("content_type", properties.content_type);
    text("content_encoding", properties.content_encoding);
    text("correlation_id", properties.correlation_id);
    text("reply_to", properties.reply_to);
    text("expiration", properties.expiration);
    text("message_id", properties.message_id);
    text("type", properties.kind);
    text("user_id", properties.user_id);
    text("app_id", properties.app_id);
    text("cluster_id", properties.cluster_id);
    let mut number = |name: &str, value: Option<u64>| {
        let value = value.map(|value| i64::try_from(value).map_or(Value::UInt(value), Value::Int));
        pairs.extend(value.map(|value| (Arc::from(name), value)));
    };
    number("delivery_mode", properties.delivery_mode.map(u64::from));
    number("priority", properties.priority.map(u64::from));
    number("timestamp", properties.timestamp);
    if let Some(headers) = properties.headers
        && let Ok(table) = field_tables::arguments(headers)
    {
        pairs.push(("headers".into(), Value::Table(table)));
    }
    Arguments::new(pairs)
}

/// A publisher's properties, checked.
struct Checked {
    encoded: Vec<u8>,
    persistent: bool,
    priority: Option<u8>,
    time_to_live_ms: Option<u64>,
}

impl Checked {
    fn of(given: &Arguments, who: &Identity, broker: &Broker) -> Result<Self, Refused> {
        let text = |name: &str| match given.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= 255 => Ok(Some(text.clone())),
            Some(other) => Err(wrong(format!("property {name} is no text of at most 255 bytes: {other}"))),
        };
        let byte = |name: &str| match given.get(name) {
            None => Ok(None),
            Some(Value::Int(number)) if u8::try_from(*number).is_ok() => Ok(u8::try_from(*number).ok()),
            Some(other) => Err(wrong(format!("property {name} is no number from 0 to 255: {other}"))),
        };
        let timestamp = match given.get("timestamp") {
            None => None,
            Some(Value::Int(seconds)) if *seconds >= 0 => Some(seconds.unsigned_abs()),
            Some(Value::UInt(seconds)) => Some(*seconds),
            Some(other) => return Err(wrong(format!("property timestamp is no number of seconds: {other}"))),
        };
        let table = match given.get("headers") {
            None => None,
            Some(Value::Table(table)) => Some(field_tables::field_table(table).encoded()),
            Some(other) => return Err(wrong(format!("property headers is no table: {other}"))),
        };
        let user_id = text("user_id")?;
        if let Some(claimed) = &user_id {
            broker.check_user_id(who, claimed).map_err(wrong)?;
        }
        let expiration = text("expiration")?;
        let time_to_live_ms = match &expiration {
            None => None,
            Some(text) => match time_to_live_ms(text) {
                Ok(ms) => Some(ms),
                Err(reason) => return Err(wrong(reason)),
            },
        };
        let texts = [
            text("content_type")?,
            text("content_encoding")?,
            text("correlation_id")?,
            text("reply_to")?,
            text("message_id")?,
            text("type")?,
            text("app_id")?,
            text("cluster_id")?,
        ];
        let [content_type, content_encoding, correlation_id, reply_to, message_id, kind, app_id, cluster_id] = &texts;
        fn short(text: &Option<Arc<[u8]>>) -> Option<ShortStr<'_>> {
            text.as_ref().and_then(|text| ShortStr::new(text).ok())
        }
        let (delivery_mode, priority) = (byte("delivery_mode")?, byte("priority")?);
        let properties = Properties {
            content_type: short(content_type),
            content_encoding: short(content_encoding),
            headers: table.as_ref().map(|table| table.as_table()),
            delivery_mode,
            priority,
            correlation_id: short(correlation_id),
            reply_to: short(reply_to),
            expiration: short(&expiration),
            message_id: short(message_id),
            timestamp,
            kind: short(kind),
            user_id: short(&user_id),
            app_id: short(app_id),
            cluster_id: short(cluster_id),
        };
        let mut encoded = Vec::new();
        properties.encode(&mut encoded);
        let persistent = delivery_mode == Some(DELIVERY_MODE_PERSISTENT);
        Ok(Checked { encoded, persistent, priority, time_to_live_ms })
    }
}
