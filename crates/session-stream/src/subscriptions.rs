//! The subscriptions of a connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_broker::queue_handle::StreamQueueRef;
use leveret_broker::time::{Nanos, SECOND};
use leveret_queue::ConsumerId;
use rustc_hash::FxHashMap;

/// A subscription.
pub(crate) struct Subscription {
    stream: Arc<str>,
    queue: StreamQueueRef,
    id: ConsumerId,
    /// Chunks that the client has granted and that weren't sent.
    credit: u32,
    /// Chunks sent so far, a serial number.
    sent: u32,
    /// Messages sent so far.
    consumed: u64,
    /// The number of the last change of its activity that its client was told.
    told: u32,
}

impl Subscription {
    /// A subscription without credit, whose stream has this consumer.
    pub(crate) fn new(stream: Arc<str>, queue: StreamQueueRef, id: ConsumerId) -> Self {
        Self { stream, queue, id, credit: 0, sent: 0, consumed: 0, told: 0 }
    }

    pub(crate) fn stream(&self) -> &Arc<str> {
        &self.stream
    }

    pub(crate) fn queue(&self) -> &StreamQueueRef {
        &self.queue
    }

    pub(crate) fn id(&self) -> ConsumerId {
        self.id
    }

    /// Chunks that the client has granted and that weren't sent.
    pub(crate) fn credit(&self) -> u32 {
        self.credit
    }

    /// Number of messages sent so far.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The client grants further chunks.
    pub(crate) fn grant(&mut self, credit: u32, now: Nanos) {
        self.credit = self.credit.saturating_add(credit);
        // Its state isn't needed here, so a queue that answers later needs no place for the answer.
        let _state = self.queue.grant(self.id, self.sent, self.credit, false, now);
    }

    /// A chunk is sent, or several that are joined to one.
    pub(crate) fn chunk_sent(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
    }

    /// So many messages are sent.
    pub(crate) fn messages_sent(&mut self, count: u64) {
        self.consumed += count;
    }
}

/// How long a client may take to answer that a consumer became active or has to step down, in seconds.
pub(crate) const UPDATE_SECONDS: u64 = 60;

/// A change of a consumer's activity that its client was told.
struct ActivityUpdate {
    /// The consumer's key.
    key: u64,
    active: bool,
    /// When its connection is closed if there is no answer.
    until: Nanos,
}

/// Subscriptions by their ids.
#[derive(Default)]
pub(crate) struct Subscriptions {
    known: BTreeMap<u8, Subscription>,
    /// Ids by the keys of their consumers.
    ids: FxHashMap<u64, u8>,
    /// Changes of activity that the client hasn't answered.
    updates: FxHashMap<u32, ActivityUpdate>,
    /// Number of changes of activity that it was told, which is the next correlation id.
    updates_sent: u32,
}

impl Subscriptions {
    /// Adds a subscription.
    pub(crate) fn insert(&mut self, id: u8, subscription: Subscription) {
        self.ids.insert(subscription.id.0, id);
        self.known.insert(id, subscription);
    }

    /// Removes a subscription.
    pub(crate) fn remove(&mut self, id: u8) -> Option<Subscription> {
        let subscription = self.known.remove(&id)?;
        self.ids.remove(&subscription.id.0);
        self.updates.retain(|_, update| update.key != subscription.id.0);
        Some(subscription)
    }

    /// Whether there is one with this id.
    pub(crate) fn has(&self, id: u8) -> bool {
        self.known.contains_key(&id)
    }

    /// The subscription with this id.
    pub(crate) fn get_mut(&mut self, id: u8) -> Option<&mut Subscription> {
        self.known.get_mut(&id)
    }

    /// The subscription whose consumer has this key.
    pub(crate) fn by_key(&self, key: u64) -> Option<&Subscription> {
        self.known.get(self.ids.get(&key)?)
    }

    /// The subscription whose consumer has this key, with its id.
    #[inline]
    pub(crate) fn by_key_mut(&mut self, key: u64) -> Option<(u8, &mut Subscription)> {
        let id = *self.ids.get(&key)?;
        Some((id, self.known.get_mut(&id)?))
    }

    /// Notes that a consumer became active or has to step down; `change` numbers what its stream tells. Returns what the client has to
    /// be told: the correlation id and the subscription's id.
    pub(crate) fn activity_changed(&mut self, key: u64, active: bool, change: u32, now: Nanos) -> Option<(u32, u8)> {
        let (id, subscription) = self.by_key_mut(key)?;
        // Signals of two cores may overtake each other.
        if change <= subscription.told {
            return None;
        }
        subscription.told = change;
        let correlation = self.updates_sent;
        self.updates_sent = self.updates_sent.wrapping_add(1);
        // Only the last one counts, and a client that answers none must not fill the memory.
        self.updates.retain(|_, update| update.key != key);
        self.updates.insert(correlation, ActivityUpdate { key, active, until: now + UPDATE_SECONDS * SECOND });
        Some((correlation, id))
    }

    /// Takes out a change of activity that the client has answered: its subscription, and whether it is active.
    pub(crate) fn take_update(&mut self, correlation: u32) -> Option<(Option<&Subscription>, bool)> {
        let ActivityUpdate { key, active, .. } = self.updates.remove(&correlation)?;
        Some((self.by_key(key), active))
    }

    /// When the client is late with its next answer.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.updates.values().map(|update| update.until).min()
    }

    /// All ids.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &u8> {
        self.known.keys()
    }

    /// All subscriptions.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Subscription> {
        self.known.values()
    }

    /// All subscriptions with their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u8, &Subscription)> {
        self.known.iter()
    }
}
