//! Bodies.

use std::borrow::Cow;

use leveret_amqp10::Value;
use leveret_amqp10::message::{BodyRef, Sections, write_data};
use leveret_amqp091::Properties;

use super::types::text;
use crate::envelope::Encoding;
use crate::stored::StoredMessage;

/// The property `type` of a message whose body is encoded as sections of AMQP 1.0.
pub(super) const TYPE_AMQP10: &str = "amqp-1.0";

/// The bytes of data sections; other sections are left in their encoding, and `true` says so.
pub(super) fn to_amqp091<'a>(bare: &Sections<'a>, raw: &'a [u8]) -> (Cow<'a, [u8]>, bool) {
    match &bare.body {
        BodyRef::Data(data) => match data.single() {
            Some(bytes) => (Cow::Borrowed(bytes), false),
            None => (Cow::Owned(data.iter().flatten().copied().collect()), false),
        },
        _ => {
            let before = bare.properties_raw.len() + bare.application_properties_raw.len();
            (Cow::Borrowed(&raw[before..]), true)
        }
    }
}

/// How bodies become sections of AMQP 1.0.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body<'a> {
    /// They are sections.
    Sections,
    /// They are bytes of a message over AMQP 0-9-1 that has this `type`.
    Bytes(Option<&'a str>),
}

impl<'a> Body<'a> {
    /// Of this message and all that have its properties.
    pub(super) fn of(message: &StoredMessage<'a>) -> Self {
        match message.encoding {
            Encoding::Amqp10 => Self::Sections,
            Encoding::Amqp091 => {
                let given = Properties::decode(message.properties).unwrap_or_default();
                Self::Bytes(given.kind.map(|kind| text(kind.as_bytes())).as_ref().and_then(Value::as_text))
            }
        }
    }

    /// Appends a body.
    #[inline]
    pub(super) fn write(self, body: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Sections => out.extend_from_slice(body),
            Self::Bytes(kind) => write_amqp10(body, kind, out),
        }
    }
}

/// Appends the body: as one data section, unless it is of [`TYPE_AMQP10`] and really is sections.
fn write_amqp10(body: &[u8], kind: Option<&str>, out: &mut Vec<u8>) {
    if kind == Some(TYPE_AMQP10) && is_sections(body) {
        out.extend_from_slice(body);
    } else {
        write_data(out, body);
    }
}

fn is_sections(body: &[u8]) -> bool {
    Sections::parse(body).is_ok_and(|sections| {
        !matches!(sections.body, BodyRef::None) && sections.body_raw.len() + sections.footer_raw.len() == body.len()
    })
}
