//! The hub form of a message: the sections of AMQP 1.0 (part 3.2), to which and from which every encoding converts.
//!
//! With a conversion for each pair, three encodings would need six conversions and five would need twenty. With the
//! hub, each encoding has one reader, in this module, and each receiver's protocol one writer, in
//! [`deliver`](crate::deliver). A receiver that uses its publisher's protocol needs no conversion: it gets the stored
//! bytes.
//!
//! Everything borrows from the stored bytes. Annotations, application properties and nested values stay in the
//! publisher's encoding and are read one by one when a writer asks for them; no tree is built.
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
pub(crate) mod foreign;
mod mqtt;
mod reply_to;
pub(crate) mod uuid;
mod value;

use leveret_amqp10::Symbol;
use leveret_amqp10::message::{MessageId, Sections};

use crate::envelope::{Encoding, Envelope, ForeignId};
use crate::overlay::Overlay;
use crate::stored::StoredMessage;

pub use body::{Body, BodyForm, FileBody};
pub use entries::Entries;
pub use foreign::{ForeignEncoding, encoding_name, make_known};
pub use reply_to::ReplyTo;
pub use value::{List, Map, Value};

/// The property `type` of AMQP 0-9-1 for a body that is encoded as sections of AMQP 1.0.
pub(crate) const TYPE_AMQP10: &str = "amqp-1.0";

/// The sections of a message before its body.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Message<'a> {
    /// The broker's information about the message, including fields of the header.
    pub envelope: Envelope<'a>,
    /// The broker's additions: further routing keys, deaths, stamps.
    pub overlay: Overlay<'a>,
    /// The publisher's message annotations, without exchange and routing key.
    pub annotations: Entries<'a>,
    /// The properties.
    pub properties: Properties<'a>,
    /// Application properties.
    pub application_properties: Entries<'a>,
    /// How the stored body is read.
    pub body: BodyForm,
    /// Whether its publisher said that it isn't durable, where it isn't: in MQTT every message says so.
    pub says_transient: bool,
}

/// Immutable properties (3.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Properties<'a> {
    /// The id of the message.
    pub message_id: Option<MessageId<'a>>,
    /// The publishing user.
    pub user_id: Option<&'a [u8]>,
    /// The destination address.
    pub to: Option<&'a str>,
    /// Its subject.
    pub subject: Option<&'a str>,
    /// The address for replies.
    pub reply_to: Option<ReplyTo<'a>>,
    /// The id of the message that this one replies to.
    pub correlation_id: Option<MessageId<'a>>,
    /// The MIME type of its body.
    pub content_type: Option<Symbol<'a>>,
    /// The encoding of its body in addition to the type, such as `gzip`.
    pub content_encoding: Option<Symbol<'a>>,
    /// The time after which it is void, in milliseconds since the Unix epoch.
    pub absolute_expiry_time: Option<i64>,
    /// The time at which it was created, in milliseconds since the Unix epoch.
    pub creation_time: Option<i64>,
    /// Its group.
    pub group_id: Option<&'a str>,
    /// Its number in that group.
    pub group_sequence: Option<u32>,
    /// The group of replies.
    pub reply_to_group_id: Option<&'a str>,
}

impl<'a> Message<'a> {
    /// Reads a whole message and its body; `None` if it is damaged, which the log's checksums guard against.
    pub fn read(stored: &StoredMessage<'a>) -> Option<(Self, Body<'a>)> {
        Some(match stored.encoding {
            Encoding::Amqp091 => {
                let message = Self::from_amqp091(stored);
                (message, Body::read(message.body, stored.body)?)
            }
            Encoding::Mqtt => {
                let message = Self::from_mqtt(stored);
                (message, Body::read(message.body, stored.body)?)
            }
            Encoding::Foreign(id) => {
                let message = Self::from_foreign(stored, id);
                (message, Body::read(message.body, stored.body)?)
            }
            Encoding::Amqp10 => {
                // In place, because the sections take half a kilobyte.
                let mut bare = Sections::NONE;
                bare.read(stored.body).ok()?;
                (Self::from_amqp10(stored, &bare), Body::from_amqp10(&bare, stored.body))
            }
        })
    }

    /// Reads a message published over MQTT from its head.
    pub fn from_mqtt(stored: &StoredMessage<'a>) -> Self {
        mqtt::read(stored)
    }

    /// Reads a message in an encoding of its protocol's own from its properties.
    pub fn from_foreign(stored: &StoredMessage<'a>, id: ForeignId) -> Self {
        foreign::read(stored, id)
    }

    /// Reads a message published over AMQP 0-9-1 from its properties.
    #[inline]
    pub fn from_amqp091(stored: &StoredMessage<'a>) -> Self {
        amqp091::read(stored)
    }

    /// Reads a message published over AMQP 1.0 from its annotations and the sections of its bare message. The
    /// sections before the body are enough.
    #[inline]
    pub fn from_amqp10(stored: &StoredMessage<'a>, bare: &Sections<'a>) -> Self {
        amqp10::read(stored, bare)
    }
}
