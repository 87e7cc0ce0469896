//! Encodings that are brought by a protocol whose codec this crate doesn't know.
//!
//! Their messages are stored as their publishers sent them, like all others, and are read into the hub form by the protocol itself when
//! somebody else wants to know: that is one virtual call for each section, and none for a message that nobody converts. The stored form
//! has only the number, so that encodings are known to the whole process, before messages are read from the disk. Messages of an
//! encoding that isn't known to this process, for example because their protocol was taken out, are a body without properties: they
//! stay in their queues, and can be delivered and moved.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::{BodyForm, Entries, Message, Properties, Value};
use crate::envelope::{Encoding, ForeignId};
use crate::stored::StoredMessage;

/// An encoding of a protocol's own: what the [properties](StoredMessage::properties) of its messages mean. The body is a payload without
/// any structure.
pub trait ForeignEncoding: Sync {
    /// Its number in the stored form, which no other encoding may ever have had.
    fn id(&self) -> ForeignId;

    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// Whether the publisher says that the body is UTF-8. If it is, it is a string in AMQP 1.0, otherwise binary data.
    fn is_text(&self, properties: &[u8]) -> bool {
        let _ = properties;
        false
    }

    /// The properties section. These bytes may be damaged.
    fn properties<'a>(&self, properties: &'a [u8]) -> Properties<'a>;

    /// Passes the message annotations to `take`; their names begin with `x-`.
    fn annotations<'a>(&self, properties: &'a [u8], take: &mut dyn FnMut(&'a str, Value<'a>)) {
        let _ = (properties, take);
    }

    /// Passes the application properties to `take`.
    fn application_properties<'a>(&self, properties: &'a [u8], take: &mut dyn FnMut(&'a str, Value<'a>));
}

/// One place for each number.
static KNOWN: [OnceLock<&'static dyn ForeignEncoding>; ForeignId::COUNT] =
    [const { OnceLock::new() }; ForeignId::COUNT];

/// Makes an encoding known to this process, for ever. The same one may be made known again.
///
/// # Panics
/// Another one has its number.
pub fn make_known(encoding: &'static dyn ForeignEncoding) {
    let known = KNOWN[encoding.id().index()].get_or_init(|| encoding);
    let (name, other) = (encoding.name(), known.name());
    assert_eq!(name, other, "two encodings have the number {}", encoding.id().number());
}

fn known(id: ForeignId) -> Option<&'static dyn ForeignEncoding> {
    KNOWN[id.index()].get().copied()
}

/// The name of an encoding, for people.
pub fn encoding_name(encoding: Encoding) -> Cow<'static, str> {
    Cow::Borrowed(match encoding {
        Encoding::Amqp091 => "AMQP 0-9-1",
        Encoding::Amqp10 => "AMQP 1.0",
        Encoding::Mqtt => "MQTT",
        Encoding::Foreign(id) => match known(id) {
            Some(encoding) => encoding.name(),
            None => return Cow::Owned(format!("encoding {}", id.number())),
        },
    })
}

/// Reads the sections before the body.
#[cold]
pub(super) fn read<'a>(stored: &StoredMessage<'a>, id: ForeignId) -> Message<'a> {
    let encoding = known(id);
    let is_text = encoding.is_some_and(|encoding| encoding.is_text(stored.properties));
    Message {
        envelope: stored.envelope,
        overlay: stored.overlay,
        annotations: Entries::foreign(id, stored.properties, true),
        properties: encoding.map_or_else(Properties::default, |encoding| encoding.properties(stored.properties)),
        application_properties: Entries::foreign(id, stored.properties, false),
        body: if is_text { BodyForm::Text } else { BodyForm::Bytes },
        says_transient: false,
    }
}

/// Passes the annotations, or the application properties, to `take`.
#[cold]
pub(super) fn entries<'a>(
    id: ForeignId,
    properties: &'a [u8],
    are_annotations: bool,
    take: &mut dyn FnMut(&'a str, Value<'a>),
) {
    match (known(id), are_annotations) {
        (None, _) => {}
        (Some(encoding), true) => encoding.annotations(properties, take),
        (Some(encoding), false) => encoding.application_properties(properties, take),
    }
}

/// The first annotation of this name, if it begins with `x-`, or else the first application property.
#[cold]
pub(crate) fn entry<'a>(id: ForeignId, properties: &'a [u8], name: &str) -> Option<Value<'a>> {
    let mut found = None;
    entries(id, properties, name.starts_with("x-"), &mut |known, value| {
        if known == name && found.is_none() {
            found = Some(value);
        }
    });
    found
}

/// Whether there are annotations or application properties.
#[cold]
pub(crate) fn has_entries(id: ForeignId, properties: &[u8]) -> bool {
    let mut has_any = false;
    for are_annotations in [true, false] {
        entries(id, properties, are_annotations, &mut |_, _| has_any = true);
    }
    has_any
}
