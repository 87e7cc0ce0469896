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
use crate::hub::foreign;
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
pub(crate) fn of_parts(encoding: Encoding, overlay: Overlay<'_>, properties: &[u8]) -> Option<u64> {
    if let Some(added) = overlay.added()
        && added.lookup(X_OPT_DELIVERY_TIME).is_some()
    {
        return annotated(added);
    }
    of_publisher(encoding, properties)
}

/// The publisher's time in the properties of a stored message, in milliseconds since the Unix epoch.
#[inline]
pub(crate) fn of_publisher(encoding: Encoding, properties: &[u8]) -> Option<u64> {
    match encoding {
        Encoding::Amqp091 => header(leveret_amqp091::headers(properties)?),
        Encoding::Amqp10 if properties.is_empty() => None,
        Encoding::Amqp10 => annotated(Sections::message_annotations_of(properties)?),
        // User properties are texts.
        Encoding::Mqtt => None,
        Encoding::Foreign(id) => foreign::entry(id, properties, X_OPT_DELIVERY_TIME)?.as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use leveret_amqp10::message::{MapSection, write_map_section};
    use leveret_amqp10::value::EncodedMap;
    use leveret_amqp10::{OwnedValue, Value};
    use leveret_amqp091::{FieldTable, FieldValue, Properties};

    use super::*;
    use crate::added::{Added, map_of};
    use crate::{Batch, BatchBuilder, DeadLetter, Envelope, Reason, StoredMessage};

    fn batch(encoding: Encoding, properties: &[u8]) -> Batch {
        let mut builder = BatchBuilder::default();
        builder.push_message(&StoredMessage { encoding, properties, body: b"body", ..StoredMessage::default() });
        builder.finish()
    }

    fn amqp091(value: FieldValue) -> Batch {
        let headers = FieldTable::new().with("h", 1).with(X_OPT_DELIVERY_TIME, value).encoded();
        let mut properties = Vec::new();
        Properties { headers: Some(headers.as_table()), ..Properties::default() }.encode(&mut properties);
        batch(Encoding::Amqp091, &properties)
    }

    fn amqp10(value: Value<'_>) -> Batch {
        let annotations = EncodedMap::new().with("x-opt-a", 1u32).with(X_OPT_DELIVERY_TIME, value);
        let mut section = Vec::new();
        write_map_section(&mut section, MapSection::MessageAnnotations, annotations.as_map());
        batch(Encoding::Amqp10, &section)
    }

    #[test]
    fn a_time_is_an_integer_or_a_timestamp() {
        let headers = [FieldValue::I64(5_000), FieldValue::I32(5_000), FieldValue::Timestamp(5)];
        let annotations = [Value::Timestamp(5_000), Value::Long(5_000), Value::Ulong(5_000), Value::Uint(5_000)];
        let timed: Vec<Batch> = headers.map(amqp091).into_iter().chain(annotations.map(amqp10)).collect();
        for batch in timed {
            assert_eq!((batch.any_delivery_time(), batch.delivery_ms(0)), (true, Some(5_000)));
        }
        let headers = [FieldValue::I64(-1), FieldValue::from("5000"), FieldValue::F64(5_000.0), FieldValue::Void];
        let annotations = [Value::Timestamp(-1), Value::Long(-1), Value::String("5000"), Value::Null];
        let others = headers.map(amqp091).into_iter().chain(annotations.map(amqp10));
        for batch in others.chain([batch(Encoding::Amqp091, &[0, 0]), batch(Encoding::Amqp10, b"")]) {
            assert_eq!((batch.any_delivery_time(), batch.delivery_ms(0)), (false, None));
        }
    }

    #[test]
    fn a_time_that_was_over_on_arrival_counts_as_none() {
        let headers = FieldTable::new().with(X_OPT_DELIVERY_TIME, FieldValue::I64(5_000)).encoded();
        let mut properties = Vec::new();
        Properties { headers: Some(headers.as_table()), ..Properties::default() }.encode(&mut properties);
        let mut builder = BatchBuilder::default();
        for received_ms in [4_999, 5_000, 5_001] {
            builder.push(&Envelope { received_ms, ..Envelope::default() }, &properties, b"body");
        }
        let batch = builder.finish();
        assert_eq!([0, 1, 2].map(|at| batch.delivery_ms(at)), [Some(5_000), None, None]);
    }

    #[test]
    fn copies_and_dead_letters_keep_it_and_a_consumers_replaces_it() {
        let added = |value: OwnedValue| {
            let pairs = vec![(OwnedValue::Symbol(X_OPT_DELIVERY_TIME.into()), value)];
            let mut bytes = Vec::new();
            OwnedValue::Map(leveret_amqp10::value::OwnedMap(pairs)).encode(&mut bytes);
            Added::of(map_of(&bytes).expect("it is a map")).expect("it is short").expect("it isn't empty")
        };
        let mut builder = BatchBuilder::default();
        for batch in [amqp091(FieldValue::I64(5_000)), amqp10(Value::Long(5_000))] {
            builder.push_copy(&batch.message(0));
            let exchange = b"dead";
            let (now_ms, routing_key) = (1, None);
            let reason = Reason::Expired;
            let letter = DeadLetter { queue: b"q", reason, now_ms, exchange, routing_key, failures: 0 };
            builder.push_dead_letter(&batch.message(0), &letter);
            builder.push_annotated(&batch.message(0), &added(OwnedValue::Timestamp(9_000)));
            builder.push_annotated(&batch.message(0), &added(OwnedValue::String("never".into())));
            let all = builder.finish();
            let times: Vec<_> = (0..all.len()).map(|at| all.delivery_ms(at)).collect();
            assert_eq!(times, [Some(5_000), Some(5_000), Some(9_000), None]);
        }
    }
}
