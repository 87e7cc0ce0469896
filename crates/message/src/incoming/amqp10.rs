//! Messages published over AMQP 1.0: checks them and splits them into the stored parts.

use std::borrow::Cow;

use leveret_amqp10::message::{BodyRef, BodyWalk, MapSection, SectionStart, Sections, write_map_section};
use leveret_amqp10::value::{EncodedMap, ListIter};
use leveret_amqp10::{DecodeError, MapRef, Symbol, Value, condition};
use thiserror::Error;

use crate::annotations::{RawAnnotations, X_CC, X_EXCHANGE, X_ROUTING_KEY};
use crate::envelope::{Encoding, Envelope};
use crate::headers::{Headers, PropertiesAt};
use crate::overlay::Overlay;
use crate::stored::StoredMessage;

/// An invalid message of the publisher. The link is detached with [`condition`](Self::condition).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidMessage {
    /// The sections can't be read (specification 3.2).
    #[error("failed to parse message: {0}")]
    Decode(#[from] DecodeError),
    /// There is neither a data nor an amqp-sequence nor an amqp-value section.
    #[error(
        "failed to parse message: missing_amqp_message_body; a message has a data, amqp-sequence or amqp-value section"
    )]
    NoBody,
    /// An annotation has a key that is reserved for the specification (3.2.10).
    #[error(
        "failed to parse message: reserved_annotation_key in section {section}; keys must be symbols that begin with 'x-'"
    )]
    ReservedKey {
        /// The section of the key.
        section: &'static str,
    },
    /// The further routing keys aren't strings.
    #[error("bad value for 'x-cc' message-annotation: expected a list of strings")]
    Cc,
}

impl InvalidMessage {
    /// The error condition of the detach.
    pub fn condition(&self) -> Symbol<'static> {
        match self {
            Self::Cc => condition::INVALID_FIELD,
            _ => condition::DECODE_ERROR,
        }
    }
}

/// A valid message, borrowed from the transfers' payload.
#[derive(Debug, Clone)]
pub struct Incoming<'a> {
    /// From the header; false without a header.
    pub durable: bool,
    /// From the header.
    pub priority: Option<u8>,
    /// From the header, in milliseconds.
    pub ttl_ms: Option<u32>,
    /// From the properties, for the session to check.
    pub user_id: Option<&'a [u8]>,
    /// From the properties: the target address on a link with an anonymous terminus.
    pub to: Option<&'a str>,
    /// From the properties: the routing key on a link whose address is only an exchange.
    pub subject: Option<&'a str>,
    /// Whether the properties include a `creation-time`.
    pub has_creation_time: bool,
    /// Headers for headers exchanges.
    pub headers: Headers<'a>,
    /// The stored part of the message-annotations section.
    annotations: Cow<'a, [u8]>,
    /// The bare message and footer.
    bare: &'a [u8],
    cc: Option<ListIter<'a>>,
}

/// Checks the joined payload of a message's transfers and extracts what routing and storing need. Without message
/// annotations nothing is copied or allocated.
///
/// # Errors
/// [`InvalidMessage`] if it is malformed, has no body, or has reserved annotations.
#[inline]
pub fn amqp10(payload: &[u8]) -> Result<Incoming<'_>, InvalidMessage> {
    let mut sections = Sections::NONE;
    sections.read(payload)?;
    if matches!(sections.body, BodyRef::None) {
        return Err(InvalidMessage::NoBody);
    }
    if let Some(map) = sections.footer {
        check_keys("footer", map)?;
    }
    take(&sections)
}

/// As [`amqp10`], for the first bytes of a message. Also returns the offset of its body. `None` if its other sections
/// are incomplete or malformed, or if the size of the body's first section isn't known from its beginning. The bytes
/// from there on have to be checked by a [`BodyCheck`].
///
/// # Errors
/// [`InvalidMessage`] if it has reserved annotations.
pub fn amqp10_start(payload: &[u8]) -> Result<Option<(Incoming<'_>, usize)>, InvalidMessage> {
    match Sections::parse_start(payload) {
        Some((sections, body)) if SectionStart::of(&payload[body..]).is_some() => Ok(Some((take(&sections)?, body))),
        _ => Ok(None),
    }
}

/// As [`amqp10`], for the sections before the body.
///
/// # Errors
/// [`InvalidMessage`] if they are malformed or contain reserved annotations.
pub fn amqp10_sections(payload: &[u8]) -> Result<Incoming<'_>, InvalidMessage> {
    take(&Sections::parse(payload)?)
}

/// Checks body and footer of a message in pieces.
#[derive(Debug, Default)]
pub struct BodyCheck(BodyWalk);

impl BodyCheck {
    /// Checks the next piece.
    ///
    /// # Errors
    /// [`InvalidMessage`] if it can't be part of a message.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), InvalidMessage> {
        Ok(self.0.add(bytes)?)
    }

    /// Ends the check.
    ///
    /// # Errors
    /// [`InvalidMessage`] if the message isn't complete, or its footer is malformed.
    pub fn finish(self) -> Result<(), InvalidMessage> {
        let footer = self.0.finish()?;
        let sections = Sections::parse(&footer)?;
        sections.footer.map_or(Ok(()), |map| check_keys("footer", map))
    }
}

#[inline]
fn take<'a>(sections: &Sections<'a>) -> Result<Incoming<'a>, InvalidMessage> {
    if let Some(map) = sections.delivery_annotations {
        check_keys("delivery-annotations", map)?;
    }
    let (annotations, cc) = match sections.message_annotations {
        Some(map) => take_annotations(map, sections.message_annotations_raw)?,
        None => (Cow::Borrowed(&[][..]), None),
    };
    let header = sections.header.unwrap_or_default();
    // Only the needed properties are copied out: the whole section takes longer than everything else.
    let (user_id, to, subject, has_creation_time) = match &sections.properties {
        Some(properties) => (properties.user_id, properties.to, properties.subject, properties.creation_time.is_some()),
        None => (None, None, None, false),
    };
    Ok(Incoming {
        durable: header.durable.unwrap_or(false),
        priority: header.priority,
        ttl_ms: header.ttl,
        user_id,
        to,
        subject,
        has_creation_time,
        headers: Headers::amqp10(sections.message_annotations, sections.application_properties)
            .with(PropertiesAt::Amqp10(sections.bare)),
        annotations,
        bare: sections.bare,
        cc,
    })
}

impl<'a> Incoming<'a> {
    /// Further routing keys, from the annotation `x-cc`.
    pub fn further_keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.cc.clone().into_iter().flatten().filter_map(|key| match key {
            Value::String(key) => Some(key.as_bytes()),
            _ => None,
        })
    }

    /// Whether there are [further keys](Self::further_keys).
    #[inline]
    pub fn has_further_keys(&self) -> bool {
        self.cc.is_some()
    }

    /// Whether there is a message annotation of this name.
    pub(crate) fn has_annotation(&self, name: &str) -> bool {
        let annotations = Sections::parse(&self.annotations).ok().and_then(|sections| sections.message_annotations);
        annotations.is_some_and(|map| map.lookup(name).is_some())
    }

    /// The expiry of the message if it is received at `received_ms`, both in milliseconds since the Unix epoch; 0
    /// without a time to live.
    pub fn expiry_ms(&self, received_ms: u64) -> u64 {
        self.ttl_ms.map_or(0, |ttl| Envelope::expiry(received_ms, ttl.into()))
    }

    /// The stored form of a message that was sent to `exchange` with `routing_key` (each at most 255 bytes) and
    /// received at `received_ms`. `overlay` holds the [further keys](Self::further_keys), if there are any.
    pub fn stored<'m>(
        &'m self,
        exchange: &'m [u8],
        routing_key: &'m [u8],
        received_ms: u64,
        overlay: Overlay<'m>,
    ) -> StoredMessage<'m> {
        StoredMessage {
            encoding: Encoding::Amqp10,
            envelope: Envelope {
                durable: self.durable,
                priority: self.priority,
                exchange,
                routing_key,
                received_ms,
                expiry_ms: self.expiry_ms(received_ms),
            },
            overlay,
            properties: &self.annotations,
            body: self.bare,
        }
    }

    /// Length of the bare message and footer, in bytes.
    pub fn body_length(&self) -> usize {
        self.bare.len()
    }
}

/// The stored part of the annotations, and the further routing keys. The section is unchanged, unless it names
/// exchange or routing key, which only the broker may set.
fn take_annotations<'a>(
    map: MapRef<'a>,
    raw: &'a [u8],
) -> Result<(Cow<'a, [u8]>, Option<ListIter<'a>>), InvalidMessage> {
    let mut overridden = false;
    let mut further = None;
    for (key, value) in map.iter() {
        match annotation_key(key) {
            Some(X_CC) => further = Some(cc(value)?),
            Some(X_EXCHANGE | X_ROUTING_KEY) => overridden = true,
            Some(_) => {}
            None => return Err(InvalidMessage::ReservedKey { section: "message-annotations" }),
        }
    }
    if map.is_empty() {
        return Ok((Cow::Borrowed(&[]), None));
    }
    if !overridden && RawAnnotations::of(raw).is_some() {
        return Ok((Cow::Borrowed(raw), further));
    }
    let mut kept = EncodedMap::new();
    kept.extend_where(map, |key| !matches!(key.as_text(), Some(X_EXCHANGE | X_ROUTING_KEY)));
    let mut section = Vec::new();
    if !kept.is_empty() {
        write_map_section(&mut section, MapSection::MessageAnnotations, kept.as_map());
    }
    Ok((Cow::Owned(section), further))
}

fn check_keys(section: &'static str, map: MapRef<'_>) -> Result<(), InvalidMessage> {
    let valid = map.iter().all(|(key, _)| annotation_key(key).is_some());
    if valid { Ok(()) } else { Err(InvalidMessage::ReservedKey { section }) }
}

/// The text of a key, if clients may use it.
fn annotation_key(key: Value<'_>) -> Option<&str> {
    match key {
        Value::Symbol(key) => Some(key.as_str()).filter(|key| key.starts_with("x-")),
        _ => None,
    }
}

fn cc(value: Value<'_>) -> Result<ListIter<'_>, InvalidMessage> {
    match value {
        Value::List(list) if list.iter().all(|key| matches!(key, Value::String(_))) => Ok(list.iter()),
        _ => Err(InvalidMessage::Cc),
    }
}
