//! The fourteen properties of class basic (1.8.1), decoded.

use crate::wire::{Field, Reader};
use crate::{DecodeError, ShortStr, Table};

/// The property flags of class basic: bit 15 is the first property, bit 2 the last.
pub(crate) const KNOWN_FLAGS: u16 = 0b1111_1111_1111_1100;

macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $bit:literal,)*) => {
        /// The properties of a message. Cheap to copy; borrows from the content header.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Properties<'a> {
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        impl<'a> Properties<'a> {
            /// Decodes property flags and list.
            ///
            /// # Errors
            /// If the flags continue in a second word (no property needs one), a property is cut short, bytes are
            /// left over, or the headers are malformed.
            pub fn decode(raw: &'a [u8]) -> Result<Self, DecodeError> {
                let mut reader = Reader::new(raw);
                let flags = reader.short()?;
                // RabbitMQ ignores bit 1, which no property has; bit 0 would announce more flags.
                if flags & 1 != 0 {
                    return Err(DecodeError::PropertyFlags { received: flags });
                }
                let properties = Self {
                    $($name: if flags & (1 << $bit) == 0 { None } else { Some(Field::read(&mut reader)?) },)*
                };
                reader.finish()?;
                Ok(properties)
            }

            /// Appends property flags and list.
            ///
            /// # Panics
            /// If the headers have 4 GiB or more.
            pub fn encode(&self, out: &mut Vec<u8>) {
                let flags: u16 = 0 $(| if self.$name.is_some() { 1 << $bit } else { 0 })*;
                out.extend_from_slice(&flags.to_be_bytes());
                $(if let Some(value) = &self.$name {
                    value.write(out);
                })*
            }
        }
    };
}

properties! {
    /// MIME type.
    content_type: ShortStr<'a> = 15,
    /// MIME encoding.
    content_encoding: ShortStr<'a> = 14,
    /// Application headers.
    headers: Table<'a> = 13,
    /// 1 for transient, 2 for persistent.
    delivery_mode: u8 = 12,
    /// Priority, 0 to 255.
    priority: u8 = 11,
    /// In replies, the id of the request.
    correlation_id: ShortStr<'a> = 10,
    /// The address for replies.
    reply_to: ShortStr<'a> = 9,
    /// Time to live: milliseconds as decimal text.
    expiration: ShortStr<'a> = 8,
    /// The application's id of the message.
    message_id: ShortStr<'a> = 7,
    /// Seconds since 1970.
    timestamp: u64 = 6,
    /// The application's type of the message.
    kind: ShortStr<'a> = 5,
    /// The publishing user; checked by the broker.
    user_id: ShortStr<'a> = 4,
    /// The publishing application.
    app_id: ShortStr<'a> = 3,
    /// Obsolete.
    cluster_id: ShortStr<'a> = 2,
}
