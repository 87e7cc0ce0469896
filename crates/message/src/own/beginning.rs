//! The beginning of a message, copied to be shown: bounded, whatever the message's size.

use leveret_amqp091::Properties;

use crate::batch::Batch;
use crate::deliver::{Delivery, to_amqp091};
use crate::envelope::Encoding;
use crate::stored::StoredMessage;

/// The property flags of a message without properties.
const NO_PROPERTIES: &[u8] = &[0, 0];

/// The beginning of a message as a receiver over AMQP 0-9-1 would get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// Property flags and list of AMQP 0-9-1.
    pub properties: Vec<u8>,
    /// Whether the headers were left out, because they are too large.
    pub left_out_headers: bool,
    /// The first bytes of the body; nothing of a body that is in a file of its own.
    pub body: Vec<u8>,
    /// Length of the whole body, in bytes.
    pub body_bytes: u64,
}

impl Beginning {
    /// Copies at most `body_max` bytes of the body, and the headers if all properties have at most `properties_max` bytes.
    pub fn of(message: &StoredMessage<'_>, delivery: &Delivery, properties_max: usize, body_max: usize) -> Self {
        let shown = to_amqp091(message, delivery);
        let left_out_headers = shown.properties.len() > properties_max;
        let properties = match left_out_headers {
            false => shown.properties.to_vec(),
            true => {
                let mut encoded = Vec::new();
                let decoded = Properties::decode(&shown.properties).unwrap_or_default();
                Properties { headers: None, ..decoded }.encode(&mut encoded);
                encoded
            }
        };
        let body = shown.body[..shown.body.len().min(body_max)].to_vec();
        Self { properties, left_out_headers, body, body_bytes: shown.body.len() as u64 }
    }

    /// The same of a message of a batch. Of a body in a file of its own only the length is known.
    pub fn of_batch<'a>(
        batch: &'a Batch,
        index: usize,
        delivery: &Delivery,
        properties_max: usize,
        body_max: usize,
    ) -> (Self, StoredMessage<'a>) {
        let message = batch.message(index);
        let view = message.view();
        match batch.is_in_file(index) {
            false => (Self::of(&view, delivery, properties_max, body_max), view),
            true => {
                // Over AMQP 1.0 the properties are in the file, too, unless they are kept beside it for filters.
                let fields = message.view_fields().unwrap_or(StoredMessage {
                    encoding: Encoding::Amqp091,
                    properties: NO_PROPERTIES,
                    ..view
                });
                let found = Self::of(&fields, delivery, properties_max, 0);
                (Self { body: Vec::new(), body_bytes: batch.body_length(index).into(), ..found }, view)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use leveret_amqp091::FieldTable;

    use super::*;
    use crate::batch::{BatchBuilder, FileBody};
    use crate::envelope::Envelope;

    fn batch(headers: usize, body: &[u8]) -> Batch {
        let headers = FieldTable::new().with("h", "x".repeat(headers).as_str()).encoded();
        let mut properties = Vec::new();
        Properties { headers: Some(headers.as_table()), priority: Some(3), ..Properties::default() }
            .encode(&mut properties);
        let mut builder = BatchBuilder::default();
        builder.push(&Envelope::default(), &properties, body);
        builder.finish()
    }

    #[test]
    fn the_beginning_of_a_body_is_copied_with_its_length() {
        let batch = batch(10, &[7; 5000]);
        let (found, _) = Beginning::of_batch(&batch, 0, &Delivery::default(), 1000, 16);
        assert_eq!((found.body.as_slice(), found.body_bytes), ([7; 16].as_slice(), 5000));
        assert!(!found.left_out_headers);
        let properties = Properties::decode(&found.properties).expect("they were encoded");
        assert!(properties.headers.is_some() && properties.priority == Some(3));
    }

    #[test]
    fn a_body_in_a_file_has_its_length_only() {
        for (encoding, fields) in [
            (Encoding::Amqp091, None),
            (Encoding::Amqp10, None),
            (Encoding::Amqp10, Some(Bytes::new())),
            // The section of application properties, with one pair.
            (Encoding::Amqp10, Some(Bytes::from_static(b"\0\x53\x74\xc1\x06\x02\xa1\x01h\xa1\x00"))),
        ] {
            let properties: &[u8] = if encoding == Encoding::Amqp091 { NO_PROPERTIES } else { &[] };
            let message = StoredMessage { encoding, properties, ..StoredMessage::default() };
            let has_pair = fields.as_ref().is_some_and(|fields| !fields.is_empty());
            let mut builder = BatchBuilder::default();
            builder.push_file(&message, FileBody { length: 500_000, handle: Arc::new(()), fields });
            let (found, _) = Beginning::of_batch(&builder.finish(), 0, &Delivery::default(), 1000, 16);
            assert_eq!((found.body.as_slice(), found.body_bytes), (b"".as_slice(), 500_000));
            let properties = Properties::decode(&found.properties).expect("they were encoded");
            assert_eq!(properties.headers.is_some(), has_pair, "{encoding:?}");
        }
    }

    #[test]
    fn headers_that_are_too_large_are_left_out() {
        let batch = batch(2000, b"body");
        let (found, _) = Beginning::of_batch(&batch, 0, &Delivery::default(), 1000, 16);
        assert!(found.left_out_headers && found.properties.len() < 20);
        let properties = Properties::decode(&found.properties).expect("they were encoded");
        assert!(properties.headers.is_none() && properties.priority == Some(3));
        assert_eq!(found.body, b"body");
    }
}
