//! The headers and properties of a message as seen by routing, whatever the publisher's protocol.
//!
//! The headers of a message published over AMQP 1.0 are its application properties and, for names with `x-`, its
//! message annotations. Only simple values count, as in RabbitMQ.

use leveret_amqp10::message::Sections;
use leveret_amqp10::{MapRef, Value};
use leveret_amqp091::Table;

use crate::deaths::Deaths;
use crate::deliver::death_header;
use crate::envelope::{Encoding, ForeignId};
use crate::field::Field;
use crate::hub::{self, foreign};
use crate::lookup::{Property, id, user_property};
use crate::mqtt::MqttHead;
use crate::stored::StoredMessage;

/// The headers of one message, borrowed from it. Its properties can be looked up too if it was made [`with`](Self::with) them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headers<'a> {
    table: Option<Table<'a>>,
    annotations: Option<MapRef<'a>>,
    properties: Option<MapRef<'a>>,
    others: Option<Others<'a>>,
    deaths: Option<Deaths<'a>>,
    added: Option<MapRef<'a>>,
    fields: PropertiesAt<'a>,
}

/// The headers of a message in another encoding, which has some.
#[derive(Debug, Clone, Copy)]
enum Others<'a> {
    /// The head of a message of MQTT.
    Mqtt(&'a [u8]),
    Foreign(ForeignId, &'a [u8]),
}

/// The place of a message's properties.
#[derive(Debug, Clone, Copy, Default)]
pub enum PropertiesAt<'a> {
    /// It isn't known.
    #[default]
    None,
    /// The properties of AMQP 0-9-1.
    Amqp091(&'a [u8]),
    /// The bare message of AMQP 1.0.
    Amqp10(&'a [u8]),
}

/// One header.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Header<'a> {
    /// A string, symbol or binary: RabbitMQ compares their bytes.
    Bytes(&'a [u8]),
    /// A UUID, whose bytes are compared.
    Uuid([u8; 16]),
    /// Any integer; a char by its code point.
    Integer(i128),
    /// A float or double.
    Double(f64),
    /// A boolean.
    Bool(bool),
    /// A time in milliseconds since the Unix epoch.
    Timestamp(i128),
    /// A name without a value.
    Void,
    /// A table, array or decimal of AMQP 0-9-1.
    Complex(Field<'a>),
}

impl<'a> Headers<'a> {
    /// The headers of a message published over AMQP 0-9-1.
    pub fn amqp091(table: Option<Table<'a>>) -> Self {
        Self { table, ..Self::default() }
    }

    /// The headers of a message published over AMQP 1.0.
    pub fn amqp10(annotations: Option<MapRef<'a>>, properties: Option<MapRef<'a>>) -> Self {
        Self { annotations, properties, ..Self::default() }
    }

    /// The headers of a message published over MQTT: its user properties.
    pub fn mqtt(head: &'a [u8]) -> Self {
        let has_any = MqttHead::read(head).is_some_and(|head| head.properties.user().next().is_some());
        Self { others: has_any.then_some(Others::Mqtt(head)), ..Self::default() }
    }

    /// The headers of a message in an encoding of its protocol's own.
    pub fn foreign(id: ForeignId, properties: &'a [u8]) -> Self {
        let has_any = foreign::has_entries(id, properties);
        Self { others: has_any.then_some(Others::Foreign(id, properties)), ..Self::default() }
    }

    /// The headers of a stored message, for a dead letter that is routed again.
    pub fn stored(message: &StoredMessage<'a>) -> Self {
        let deaths = message.overlay.deaths();
        let headers = match message.encoding {
            Encoding::Amqp091 => Self::amqp091(leveret_amqp091::headers(message.properties))
                .with(PropertiesAt::Amqp091(message.properties)),
            Encoding::Amqp10 => {
                let annotations = Sections::parse(message.properties).ok();
                let bare = Sections::parse(message.body).ok();
                Self::amqp10(
                    annotations.and_then(|sections| sections.message_annotations),
                    bare.and_then(|sections| sections.application_properties),
                )
                .with(PropertiesAt::Amqp10(message.body))
            }
            Encoding::Mqtt => Self::mqtt(message.properties),
            Encoding::Foreign(id) => Self::foreign(id, message.properties),
        };
        Self { deaths, added: message.overlay.added(), ..headers }
    }

    /// The same headers, with the properties of the message.
    #[must_use]
    pub fn with(self, fields: PropertiesAt<'a>) -> Self {
        Self { fields, ..self }
    }

    /// Message-id, correlation-id or creation time; no other property.
    pub fn property(&self, property: Property) -> Option<Header<'a>> {
        match self.fields {
            PropertiesAt::None => None,
            PropertiesAt::Amqp10(bare) => {
                // Of a large message only the beginning may be here.
                let sections = Sections::parse(bare).ok();
                let sections = sections.or_else(|| Sections::parse_start(bare).map(|(sections, _)| sections));
                let properties = sections?.properties?;
                Some(match property {
                    Property::MessageId => id(properties.message_id?),
                    Property::CorrelationId => id(properties.correlation_id?),
                    Property::CreationTime => Header::Timestamp(properties.creation_time?.into()),
                    _ => return None,
                })
            }
            PropertiesAt::Amqp091(raw) => {
                let properties = leveret_amqp091::Properties::decode(raw).ok()?;
                Some(match property {
                    Property::MessageId => Header::Bytes(properties.message_id?.as_bytes()),
                    Property::CorrelationId => Header::Bytes(properties.correlation_id?.as_bytes()),
                    Property::CreationTime => Header::Timestamp(i128::from(properties.timestamp?) * 1000),
                    _ => return None,
                })
            }
        }
    }

    /// Whether the message has none.
    pub fn is_empty(&self) -> bool {
        let has_own =
            self.table.is_some() || self.annotations.is_some() || self.properties.is_some() || self.others.is_some();
        !has_own && self.deaths.is_none() && self.added.is_none()
    }

    /// The header of this name.
    pub fn lookup(&self, name: &str) -> Option<Header<'a>> {
        if let Some(deaths) = &self.deaths
            && let Some(text) = death_header(deaths, name)
        {
            return Some(Header::Bytes(text));
        }
        if let Some(added) = self.added.filter(|_| name.starts_with("x-"))
            && let Some(header) = simple(added, name)
        {
            return Some(header);
        }
        if let Some(table) = &self.table {
            return table.lookup(name).map(Header::from);
        }
        match self.others {
            Some(Others::Mqtt(head)) => return user_property(head, name),
            Some(Others::Foreign(id, properties)) => return foreign_entry(id, properties, name),
            None => {}
        }
        let annotation = self.annotations.filter(|_| name.starts_with("x-")).and_then(|map| simple(map, name));
        annotation.or_else(|| self.properties.and_then(|map| simple(map, name)))
    }
}

/// The last value of a name, if it is a simple one.
fn simple<'a>(map: MapRef<'a>, name: &str) -> Option<Header<'a>> {
    simple_value(map.iter().filter(|(key, _)| key.as_text() == Some(name)).last()?.1)
}

/// An annotation or application property in an encoding of its protocol's own, if it is a simple value.
pub(crate) fn foreign_entry<'a>(id: ForeignId, properties: &'a [u8], name: &str) -> Option<Header<'a>> {
    match foreign::entry(id, properties, name)? {
        hub::Value::Simple(value) => simple_value(value),
        hub::Value::List(_) | hub::Value::Map(_) => None,
    }
}

/// A value of AMQP 1.0, if it is a simple one.
#[inline]
pub(crate) fn simple_value(value: Value<'_>) -> Option<Header<'_>> {
    Some(match value {
        Value::Null => Header::Void,
        Value::Bool(value) => Header::Bool(value),
        Value::Ubyte(value) => Header::Integer(value.into()),
        Value::Ushort(value) => Header::Integer(value.into()),
        Value::Uint(value) => Header::Integer(value.into()),
        Value::Ulong(value) => Header::Integer(value.into()),
        Value::Byte(value) => Header::Integer(value.into()),
        Value::Short(value) => Header::Integer(value.into()),
        Value::Int(value) => Header::Integer(value.into()),
        Value::Long(value) => Header::Integer(value.into()),
        Value::Float(value) => Header::Double(value.into()),
        Value::Double(value) => Header::Double(value),
        Value::Char(value) => Header::Integer(u32::from(value).into()),
        Value::Timestamp(value) => Header::Timestamp(value.into()),
        Value::Uuid(bytes) => Header::Uuid(bytes),
        Value::Binary(bytes) => Header::Bytes(bytes),
        Value::String(text) => Header::Bytes(text.as_bytes()),
        Value::Symbol(text) => Header::Bytes(text.as_str().as_bytes()),
        Value::Decimal32(_)
        | Value::Decimal64(_)
        | Value::Decimal128(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Array(_)
        | Value::Described(_) => return None,
    })
}

impl<'a> From<leveret_amqp091::Value<'a>> for Header<'a> {
    fn from(value: leveret_amqp091::Value<'a>) -> Self {
        match Field::from(value) {
            Field::Void => Self::Void,
            Field::Bool(value) => Self::Bool(value),
            Field::Integer(value) => Self::Integer(value.into()),
            Field::Double(value) => Self::Double(value),
            Field::Timestamp(seconds) => Self::Timestamp(i128::from(seconds) * 1000),
            Field::String(bytes) | Field::Bytes(bytes) => Self::Bytes(bytes),
            complex @ (Field::Decimal { .. } | Field::Array(_) | Field::Table(_)) => Self::Complex(complex),
        }
    }
}
