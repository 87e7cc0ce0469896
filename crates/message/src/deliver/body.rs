//! Bodies.

use std::borrow::Cow;

use leveret_amqp10::message::{BodyRef, Sections, write_data};

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

/// Appends the body: as one data section, unless it is of [`TYPE_AMQP10`] and really is sections.
pub(super) fn write_amqp10(body: &[u8], kind: Option<&str>, out: &mut Vec<u8>) {
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
