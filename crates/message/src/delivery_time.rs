//! The time before which a message isn't to be delivered, which its publisher or a consumer asked for: the annotation or header
//! `x-opt-delivery-time`.
//!
//! Over AMQP 1.0 it is a timestamp or an integer, over AMQP 0-9-1 an integer, both in milliseconds since the Unix epoch. A timestamp of
//! AMQP 0-9-1 is in seconds. A value of another type, or a negative one, counts as none.

use leveret_amqp10::MapRef;
use leveret_amqp10::message::Sections;
use leveret_amqp091::Table;

use crate::annotations::X_OPT_DELIVERY_TIME;
use crate::envelope::Encoding;
use crate::field::Field;
use crate::overlay::Overlay;

/// The time in these annotations, in milliseconds since the Unix epoch.
pub(crate) fn annotated(annotations: MapRef<'_>) -> Option<u64> {
    annotations.lookup(X_OPT_DELIVERY_TIME)?.as_u64()
}

fn header(headers: Table<'_>) -> Option<u64> {
    match Field::from(headers.lookup(X_OPT_DELIVERY_TIME)?) {
        Field::Integer(ms) => u64::try_from(ms).ok(),
        Field::Timestamp(seconds) => Some(seconds.saturating_mul(1_000)),
        _ => None,
    }
}

/// The time in the parts of a stored message, in milliseconds since the Unix epoch. A consumer's annotation replaces the publisher's.
#[inline]
pub(crate) fn of_parts(encoding: Encoding, overlay: Overlay<'_>, properties: &[u8]) -> Option<u64> {
    if !overlay.is_empty()
        && let Some(added) = overlay.added()
        && added.lookup(X_OPT_DELIVERY_TIME).is_some()
    {
        return annotated(added);
    }
    match encoding {
        Encoding::Amqp091 => header(leveret_amqp091::headers(properties)?),
        Encoding::Amqp10 if properties.is_empty() => None,
        Encoding::Amqp10 => annotated(Sections::parse(properties).ok()?.message_annotations?),
    }
}
