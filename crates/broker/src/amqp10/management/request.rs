//! A request as a message (HTTP over AMQP, 4).

use leveret_amqp10::{
    condition,
    message::{BodyRef, MessageId, Sections},
    value::Value,
};

use crate::amqp10::error::{Failure, Result};

/// An amqp-value of null. RabbitMQ's Python client puts it before the properties, where it doesn't belong and where
/// RabbitMQ takes it.
const NULL_BODY: &[u8] = b"\x00\x53\x77\x40";

/// See the module.
pub(super) struct Request<'a> {
    /// Comes back as the response's correlation-id.
    pub id: Option<MessageId<'a>>,
    /// `subject`: the HTTP method.
    pub method: Option<&'a str>,
    /// `to`: path and query.
    pub target: Option<&'a str>,
    /// `reply-to`, which must be [`ReplyTo`](Self::REPLY_TO).
    pub reply_to: Option<&'a str>,
    /// The body; null when there is none.
    pub body: Body<'a>,
}

/// What came as the body.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Body<'a> {
    /// No body, or `null`.
    Nothing,
    /// An amqp-value.
    Value(Value<'a>),
    /// Sections that no request has.
    Other(&'static str),
}

impl<'a> Request<'a> {
    /// The address of the sender's own pair (link pair, 2.1).
    pub(super) const REPLY_TO: &'static str = "$me";

    /// Takes a message apart.
    ///
    /// # Errors
    /// When it is none: nothing says what an answer would answer, so the link ends.
    pub(super) fn parse(message: &'a [u8]) -> Result<Self> {
        let message = message.strip_prefix(NULL_BODY).unwrap_or(message);
        let sections = Sections::parse(message).map_err(|error| Failure::link(error.condition(), error.to_string()))?;
        let Some(properties) = sections.properties else {
            return Err(Failure::link(
                condition::INVALID_FIELD,
                "request without properties: message-id, to, subject and reply-to are expected",
            ));
        };
        let body = match sections.body {
            BodyRef::None | BodyRef::Value(Value::Null) => Body::Nothing,
            BodyRef::Value(value) => Body::Value(value),
            BodyRef::Data(_) => Body::Other("data"),
            BodyRef::Sequence(_) => Body::Other("amqp-sequence"),
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
    use super::*;

    #[test]
    fn a_null_body_may_come_before_the_properties() {
        // properties: message-id "m", no user-id, to "/q", subject "GET"
        let properties = b"\x00\x53\x73\xc0\x0e\x04\xa1\x01m\x40\xa1\x02/q\xa1\x03GET";
        for message in [properties.to_vec(), [NULL_BODY, properties].concat(), [properties, NULL_BODY].concat()] {
            let request = Request::parse(&message).unwrap_or_else(|failure| panic!("{}", failure.description));
            assert_eq!((request.method, request.target, request.body), (Some("GET"), Some("/q"), Body::Nothing));
        }
        assert!(Request::parse(NULL_BODY).is_err(), "no properties");
    }
}
