//! Fields of a message, and the names that expressions have for them.

use crate::FilterValue;

/// The grammar of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SQL filter expressions (AMQP Filter Expressions 1.0, section 6).
    Amqp,
    /// JMS selectors (JMS 2.0, section 3.8.1).
    Jms,
}

/// A field of a message: of the header (AMQP 1.0, 3.2.1), of the properties (3.2.4), or an application property.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageField {
    /// Whether the message is durable; `NON_PERSISTENT` or `PERSISTENT` in JMS.
    Durable,
    /// The priority; a message without one has 4.
    Priority,
    /// The message's id: a string, integer, UUID or binary.
    MessageId,
    /// The publishing user.
    UserId,
    /// The address it was sent to.
    To,
    /// Its subject.
    Subject,
    /// The address for replies.
    ReplyTo,
    /// The id of the message that it replies to.
    CorrelationId,
    /// The MIME type of the body.
    ContentType,
    /// The encoding of the body, such as `gzip`.
    ContentEncoding,
    /// The time after which it is void, in milliseconds since the Unix epoch.
    AbsoluteExpiryTime,
    /// The time at which it was created, in milliseconds since the Unix epoch.
    CreationTime,
    /// Its group.
    GroupId,
    /// Its number in the group.
    GroupSequence,
    /// The group of replies.
    ReplyToGroupId,
    /// The application property of this name.
    Application(Box<str>),
}

/// The fields of a message, which an evaluation asks for one by one.
pub trait Fields {
    /// The value of a field, [`FilterValue::Null`] if the message hasn't got it. `Durable` is a boolean. `Priority` is
    /// [`FilterValue::Null`] if the publisher gave none.
    fn field(&self, field: &MessageField) -> FilterValue<'_>;

    /// Bytes that a look for the field may read, which the budget pays for.
    fn bytes(&self, field: &MessageField) -> usize {
        let _ = field;
        0
    }

    /// Whether the message has the field, possibly with a null as its value.
    fn has(&self, field: &MessageField) -> bool {
        self.field(field) != FilterValue::Null
    }
}

/// The names of the fields of the properties section in its order (AMQP 1.0, 3.2.4).
const PROPERTIES: [(&str, MessageField); 13] = [
    ("message_id", MessageField::MessageId),
    ("user_id", MessageField::UserId),
    ("to", MessageField::To),
    ("subject", MessageField::Subject),
    ("reply_to", MessageField::ReplyTo),
    ("correlation_id", MessageField::CorrelationId),
    ("content_type", MessageField::ContentType),
    ("content_encoding", MessageField::ContentEncoding),
    ("absolute_expiry_time", MessageField::AbsoluteExpiryTime),
    ("creation_time", MessageField::CreationTime),
    ("group_id", MessageField::GroupId),
    ("group_sequence", MessageField::GroupSequence),
    ("reply_to_group_id", MessageField::ReplyToGroupId),
];

impl MessageField {
    /// The field of this name in a section of AMQP 1.0, as SQL filter expressions name both.
    pub(crate) fn of_section(section: &str, name: &str) -> Option<Self> {
        match section {
            "header" | "h" => (name == "priority").then_some(Self::Priority),
            "properties" | "p" => Self::of_properties(name),
            "application_properties" | "a" => Some(Self::Application(name.into())),
            _ => None,
        }
    }

    /// The field of the properties section with this name, with underscores between its words.
    fn of_properties(name: &str) -> Option<Self> {
        PROPERTIES.iter().find(|(known, _)| *known == name).map(|(_, field)| field.clone())
    }

    /// The field of the properties section with this symbol, with hyphens between its words (AMQP 1.0, 3.2.4).
    pub fn of_symbol(symbol: &str) -> Option<Self> {
        if symbol.contains('_') {
            return None;
        }
        Self::of_properties(&symbol.replace('-', "_"))
    }

    /// Its place in the properties section; `None` if it is of another one.
    pub(crate) fn place(&self) -> Option<u8> {
        PROPERTIES.iter().position(|(_, known)| known == self).map(|at| at as u8)
    }

    /// The field at a place in the properties section.
    pub(crate) fn at_place(place: u8) -> Option<Self> {
        PROPERTIES.get(usize::from(place)).map(|(_, field)| field.clone())
    }

    /// The field behind an identifier of JMS, by the mapping of JMS to AMQP 1.0; the hint for identifiers that JMS
    /// forbids here. Properties that JMS doesn't define are application properties.
    pub(crate) fn of_jms(name: &str) -> Result<Self, &'static str> {
        Ok(match name {
            "JMSDeliveryMode" => Self::Durable,
            "JMSPriority" => Self::Priority,
            "JMSMessageID" => Self::MessageId,
            "JMSTimestamp" => Self::CreationTime,
            "JMSCorrelationID" => Self::CorrelationId,
            "JMSType" => Self::Subject,
            "JMSXUserID" => Self::UserId,
            "JMSXGroupID" => Self::GroupId,
            "JMSXGroupSeq" => Self::GroupSequence,
            _ if name.starts_with("JMSX") => {
                return Err("the JMSX properties here are JMSXGroupID, JMSXGroupSeq and JMSXUserID");
            }
            _ if name.starts_with("JMS_") => Self::Application(name.into()),
            _ if name.starts_with("JMS") => {
                return Err(
                    "the headers that selectors may name are JMSCorrelationID, JMSDeliveryMode, JMSMessageID, \
                            JMSPriority, JMSTimestamp and JMSType",
                );
            }
            _ => Self::Application(name.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_properties_have_hyphens() {
        assert_eq!(MessageField::of_symbol("reply-to-group-id"), Some(MessageField::ReplyToGroupId));
        assert_eq!(MessageField::of_symbol("to"), Some(MessageField::To));
        assert_eq!(MessageField::of_symbol("reply_to"), None);
        assert_eq!(MessageField::of_symbol("priority"), None);
    }
}
