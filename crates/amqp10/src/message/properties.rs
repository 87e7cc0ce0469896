use super::MessageId;
use crate::composite::{Composite, composite, descriptor_code, outer};
use crate::error::Problem;
use crate::wire::{Reader, saturate};
use crate::{DecodeError, Symbol, descriptor};

composite! {
    /// Immutable properties (3.2.4).
    Properties['a] = PROPERTIES, "properties" {
        /// The id of the message.
        message_id "message-id": optional MessageId<'a>,
        /// The publishing user.
        user_id "user-id": optional &'a [u8],
        /// The destination address.
        to "to": optional &'a str,
        /// The subject.
        subject "subject": optional &'a str,
        /// The address for replies.
        reply_to "reply-to": optional &'a str,
        /// The id of the message that this one replies to.
        correlation_id "correlation-id": optional MessageId<'a>,
        /// The MIME type of its data.
        content_type "content-type": optional Symbol<'a>,
        /// The encoding of its data in addition to the type.
        content_encoding "content-encoding": optional Symbol<'a>,
        /// The time after which it is void, in milliseconds since 1970.
        absolute_expiry_time "absolute-expiry-time": optional i64,
        /// The time at which it was created, in milliseconds since 1970.
        creation_time "creation-time": optional i64,
        /// Its group.
        group_id "group-id": optional &'a str,
        /// Its number in that group.
        group_sequence "group-sequence": optional u32,
        /// The group of replies.
        reply_to_group_id "reply-to-group-id": optional &'a str,
    }
}

impl<'a> Properties<'a> {
    /// Decodes a section that begins with its descriptor and ends with `raw`.
    ///
    /// # Errors
    /// If it is another section, malformed, or followed by more bytes.
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
    #[inline(always)]
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write_described(out);
    }
}
