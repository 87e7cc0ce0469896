//! Retained messages: the last one of each topic, which new subscriptions get. They are records of a ledger of their vhost, and in
//! memory by topic.
//!
//! A message is found by subscribers once it is durable, as messages in queues are. It is in the log before what is published to queues
//! with it, so that a subscriber that got a message from its queue doesn't find an older one here.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use leveret_broker::broker::Broker;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_message::mqtt::{MqttHead, is_told_by_key, routing_key, topic_of};
use leveret_message::overlay::Overlay;
use leveret_message::{BatchBuilder, Encoding, Envelope, StoredMessage};
use leveret_mqtt::{PropertyId, PropertyList, PropertyWriter, QoS, topic};
use rustc_hash::FxHashMap;

use super::exchanges::Unacknowledged;
use super::ledger::{Changes, RecordLedger, Records};
use super::node::Shared;
use super::stored_will::StoredWill;

/// Memory of a retained message besides its bytes, about.
const MESSAGE_MEMORY: u64 = 240;
/// Topics that one search looks at before others have their turn.
pub(crate) const LOOKED_AT_MAX: usize = 1000;
/// Expired messages that are removed at once where there is no room for another one.
const EXPIRED_AT_ONCE: usize = 100;
/// The form of records, their first byte.
const VERSION: u8 = 1;
/// The second byte of a record that removes the message of a topic.
const REMOVED: u8 = 0;
/// The second byte of a record with a message.
const KEPT: u8 = 1;
/// Bytes of a record before the payload: the two, and the time at which it expires.
const HEAD_BYTES: usize = 10;

/// A retained message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Retained {
    pub topic: Arc<str>,
    pub qos: QoS,
    pub client_id: Arc<str>,
    /// Properties of MQTT 5, without their length and without the time to live.
    pub properties: Box<[u8]>,
    /// The payload. A message without one only removes that of its topic [MQTT-3.3.1-6].
    pub payload: Bytes,
    /// Wall time in milliseconds since the Unix epoch at which it expires; 0 is never.
    pub expiry_ms: u64,
}

impl Retained {
    /// A will that is kept.
    pub(crate) fn of_will(will: &StoredWill, client_id: &Arc<str>, now: Now) -> Self {
        let given = PropertyList::written(&will.properties);
        let payload = Bytes::copy_from_slice(&will.payload);
        Self::of_publish(&will.topic, will.qos, client_id, given, payload, now)
    }

    /// A message that its publisher wants to be kept.
    pub(crate) fn of_publish(
        topic: &str,
        qos: QoS,
        client_id: &Arc<str>,
        given: PropertyList<'_>,
        payload: Bytes,
        now: Now,
    ) -> Self {
        let mut properties = Vec::new();
        let mut writer = PropertyWriter::begin(&mut properties);
        for property in given.iter() {
            if !matches!(property.id, PropertyId::MessageExpiryInterval | PropertyId::TopicAlias) {
                writer.property(&property);
            }
        }
        let expiry_s = given.number(PropertyId::MessageExpiryInterval);
        Self {
            topic: topic.into(),
            qos,
            client_id: client_id.clone(),
            properties: properties.into(),
            payload,
            expiry_ms: expiry_s.map_or(0, |expiry_s| Envelope::expiry(now.wall_ms, u64::from(expiry_s) * 1000)),
        }
    }

    fn memory(&self) -> u64 {
        MESSAGE_MEMORY + (self.topic.len() + self.properties.len() + self.payload.len()) as u64
    }

    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.expiry_ms != 0 && self.expiry_ms <= now_ms
    }

    /// Adds its record to a batch.
    fn push(&self, builder: &mut BatchBuilder, now_ms: u64) {
        let mut properties = Vec::new();
        let head = MqttHead {
            qos: self.qos,
            retain: true,
            kept: true,
            client_id: &self.client_id,
            topic: (!is_told_by_key(&self.topic)).then_some(&*self.topic),
            properties: PropertyList::written(&self.properties),
        };
        head.write(&mut properties);
        let mut body = Vec::with_capacity(HEAD_BYTES + self.payload.len());
        body.extend([VERSION, if self.payload.is_empty() { REMOVED } else { KEPT }]);
        body.extend(self.expiry_ms.to_be_bytes());
        body.extend_from_slice(&self.payload);
        let key = routing_key(&self.topic);
        // Without its time to live: an older message of the topic, whose end isn't on disk yet, would come back with its end.
        let envelope = Envelope { durable: true, routing_key: &key, received_ms: now_ms, ..Envelope::default() };
        builder.push_message(&StoredMessage {
            encoding: Encoding::Mqtt,
            envelope,
            overlay: Overlay::new(&[]),
            properties: &properties,
            body: &body,
        });
    }

    /// Reads a record; `None` if it has another form.
    fn read(message: &StoredMessage<'_>) -> Option<Self> {
        let (head, payload) = message.body.split_first_chunk::<HEAD_BYTES>()?;
        let [VERSION, kind @ (REMOVED | KEPT), expiry @ ..] = *head else { return None };
        if (kind == REMOVED) != payload.is_empty() {
            return None;
        }
        let of_mqtt = MqttHead::read(message.properties)?;
        let topic = of_mqtt.topic.map_or_else(|| topic_of(message.envelope.routing_key), Into::into);
        let mut properties = Vec::new();
        let mut writer = PropertyWriter::begin(&mut properties);
        of_mqtt.properties.iter().for_each(|property| writer.property(&property));
        Some(Self {
            topic: topic.into(),
            qos: of_mqtt.qos,
            client_id: of_mqtt.client_id.into(),
            properties: properties.into(),
            payload: Bytes::copy_from_slice(payload),
            expiry_ms: u64::from_be_bytes(expiry),
        })
    }
}

/// The retained messages of a vhost.
#[derive(Default)]
pub(crate) struct RetainedMessages {
    /// The messages that subscribers find.
    by_topic: BTreeMap<Arc<str>, Arc<Retained>>,
    bytes: u64,
    /// The changes that aren't durable yet.
    changes: Changes<Arc<Retained>>,
    /// The last record of each topic, once it is durable.
    records: FxHashMap<Arc<str>, Unacknowledged>,
}

/// Why a message isn't kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotKept {
    /// There are too many messages.
    Messages(usize),
    /// They have too many bytes.
    Bytes(u64),
    /// The log takes nothing.
    Log(String),
}

impl std::fmt::Display for NotKept {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Messages(limit) => write!(
                formatter,
                "the vhost has {limit} retained messages already; raise mqtt.retained_message_store.max_messages"
            ),
            Self::Log(why) => formatter.write_str(why),
            Self::Bytes(limit) => write!(
                formatter,
                "the retained messages of the vhost would take over {limit} bytes; raise mqtt.retained_message_store.max_size_bytes"
            ),
        }
    }
}

impl Records for RetainedMessages {
    const QUEUE: &'static str = "amq.mqtt.retained";

    fn take(
        &mut self,
        record: Unacknowledged,
        message: &StoredMessage<'_>,
        is_loaded: bool,
        over: &mut Vec<Unacknowledged>,
    ) {
        let Some(retained) = Retained::read(message) else {
            tracing::error!(
                "MQTT: record {} of queue '{}' has an unknown form and is left alone",
                record.number,
                Self::QUEUE
            );
            return;
        };
        let is_removed = retained.payload.is_empty();
        match is_removed {
            true => {
                over.extend(self.records.remove(&retained.topic));
                over.push(record);
            }
            false => over.extend(self.records.insert(retained.topic.clone(), record)),
        }
        if !is_loaded {
            self.show(Arc::new(retained));
        }
    }

    fn loaded(ledger: &RecordLedger<Self>, shared: &Arc<Shared>, broker: &Arc<Broker>, now: Now) {
        shared.keep_waiting(ledger, broker, now);
    }
}

/// The bounds of a vhost's retained messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetainedLimits {
    pub messages: usize,
    pub bytes: u64,
}

impl RecordLedger<RetainedMessages> {
    /// Keeps a message in place of the topic's last one. Returns the condition under which that is safe.
    ///
    /// # Errors
    /// A limit is reached, or the log takes nothing: the topic keeps the message that it had.
    pub(crate) fn keep(
        &self,
        broker: &Arc<Broker>,
        retained: Retained,
        limits: RetainedLimits,
        now: Now,
    ) -> Result<WaitFor, NotKept> {
        // The lock is held while the record is appended, so that changes are in the order of the log.
        let mut all = self.records();
        all.settle_changes(&|wait| broker.streams.end(wait).map(|end| end.is_reached()));
        let mut builder = BatchBuilder::default();
        let mut expired = Vec::new();
        if let Err(why) = all.check(&retained, limits) {
            expired = all.expired(now.wall_ms);
            if expired.is_empty() {
                return Err(why);
            }
        }
        expired.iter().for_each(|expired| expired.push(&mut builder, now.wall_ms));
        let retained = Arc::new(retained);
        retained.push(&mut builder, now.wall_ms);
        let wait = self.append(broker, builder, now).map_err(NotKept::Log)?;
        for change in expired.into_iter().map(Arc::new).chain([retained]) {
            all.changes.push_back((wait.clone(), change));
        }
        Ok(wait)
    }
}

impl RetainedMessages {
    /// Shows subscribers what is durable by now. `ended` says whether a condition is reached, and `None` if that isn't known.
    pub(crate) fn settle_changes(&mut self, ended: &impl Fn(&WaitFor) -> Option<bool>) {
        while let Some(is_reached) = self.changes.front().and_then(|(wait, _)| ended(wait)) {
            let change = self.changes.pop_front();
            if let Some((_, retained)) = change.filter(|_| is_reached) {
                self.show(retained);
            }
        }
    }

    fn show(&mut self, retained: Arc<Retained>) {
        let old = match retained.payload.is_empty() {
            true => self.by_topic.remove(&retained.topic),
            false => {
                self.bytes += retained.memory();
                self.by_topic.insert(retained.topic.clone(), retained)
            }
        };
        self.bytes -= old.map_or(0, |old| old.memory());
    }

    fn check(&self, retained: &Retained, limits: RetainedLimits) -> Result<(), NotKept> {
        if retained.payload.is_empty() {
            return Ok(());
        }
        let old = self.by_topic.get(&retained.topic).map_or(0, |old| old.memory());
        // Changes that aren't durable yet count as further messages.
        let (coming, coming_bytes) =
            self.changes.iter().fold((0, 0), |(count, bytes), (_, next)| (count + 1, bytes + next.memory()));
        if old == 0 && self.by_topic.len() + coming >= limits.messages {
            return Err(NotKept::Messages(limits.messages));
        }
        match self.bytes + coming_bytes - old + retained.memory() > limits.bytes {
            true => Err(NotKept::Bytes(limits.bytes)),
            false => Ok(()),
        }
    }

    /// The removals of some messages that have expired.
    fn expired(&self, now_ms: u64) -> Vec<Retained> {
        let over = self.by_topic.values().filter(|retained| retained.is_over(now_ms));
        let removal = |retained: &Arc<Retained>| Retained {
            topic: retained.topic.clone(),
            qos: QoS::AtMostOnce,
            client_id: retained.client_id.clone(),
            properties: Box::default(),
            payload: Bytes::new(),
            expiry_ms: 0,
        };
        over.take(EXPIRED_AT_ONCE).map(removal).collect()
    }

    /// The next messages that a filter matches, behind the topic `after`, in the order of their topics, and the topic at which the
    /// search goes on; `None` if it is over.
    pub(crate) fn matching(
        &self,
        filter: &str,
        after: Option<&str>,
        most: usize,
        now_ms: u64,
    ) -> (Vec<Arc<Retained>>, Option<Arc<str>>) {
        if !topic::has_wildcard(filter) {
            let found = self.by_topic.get(filter).filter(|found| after.is_none() && !found.is_over(now_ms));
            return (found.cloned().into_iter().collect(), None);
        }
        let prefix = fixed_prefix(filter);
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let mut found = Vec::new();
        let mut looked_at = 0;
        for (topic, message) in self.by_topic.range::<str, _>((from, Bound::Unbounded)) {
            if !topic.starts_with(prefix) {
                break;
            }
            looked_at += 1;
            if topic::matches(filter, topic) && !message.is_over(now_ms) {
                found.push(message.clone());
            }
            if found.len() >= most || looked_at >= LOOKED_AT_MAX {
                return (found, Some(topic.clone()));
            }
        }
        (found, None)
    }
}

/// The beginning that all topics have which a filter matches. `a/#` matches `a`, too.
fn fixed_prefix(filter: &str) -> &str {
    let end = filter.find(['+', '#']).unwrap_or(filter.len());
    let fixed = &filter[..end];
    if filter[end..].starts_with('#') { fixed.strip_suffix('/').unwrap_or(fixed) } else { fixed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(topic: &str, payload: &'static [u8]) -> Retained {
        Retained {
            topic: topic.into(),
            qos: QoS::AtLeastOnce,
            client_id: "c".into(),
            properties: Box::default(),
            payload: Bytes::from_static(payload),
            expiry_ms: 0,
        }
    }

    fn topics(kept: &RetainedMessages, filter: &str) -> Vec<String> {
        let mut all = Vec::new();
        let mut after: Option<Arc<str>> = None;
        loop {
            let (found, more) = kept.matching(filter, after.as_deref(), 2, 10);
            all.extend(found.iter().map(|message| message.topic.to_string()));
            match more {
                Some(more) => after = Some(more),
                None => return all,
            }
        }
    }

    fn record(number: u64) -> Unacknowledged {
        Unacknowledged { number, bytes: 1, durable: true }
    }

    /// Takes the records of messages, as after a start. Returns the numbers of those that are over.
    fn take(kept: &mut RetainedMessages, first: u64, messages: &[Retained]) -> Vec<u64> {
        let mut over = Vec::new();
        for (number, message) in (first..).zip(messages) {
            let mut builder = BatchBuilder::default();
            message.push(&mut builder, 5);
            kept.take(record(number), &builder.finish().message(0).view(), false, &mut over);
        }
        over.iter().map(|record| record.number).collect()
    }

    #[test]
    fn filters_find_retained_messages_in_parts() {
        let mut kept = RetainedMessages::default();
        let all = ["a", "a/b", "a/c", "a/b/c", "ab", "b", "$SYS/x"].map(|topic| message(topic, b"x"));
        assert!(take(&mut kept, 0, &all).is_empty());
        for (filter, expected) in [
            ("a", &["a"][..]),
            ("a/+", &["a/b", "a/c"]),
            ("a/#", &["a", "a/b", "a/b/c", "a/c"]),
            ("+", &["a", "ab", "b"]),
            ("#", &["a", "a/b", "a/b/c", "a/c", "ab", "b"]),
            ("$SYS/#", &["$SYS/x"]),
            ("x/#", &[]),
        ] {
            assert_eq!(topics(&kept, filter), expected, "{filter}");
        }
    }

    #[test]
    fn a_record_ends_the_older_one_of_its_topic() {
        let mut kept = RetainedMessages::default();
        assert_eq!(take(&mut kept, 0, &[message("a", b"1"), message("a.b", b"1"), message("a", b"2")]), [0]);
        assert_eq!(&kept.by_topic["a"].payload[..], b"2");
        assert_eq!(take(&mut kept, 3, &[message("a", b""), message("gone", b"")]), [2, 3, 4], "removals end, too");
        assert_eq!(topics(&kept, "#"), ["a.b"]);
        let bytes = kept.bytes;
        assert_eq!(take(&mut kept, 5, &[message("a", b"3"), message("a", b"")]), [5, 6]);
        assert_eq!(kept.bytes, bytes);
    }

    #[test]
    fn a_message_comes_back_from_its_record_as_it_was() {
        let mut properties = Vec::new();
        leveret_mqtt::PropertyWriter::begin(&mut properties).text(leveret_mqtt::PropertyId::ContentType, "t");
        let dotted = Retained { properties: properties.into(), expiry_ms: 77, ..message("a.b/c", b"x") };
        let mut builder = BatchBuilder::default();
        dotted.push(&mut builder, 5);
        let batch = builder.finish();
        let stored = batch.message(0).view();
        assert_eq!(Retained::read(&stored), Some(dotted));
        for damaged in [&b""[..], b"\x01\x01\0\0", b"\x02\x01\0\0\0\0\0\0\0\0x", b"\x01\x00\0\0\0\0\0\0\0\0x"] {
            assert_eq!(Retained::read(&StoredMessage { body: damaged, ..stored }), None);
        }
    }

    #[test]
    fn limits_hold_and_what_isnt_durable_yet_counts() {
        let mut kept = RetainedMessages::default();
        take(&mut kept, 0, &[message("a", b"1")]);
        let limits = RetainedLimits { messages: 2, bytes: 10_000 };
        assert!(
            kept.check(&message("a", b"2"), RetainedLimits { messages: 1, ..limits }).is_ok(),
            "in place of another"
        );
        assert_eq!(kept.check(&message("a", b"22"), RetainedLimits { bytes: 100, ..limits }), Err(NotKept::Bytes(100)));
        assert!(kept.check(&message("b", b"1"), limits).is_ok());
        kept.changes.push_back((WaitFor::default(), Arc::new(message("c", b"1"))));
        assert_eq!(kept.check(&message("b", b"1"), limits), Err(NotKept::Messages(2)));
        assert!(kept.check(&message("b", b""), limits).is_ok(), "a removal needs no room");
        assert!(topics(&kept, "c").is_empty());
        kept.settle_changes(&|_| Some(true));
        assert_eq!(topics(&kept, "c"), ["c"]);
        take(&mut kept, 2, &[Retained { expiry_ms: 10, ..message("old", b"1") }]);
        assert!(topics(&kept, "old").is_empty(), "it has expired");
        assert_eq!(kept.expired(10).len(), 1);
    }
}
