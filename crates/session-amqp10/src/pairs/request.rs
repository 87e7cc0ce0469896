//! A request as a message (HTTP over AMQP, 4).

use leveret_amqp10::{
    DecodeError, condition, descriptor,
    message::{MessageId, Properties},
    value::Value,
};

use super::path::Path;
use crate::error::{Failure, Result};

/// A parsed request.
pub(crate) struct Request<'a> {
    /// The message-id, which is repeated as the response's correlation-id.
    pub id: Option<MessageId<'a>>,
    /// `subject`: the HTTP method.
    pub method: Option<&'a str>,
    /// `to`: path and query.
    pub target: Option<&'a str>,
    /// Must be [`Request::REPLY_TO`].
    pub reply_to: Option<&'a str>,
    pub body: Body<'a>,
}

/// The body of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Body<'a> {
    /// No body, or `null`.
    Nothing,
    /// An amqp-value.
    Value(Value<'a>),
    /// Sections that no request has.
    Other(&'static str),
}

impl<'a> Request<'a> {
    /// The address of the sender's own pair (link pair, 2.1).
    pub(crate) const REPLY_TO: &'static str = "$me";

    /// Whether it looks at what earlier requests may have changed: it is served once these are answered.
    pub(crate) fn looks(&self) -> bool {
        self.method == Some("GET") || self.removes()
    }

    /// Whether it removes what it finds: messages or a binding. What its connection publishes from then on is handled after that.
    pub(crate) fn removes(&self) -> bool {
        let path = self.target.and_then(|target| Path::parse(target).ok());
        self.method == Some("DELETE")
            && path.is_some_and(|path| matches!(path.segments(), ["bindings", _] | ["queues", _, "messages"]))
    }

    /// Parses a message. Its sections may come in any order, as in RabbitMQ: clients send the body first (Python
    /// client, issue 1), or leave it out.
    ///
    /// # Errors
    /// The message is no request. A response would have nothing to refer to, so the link ends.
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self> {
        let malformed = |error: DecodeError| Failure::link(error.condition(), error.to_string());
        let mut properties = None;
        let mut body = Body::Nothing;
        let mut rest = message;
        while !rest.is_empty() {
            let section = rest;
            let (value, after) = Value::decode(section).map_err(malformed)?;
            rest = after;
            let Value::Described(described) = value else {
                return Err(Failure::link(condition::DECODE_ERROR, "a section of a request is not a described type"));
            };
            match described.descriptor().code() {
                Some(descriptor::PROPERTIES) => {
                    let raw = &section[..section.len() - rest.len()];
                    properties = Some(Properties::decode(raw).map_err(malformed)?);
                }
                Some(descriptor::AMQP_VALUE) => {
                    body = match described.value() {
                        Value::Null => Body::Nothing,
                        value => Body::Value(value),
                    }
                }
                Some(descriptor::DATA) => body = Body::Other("data"),
                Some(descriptor::AMQP_SEQUENCE) => body = Body::Other("amqp-sequence"),
                _ => {}
            }
        }
        let Some(properties) = properties else {
            return Err(Failure::link(
                condition::INVALID_FIELD,
                "request without properties: message-id, to, subject and reply-to are expected",
            ));
        };
        Ok(Self {
            id: properties.message_id,
            method: properties.subject,
            target: properties.to,
            reply_to: properties.reply_to,
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use leveret_amqp10::message::write_value;

    use super::*;

    fn properties() -> Vec<u8> {
        let mut out = Vec::new();
        let id = Some(MessageId::Ulong(7));
        Properties { message_id: id, to: Some("/queues/q"), subject: Some("PUT"), ..Properties::default() }
            .encode(&mut out);
        out
    }

    fn body(value: Value<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        write_value(&mut out, &value);
        out
    }

    #[test]
    fn sections_come_in_any_order() {
        let value = Value::Bool(true);
        for message in [[properties(), body(value)].concat(), [body(value), properties()].concat()] {
            let request = Request::parse(&message).unwrap();
            assert_eq!((request.id, request.method), (Some(MessageId::Ulong(7)), Some("PUT")));
            assert_eq!((request.target, request.reply_to), (Some("/queues/q"), None));
            assert_eq!(request.body, Body::Value(value));
        }
    }

    #[test]
    fn a_body_may_be_missing_or_null() {
        assert_eq!(Request::parse(&properties()).unwrap().body, Body::Nothing);
        let message = [properties(), body(Value::Null)].concat();
        assert_eq!(Request::parse(&message).unwrap().body, Body::Nothing);
    }

    #[test]
    fn an_invalid_message_ends_the_link() {
        let mut cut = properties();
        cut.pop();
        for (message, condition) in [
            (body(Value::Null), condition::INVALID_FIELD),
            (Vec::new(), condition::INVALID_FIELD),
            (cut, condition::DECODE_ERROR),
            (vec![0x40], condition::DECODE_ERROR),
        ] {
            assert_eq!(Request::parse(&message).err().map(|failure| failure.condition), Some(condition), "{message:?}");
        }
    }
}
