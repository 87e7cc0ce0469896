//! Replies to the requests of a channel.

use leveret_amqp091::Method;

use super::channel::{Channel, ChannelState, ConsumerState, Expected};
use super::content::Carrier;
use super::event::Event;
use super::unacked::Slot;
use crate::{Rule, Violation};

impl Channel {
    pub(super) fn on_reply(&mut self, method: &Method<'_>, events: &mut Vec<Event>) -> Result<(), Violation> {
        if !is_servers(method) {
            return self.violation(Rule::ServerMethod, method);
        }
        let channel = self.id;
        let Some(expected) = self.expected.pop_front() else {
            return self.violation(Rule::Reply, method);
        };
        let event = match (expected, method) {
            (Expected::QueueDeclare(name), Method::QueueDeclareOk(ok)) => {
                if ok.queue.is_empty() || (!name.is_empty() && name != ok.queue.as_bytes()) {
                    return self.violation(Rule::ReplyValue, method);
                }
                Event::QueueDeclared {
                    channel,
                    queue: ok.queue.to_vec(),
                    message_count: ok.message_count,
                    consumer_count: ok.consumer_count,
                }
            }
            (Expected::Consume { tag, no_ack, prefetch }, Method::BasicConsumeOk(ok)) => {
                if ok.consumer_tag.is_empty() || (!tag.is_empty() && tag != ok.consumer_tag.as_bytes()) {
                    return self.violation(Rule::ReplyValue, method);
                }
                if self.consumer(&ok.consumer_tag).is_some_and(|old| old.state != ConsumerState::Gone) {
                    return self.violation(Rule::ReplyValue, method);
                }
                self.add_consumer(ok.consumer_tag.to_vec(), no_ack, prefetch);
                Event::ConsumeOk { channel, consumer_tag: ok.consumer_tag.to_vec() }
            }
            (Expected::Cancel(tag), Method::BasicCancelOk(ok)) => {
                if tag != ok.consumer_tag.as_bytes() {
                    return self.violation(Rule::ReplyValue, method);
                }
                if let Some(consumer) = self.consumer(&tag) {
                    consumer.state = ConsumerState::Gone;
                }
                Event::CancelOk { channel, consumer_tag: tag }
            }
            (Expected::Get { .. }, Method::BasicGetEmpty(_)) => Event::GetEmpty { channel },
            (Expected::Get { no_ack }, Method::BasicGetOk(ok)) => {
                if ok.delivery_tag != self.unacked.next_tag() {
                    return self.violation(Rule::DeliveryTag, method);
                }
                self.unacked.deliver(if no_ack { Slot::Settled } else { Slot::Get });
                let carrier = Carrier::Get {
                    delivery_tag: ok.delivery_tag,
                    redelivered: ok.redelivered,
                    message_count: ok.message_count,
                };
                self.assembly.begin(carrier, [&[], &ok.exchange, &ok.routing_key]);
                return Ok(());
            }
            (Expected::ChannelQos(count), Method::BasicQosOk(_)) => {
                self.channel_prefetch = count;
                Event::Reply { channel, method: method.name() }
            }
            (Expected::Reply(name), _) if name == method.name() => match method {
                Method::QueuePurgeOk(ok) => Event::Removed { channel, method: name, message_count: ok.message_count },
                Method::QueueDeleteOk(ok) => Event::Removed { channel, method: name, message_count: ok.message_count },
                _ => {
                    self.take_effect(method);
                    Event::Reply { channel, method: name }
                }
            },
            _ => return self.violation(Rule::Reply, method),
        };
        events.push(event);
        Ok(())
    }

    fn take_effect(&mut self, method: &Method<'_>) {
        match method {
            Method::ChannelOpenOk(_) => self.state = ChannelState::Open,
            Method::ConfirmSelectOk(_) => {
                if let Some(confirms) = &mut self.confirms {
                    confirms.selected = true;
                }
            }
            // All unsettled deliveries are requeued.
            Method::BasicRecoverOk(_) => self.settle(0, true),
            _ => {}
        }
    }
}

/// Replies that a server may send; notifications were handled before.
fn is_servers(method: &Method<'_>) -> bool {
    method.name().ends_with("-ok") || matches!(method, Method::BasicGetEmpty(_))
}
