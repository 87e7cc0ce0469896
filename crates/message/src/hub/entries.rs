//! The sections of a message that are maps: annotations and application properties.

use leveret_amqp10::MapRef;
use leveret_amqp091::Table;
use leveret_mqtt::PropertyList;

use super::{Value, amqp091, foreign, mqtt, value};
use crate::envelope::ForeignId;

/// Named values, in the publisher's order. A name may occur twice.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Entries<'a>(Source<'a>);

/// The forms in which they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Source<'a> {
    #[default]
    None,
    Amqp10(MapRef<'a>),
    Amqp091Annotations {
        headers: Table<'a>,
        kind: Option<Value<'a>>,
    },
    Amqp091Properties(Table<'a>),
    Mqtt {
        properties: PropertyList<'a>,
        are_annotations: bool,
    },
    Foreign {
        id: ForeignId,
        properties: &'a [u8],
        are_annotations: bool,
    },
}

impl<'a> Entries<'a> {
    /// A section of AMQP 1.0.
    pub(crate) fn amqp10(map: Option<MapRef<'a>>) -> Self {
        Self(map.map_or(Source::None, Source::Amqp10))
    }

    /// The annotations among the headers of AMQP 0-9-1, and its property `type`.
    pub(super) fn amqp091_annotations(headers: Table<'a>, kind: Option<Value<'a>>) -> Self {
        Self(Source::Amqp091Annotations { headers, kind })
    }

    /// The application properties among the headers of AMQP 0-9-1.
    pub(super) fn amqp091_properties(headers: Table<'a>) -> Self {
        Self(Source::Amqp091Properties(headers))
    }

    /// The user properties of MQTT that are annotations, or the others.
    pub(super) fn mqtt(properties: PropertyList<'a>, are_annotations: bool) -> Self {
        match properties.is_empty() {
            true => Self::default(),
            false => Self(Source::Mqtt { properties, are_annotations }),
        }
    }

    /// The annotations in an encoding of its protocol's own, or the application properties.
    pub(super) fn foreign(id: ForeignId, properties: &'a [u8], are_annotations: bool) -> Self {
        Self(Source::Foreign { id, properties, are_annotations })
    }

    /// Passes each name and value to `take`. Takes a closure instead of returning an iterator, because it then checks
    /// the stored form once and not for each entry.
    #[inline]
    pub fn each(&self, mut take: impl FnMut(&'a str, Value<'a>)) {
        match self.0 {
            Source::None => {}
            Source::Amqp10(map) => value::text_pairs(map.iter()).for_each(|(name, value)| take(name, value)),
            Source::Amqp091Annotations { headers, kind } => amqp091::annotations(headers, kind, take),
            Source::Amqp091Properties(headers) => amqp091::application_properties(headers, take),
            Source::Mqtt { properties, are_annotations } => mqtt::user_properties(properties, are_annotations, take),
            Source::Foreign { id, properties, are_annotations } => {
                foreign::entries(id, properties, are_annotations, &mut take);
            }
        }
    }
}
