//! Locates the sections of a message.

use super::{BodyRef, DataSections, Header, Properties, RawValue, SequenceSections};
use crate::composite::{Composite, descriptor_code, outer};
use crate::error::Problem;
use crate::field::Field;
use crate::value::{MapRef, code, skip};
use crate::wire::Reader;
use crate::{DecodeError, descriptor};

/// The sections of a message. All except the body are checked to their last item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sections<'a> {
    /// `header`
    pub header: Option<Header>,
    /// `delivery-annotations`
    pub delivery_annotations: Option<MapRef<'a>>,
    /// `message-annotations`
    pub message_annotations: Option<MapRef<'a>>,
    /// `properties`
    pub properties: Option<Properties<'a>>,
    /// `application-properties`
    pub application_properties: Option<MapRef<'a>>,
    /// `data`, `amqp-sequence` or `amqp-value`
    pub body: BodyRef<'a>,
    /// `footer`
    pub footer: Option<MapRef<'a>>,
    /// `header` as encoded, beginning with its descriptor; empty if there is none.
    pub header_raw: &'a [u8],
    /// `delivery-annotations` as encoded.
    pub delivery_annotations_raw: &'a [u8],
    /// `message-annotations` as encoded.
    pub message_annotations_raw: &'a [u8],
    /// `properties` as encoded.
    pub properties_raw: &'a [u8],
    /// `application-properties` as encoded.
    pub application_properties_raw: &'a [u8],
    /// All sections of the body as encoded.
    pub body_raw: &'a [u8],
    /// `footer` as encoded.
    pub footer_raw: &'a [u8],
    /// The bare message and the footer, byte for byte: everything from `properties` on.
    pub bare: &'a [u8],
}

/// Sections in their order; body sections of the same kind may repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SectionPlace {
    Start,
    Header,
    DeliveryAnnotations,
    MessageAnnotations,
    Properties,
    ApplicationProperties,
    Body,
    Footer,
}

impl<'a> Sections<'a> {
    /// The sections of an empty message.
    pub const NONE: Self = Self {
        header: None,
        delivery_annotations: None,
        message_annotations: None,
        properties: None,
        application_properties: None,
        body: BodyRef::None,
        footer: None,
        header_raw: &[],
        delivery_annotations_raw: &[],
        message_annotations_raw: &[],
        properties_raw: &[],
        application_properties_raw: &[],
        body_raw: &[],
        footer_raw: &[],
        bare: &[],
    };

    /// Locates the sections of a message: the joined payloads of its transfers.
    ///
    /// The body may be missing, because clients send such messages.
    ///
    /// # Errors
    /// If a section is unknown, malformed, repeated or out of order.
    pub fn parse(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut sections = Self::NONE;
        sections.read(payload)?;
        Ok(sections)
    }

    /// As [`parse`](Self::parse), but in place: a value has half a kilobyte, which costs as much to move as to fill.
    /// It has to begin as [`NONE`](Self::NONE).
    ///
    /// # Errors
    /// As [`parse`](Self::parse); sections located before the error are kept.
    pub fn read(&mut self, payload: &'a [u8]) -> Result<(), DecodeError> {
        let sections = self;
        let mut place = SectionPlace::Start;
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let start = reader;
            let code = read_section_code(&mut reader)?;
            let next = place_of(code)?;
            let repeated = next == place && !(next == SectionPlace::Body && sections.body_repeats(code));
            if next < place || repeated {
                return Err(DecodeError::SectionOrder { section: section_name(code) });
            }
            if next >= SectionPlace::Properties && place < SectionPlace::Properties {
                sections.bare = start.rest();
            }
            place = next;
            sections.read_section(code, start, &mut reader)?;
        }
        Ok(())
    }

    /// The message annotations alone, without a look at the sections behind them; `None` if there are none, or if a section up to
    /// them is malformed.
    #[must_use]
    pub fn message_annotations_of(payload: &'a [u8]) -> Option<MapRef<'a>> {
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            match read_section_code(&mut reader).ok()? {
                descriptor::MESSAGE_ANNOTATIONS => return read_map(&mut reader, descriptor::MESSAGE_ANNOTATIONS).ok(),
                descriptor::HEADER | descriptor::DELIVERY_ANNOTATIONS => drop(skip(&mut reader).ok()?),
                _ => return None,
            }
        }
        None
    }

    fn body_repeats(&self, code: u64) -> bool {
        match self.body {
            BodyRef::Data(_) => code == descriptor::DATA,
            BodyRef::Sequence(_) => code == descriptor::AMQP_SEQUENCE,
            BodyRef::None | BodyRef::Value(_) => false,
        }
    }

    fn read_section(&mut self, code: u64, start: Reader<'a>, reader: &mut Reader<'a>) -> Result<(), DecodeError> {
        match code {
            descriptor::HEADER => {
                let header = Header::read_list(reader).map_err(|problem| outer::<Header>(problem, Header::FIELD_COUNT));
                self.header = Some(header?);
                self.header_raw = reader.taken_since(&start);
            }
            descriptor::DELIVERY_ANNOTATIONS => {
                self.delivery_annotations = Some(read_map(reader, code)?);
                self.delivery_annotations_raw = reader.taken_since(&start);
            }
            descriptor::MESSAGE_ANNOTATIONS => {
                self.message_annotations = Some(read_map(reader, code)?);
                self.message_annotations_raw = reader.taken_since(&start);
            }
            descriptor::PROPERTIES => {
                let properties = Properties::read_list(reader);
                let limit = Properties::FIELD_COUNT;
                self.properties = Some(properties.map_err(|problem| outer::<Properties<'_>>(problem, limit))?);
                self.properties_raw = reader.taken_since(&start);
            }
            descriptor::APPLICATION_PROPERTIES => {
                self.application_properties = Some(read_map(reader, code)?);
                self.application_properties_raw = reader.taken_since(&start);
            }
            descriptor::FOOTER => {
                self.footer = Some(read_map(reader, code)?);
                self.footer_raw = reader.taken_since(&start);
            }
            _ => {
                self.read_body(code, start, reader)?;
                let before = self.body_raw.len();
                let taken = reader.taken_since(&start).len();
                let from = self.bare.len() - start.len() - before;
                self.body_raw = &self.bare[from..from + before + taken];
                if let BodyRef::Sequence(sequence) = &mut self.body {
                    sequence.raw = self.body_raw;
                }
                if let BodyRef::Data(data) = &mut self.body
                    && before > 0
                {
                    let kept = data.rest.len() + taken;
                    data.rest = &self.body_raw[self.body_raw.len() - kept..];
                }
            }
        }
        Ok(())
    }

    fn read_body(&mut self, code: u64, _start: Reader<'a>, reader: &mut Reader<'a>) -> Result<(), DecodeError> {
        let section = section_name(code);
        let value = |problem| DecodeError::Value { place: section, problem };
        match code {
            descriptor::DATA => {
                let constructor = reader.octet("constructor").map_err(value)?;
                let bytes = <&[u8]>::read(constructor, reader).map_err(value)?;
                if matches!(self.body, BodyRef::None) {
                    self.body = BodyRef::Data(DataSections { first: bytes, rest: &[] });
                }
            }
            descriptor::AMQP_SEQUENCE => {
                let raw = skip(reader).map_err(value)?;
                if !matches!(raw.first(), Some(&(code::LIST_0 | code::LIST_8 | code::LIST_32))) {
                    let received = raw.first().and_then(|code| code::type_name(*code)).unwrap_or("described");
                    return Err(value(Problem::Type { received, expected: "list" }));
                }
                self.body = BodyRef::Sequence(SequenceSections { raw: &[] });
            }
            _ => self.body = BodyRef::Value(RawValue { raw: skip(reader).map_err(value)? }),
        }
        Ok(())
    }
}

#[inline]
pub(super) fn read_section_code(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let problem = |problem| DecodeError::Descriptor { place: "message section", problem };
    let code = reader.octet("constructor").map_err(problem)?;
    descriptor_code(code, reader, "a message section").map_err(problem)
}

pub(super) fn place_of(code: u64) -> Result<SectionPlace, DecodeError> {
    Ok(match code {
        descriptor::HEADER => SectionPlace::Header,
        descriptor::DELIVERY_ANNOTATIONS => SectionPlace::DeliveryAnnotations,
        descriptor::MESSAGE_ANNOTATIONS => SectionPlace::MessageAnnotations,
        descriptor::PROPERTIES => SectionPlace::Properties,
        descriptor::APPLICATION_PROPERTIES => SectionPlace::ApplicationProperties,
        descriptor::DATA | descriptor::AMQP_SEQUENCE | descriptor::AMQP_VALUE => SectionPlace::Body,
        descriptor::FOOTER => SectionPlace::Footer,
        received => {
            let problem = Problem::Descriptor { received, expected: "a message section" };
            return Err(DecodeError::Descriptor { place: "message section", problem });
        }
    })
}

pub(super) fn section_name(code: u64) -> &'static str {
    match code {
        descriptor::HEADER => "header",
        descriptor::DELIVERY_ANNOTATIONS => "delivery-annotations",
        descriptor::MESSAGE_ANNOTATIONS => "message-annotations",
        descriptor::PROPERTIES => "properties",
        descriptor::APPLICATION_PROPERTIES => "application-properties",
        descriptor::DATA => "data",
        descriptor::AMQP_SEQUENCE => "amqp-sequence",
        descriptor::AMQP_VALUE => "amqp-value",
        _ => "footer",
    }
}

/// The map of a section; null counts as an empty one.
pub(super) fn read_map<'a>(reader: &mut Reader<'a>, section: u64) -> Result<MapRef<'a>, DecodeError> {
    let value = |problem| DecodeError::Value { place: section_name(section), problem };
    match reader.octet("constructor").map_err(value)? {
        code::NULL => Ok(MapRef::EMPTY),
        constructor => MapRef::read(constructor, reader).map_err(value),
    }
}
