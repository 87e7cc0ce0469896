//! Properties of MQTT 5 (2.2.2). They are checked as a whole when their packet is decoded, and read in place.

mod id;
mod writer;

use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;
use crate::version::Version;
use crate::wire::FieldReader;

pub use id::PropertyId;
pub use writer::PropertyWriter;

/// The place of properties: that of a will isn't that of its CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A packet of this type.
    Packet(PacketKind),
    /// The will in a CONNECT.
    Will,
}

/// A property's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertyValue<'a> {
    /// Of one, two or four bytes, or a variable byte integer.
    Number(u32),
    /// A UTF-8 string.
    Text(&'a str),
    /// Binary data.
    Binary(&'a [u8]),
    /// A name and a value.
    Pair(&'a str, &'a str),
}

/// A property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Property<'a> {
    /// Its identifier.
    pub id: PropertyId,
    /// Its value.
    pub value: PropertyValue<'a>,
}

/// The properties of a packet, as encoded, without their length. Versions before 5 have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PropertyList<'a>(&'a [u8]);

impl<'a> PropertyList<'a> {
    /// No properties.
    pub const NONE: PropertyList<'static> = PropertyList(&[]);

    /// Reads the properties of a packet in this version; there are none before MQTT 5.
    pub(crate) fn read_in(version: Version, reader: &mut FieldReader<'a>, place: Place) -> Decoded<Self> {
        match version.has_properties() {
            true => Self::read(reader, place),
            false => Ok(Self::NONE),
        }
    }

    /// Reads properties with their length, and checks them.
    pub(crate) fn read(reader: &mut FieldReader<'a>, place: Place) -> Decoded<Self> {
        let length = reader.variable("property length")?;
        if length == 0 {
            return Ok(Self::NONE);
        }
        let bytes = reader.take(length as usize, "properties")?;
        check(FieldReader::new(reader.kind(), bytes), place)?;
        Ok(Self(bytes))
    }

    /// Properties that were encoded by [`PropertyWriter`] or taken from a packet.
    ///
    /// # Errors
    /// They aren't those of a PUBLISH.
    pub fn of_publish(bytes: &'a [u8]) -> Decoded<Self> {
        let kind = PacketKind::Publish;
        check(FieldReader::new(kind, bytes), Place::Packet(kind))?;
        Ok(Self(bytes))
    }

    /// Properties that [`PropertyWriter`] wrote, whose caller knows that they fit their packet: they aren't checked.
    #[inline]
    pub fn written(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The properties as encoded, without their length.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The properties, in their order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Property<'a>> + use<'a> {
        let mut reader = FieldReader::new(PacketKind::Publish, self.0);
        std::iter::from_fn(move || match reader.is_empty() {
            true => None,
            // They were checked when the packet was decoded.
            false => next(&mut reader).ok(),
        })
    }

    /// The first property with this identifier.
    #[inline]
    fn find(&self, id: PropertyId) -> Option<PropertyValue<'a>> {
        if self.0.is_empty() {
            return None;
        }
        self.iter().find(|property| property.id == id).map(|property| property.value)
    }

    /// A number.
    #[inline]
    pub fn number(&self, id: PropertyId) -> Option<u32> {
        match self.find(id) {
            Some(PropertyValue::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// A string.
    pub fn text(&self, id: PropertyId) -> Option<&'a str> {
        match self.find(id) {
            Some(PropertyValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Binary data.
    pub fn binary(&self, id: PropertyId) -> Option<&'a [u8]> {
        match self.find(id) {
            Some(PropertyValue::Binary(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The user properties, in their order, which receivers of a message have to get unchanged [MQTT-3.3.2-18].
    pub fn user(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.iter().filter_map(|property| match property.value {
            PropertyValue::Pair(name, value) => Some((name, value)),
            _ => None,
        })
    }
}

/// The next property.
fn next<'a>(reader: &mut FieldReader<'a>) -> Decoded<Property<'a>> {
    let number = reader.variable("property identifier")?;
    let id = PropertyId::of(number).ok_or(DecodeError::UnknownProperty { kind: reader.kind(), id: number })?;
    let field = id.name();
    let value = match id.form() {
        id::Form::Byte => PropertyValue::Number(reader.u8(field)?.into()),
        id::Form::Two => PropertyValue::Number(reader.u16(field)?.into()),
        id::Form::Four => PropertyValue::Number(reader.u32(field)?),
        id::Form::Variable => PropertyValue::Number(reader.variable(field)?),
        id::Form::Text => PropertyValue::Text(reader.string(field)?),
        id::Form::Binary => PropertyValue::Binary(reader.binary(field)?),
        id::Form::Pair => PropertyValue::Pair(reader.string(field)?, reader.string(field)?),
    };
    Ok(Property { id, value })
}

fn check(mut reader: FieldReader<'_>, place: Place) -> Decoded<()> {
    let kind = reader.kind();
    let mut seen = 0u64;
    while !reader.is_empty() {
        let Property { id, value } = next(&mut reader)?;
        if !id.belongs(place) {
            return Err(DecodeError::MisplacedProperty { kind, id });
        }
        let bit = 1 << id as u32;
        if seen & bit != 0 && !id.repeats(place) {
            return Err(DecodeError::RepeatedProperty { kind, id });
        }
        seen |= bit;
        if let PropertyValue::Number(value) = value
            && !id.allows(value)
        {
            return Err(DecodeError::PropertyValue { kind, id, value });
        }
        if id == PropertyId::ResponseTopic
            && let PropertyValue::Text(topic) = value
        {
            // [MQTT-3.3.2-14], and for a will [MQTT-3.1.3-11] in its sense.
            crate::topic::check_name(kind, topic)?;
        }
    }
    let has = |id: PropertyId| seen & 1 << id as u32 != 0;
    let (data, method) = (PropertyId::AuthenticationData, PropertyId::AuthenticationMethod);
    if has(data) && !has(method) {
        return Err(DecodeError::LonelyProperty { kind, id: data, without: method });
    }
    Ok(())
}
