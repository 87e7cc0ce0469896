//! Properties of messages, with PerfTest's names.

use std::str::FromStr;

use leveret_amqp10::Symbol;
use leveret_amqp10::message::{self as amqp10, Header, MapSection, MessageId, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp091::{self as amqp091, EncodedTable, FieldTable, ShortStr};

use crate::route::{self, Headers};

/// Properties of AMQP 0-9-1 that PerfTest sets and we don't: the broker would interpret them, or they have no
/// counterpart in AMQP 1.0.
const REFUSED: [&str; 8] =
    ["headers", "deliveryMode", "expiration", "timestamp", "type", "userId", "appId", "clusterId"];

/// The properties of every message in a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageProperties {
    content_type: Option<String>,
    content_encoding: Option<String>,
    priority: Option<u8>,
    correlation_id: Option<String>,
    reply_to: Option<String>,
    message_id: Option<String>,
    /// Properties with other names.
    headers: Vec<(String, String)>,
}

impl FromStr for MessageProperties {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut properties = Self::default();
        for pair in text.split(',') {
            let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                return Err(format!("expected NAME=VALUE, separated by commas, got '{pair}'"));
            };
            // Short strings and symbols.
            if name.len() > 255 || value.len() > 255 || !value.is_ascii() {
                return Err(format!("'{pair}': a name has at most 255 bytes, a value at most 255 of ASCII"));
            }
            let said = || Some(value.to_owned());
            match name {
                "contentType" => properties.content_type = said(),
                "contentEncoding" => properties.content_encoding = said(),
                "priority" => {
                    let number =
                        value.parse().map_err(|_| format!("expected a priority from 0 to 255, got '{value}'"))?;
                    properties.priority = Some(number);
                }
                "correlationId" => properties.correlation_id = said(),
                "replyTo" => properties.reply_to = said(),
                "messageId" => properties.message_id = said(),
                name if REFUSED.contains(&name) => {
                    return Err(format!(
                        "{name} can't be set; contentType, contentEncoding, priority, correlationId, replyTo, messageId and \
                         headers of any other name can"
                    ));
                }
                name if route::HEADER_NAMES.contains(&name)
                    || properties.headers.iter().any(|(known, _)| known == name) =>
                {
                    return Err(format!(
                        "{name} is there already, given twice or as a header that `headers` routes by"
                    ));
                }
                name => properties.headers.push((name.to_owned(), value.to_owned())),
            }
        }
        Ok(properties)
    }
}

impl MessageProperties {
    /// Property flags and list of AMQP 0-9-1, including the headers for the exchange.
    pub(crate) fn encode_amqp091(&self, durable: bool, route: &Headers) -> Vec<u8> {
        let mut headers = FieldTable::new();
        for (name, value) in self.headers(route) {
            headers.insert(name, value);
        }
        let headers = (!headers.is_empty()).then(|| headers.encoded());
        let mut out = Vec::new();
        amqp091::Properties {
            delivery_mode: durable.then_some(2),
            content_type: short(&self.content_type),
            content_encoding: short(&self.content_encoding),
            priority: self.priority,
            correlation_id: short(&self.correlation_id),
            reply_to: short(&self.reply_to),
            message_id: short(&self.message_id),
            headers: headers.as_ref().map(EncodedTable::as_table),
            ..amqp091::Properties::default()
        }
        .encode(&mut out);
        out
    }

    /// The sections of AMQP 1.0 before the body, including a message's own address, if it has one, and the headers
    /// for the exchange.
    pub(crate) fn encode_amqp10(&self, durable: bool, to: Option<&str>, route: &Headers) -> Vec<u8> {
        let mut out = Vec::new();
        Header { durable: Some(durable), priority: self.priority, ..Header::default() }.encode(&mut out);
        let properties = amqp10::Properties {
            to,
            content_type: self.content_type.as_deref().map(Symbol::new),
            content_encoding: self.content_encoding.as_deref().map(Symbol::new),
            correlation_id: self.correlation_id.as_deref().map(MessageId::String),
            reply_to: self.reply_to.as_deref(),
            message_id: self.message_id.as_deref().map(MessageId::String),
            ..amqp10::Properties::default()
        };
        if properties != amqp10::Properties::default() {
            properties.encode(&mut out);
        }
        let mut map = EncodedMap::new();
        for (name, value) in self.headers(route) {
            map.push(name, value);
        }
        if !map.is_empty() {
            write_map_section(&mut out, MapSection::ApplicationProperties, map.as_map());
        }
        out
    }

    fn headers<'a>(&'a self, route: &'a Headers) -> impl Iterator<Item = (&'a str, &'a str)> {
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        route.iter().map(|(name, value)| (*name, value.as_str())).chain(own)
    }
}

fn short(text: &Option<String>) -> Option<ShortStr<'_>> {
    text.as_deref().map(ShortStr::literal)
}

#[cfg(test)]
mod tests {
    use leveret_amqp10::message::Sections;

    use super::*;

    #[test]
    fn names_are_perf_tests_and_all_others_are_headers() {
        let text = "messageId=m-1,contentType=text/plain,priority=3,area=eu,SendTime=7";
        let properties: MessageProperties = text.parse().expect("they are good");
        let route = vec![("kind", "order".to_owned())];

        let encoded = properties.encode_amqp091(true, &route);
        let said = amqp091::Properties::decode(&encoded).expect("they are well-formed");
        assert_eq!((said.delivery_mode, said.priority), (Some(2), Some(3)));
        assert_eq!(said.message_id.map(|text| text.as_bytes()), Some(&b"m-1"[..]));
        assert_eq!(said.content_type.map(|text| text.as_bytes()), Some(&b"text/plain"[..]));
        let headers = said.headers.expect("there are some");
        let names: Vec<&[u8]> = headers.into_iter().map(|(name, _)| name.as_bytes()).collect();
        assert_eq!(names, [&b"kind"[..], b"area", b"SendTime"]);

        let encoded = properties.encode_amqp10(false, Some("/queues/q"), &route);
        let sections = Sections::parse(&encoded).expect("they are well-formed");
        let header = sections.header.expect("there is one");
        assert_eq!((header.durable, header.priority), (Some(false), Some(3)));
        let said = sections.properties.expect("there are some");
        assert_eq!((said.message_id, said.to), (Some(MessageId::String("m-1")), Some("/queues/q")));
        assert_eq!(said.content_type, Some(Symbol::new("text/plain")));
        assert_eq!(sections.application_properties.expect("there are some").iter().count(), 3);
    }

    #[test]
    fn without_any_a_message_has_only_required_properties() {
        let none = MessageProperties::default();
        assert_eq!(none.encode_amqp091(false, &Headers::new()), [0, 0]);
        let encoded = none.encode_amqp10(true, None, &Headers::new());
        let sections = Sections::parse(&encoded).expect("they are well-formed");
        assert_eq!(sections.header_raw, encoded);
    }

    #[test]
    fn properties_that_cannot_be_set_are_errors() {
        for (text, told) in [
            ("", "expected NAME=VALUE, separated by commas, got ''"),
            ("a=b,c", "expected NAME=VALUE, separated by commas, got 'c'"),
            ("=b", "expected NAME=VALUE, separated by commas, got '=b'"),
            ("priority=256", "expected a priority from 0 to 255, got '256'"),
            ("a=b,a=c", "a is there already"),
            ("kind=b", "kind is there already"),
            ("userId=guest", "userId can't be set; contentType, "),
            ("messageId=ä", "'messageId=ä': a name has at most 255 bytes, a value at most 255 of ASCII"),
        ] {
            let error = text.parse::<MessageProperties>().expect_err(text);
            assert!(error.starts_with(told), "{text}: {error}");
        }
    }
}
