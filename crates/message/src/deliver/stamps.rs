//! Stamps of a message in the form in which receivers get them: time of receipt, receiving node, time of sending, and how often it
//! was delivered before.

use leveret_amqp10::{MapRef, Value};
use leveret_amqp091::FieldValue;

use super::Delivery;
use crate::annotations::{
    TIMESTAMP_IN_MS, X_ACQUIRED_COUNT, X_DELIVERY_COUNT, X_OPT_RECEIVED_TIME, X_OPT_SENT_TIME, X_ROUTED_BY,
    X_STREAM_OFFSET,
};
use crate::overlay::{Overlay, ReceivedStamp};

/// The stamps of one delivery.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stamps<'a> {
    received: Option<ReceivedStamp>,
    routed_by: Option<&'a [u8]>,
    sent_ms: Option<u64>,
    acquired_count: u32,
    delivery_count: u32,
    stream_offset: Option<u64>,
    /// Annotations that consumers added.
    added: Option<MapRef<'a>>,
}

impl<'a> Stamps<'a> {
    /// The stamps of a message in one delivery.
    #[inline]
    pub(super) fn of(overlay: &Overlay<'a>, delivery: &Delivery) -> Self {
        let sent_ms = delivery.sent_time.then_some(delivery.now_ms);
        let acquired_count = delivery.acquired_count;
        // A queue that doesn't count all attempts shows none.
        let delivery_count = if acquired_count > 0 { delivery.delivery_count } else { 0 };
        let (received, routed_by, added) = match overlay.is_empty() {
            true => (None, None, None),
            false => (overlay.received(), overlay.routed_by(), overlay.added()),
        };
        let stream_offset = delivery.stream_offset;
        Self { received, routed_by, sent_ms, acquired_count, delivery_count, stream_offset, added }
    }

    /// The message's offset in a stream. It isn't one of the annotations that [`Stamps::add_annotations`] passes.
    #[inline]
    pub(super) fn stream_offset(&self) -> Option<u64> {
        self.stream_offset
    }

    /// Whether there are none, apart from an offset.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.received.is_none()
            && self.routed_by.is_none()
            && self.sent_ms.is_none()
            && self.acquired_count == 0
            && self.added.is_none()
    }

    /// Whether a stamp replaces a publisher's annotation of this name.
    pub(super) fn takes(&self, name: &str) -> bool {
        match name {
            X_OPT_RECEIVED_TIME => self.header().is_some(),
            X_ROUTED_BY => self.routed_by.is_some(),
            X_OPT_SENT_TIME => self.sent_ms.is_some(),
            X_ACQUIRED_COUNT => self.acquired_count > 0,
            X_DELIVERY_COUNT => self.delivery_count > 0,
            X_STREAM_OFFSET => self.stream_offset.is_some(),
            _ => self.added.is_some_and(|added| added.lookup(name).is_some()),
        }
    }

    /// The annotations that consumers added.
    #[inline]
    pub(super) fn added(&self) -> Option<MapRef<'a>> {
        self.added
    }

    /// The property `timestamp`, in seconds since the Unix epoch, if it replaces the publisher's.
    pub(super) fn timestamp(&self) -> Option<u64> {
        self.received.filter(|received| received.property).map(|received| received.ms / 1000)
    }

    /// Passes headers of AMQP 0-9-1 to `add`, which precede the publisher's.
    pub(super) fn add_headers(&self, mut add: impl FnMut(&str, FieldValue)) {
        let time = |ms: u64| FieldValue::I64(ms as i64);
        if let Some(ms) = self.header() {
            add(TIMESTAMP_IN_MS, time(ms));
        }
        if let Some(node) = self.routed_by {
            add(X_ROUTED_BY, FieldValue::LongString(node.to_vec()));
        }
        if let Some(ms) = self.sent_ms {
            add(X_OPT_SENT_TIME, time(ms));
        }
        for (name, count) in self.counts() {
            add(name, FieldValue::I64(count));
        }
        if let Some(offset) = self.stream_offset {
            add(X_STREAM_OFFSET, FieldValue::I64(offset as i64));
        }
    }

    /// Passes annotations of AMQP 1.0 to `add`.
    pub(super) fn add_annotations(&self, mut add: impl FnMut(&str, Value<'_>)) {
        if let Some(ms) = self.header() {
            add(X_OPT_RECEIVED_TIME, Value::Timestamp(ms as i64));
        }
        if let Some(node) = self.routed_by {
            add(X_ROUTED_BY, std::str::from_utf8(node).map_or(Value::Binary(node), Value::String));
        }
        if let Some(ms) = self.sent_ms {
            // A long in RabbitMQ, unlike the time of receipt.
            add(X_OPT_SENT_TIME, Value::Long(ms as i64));
        }
        for (name, count) in self.counts() {
            add(name, Value::Long(count));
        }
    }

    /// The counts of earlier deliveries that aren't zero.
    fn counts(&self) -> impl Iterator<Item = (&'static str, i64)> {
        let counts = [(X_ACQUIRED_COUNT, self.acquired_count), (X_DELIVERY_COUNT, self.delivery_count)];
        counts.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name, i64::from(count)))
    }

    fn header(&self) -> Option<u64> {
        self.received.filter(|received| received.header).map(|received| received.ms)
    }
}
