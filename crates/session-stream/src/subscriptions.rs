//! `Subscribe`, `Unsubscribe`, `Credit`.

use std::sync::Arc;

use leveret_broker::queue_handle::{NoConsumer, QueueRef};
use leveret_broker::quota::Kind;
use leveret_broker::time::{Nanos, Now, SECOND};
use leveret_model::{Action, Arguments, Value};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, GroupMember, StreamFilter, StreamOptions, StreamStart,
};
use leveret_stream_protocol::{OffsetSpec, Pairs, ResponseCode, answers, key};

use super::publishers::REFERENCE_BYTES_MAX;
use super::session::{Session, StreamPhase};

/// A subscription.
pub(crate) struct Subscription {
    pub stream: Arc<str>,
    pub queue: QueueRef,
    pub id: ConsumerId,
    /// Chunks that the client has granted and that weren't sent.
    pub credit: u32,
    /// Chunks sent so far, a serial number.
    pub sent: u32,
    /// Messages sent so far.
    pub consumed: u64,
    /// The queue was notified that the socket isn't keeping up.
    pub starved: bool,
    /// The number of the last change of its activity that its client was told.
    pub told: u32,
}

/// How long a client may take to answer that a consumer became active or has to step down, in seconds.
pub(crate) const UPDATE_SECONDS: u64 = 60;

/// A change of a consumer's activity that its client was told.
pub(crate) struct ActivityUpdate {
    /// The consumer's key.
    key: u64,
    active: bool,
    /// When its connection is closed if there is no answer.
    until: Nanos,
}

/// A command to subscribe.
pub(crate) struct Subscribe<'a> {
    pub correlation: u32,
    pub id: u8,
    pub stream: &'a str,
    pub start: OffsetSpec,
    pub credit: u16,
    pub properties: Pairs<'a>,
}

/// Where a reader begins.
pub(crate) fn start_of(spec: OffsetSpec) -> StreamStart {
    match spec {
        OffsetSpec::First => StreamStart::First,
        OffsetSpec::Last => StreamStart::Last,
        OffsetSpec::None | OffsetSpec::Next => StreamStart::Next,
        OffsetSpec::Offset(offset) => StreamStart::Offset(offset),
        OffsetSpec::Timestamp(ms) => StreamStart::Timestamp(u64::try_from(ms).unwrap_or(0)),
    }
}

/// The filter that properties ask for: `filter.0`, `filter.1` and so on, and `match-unfiltered`.
pub(crate) fn filter_of(properties: Pairs<'_>) -> Option<Arc<StreamFilter>> {
    let values: Vec<Box<str>> =
        properties.iter().filter(|(name, _)| name.starts_with("filter.")).map(|(_, value)| value.into()).collect();
    let match_unfiltered = properties.get("match-unfiltered") == Some("true");
    let filter = || Arc::new(StreamFilter { values: values.clone(), match_unfiltered, ..StreamFilter::default() });
    (!values.is_empty()).then(filter)
}

impl Session {
    /// `Subscribe`.
    pub(crate) fn subscribe(&mut self, subscribe: Subscribe<'_>, now: Now) {
        let code = match self.new_subscription(&subscribe, now) {
            Ok(()) => ResponseCode::Ok,
            Err(code) => code,
        };
        self.respond(key::SUBSCRIBE, subscribe.correlation, code);
        if code == ResponseCode::Ok {
            self.grant(subscribe.id, subscribe.credit, now);
        }
    }

    fn new_subscription(&mut self, subscribe: &Subscribe<'_>, now: Now) -> Result<(), ResponseCode> {
        let Subscribe { id, stream, properties, .. } = *subscribe;
        let name = properties.get("name");
        if name.is_some_and(|name| name.len() > REFERENCE_BYTES_MAX) {
            return Err(ResponseCode::PreconditionFailed);
        }
        let queue = self.stream(stream, Action::Consume(stream))?;
        if self.subscriptions.contains_key(&id) {
            return Err(ResponseCode::SubscriptionIdAlreadyExists);
        }
        let group = match (properties.get("single-active-consumer"), name) {
            (Some("true"), None) => {
                self.tell_refused("Subscribe", "a single active consumer must have a name");
                return Err(ResponseCode::PreconditionFailed);
            }
            (Some("true"), Some(name)) => {
                let partition =
                    properties.get("super-stream").and_then(|super_stream| self.partition(super_stream, stream));
                Some(GroupMember { name: name.into(), partition })
            }
            _ => None,
        };
        if let Err(refused) = self.client.account.take(Kind::Consumers) {
            self.tell_refused("Subscribe", &refused.to_string());
            return Err(ResponseCode::PreconditionFailed);
        }
        let consumer = ConsumerId(self.client.broker.fresh_id());
        let key = consumer.0;
        let stream_options = StreamOptions {
            start: start_of(subscribe.start),
            filter: filter_of(properties),
            tracking: None,
            whole_chunks: true,
            // TLS encrypts what it sends, and so has to read it.
            chunks_in_files: self.client.peer.encryption.is_none(),
            group,
        };
        let shown = properties.iter().map(|(name, value)| (name, Value::from(value)));
        let options = ConsumerOptions {
            link: self.client.outbox.clone(),
            key,
            tag: format!("stream.subid-{id}").into(),
            channel: self.client.name.clone(),
            automatic_ack: true,
            flow: ConsumerFlow::Credit { delivery_count: 0 },
            priority: 0,
            exclusive: false,
            mode: ConsumerMode::Move,
            filter: None,
            stream: Some(Box::new(stream_options)),
            timeout_ms: None,
            user: self.client.user.clone(),
            arguments: Arguments::from_iter(shown),
        };
        if let Err(reason) = queue.add_consumer(consumer, options, now.monotonic) {
            self.client.account.give(Kind::Consumers, 1);
            return Err(match reason {
                NoConsumer::Gone | NoConsumer::Converted => ResponseCode::StreamDoesNotExist,
                NoConsumer::OtherPartition => {
                    self.tell_refused("Subscribe", "its group is one of another super stream, or of none");
                    ResponseCode::PreconditionFailed
                }
                NoConsumer::TooManyNames | NoConsumer::Exclusive => ResponseCode::PreconditionFailed,
            });
        }
        self.client.counters.consumers_opened.increment();
        self.subscription_ids.insert(key, id);
        let subscription = Subscription {
            stream: stream.into(),
            queue,
            id: consumer,
            credit: 0,
            sent: 0,
            consumed: 0,
            starved: false,
            told: 0,
        };
        self.subscriptions.insert(id, subscription);
        Ok(())
    }

    /// `Credit`: further chunks may be sent.
    pub(crate) fn credit(&mut self, id: u8, credit: u16, now: Now) {
        if !self.subscriptions.contains_key(&id) {
            let code = ResponseCode::SubscriptionIdDoesNotExist;
            self.refused.count(code);
            return answers::credit_refused(self.client.output.buffer(), code, id);
        }
        self.grant(id, credit, now);
    }

    fn grant(&mut self, id: u8, credit: u16, now: Now) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        subscription.credit = subscription.credit.saturating_add(credit.into());
        let Subscription { queue, id, sent, credit, .. } = subscription;
        // Its state isn't needed here, so a queue that answers later needs no place for the answer.
        let _state = queue.grant(*id, *sent, *credit, false, now.monotonic);
    }

    /// A stream tells a member of a group whether it is active; `change` numbers what it tells.
    pub(crate) fn activity(&mut self, key: u64, active: bool, change: u32, now: Now) {
        let Some(id) = self.subscription_ids.get(&key).copied() else { return };
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        // Signals of two cores may overtake each other.
        if change <= subscription.told {
            return;
        }
        subscription.told = change;
        let correlation = self.updates_sent;
        self.updates_sent = self.updates_sent.wrapping_add(1);
        // Only the last one counts, and a client that answers none must not fill the memory.
        self.updates.retain(|_, update| update.key != key);
        let until = now.monotonic + UPDATE_SECONDS * SECOND;
        self.updates.insert(correlation, ActivityUpdate { key, active, until });
        self.note_updates();
        answers::consumer_update(self.client.output.buffer(), correlation, id, active);
    }

    /// The client's answer to that.
    pub(crate) fn updated(&mut self, correlation: u32, start: OffsetSpec, now: Now) {
        let Some(ActivityUpdate { key, active, .. }) = self.updates.remove(&correlation) else { return };
        self.note_updates();
        let subscription = self.subscription_ids.get(&key).and_then(|id| self.subscriptions.get(id));
        let Some(Subscription { queue, id, .. }) = subscription else { return };
        match active {
            true => queue.activated(*id, (start != OffsetSpec::None).then(|| start_of(start)), now.monotonic),
            false => queue.stepped_down(*id),
        }
    }

    /// Notes when the client is late with its next answer. The group of a consumer that became active rests until it comes.
    fn note_updates(&mut self) {
        self.client.deadline = self.updates.values().map(|update| update.until).min();
    }

    /// `Unsubscribe`.
    pub(crate) fn unsubscribe(&mut self, correlation: u32, id: u8, now: Now) {
        let code = match self.forget_subscription(id) {
            Some(subscription) => {
                let _left = subscription.queue.cancel(subscription.id, now.monotonic);
                ResponseCode::Ok
            }
            None => ResponseCode::SubscriptionIdDoesNotExist,
        };
        self.respond(key::UNSUBSCRIBE, correlation, code);
    }

    /// Removes a subscription, but not from its stream.
    pub(crate) fn forget_subscription(&mut self, id: u8) -> Option<Subscription> {
        let subscription = self.subscriptions.remove(&id)?;
        self.subscription_ids.remove(&subscription.id.0);
        self.updates.retain(|_, update| update.key != subscription.id.0);
        if self.phase == StreamPhase::Open {
            self.note_updates();
        }
        self.client.account.give(Kind::Consumers, 1);
        self.client.counters.consumers_closed.increment();
        Some(subscription)
    }
}
