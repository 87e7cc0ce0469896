//! SUBSCRIBE: topic filters become bindings of the session's queues.

use std::collections::VecDeque;

use leveret_broker::registry::ChangeRequest;
use leveret_broker::time::Now;
use leveret_model::{Action, Arguments, Bind, Command, DestinationName, Permit, Refused, RefusedKind, Resource};
use leveret_mqtt::{PropertyId, PropertyList, ReasonCode, RetainHandling, SubAck, Subscribe, topic};

use super::changing::{ChangeFor, Subscribing, Then};
use super::failure::{BrokenRule, KEY_BYTES_MAX, is_unauthorized, reason_of, refused_as_a_whole};
use super::search::Search;
use super::session::Session;
use super::subscriptions::{Level, Subscription};

impl Session {
    /// SUBSCRIBE.
    pub(crate) fn subscribe(&mut self, subscribe: &Subscribe<'_>, now: Now) -> Result<(), BrokenRule> {
        let id = subscribe.properties.number(PropertyId::SubscriptionIdentifier);
        let mut subscribing = Subscribing { packet_id: subscribe.packet_id, codes: Vec::new(), accepted: Vec::new() };
        let mut requests = VecDeque::new();
        let mut declared = [false; 2];
        for (index, filter) in subscribe.filters.iter().enumerate() {
            let subscription = Subscription { filter: filter.filter.into(), options: filter.options, id };
            subscribing.codes.push(filter.options.qos.bits());
            if let Err((reason, why)) = self.check(&subscription, subscribing.accepted.len()) {
                self.tell_refused(&why);
                subscribing.codes[index] = reason.0;
                continue;
            }
            match self.requests(&subscription, &mut declared) {
                Err(refused) if refused.kind == RefusedKind::Unanswered => return Err(refused_as_a_whole(&refused)),
                Ok(all) => {
                    let of = |(is_declare, request): (bool, ChangeRequest)| match is_declare {
                        true => (ChangeFor::Queue(Level::of(subscription.options.qos)), request),
                        false => (ChangeFor::Filter(index), request),
                    };
                    requests.extend(all.into_iter().map(of));
                    // One filter twice in a packet: the last options count.
                    subscribing.accepted.retain(|(_, other)| other.filter != subscription.filter);
                    subscribing.accepted.push((index, subscription));
                }
                Err(refused) if is_unauthorized(&refused) && self.shared.settings.disconnects_unauthorized => {
                    return Err(BrokenRule::new(ReasonCode::NOT_AUTHORIZED, refused.to_string()));
                }
                Err(refused) => {
                    self.tell_refused(&refused.to_string());
                    subscribing.codes[index] = reason_of(&refused).0;
                }
            }
        }
        self.change(requests, Then::Subscribed(subscribing), now);
        Ok(())
    }

    /// Checks what the protocol leaves to the server.
    fn check(&self, subscription: &Subscription, others: usize) -> Result<(), (ReasonCode, String)> {
        let filter = &*subscription.filter;
        if topic::shared(filter).is_some() {
            let why = format!("shared subscriptions aren't there yet: '{filter}'");
            return Err((ReasonCode::SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, why));
        }
        let most = self.shared.settings.subscriptions_max;
        if self.subscriptions.get(filter).is_none() && self.subscriptions.len() + others >= most {
            let why = format!("the client has {most} subscriptions; raise mqtt.max_subscriptions_per_client");
            return Err((ReasonCode::QUOTA_EXCEEDED, why));
        }
        let length = subscription.binding_key().len();
        if length > KEY_BYTES_MAX {
            let why = format!("a topic filter of {length} bytes: at most {KEY_BYTES_MAX} are routed");
            return Err((ReasonCode::TOPIC_FILTER_INVALID, why));
        }
        Ok(())
    }

    /// The changes that a subscription needs, and whether each declares its queue.
    fn requests(
        &self,
        subscription: &Subscription,
        declared: &mut [bool; 2],
    ) -> Result<Vec<(bool, ChangeRequest)>, Refused> {
        let level = Level::of(subscription.options.qos);
        let name = level.queue_name(self.terms.client_id());
        let mut requests = Vec::new();
        self.authorize(Action::Consume(&name))?;
        let bind = self.binding(subscription);
        let permit = self.may_bind(&bind, &name)?;
        if self.consumers.get(level).is_none() && !std::mem::replace(&mut declared[level as usize], true) {
            let declare = self.declaration(level);
            let permit = self.authorize(Action::DeclareQueue { queue: &name, dead_letter_exchange: None })?;
            requests.push((true, ChangeRequest::new(permit, Command::DeclareQueue(declare))));
        }
        let earlier = self.subscriptions.get(&subscription.filter).map(|earlier| self.binding(earlier));
        if earlier.as_ref() == Some(&bind) {
            return Ok(requests);
        }
        requests.push((false, ChangeRequest::new(permit.clone(), Command::Bind(bind))));
        if let Some(earlier) = earlier {
            requests.push((false, ChangeRequest::new(permit, Command::Unbind(earlier))));
        }
        Ok(requests)
    }

    /// The binding of a subscription.
    pub(crate) fn binding(&self, subscription: &Subscription) -> Bind {
        let level = Level::of(subscription.options.qos);
        let arguments: Arguments = subscription.arguments(self.terms.version());
        Bind {
            vhost: self.client.vhost.clone(),
            source: self.shared.settings.exchange.clone(),
            destination: DestinationName::Queue(level.queue_name(self.terms.client_id())),
            routing_key: subscription.binding_key(),
            arguments,
            connection: Some(self.client.id),
        }
    }

    /// Whether the client may bind or unbind its queue so.
    pub(crate) fn may_bind(&self, bind: &Bind, queue: &str) -> Result<Permit, Refused> {
        self.authorize(Action::Bind {
            source: &bind.source,
            destination: Resource::Queue(queue),
            routing_key: &bind.routing_key,
        })
    }

    /// The bindings of a SUBSCRIBE are durable: answers, and begins to send retained messages.
    pub(crate) fn subscribed(&mut self, mut subscribing: Subscribing, now: Now) {
        for level in Level::BOTH {
            if subscribing.accepted.iter().any(|(_, accepted)| Level::of(accepted.options.qos) == level)
                && let Err(reason) = self.consume(level, now)
            {
                subscribing.refuse(ChangeFor::Queue(level), reason);
            }
        }
        let Subscribing { packet_id, codes, accepted } = subscribing;
        for (_, subscription) in accepted {
            let is_new = self.subscriptions.get(&subscription.filter).is_none();
            let wants_kept = match subscription.options.retain_handling {
                RetainHandling::Send => true,
                RetainHandling::SendIfNew => is_new,
                RetainHandling::DontSend => false,
            };
            if wants_kept {
                self.searches.push_back(Search::new(&subscription));
            }
            self.subscriptions.insert(subscription);
        }
        let suback = SubAck { packet_id, properties: PropertyList::NONE, codes: &codes };
        suback.encode(self.terms.version(), self.client.output.buffer());
    }
}
