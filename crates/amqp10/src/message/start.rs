//! Messages of which only the beginning is present: the offset of the body, and a check of the body as it passes by
//! in pieces.

use super::Sections;
use super::sections::{SectionPlace, place_of, read_section_code, section_name};
use crate::error::Problem;
use crate::value::{code, read_constructor};
use crate::wire::Reader;
use crate::{DecodeError, descriptor};

/// Longest beginning of a section that is considered, in bytes: descriptor, constructors and size.
const SECTION_START_MAX: usize = 128;
/// Longest footer after a body that is checked in pieces, in bytes.
const FOOTER_BYTES_MAX: usize = 1 << 20;

/// The beginning of a body section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionStart {
    /// Whether it holds bytes (`data`).
    pub is_data: bool,
    /// Bytes before the content.
    pub length: usize,
    /// Bytes of the content.
    pub content: u64,
    code: u64,
}

impl SectionStart {
    /// The beginning of the body section at the front of `bytes`; `None` if the bytes are too few or aren't a body
    /// section.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let start = Self::read(bytes).ok()?;
        place_of(start.code).is_ok_and(|place| place == SectionPlace::Body).then_some(start)
    }

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(&bytes[..bytes.len().min(SECTION_START_MAX)]);
        let begin = reader;
        let code = read_section_code(&mut reader)?;
        let place = section_name(code);
        let value = |problem| DecodeError::Value { place, problem };
        let (_, constructor) = read_constructor(&mut reader).map_err(value)?;
        let allowed = match code {
            descriptor::DATA => matches!(constructor, code::BINARY_8 | code::BINARY_32),
            descriptor::AMQP_SEQUENCE => matches!(constructor, code::LIST_0 | code::LIST_8 | code::LIST_32),
            _ => true,
        };
        let Some(received) = code::type_name(constructor) else {
            return Err(value(Problem::Constructor { received: constructor }));
        };
        if !allowed {
            let expected = if code == descriptor::DATA { "binary" } else { "list" };
            return Err(value(Problem::Type { received, expected }));
        }
        let content = match constructor >> 4 {
            0x4 => 0,
            width @ 0x5..=0x9 => 1 << (width - 5),
            0xA | 0xC | 0xE => u64::from(reader.octet("size").map_err(value)?),
            _ => u64::from(reader.word("size").map_err(value)?),
        };
        let length = reader.taken_since(&begin).len();
        Ok(Self { is_data: code == descriptor::DATA, length, content, code })
    }
}

impl<'a> Sections<'a> {
    /// The sections before the body and the offset of the body, from the first bytes of a message; `None` if these
    /// sections are incomplete or malformed.
    #[must_use]
    pub fn parse_start(payload: &'a [u8]) -> Option<(Self, usize)> {
        let mut reader = Reader::new(payload);
        loop {
            let at = payload.len() - reader.rest().len();
            let mut ahead = reader;
            if place_of(read_section_code(&mut ahead).ok()?).ok()? >= SectionPlace::Body {
                let mut sections = Self::parse(&payload[..at]).ok()?;
                if sections.bare.is_empty() {
                    sections.bare = &payload[at..];
                } else {
                    sections.bare = &payload[at - sections.bare.len()..];
                }
                return Some((sections, at));
            }
            crate::value::skip(&mut ahead).ok()?;
            reader = ahead;
        }
    }
}

/// Checks the body of a message in pieces, as [`Sections::parse`] checks a whole one.
#[derive(Debug, Default)]
pub struct BodyWalk {
    /// Descriptor code of the first section.
    code: Option<u64>,
    /// Bytes left of the content of the current section.
    left: u64,
    /// An incomplete beginning of a section, or the footer.
    kept: Vec<u8>,
    in_footer: bool,
}

impl BodyWalk {
    /// Checks the next piece; the first one begins with the body's first section.
    ///
    /// # Errors
    /// If a section is unknown, malformed, repeated or out of order.
    pub fn add(&mut self, mut bytes: &[u8]) -> Result<(), DecodeError> {
        while !bytes.is_empty() {
            if self.in_footer {
                return self.add_to_footer(bytes);
            }
            if self.left > 0 {
                let passed = self.left.min(bytes.len() as u64);
                self.left -= passed;
                bytes = &bytes[passed as usize..];
                continue;
            }
            let before = self.kept.len();
            let looked_at = bytes.len().min(SECTION_START_MAX - before);
            self.kept.extend_from_slice(&bytes[..looked_at]);
            if let Ok(code) = read_section_code(&mut Reader::new(&self.kept))
                && code == descriptor::FOOTER
                && self.code.is_some()
            {
                self.in_footer = true;
                bytes = &bytes[looked_at..];
                continue;
            }
            match SectionStart::read(&self.kept) {
                Ok(start) => {
                    self.enter(start.code)?;
                    self.left = start.content;
                    bytes = &bytes[start.length - before..];
                    self.kept.clear();
                }
                Err(error) if self.kept.len() == SECTION_START_MAX => return Err(error),
                Err(_) => bytes = &bytes[looked_at..],
            }
        }
        Ok(())
    }

    fn add_to_footer(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let length = self.kept.len() + bytes.len();
        if length > FOOTER_BYTES_MAX {
            let available = u32::try_from(FOOTER_BYTES_MAX).unwrap_or(u32::MAX);
            let problem = Problem::Count { count: u32::try_from(length).unwrap_or(u32::MAX), available };
            return Err(DecodeError::Value { place: "footer", problem });
        }
        self.kept.extend_from_slice(bytes);
        Ok(())
    }

    fn enter(&mut self, code: u64) -> Result<(), DecodeError> {
        let may_repeat = matches!(code, descriptor::DATA | descriptor::AMQP_SEQUENCE);
        let is_in_order = match self.code {
            None => place_of(code)? == SectionPlace::Body,
            Some(first) => first == code && may_repeat,
        };
        if !is_in_order {
            return Err(DecodeError::SectionOrder { section: section_name(code) });
        }
        self.code = Some(code);
        Ok(())
    }

    /// Ends the check. Returns the footer as encoded, empty if there is none: the caller parses it.
    ///
    /// # Errors
    /// If a section is cut short.
    pub fn finish(self) -> Result<Vec<u8>, DecodeError> {
        if !self.in_footer && !self.kept.is_empty() {
            return Err(SectionStart::read(&self.kept)
                .err()
                .unwrap_or(DecodeError::SectionOrder { section: "footer" }));
        }
        if self.left > 0 {
            let place = self.code.map_or("data", section_name);
            let needed = u32::try_from(self.left).unwrap_or(u32::MAX);
            return Err(DecodeError::Value {
                place,
                problem: Problem::Truncated { part: place, needed, available: 0 },
            });
        }
        Ok(self.kept)
    }
}
