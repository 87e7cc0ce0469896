//! The fields of a stored message as filters ask for them.

use leveret_message::StoredMessage;
use leveret_message::headers::Header;
use leveret_message::lookup::{MessageLookup, Property};
use leveret_selector::{Fields, FilterValue, MessageField};

/// The fields of a message in its form of AMQP 1.0, whatever the publisher's protocol. See [`MessageLookup`] for messages
/// whose body is in a file.
#[derive(Debug)]
pub struct FilterFields<'a>(MessageLookup<'a>);

impl<'a> FilterFields<'a> {
    /// The fields of a message.
    pub fn new(message: &'a StoredMessage<'a>) -> Self {
        Self(MessageLookup::new(message))
    }

    fn property(&self, property: Property) -> FilterValue<'_> {
        self.0.property(property).map_or(FilterValue::Null, value)
    }
}

impl Fields for FilterFields<'_> {
    fn field(&self, field: &MessageField) -> FilterValue<'_> {
        match field {
            MessageField::Application(name) => self.0.application_property(name).map_or(FilterValue::Null, value),
            MessageField::Durable => FilterValue::Bool(self.0.durable()),
            MessageField::Priority => {
                self.0.priority().map_or(FilterValue::Null, |priority| FilterValue::Int(priority.into()))
            }
            MessageField::MessageId => self.property(Property::MessageId),
            MessageField::UserId => self.property(Property::UserId),
            MessageField::To => self.property(Property::To),
            MessageField::Subject => self.property(Property::Subject),
            MessageField::ReplyTo => self.property(Property::ReplyTo),
            MessageField::CorrelationId => self.property(Property::CorrelationId),
            MessageField::ContentType => self.property(Property::ContentType),
            MessageField::ContentEncoding => self.property(Property::ContentEncoding),
            MessageField::AbsoluteExpiryTime => self.property(Property::AbsoluteExpiryTime),
            MessageField::CreationTime => self.property(Property::CreationTime),
            MessageField::GroupId => self.property(Property::GroupId),
            MessageField::GroupSequence => self.property(Property::GroupSequence),
            MessageField::ReplyToGroupId => self.property(Property::ReplyToGroupId),
            _ => FilterValue::Null,
        }
    }

    fn bytes(&self, field: &MessageField) -> usize {
        match field {
            MessageField::Application(_) => self.0.application_properties_bytes(),
            _ => 0,
        }
    }

    fn has(&self, field: &MessageField) -> bool {
        match field {
            // A null counts, but not a number that isn't finite, which RabbitMQ can't hold.
            MessageField::Application(name) => self.0.application_property(name).is_some_and(|header| match header {
                Header::Double(number) => number.is_finite(),
                _ => true,
            }),
            field => self.field(field) != FilterValue::Null,
        }
    }
}

#[inline]
fn value(header: Header<'_>) -> FilterValue<'_> {
    match header {
        Header::Bytes(bytes) => FilterValue::Bytes(bytes),
        Header::Uuid(bytes) => FilterValue::Uuid(bytes),
        Header::Integer(number) | Header::Timestamp(number) => FilterValue::Int(number),
        Header::Double(number) => FilterValue::float(number),
        Header::Bool(value) => FilterValue::Bool(value),
        Header::Void | Header::Complex(_) => FilterValue::Null,
    }
}
