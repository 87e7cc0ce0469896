use super::MessageId;
use crate::composite::{Composite, composite, descriptor_code, outer};
use crate::error::Problem;
use crate::wire::{Reader, saturate};
use crate::{DecodeError, Symbol, descriptor};

composite! {
    /// Immutable properties (3.2.4).
    Properties['a] = PROPERTIES, "properties" {
        /// The message's name.
        message_id "message-id": optional MessageId<'a>,
        /// Who made it.
        user_id "user-id": optional &'a [u8],
        /// Where it goes.
        to "to": optional &'a str,
        /// What it is about.
        subject "subject": optional &'a str,
        /// Where answers go.
        reply_to "reply-to": optional &'a str,
        /// The message that it answers.
        correlation_id "correlation-id": optional MessageId<'a>,
        /// The MIME type of its data.
        content_type "content-type": optional Symbol<'a>,
        /// How that is packed.
        content_encoding "content-encoding": optional Symbol<'a>,
        /// When it is worthless, in milliseconds since 1970.
        absolute_expiry_time "absolute-expiry-time": optional i64,
        /// When it was made, in milliseconds since 1970.
        creation_time "creation-time": optional i64,
        /// Its group.
        group_id "group-id": optional &'a str,
        /// Its place there.
        group_sequence "group-sequence": optional u32,
        /// The group of answers.
        reply_to_group_id "reply-to-group-id": optional &'a str,
    }
}

impl<'a> Properties<'a> {
    /// Decodes a section, from its descriptor on and without anything after it.
    ///
    /// # Errors
    /// If it is another section, malformed, or followed by anything.
    pub fn decode(raw: &'a [u8]) -> Result<Self, DecodeError> {
        let problem = |problem| DecodeError::Descriptor { place: "section", problem };
        let mut reader = Reader::new(raw);
        let code = reader.octet("constructor").map_err(problem)?;
        match descriptor_code(code, &mut reader, "properties").map_err(problem)? {
            descriptor::PROPERTIES => {}
            received => return Err(problem(Problem::Descriptor { received, expected: "properties" })),
        }
        let properties = Self::read_list(&mut reader).map_err(|problem| outer::<Self>(problem, Self::FIELD_COUNT))?;
        match reader.len() {
            0 => Ok(properties),
            left => Err(DecodeError::TrailingBytes { place: "properties", count: saturate(left) }),
        }
    }

    /// Appends the section.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write_described(out);
    }
}
