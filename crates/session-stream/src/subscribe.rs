//! `Subscribe`, `Unsubscribe`, `Credit`.

use leveret_model::{Action, Arguments, Value};
use leveret_queue::{ConsumerFlow, ConsumerMode, ConsumerOptions, GroupMember, StreamOptions};
use leveret_stream_protocol::{OffsetSpec, ResponseCode, answers, key};

use super::commands::{Subscribe, filter_of, start_of};
use super::input_hold::InputHold;
use super::publishers::REFERENCE_BYTES_MAX;
use super::questions::{AskedCommand, Subscribing};
use super::session::Session;
use super::subscriptions::Subscription;
use leveret_broker::asked::NowOrLater;
use leveret_broker::queue_handle::NoConsumer;
use leveret_broker::quota::Kind;
use leveret_broker::time::Now;
use leveret_session::early_signals::EarlySignals;

impl Session {
    /// `Subscribe`.
    pub(crate) fn subscribe(&mut self, subscribe: Subscribe<'_>, now: Now) {
        if let Err(code) = self.new_subscription(&subscribe, now) {
            self.respond(key::SUBSCRIBE, subscribe.correlation, code);
        }
    }

    /// Asks the stream for a new subscription, and answers once that is there.
    fn new_subscription(&mut self, subscribe: &Subscribe<'_>, now: Now) -> Result<(), ResponseCode> {
        let Subscribe { id, stream, properties, .. } = *subscribe;
        let name = properties.get("name");
        if name.is_some_and(|name| name.len() > REFERENCE_BYTES_MAX) {
            return Err(ResponseCode::PreconditionFailed);
        }
        let queue = self.stream(stream, Action::Consume(stream))?;
        if self.subscriptions.has(id) {
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
        let consumer = self.client.broker.fresh_consumer_id();
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
            user: self.client.identity.name().clone(),
            arguments: Arguments::from_iter(shown),
        };
        let asked = queue.consume(consumer, options, now.monotonic);
        let (correlation, credit, stream) = (subscribe.correlation, subscribe.credit, stream.into());
        let subscribing = Subscribing { correlation, id, credit, stream, queue, consumer };
        match asked {
            NowOrLater::Now(added) => self.subscribed(subscribing, added, now),
            NowOrLater::Later(answer) => {
                answer.notify(self.client.outbox.clone(), 0);
                let (subscribing, early) = (Box::new(subscribing), EarlySignals::new(key));
                self.held = InputHold::Asked(Box::new(AskedCommand::Subscribe { answer, subscribing, early }));
            }
        }
        Ok(())
    }

    /// Handles the answer of the stream.
    pub(crate) fn subscribed(&mut self, subscribing: Subscribing, added: Result<(), NoConsumer>, now: Now) {
        let Subscribing { correlation, id, credit, stream, queue, consumer } = subscribing;
        if let Err(reason) = added {
            self.not_subscribed();
            let code = match reason {
                NoConsumer::Gone | NoConsumer::Converted => ResponseCode::StreamDoesNotExist,
                NoConsumer::Failed(_) => ResponseCode::StreamNotAvailable,
                NoConsumer::OtherPartition => {
                    self.tell_refused("Subscribe", "its group is one of another super stream, or of none");
                    ResponseCode::PreconditionFailed
                }
                NoConsumer::TooManyNames | NoConsumer::Exclusive => ResponseCode::PreconditionFailed,
            };
            return self.respond(key::SUBSCRIBE, correlation, code);
        }
        self.client.counters.consumers_opened.increment();
        self.subscriptions.insert(id, Subscription::new(stream, queue, consumer));
        self.respond(key::SUBSCRIBE, correlation, ResponseCode::Ok);
        self.grant(id, credit, now);
    }

    /// `Credit`: further chunks may be sent.
    pub(crate) fn credit(&mut self, id: u8, credit: u16, now: Now) {
        if !self.subscriptions.has(id) {
            let code = ResponseCode::SubscriptionIdDoesNotExist;
            self.refused.count(code);
            return answers::credit_refused(self.client.output.buffer(), code, id);
        }
        self.grant(id, credit, now);
    }

    fn grant(&mut self, id: u8, credit: u16, now: Now) {
        let Some(subscription) = self.subscriptions.get_mut(id) else { return };
        subscription.grant(credit.into(), now.monotonic);
    }

    /// A stream tells a member of a group whether it is active; `change` numbers what it tells.
    pub(crate) fn activity(&mut self, key: u64, active: bool, change: u32, now: Now) {
        let told = self.subscriptions.activity_changed(key, active, change, now.monotonic);
        let Some((correlation, id)) = told else { return };
        self.note_updates();
        answers::consumer_update(self.client.output.buffer(), correlation, id, active);
    }

    /// The client's answer to that.
    pub(crate) fn updated(&mut self, correlation: u32, start: OffsetSpec, now: Now) {
        let Some((subscription, active)) = self.subscriptions.take_update(correlation) else { return };
        if let Some(subscription) = subscription {
            let start = (start != OffsetSpec::None).then(|| start_of(start));
            subscription.queue().activity_answered(subscription.id(), active, start, now.monotonic);
        }
        self.note_updates();
    }

    /// `Unsubscribe`.
    pub(crate) fn unsubscribe(&mut self, correlation: u32, id: u8, now: Now) {
        let code = match self.forget_subscription(id) {
            Some(subscription) => {
                let _left = subscription.queue().cancel(subscription.id(), now.monotonic);
                ResponseCode::Ok
            }
            None => ResponseCode::SubscriptionIdDoesNotExist,
        };
        self.respond(key::UNSUBSCRIBE, correlation, code);
    }
}
