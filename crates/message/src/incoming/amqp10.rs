//! A message as it comes in over AMQP 1.0: checked, and cut into what is stored.

use std::borrow::Cow;

use leveret_amqp10::message::{BodyRef, BodyWalk, MapSection, SectionStart, Sections, write_map_section};
use leveret_amqp10::value::{EncodedMap, ListIter};
use leveret_amqp10::{DecodeError, MapRef, Symbol, Value, condition};
use thiserror::Error;

use crate::annotations::{RawAnnotations, X_CC, X_EXCHANGE, X_ROUTING_KEY};
use crate::envelope::{Encoding, Envelope};
use crate::headers::Headers;
use crate::overlay::Overlay;
use crate::stored::StoredMessage;

/// A message that can't be taken: the publisher's fault. The link is detached with [`condition`](Self::condition).
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
    /// A key that only the specification may define (3.2.10).
    #[error(
        "failed to parse message: reserved_annotation_key in section {section}; keys must be symbols that begin with 'x-'"
    )]
    ReservedKey {
        /// Which map holds it.
        section: &'static str,
    },
    /// Further routing keys that aren't strings.
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

/// A message that may be taken, borrowed from the transfers' payload.
#[derive(Debug, Clone)]
pub struct Incoming<'a> {
    /// From the header; false without one.
    pub durable: bool,
    /// From the header.
    pub priority: Option<u8>,
    /// From the header, in milliseconds.
    pub ttl_ms: Option<u32>,
    /// From the properties, for the session to check.
    pub user_id: Option<&'a [u8]>,
    /// From the properties: where an anonymous terminus sends it.
    pub to: Option<&'a str>,
    /// From the properties: the routing key of an exchange without another.
    pub subject: Option<&'a str>,
    /// There is a `creation-time` among the properties.
    pub has_creation_time: bool,
    /// What headers exchanges look at.
    pub headers: Headers<'a>,
    /// What is stored of the message-annotations section.
    annotations: Cow<'a, [u8]>,
    /// The bare message and footer.
    bare: &'a [u8],
    cc: Option<ListIter<'a>>,
}

/// Checks the joined payload of a message's transfers and finds what routing and storing need. Without message
/// annotations nothing is copied or allocated.
///
/// # Errors
/// [`InvalidMessage`] when it is malformed, has no body, or has annotations that it may not have.
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

/// As [`amqp10`] of the first bytes of a message, with where its body begins in them: none when its other sections
/// aren't all there or aren't well-formed, or the size of the body's first section isn't known from its beginning. What
/// comes from there on is for a [`BodyCheck`].
///
/// # Errors
/// [`InvalidMessage`] when it has annotations that it may not have.
pub fn amqp10_start(payload: &[u8]) -> Result<Option<(Incoming<'_>, usize)>, InvalidMessage> {
    match Sections::parse_start(payload) {
        Some((sections, body)) if SectionStart::of(&payload[body..]).is_some() => Ok(Some((take(&sections)?, body))),
        _ => Ok(None),
    }
}

/// As [`amqp10`] of the sections before the body.
///
/// # Errors
/// [`InvalidMessage`] when they are malformed, or annotations that may not be are there.
pub fn amqp10_sections(payload: &[u8]) -> Result<Incoming<'_>, InvalidMessage> {
    take(&Sections::parse(payload)?)
}

/// Checks the body and the footer of a message that isn't at hand.
#[derive(Debug, Default)]
pub struct BodyCheck(BodyWalk);

impl BodyCheck {
    /// Takes what comes next.
    ///
    /// # Errors
    /// [`InvalidMessage`] when that can't be part of a message.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), InvalidMessage> {
        Ok(self.0.add(bytes)?)
    }

    /// All has come.
    ///
    /// # Errors
    /// [`InvalidMessage`] when it isn't whole, or its footer is malformed.
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
    // Only what is needed is copied out: the whole section takes longer than all the rest.
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
        headers: Headers::amqp10(sections.message_annotations, sections.application_properties),
        annotations,
        bare: sections.bare,
        cc,
    })
}

impl<'a> Incoming<'a> {
    /// Routing keys besides the first, from the annotation `x-cc`.
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

    /// There is a message annotation of this name.
    pub(crate) fn has_annotation(&self, name: &str) -> bool {
        let annotations = Sections::parse(&self.annotations).ok().and_then(|sections| sections.message_annotations);
        annotations.is_some_and(|map| map.lookup(name).is_some())
    }

    /// The expiry of the message when it is received at `received_ms`, both in milliseconds since the Unix epoch; 0
    /// without a time to live.
    pub fn expiry_ms(&self, received_ms: u64) -> u64 {
        self.ttl_ms.map_or(0, |ttl| Envelope::expiry(received_ms, ttl.into()))
    }

    /// What is stored for a message that was sent to `exchange` with `routing_key` (each at most 255 bytes) and
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

/// What is stored of the annotations, and the further routing keys: the section as it is, unless it names exchange or
/// routing key, which are the broker's to say.
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

/// The text of a key that a client may use.
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
