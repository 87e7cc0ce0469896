//! A channel on the client's side: its state, open requests, and permitted input.

use std::collections::{HashMap, VecDeque};

use leveret_amqp091::method::{basic, channel};
use leveret_amqp091::{Method, encode_method};

use super::confirms::Confirms;
use super::content::{Assembly, Carrier};
use super::event::{CloseReason, Event};
use super::unacked::{Slot, Unacked};
use crate::{Rule, Violation};

/// The state of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelState {
    /// `channel.open` was sent.
    Opening,
    Open,
    /// `channel.close` was sent; frames in flight from the server may still arrive.
    Closing,
    Closed,
}

/// A request without its reply.
#[derive(Debug)]
pub(crate) enum Expected {
    /// A reply with this name and without fields to check.
    Reply(&'static str),
    /// `queue.declare-ok` with this name, if it isn't empty.
    QueueDeclare(Vec<u8>),
    Consume {
        tag: Vec<u8>,
        no_ack: bool,
        prefetch: u16,
    },
    Cancel(Vec<u8>),
    Get {
        no_ack: bool,
    },
    /// `basic.qos` for the whole channel.
    ChannelQos(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConsumerState {
    Live,
    /// `basic.cancel` was sent.
    Cancelling,
    Gone,
}

#[derive(Debug)]
pub(crate) struct ChannelConsumer {
    pub(crate) state: ConsumerState,
    no_ack: bool,
    prefetch: u16,
    unacked: u32,
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) id: u16,
    pub(crate) state: ChannelState,
    pub(crate) expected: VecDeque<Expected>,
    pub(crate) confirms: Option<Confirms>,
    pub(crate) unacked: Unacked,
    /// Prefetch of future consumers.
    pub(crate) prefetch: u16,
    /// Prefetch of the whole channel that is in effect; 0 for none.
    pub(super) channel_prefetch: u16,
    pub(super) assembly: Assembly,
    consumers: Vec<ChannelConsumer>,
    by_tag: HashMap<Vec<u8>, u32>,
    /// The consumer of the last delivery: deliveries mostly come in runs.
    last: Option<(Vec<u8>, u32)>,
}

/// The parts of the client that a channel uses.
pub(crate) struct Surroundings<'c> {
    pub(crate) out: &'c mut Vec<u8>,
    pub(crate) events: &'c mut Vec<Event>,
    pub(crate) arena: &'c mut Vec<u8>,
    pub(crate) cancel_notify: bool,
}

impl Channel {
    pub(crate) fn new(id: u16) -> Self {
        Self {
            id,
            state: ChannelState::Opening,
            expected: VecDeque::from([Expected::Reply("channel.open-ok")]),
            confirms: None,
            unacked: Unacked::default(),
            prefetch: 0,
            channel_prefetch: 0,
            assembly: Assembly::default(),
            consumers: Vec::new(),
            by_tag: HashMap::new(),
            last: None,
        }
    }

    pub(super) fn add_consumer(&mut self, tag: Vec<u8>, no_ack: bool, prefetch: u16) {
        let index = self.consumers.len() as u32;
        self.consumers.push(ChannelConsumer { state: ConsumerState::Live, no_ack, prefetch, unacked: 0 });
        self.by_tag.insert(tag, index);
        self.last = None;
    }

    pub(crate) fn consumer(&mut self, tag: &[u8]) -> Option<&mut ChannelConsumer> {
        let index = *self.by_tag.get(tag)?;
        Some(&mut self.consumers[index as usize])
    }

    /// Settles deliveries locally; the caller notifies the server.
    pub(crate) fn settle(&mut self, tag: u64, multiple: bool) {
        let consumers = &mut self.consumers;
        self.unacked.settle(tag, multiple, |slot| {
            if let Slot::Consumer(index) = slot {
                consumers[index as usize].unacked -= 1;
            }
        });
    }

    pub(crate) fn on_header(&mut self, payload: &[u8], around: Surroundings<'_>) -> Result<(), Violation> {
        self.may_receive("a content header")?;
        let event = self.assembly.header(self.id, payload, around.arena)?;
        self.emit(event, around.events);
        Ok(())
    }

    pub(crate) fn on_body(&mut self, payload: &[u8], around: Surroundings<'_>) -> Result<(), Violation> {
        self.may_receive("a body frame")?;
        let event = self.assembly.body(self.id, payload, around.arena)?;
        self.emit(event, around.events);
        Ok(())
    }

    /// Content in flight when this side closed the channel is checked, but yields no event.
    fn emit(&self, event: Option<Event>, events: &mut Vec<Event>) {
        if self.state == ChannelState::Open {
            events.extend(event);
        }
    }

    fn may_receive(&self, what: &str) -> Result<(), Violation> {
        match self.state {
            ChannelState::Open | ChannelState::Closing => Ok(()),
            ChannelState::Opening | ChannelState::Closed => Err(Violation::new(
                Rule::ChannelOpen,
                format!("{what} on channel {}, which is {:?}", self.id, self.state),
            )),
        }
    }

    pub(super) fn violation<T>(&self, rule: Rule, method: &Method<'_>) -> Result<T, Violation> {
        Err(Violation::new(rule, format!("{method:?} on channel {}", self.id)))
    }

    pub(crate) fn on_method(&mut self, method: &Method<'_>, around: Surroundings<'_>) -> Result<(), Violation> {
        if !matches!(method, Method::ChannelOpenOk(_) | Method::ChannelClose(_)) || self.state == ChannelState::Closed {
            self.may_receive(method.name())?;
        }
        if !self.assembly.is_idle() {
            return self.violation(Rule::ContentOrder, method);
        }
        match method {
            Method::BasicDeliver(deliver) => self.on_deliver(deliver, method),
            Method::BasicAck(ack) => self.on_confirm(ack.delivery_tag, ack.multiple, true, method, around),
            Method::BasicNack(nack) => self.on_confirm(nack.delivery_tag, nack.multiple, false, method, around),
            Method::BasicReturn(returned) => {
                self.assembly.begin(
                    Carrier::Return { code: returned.reply_code },
                    [&[], &returned.exchange, &returned.routing_key],
                );
                Ok(())
            }
            Method::BasicCancel(cancel) => self.on_cancel(cancel, method, around),
            Method::ChannelClose(close) => {
                self.on_close(close, around);
                Ok(())
            }
            Method::ChannelFlow(flow) => {
                let answer = Method::ChannelFlowOk(channel::FlowOk { active: flow.active });
                encode_method(around.out, self.id, &answer);
                Ok(())
            }
            Method::ChannelCloseOk(_) if self.state == ChannelState::Closing => {
                self.state = ChannelState::Closed;
                around.events.push(Event::Reply { channel: self.id, method: method.name() });
                Ok(())
            }
            _ if self.state == ChannelState::Closing => Ok(()),
            _ => self.on_reply(method, around.events),
        }
    }

    fn on_close(&mut self, close: &channel::Close<'_>, around: Surroundings<'_>) {
        encode_method(around.out, self.id, &Method::ChannelCloseOk(channel::CloseOk {}));
        // Both sides are closing: the server still owes the reply to our close.
        if self.state != ChannelState::Closing {
            self.state = ChannelState::Closed;
        }
        around.events.push(Event::ChannelClosed {
            channel: self.id,
            reason: CloseReason {
                code: close.reply_code,
                text: close.reply_text.to_string(),
                blamed: (close.class_id, close.method_id),
            },
        });
    }

    fn on_deliver(&mut self, deliver: &basic::Deliver<'_>, method: &Method<'_>) -> Result<(), Violation> {
        let tag = deliver.consumer_tag.as_bytes();
        let index = match &self.last {
            Some((last, index)) if last == tag => *index,
            _ => match self.by_tag.get(tag) {
                Some(index) => {
                    self.last = Some((tag.to_vec(), *index));
                    *index
                }
                None => return self.violation(Rule::LiveConsumer, method),
            },
        };
        if deliver.delivery_tag != self.unacked.next_tag() {
            return self.violation(Rule::DeliveryTag, method);
        }
        let consumer = &mut self.consumers[index as usize];
        if consumer.state == ConsumerState::Gone {
            return self.violation(Rule::LiveConsumer, method);
        }
        if consumer.no_ack {
            self.unacked.deliver(Slot::Settled);
        } else {
            consumer.unacked += 1;
            let over = consumer.prefetch > 0 && consumer.unacked > u32::from(consumer.prefetch);
            self.unacked.deliver(Slot::Consumer(index));
            // Messages from `basic.get` don't count, as in RabbitMQ.
            let held = || self.consumers.iter().map(|consumer| consumer.unacked).sum::<u32>();
            let channel_over = self.channel_prefetch > 0 && held() > u32::from(self.channel_prefetch);
            if over || channel_over {
                return self.violation(Rule::Prefetch, method);
            }
        }
        self.assembly.begin(
            Carrier::Deliver { delivery_tag: deliver.delivery_tag, redelivered: deliver.redelivered },
            [tag, &deliver.exchange, &deliver.routing_key],
        );
        Ok(())
    }

    fn on_confirm(
        &mut self,
        tag: u64,
        multiple: bool,
        positive: bool,
        method: &Method<'_>,
        around: Surroundings<'_>,
    ) -> Result<(), Violation> {
        let channel = self.id;
        let closing = self.state == ChannelState::Closing;
        let right = match &mut self.confirms {
            Some(confirms) if confirms.selected => confirms.confirm(tag, multiple, |first, last| {
                if !closing {
                    around.events.push(Event::Confirmed { channel, first, last, positive });
                }
            }),
            _ => false,
        };
        if right { Ok(()) } else { self.violation(Rule::Confirm, method) }
    }

    fn on_cancel(
        &mut self,
        cancel: &basic::Cancel<'_>,
        method: &Method<'_>,
        around: Surroundings<'_>,
    ) -> Result<(), Violation> {
        if !around.cancel_notify {
            return self.violation(Rule::Capability, method);
        }
        match self.consumer(&cancel.consumer_tag) {
            Some(consumer) if consumer.state != ConsumerState::Gone => consumer.state = ConsumerState::Gone,
            _ => return self.violation(Rule::LiveConsumer, method),
        }
        around.events.push(Event::ConsumerCancelled { channel: self.id, consumer_tag: cancel.consumer_tag.to_vec() });
        Ok(())
    }

    /// A higher or removed limit counts at once, because the server may apply it before its reply arrives; a lower
    /// one counts from the reply on.
    pub(crate) fn ask_channel_prefetch(&mut self, count: u16) {
        if count == 0 || (self.channel_prefetch != 0 && count > self.channel_prefetch) {
            self.channel_prefetch = count;
        }
        self.expected.push_back(Expected::ChannelQos(count));
    }
}
