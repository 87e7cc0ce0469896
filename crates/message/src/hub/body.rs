//! Bodies of the hub form.

use std::ops::Range;

use leveret_amqp10::message::{BodyRef, SectionStart, Sections};

/// The way to read the bytes of a stored body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyForm {
    /// Plain bytes, in a protocol that has nothing else.
    Bytes,
    /// Plain bytes that the publisher declares to be UTF-8, which isn't checked yet.
    Text,
    /// Plain bytes that the publisher declares to be sections of AMQP 1.0, which isn't checked yet.
    Declared,
    /// A bare message of AMQP 1.0: its body and footer follow its other sections.
    Sections,
}

/// A body.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Body<'a> {
    /// Bytes; in AMQP 1.0 one data section.
    Bytes(&'a [u8]),
    /// Text; in AMQP 1.0 an amqp-value section with a string.
    Text(&'a str),
    /// Sections of AMQP 1.0.
    Sections {
        /// One or more data or amqp-sequence sections, or an amqp-value section.
        body: BodyRef<'a>,
        /// These sections and the footer, as encoded.
        raw: &'a [u8],
    },
}

impl<'a> Body<'a> {
    /// A stored body; `None` if it is damaged.
    #[inline]
    pub fn read(form: BodyForm, bytes: &'a [u8]) -> Option<Self> {
        Some(match form {
            BodyForm::Bytes => Self::Bytes(bytes),
            BodyForm::Text => std::str::from_utf8(bytes).map_or(Self::Bytes(bytes), Self::Text),
            BodyForm::Declared => Self::declared(bytes).unwrap_or(Self::Bytes(bytes)),
            BodyForm::Sections => Self::from_amqp10(&Sections::parse(bytes).ok()?, bytes),
        })
    }

    /// The body of a bare message whose sections are these.
    #[inline]
    pub(super) fn from_amqp10(bare: &Sections<'a>, bytes: &'a [u8]) -> Self {
        let before = bare.properties_raw.len() + bare.application_properties_raw.len();
        Self::Sections { body: bare.body, raw: &bytes[before..] }
    }

    /// The sections in `bytes`, if these are exactly the sections of a body and optionally a footer.
    #[cold]
    fn declared(bytes: &'a [u8]) -> Option<Self> {
        let sections = Sections::parse(bytes).ok()?;
        let is_body = !matches!(sections.body, BodyRef::None)
            && sections.body_raw.len() + sections.footer_raw.len() == bytes.len();
        is_body.then_some(Self::Sections { body: sections.body, raw: bytes })
    }
}

/// A body in a file of its own: the part of the file that is the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileBody {
    /// The bytes of a [`Body::Bytes`].
    Bytes(Range<u64>),
    /// One section of AMQP 1.0, and everything after it.
    Section(Range<u64>),
}

impl FileBody {
    /// The body of `length` bytes that begins with `start`; `None` if it has to be read as a whole. `before` is the
    /// number of bytes of other sections, which only a [`BodyForm::Sections`] has.
    pub fn of(form: BodyForm, length: u32, start: &[u8], before: usize) -> Option<Self> {
        let length = u64::from(length);
        if form == BodyForm::Bytes {
            return Some(Self::Bytes(0..length));
        }
        if form == BodyForm::Text {
            return None;
        }
        let section = SectionStart::of(&start[before..])?;
        let content = (before + section.length) as u64;
        let is_single = content + section.content == length;
        match form {
            // Several sections, or a footer.
            BodyForm::Declared if !is_single => None,
            BodyForm::Sections if section.is_data && !is_single => None,
            BodyForm::Sections if section.is_data => Some(Self::Bytes(content..length)),
            _ => Some(Self::Section(before as u64..length)),
        }
    }
}
