//! Single fields of a stored message for filters, whatever the publisher's protocol: the rest isn't decoded.

use std::cell::OnceCell;

use leveret_amqp10::message::{FieldLookup, MessageId, Sections};

use crate::envelope::Encoding;
use crate::headers::{Header, foreign_entry, simple_value};
use crate::hub::{self, ReplyTo};
use crate::mqtt::MqttHead;
use crate::stored::StoredMessage;

/// A field of the properties section of AMQP 1.0 (3.2.4), at its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Property {
    /// `message-id`
    MessageId,
    /// `user-id`
    UserId,
    /// `to`
    To,
    /// `subject`
    Subject,
    /// `reply-to`
    ReplyTo,
    /// `correlation-id`
    CorrelationId,
    /// `content-type`
    ContentType,
    /// `content-encoding`
    ContentEncoding,
    /// `absolute-expiry-time`
    AbsoluteExpiryTime,
    /// `creation-time`
    CreationTime,
    /// `group-id`
    GroupId,
    /// `group-sequence`
    GroupSequence,
    /// `reply-to-group-id`
    ReplyToGroupId,
}

/// The fields of a stored message in its form of AMQP 1.0, each decoded when it is asked for.
///
/// A message published over AMQP 1.0 whose body is in a file of its own has its fields there too: the beginning of the
/// file, up to the body, is enough as [`StoredMessage::body`]. See [`crate::MessageRef::view_fields`].
#[derive(Debug)]
pub struct MessageLookup<'a> {
    stored: &'a StoredMessage<'a>,
    amqp10: OnceCell<FieldLookup<'a>>,
    /// The properties of a message that was published over another protocol.
    read: OnceCell<hub::Properties<'a>>,
    /// The reply address of such a message, which names a queue or a topic.
    address: OnceCell<String>,
}

/// Length of the sections before the body, by the first bytes of a bare message of AMQP 1.0; `None` if it takes more of them to know.
pub fn fields_length(start: &[u8]) -> Option<usize> {
    Sections::parse_start(start).map(|(_, length)| length)
}

impl<'a> MessageLookup<'a> {
    /// The fields of a message.
    pub fn new(stored: &'a StoredMessage<'a>) -> Self {
        Self { stored, amqp10: OnceCell::new(), read: OnceCell::new(), address: OnceCell::new() }
    }

    /// Whether it is durable.
    pub fn durable(&self) -> bool {
        self.stored.envelope.durable
    }

    /// Its publisher's priority.
    pub fn priority(&self) -> Option<u8> {
        self.stored.envelope.priority
    }

    /// A field of the properties section.
    pub fn property(&self, property: Property) -> Option<Header<'_>> {
        match self.stored.encoding {
            Encoding::Amqp10 => self.amqp10().property(property as u32).and_then(simple_value),
            Encoding::Amqp091 | Encoding::Mqtt | Encoding::Foreign(_) => self.read_property(property),
        }
    }

    /// The application property of this name, if it has a simple value.
    pub fn application_property(&self, name: &str) -> Option<Header<'_>> {
        match self.stored.encoding {
            Encoding::Amqp10 => self.amqp10().application_property(name, simple_value),
            // These headers are message annotations.
            Encoding::Amqp091 if name.starts_with("x-") => None,
            Encoding::Amqp091 => {
                let value = leveret_amqp091::headers(self.stored.properties)?.lookup(name)?;
                Some(Header::from(value)).filter(|header| !matches!(header, Header::Complex(_)))
            }
            Encoding::Mqtt | Encoding::Foreign(_) if name.starts_with("x-") => None,
            Encoding::Mqtt => user_property(self.stored.properties, name),
            Encoding::Foreign(id) => foreign_entry(id, self.stored.properties, name),
        }
    }

    /// Bytes that a look for an application property may read.
    pub fn application_properties_bytes(&self) -> usize {
        match self.stored.encoding {
            Encoding::Amqp10 => self.amqp10().application_properties_bytes(),
            Encoding::Amqp091 | Encoding::Mqtt | Encoding::Foreign(_) => self.stored.properties.len(),
        }
    }

    fn amqp10(&self) -> &FieldLookup<'a> {
        self.amqp10.get_or_init(|| FieldLookup::of(self.stored.body))
    }

    /// A property of a message of another protocol than AMQP 1.0, by its hub form.
    fn read_property(&self, property: Property) -> Option<Header<'_>> {
        let properties = self.read.get_or_init(|| match self.stored.encoding {
            Encoding::Mqtt => hub::Message::from_mqtt(self.stored).properties,
            Encoding::Foreign(id) => hub::Message::from_foreign(self.stored, id).properties,
            _ => hub::Message::from_amqp091(self.stored).properties,
        });
        Some(match property {
            Property::MessageId => id(properties.message_id?),
            Property::CorrelationId => id(properties.correlation_id?),
            Property::UserId => Header::Bytes(properties.user_id?),
            Property::ContentType => Header::Bytes(properties.content_type?.as_str().as_bytes()),
            Property::ContentEncoding => Header::Bytes(properties.content_encoding?.as_str().as_bytes()),
            Property::CreationTime => Header::Timestamp(properties.creation_time?.into()),
            Property::GroupId => Header::Bytes(properties.group_id?.as_bytes()),
            Property::ReplyTo => self.reply_to(properties.reply_to?),
            // Neither AMQP 0-9-1 nor MQTT has these.
            Property::To => Header::Bytes(properties.to?.as_bytes()),
            Property::Subject => Header::Bytes(properties.subject?.as_bytes()),
            Property::AbsoluteExpiryTime => Header::Timestamp(properties.absolute_expiry_time?.into()),
            Property::GroupSequence => Header::Integer(properties.group_sequence?.into()),
            Property::ReplyToGroupId => Header::Bytes(properties.reply_to_group_id?.as_bytes()),
        })
    }

    fn reply_to(&self, reply_to: ReplyTo<'a>) -> Header<'_> {
        Header::Bytes(self.address.get_or_init(|| reply_to.address().into_owned()).as_bytes())
    }
}

/// A user property of a message of MQTT.
pub(crate) fn user_property<'a>(head: &'a [u8], name: &str) -> Option<Header<'a>> {
    let mut user = MqttHead::read(head)?.properties.user();
    user.find(|(known, _)| *known == name).map(|(_, value)| Header::Bytes(value.as_bytes()))
}

/// A message-id or correlation-id, which has one of several types.
pub(crate) fn id(id: MessageId<'_>) -> Header<'_> {
    match id {
        MessageId::Ulong(number) => Header::Integer(number.into()),
        MessageId::Uint(number) => Header::Integer(number.into()),
        MessageId::Int(number) => Header::Integer(number.into()),
        MessageId::Long(number) => Header::Integer(number.into()),
        MessageId::Uuid(bytes) => Header::Uuid(bytes),
        MessageId::Binary(bytes) => Header::Bytes(bytes),
        MessageId::String(text) => Header::Bytes(text.as_bytes()),
    }
}
