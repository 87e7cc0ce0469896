//! RabbitMQ's management over AMQP 1.0: HTTP-like requests on a pair of links to `/management`.

use leveret_amqp10::message::{BodyRef, MessageId, Properties, Sections, write_value};
use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::{EncodedMap, OwnedMap};
use leveret_amqp10::{DecodeError, OwnedValue, Role, SenderSettleMode, Serial, Source, Target, TargetArchetype};

use super::client::Client;
use super::send::Send;

/// The address of both links.
const ADDRESS: &str = "/management";

/// The reply-to of a request: the receiving link of the pair.
const REPLY_TO: &str = "$me";

/// A request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ManagementRequest<'a> {
    /// Its number, which the response repeats.
    pub id: u64,
    /// The method as in HTTP, such as `PUT`.
    pub method: &'a str,
    /// The path, such as `/queues/q`.
    pub path: &'a str,
    /// The body; null for none.
    pub body: &'a OwnedValue,
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The request's number.
    pub id: u64,
    /// The status as in HTTP.
    pub status: u16,
    /// The body.
    pub body: OwnedValue,
}

impl Response {
    /// Reads the payload of a delivery.
    ///
    /// # Errors
    /// If it isn't a message. Fields that aren't as in a response are 0 or null.
    pub fn parse(payload: &[u8]) -> Result<Self, DecodeError> {
        let sections = Sections::parse(payload)?;
        let properties = sections.properties.unwrap_or_default();
        let id = match properties.correlation_id {
            Some(MessageId::Ulong(id)) => id,
            _ => 0,
        };
        let status = properties.subject.and_then(|subject| subject.parse().ok()).unwrap_or_default();
        let body = match sections.body {
            BodyRef::Value(value) => value.decode()?.into(),
            _ => OwnedValue::Null,
        };
        Ok(Self { id, status, body })
    }

    /// A number in the response, such as `message_count`.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        match &self.body {
            OwnedValue::Map(map) => map.lookup(key)?.as_scalar()?.as_u64(),
            _ => None,
        }
    }
}

impl Client {
    /// Attaches both links, the sender with this handle and the receiver with the next one, and grants credit for
    /// responses. Requests need the sender's credit.
    ///
    /// # Panics
    /// If one of the handles is attached.
    pub fn attach_management(&mut self, channel: u16, handle: u32) {
        let properties = EncodedMap::new().with("paired", true);
        let sender = Attach {
            name: "management",
            handle,
            role: Role::Sender,
            snd_settle_mode: SenderSettleMode::Settled,
            source: Some(Source { address: Some(ADDRESS), ..Source::default() }),
            target: Some(TargetArchetype::Target(Target { address: Some(ADDRESS), ..Target::default() })),
            initial_delivery_count: Some(0),
            properties: Some(properties.as_map()),
            ..Attach::default()
        };
        let receiver = Attach { handle: handle + 1, role: Role::Receiver, initial_delivery_count: None, ..sender };
        self.attach(channel, &sender);
        self.attach(channel, &receiver);
        self.grant(channel, handle + 1, 100, false);
    }

    /// Sends a request. Returns the delivery-id, `None` without credit or window.
    pub fn request(&mut self, channel: u16, handle: u32, request: &ManagementRequest<'_>) -> Option<Serial> {
        let ManagementRequest { id, method, path, body } = *request;
        let properties = Properties {
            message_id: Some(MessageId::Ulong(id)),
            to: Some(path),
            subject: Some(method),
            reply_to: Some(REPLY_TO),
            ..Properties::default()
        };
        let mut payload = Vec::new();
        properties.encode(&mut payload);
        let body = body.encoded();
        write_value(&mut payload, &body.as_value());
        self.send(channel, handle, &id.to_be_bytes(), &payload, &Send { settled: true, ..Send::default() })
    }

    /// The body of a request that declares a queue.
    #[must_use]
    pub fn queue_to_declare(durable: bool, exclusive: bool, auto_delete: bool, arguments: OwnedMap) -> OwnedValue {
        let mut map = OwnedMap::default();
        map.push("durable", durable).push("exclusive", exclusive).push("auto_delete", auto_delete);
        map.push("arguments", arguments);
        OwnedValue::Map(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_amqp10::Value;

    #[test]
    fn answers_are_read() {
        let properties =
            Properties { subject: Some("200"), correlation_id: Some(MessageId::Ulong(7)), ..Properties::default() };
        let mut payload = Vec::new();
        properties.encode(&mut payload);
        let body = EncodedMap::new().with("message_count", 3u64);
        write_value(&mut payload, &Value::Map(body.as_map()));
        let response = Response::parse(&payload).unwrap();
        assert_eq!((response.id, response.status, response.number("message_count")), (7, 200, Some(3)));
        assert_eq!(response.number("other"), None);
        let empty = Response::parse(&[]).unwrap();
        assert_eq!(empty, Response { id: 0, status: 0, body: OwnedValue::Null });
    }
}
