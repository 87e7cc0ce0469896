//! Retained messages: the last one of each topic, which new subscriptions get. They are in this node's memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use leveret_mqtt::{QoS, topic};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

/// Memory of a retained message besides its bytes, about.
const MESSAGE_MEMORY: u64 = 160;
/// Topics that one search looks at before others have their turn.
pub(crate) const LOOKED_AT_MAX: usize = 1000;

/// A retained message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Retained {
    pub topic: Arc<str>,
    pub qos: QoS,
    pub client_id: Arc<str>,
    /// Properties of MQTT 5, without their length and without the time to live.
    pub properties: Box<[u8]>,
    pub payload: Bytes,
    /// Wall time in milliseconds since the Unix epoch at which it expires; 0 is never.
    pub expiry_ms: u64,
}

impl Retained {
    fn memory(&self) -> u64 {
        MESSAGE_MEMORY + (self.topic.len() + self.properties.len() + self.payload.len()) as u64
    }

    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.expiry_ms != 0 && self.expiry_ms <= now_ms
    }
}

#[derive(Debug, Default)]
struct OfVhost {
    by_topic: BTreeMap<Arc<str>, Arc<Retained>>,
    bytes: u64,
}

/// The retained messages of a node.
#[derive(Debug, Default)]
pub(crate) struct RetainedMessages(RwLock<FxHashMap<Arc<str>, OfVhost>>);

/// Why a message isn't kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotKept {
    /// There are too many messages.
    Messages(usize),
    /// They have too many bytes.
    Bytes(u64),
}

impl std::fmt::Display for NotKept {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Messages(limit) => write!(
                formatter,
                "the vhost has {limit} retained messages already; raise mqtt.retained_message_store.max_messages"
            ),
            Self::Bytes(limit) => write!(
                formatter,
                "the retained messages of the vhost would take over {limit} bytes; raise mqtt.retained_message_store.max_size_bytes"
            ),
        }
    }
}

impl RetainedMessages {
    /// Keeps a message in place of the topic's last one; an empty payload only removes that [MQTT-3.3.1-6].
    ///
    /// # Errors
    /// A limit is reached: the topic keeps the message that it had.
    pub(crate) fn put(
        &self,
        vhost: &Arc<str>,
        message: Retained,
        messages_max: usize,
        bytes_max: u64,
    ) -> Result<(), NotKept> {
        let mut all = self.0.write();
        if message.payload.is_empty() {
            if let Some(store) = all.get_mut(vhost)
                && let Some(old) = store.by_topic.remove(&message.topic)
            {
                store.bytes -= old.memory();
            }
            return Ok(());
        }
        let store = all.entry(vhost.clone()).or_default();
        let old = store.by_topic.get(&message.topic).map_or(0, |old| old.memory());
        if old == 0 && store.by_topic.len() >= messages_max {
            return Err(NotKept::Messages(messages_max));
        }
        let bytes = store.bytes - old + message.memory();
        if bytes > bytes_max {
            return Err(NotKept::Bytes(bytes_max));
        }
        store.bytes = bytes;
        store.by_topic.insert(message.topic.clone(), Arc::new(message));
        Ok(())
    }

    /// The next messages that a filter matches, behind the topic `after`, in the order of their topics, and the topic at which the
    /// search goes on; `None` if it is over.
    pub(crate) fn matching(
        &self,
        vhost: &str,
        filter: &str,
        after: Option<&str>,
        most: usize,
        now_ms: u64,
    ) -> (Vec<Arc<Retained>>, Option<Arc<str>>) {
        let all = self.0.read();
        let Some(store) = all.get(vhost) else { return (Vec::new(), None) };
        if !topic::has_wildcard(filter) {
            let found = store.by_topic.get(filter).filter(|found| after.is_none() && !found.is_over(now_ms));
            return (found.cloned().into_iter().collect(), None);
        }
        let prefix = fixed_prefix(filter);
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let mut found = Vec::new();
        let mut looked_at = 0;
        for (topic, message) in store.by_topic.range::<str, _>((from, Bound::Unbounded)) {
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
            qos: QoS::AtMostOnce,
            client_id: "c".into(),
            properties: Box::default(),
            payload: Bytes::from_static(payload),
            expiry_ms: 0,
        }
    }

    fn topics(kept: &RetainedMessages, vhost: &str, filter: &str) -> Vec<String> {
        let mut all = Vec::new();
        let mut after: Option<Arc<str>> = None;
        loop {
            let (found, more) = kept.matching(vhost, filter, after.as_deref(), 2, 10);
            all.extend(found.iter().map(|message| message.topic.to_string()));
            match more {
                Some(more) => after = Some(more),
                None => return all,
            }
        }
    }

    #[test]
    fn filters_find_retained_messages_in_parts() {
        let (kept, vhost) = (RetainedMessages::default(), Arc::from("/"));
        for topic in ["a", "a/b", "a/c", "a/b/c", "ab", "b", "$SYS/x"] {
            kept.put(&vhost, message(topic, b"x"), 10, 10_000).expect("there is room");
        }
        for (filter, expected) in [
            ("a", &["a"][..]),
            ("a/+", &["a/b", "a/c"]),
            ("a/#", &["a", "a/b", "a/b/c", "a/c"]),
            ("+", &["a", "ab", "b"]),
            ("#", &["a", "a/b", "a/b/c", "a/c", "ab", "b"]),
            ("$SYS/#", &["$SYS/x"]),
            ("x/#", &[]),
        ] {
            assert_eq!(topics(&kept, "/", filter), expected, "{filter}");
        }
        assert!(topics(&kept, "other", "#").is_empty());
    }

    #[test]
    fn limits_hold_and_an_empty_payload_makes_room() {
        let (kept, vhost) = (RetainedMessages::default(), Arc::from("/"));
        kept.put(&vhost, message("a", b"1"), 1, 10_000).expect("there is room");
        kept.put(&vhost, message("a", b"2"), 1, 10_000).expect("it takes the place of the first");
        assert_eq!(kept.put(&vhost, message("b", b"1"), 1, 10_000), Err(NotKept::Messages(1)));
        assert_eq!(kept.put(&vhost, message("a", b"22"), 1, 100), Err(NotKept::Bytes(100)));
        kept.put(&vhost, message("a", b""), 1, 10_000).expect("it is removed");
        assert!(topics(&kept, "/", "#").is_empty());
        kept.put(&vhost, message("b", b"1"), 1, 10_000).expect("there is room");
        let over = Retained { expiry_ms: 10, ..message("b", b"2") };
        kept.put(&vhost, over, 1, 10_000).expect("there is room");
        assert!(topics(&kept, "/", "#").is_empty(), "it has expired");
    }
}
