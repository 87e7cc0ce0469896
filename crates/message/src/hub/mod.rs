//! The hub form of a message: the sections of AMQP 1.0 (part 3.2), to which and from which every encoding converts.
//!
//! With a conversion for each pair, three encodings would need six and five would need twenty. Here each encoding has one
//! reader, in this module, and each receiver's protocol one writer, in [`deliver`](crate::deliver). A receiver that speaks
//! its publisher's protocol is no conversion: it gets the stored bytes.
//!
//! Everything borrows from the stored bytes. Annotations, application properties and nested values stay in the publisher's
//! encoding and are read one by one when a writer asks for them; no tree is built.
//!
//! | section | where it is |
//! |---|---|
//! | header | durable, priority and time to live in [`Message::envelope`]; the rest is of a [`Delivery`](crate::deliver::Delivery) |
//! | delivery annotations | nowhere: they are for the next hop only and aren't stored |
//! | message annotations | the publisher's in [`Message::annotations`]; the broker's (exchange and routing key, deaths, stamps) in [`Message::envelope`] and [`Message::overlay`] |
//! | properties | [`Message::properties`] |
//! | application properties | [`Message::application_properties`] |
//! | body and footer | [`Body`], or [`FileBody`] where it is in a file of its own |

mod amqp091;
mod amqp10;
mod body;
mod entries;
mod reply_to;
pub(crate) mod uuid;
mod value;

use leveret_amqp10::Symbol;
use leveret_amqp10::message::{MessageId, Sections};

use crate::envelope::{Encoding, Envelope};
use crate::overlay::Overlay;
use crate::stored::StoredMessage;

pub use body::{Body, BodyForm, FileBody};
pub use entries::Entries;
pub use reply_to::ReplyTo;
pub use value::{List, Map, Value};

/// The property `type` of AMQP 0-9-1 for a body that is encoded as sections of AMQP 1.0.
pub(crate) const TYPE_AMQP10: &str = "amqp-1.0";

/// The sections of a message before its body.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Message<'a> {
    /// Facts that the broker knows of every message, the fields of the header among them.
    pub envelope: Envelope<'a>,
    /// The broker's notes on this message: further routing keys, deaths, stamps.
    pub overlay: Overlay<'a>,
    /// The publisher's message annotations. Exchange and routing key aren't among them.
    pub annotations: Entries<'a>,
    /// See [`Properties`].
    pub properties: Properties<'a>,
    /// Application properties.
    pub application_properties: Entries<'a>,
    /// How the stored body is to be read.
    pub body: BodyForm,
}

/// Immutable properties (3.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Properties<'a> {
    /// The message's name.
    pub message_id: Option<MessageId<'a>>,
    /// The user who published it.
    pub user_id: Option<&'a [u8]>,
    /// The address that it was sent to.
    pub to: Option<&'a str>,
    /// Its subject.
    pub subject: Option<&'a str>,
    /// The address for answers.
    pub reply_to: Option<ReplyTo<'a>>,
    /// The message that it answers.
    pub correlation_id: Option<MessageId<'a>>,
    /// The MIME type of its body.
    pub content_type: Option<Symbol<'a>>,
    /// The encoding of its body on top of that type, such as `gzip`.
    pub content_encoding: Option<Symbol<'a>>,
    /// When it is worthless, in milliseconds since the Unix epoch.
    pub absolute_expiry_time: Option<i64>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub creation_time: Option<i64>,
    /// Its group.
    pub group_id: Option<&'a str>,
    /// Its place in that group.
    pub group_sequence: Option<u32>,
    /// The group of answers.
    pub reply_to_group_id: Option<&'a str>,
}

impl<'a> Message<'a> {
    /// A whole message and its body; none if it is damaged, which the log's checksums guard against.
    pub fn read(stored: &StoredMessage<'a>) -> Option<(Self, Body<'a>)> {
        Some(match stored.encoding {
            Encoding::Amqp091 => {
                let message = Self::from_amqp091(stored);
                (message, Body::read(message.body, stored.body)?)
            }
            Encoding::Amqp10 => {
                // In place: they are half a kilobyte.
                let mut bare = Sections::NONE;
                bare.read(stored.body).ok()?;
                (Self::from_amqp10(stored, &bare), Body::from_amqp10(&bare, stored.body))
            }
        })
    }

    /// A message that came over AMQP 0-9-1, read from its properties.
    #[inline]
    pub fn from_amqp091(stored: &StoredMessage<'a>) -> Self {
        amqp091::read(stored)
    }

    /// A message that came over AMQP 1.0, read from its annotations and the sections of its bare message, of which those
    /// before the body are enough.
    #[inline]
    pub fn from_amqp10(stored: &StoredMessage<'a>, bare: &Sections<'a>) -> Self {
        amqp10::read(stored, bare)
    }
}
