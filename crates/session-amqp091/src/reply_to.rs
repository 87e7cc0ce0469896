//! Direct reply-to: the channel's consumer, and the pseudo queue's answers to other methods.

use std::sync::Arc;

use leveret_amqp091::method::{basic, queue};
use leveret_amqp091::{Method, Properties, ReplyCode, ShortStr, encode_method};
use leveret_model::Refused;

use super::encode::short;
use super::error::{ProtocolError, Result, not_allowed, precondition};
use super::reply_consumer::ReplyConsumer;
use super::session::Session;
use leveret_broker::reply_to::{REPLY_TO, is_volatile};

impl Session {
    /// `basic.consume` from the pseudo queue.
    pub(crate) fn consume_replies(&mut self, channel: u16, consume: &basic::Consume<'_>) -> Result<()> {
        let tag = self.free_consumer_tag(channel, consume.consumer_tag)?;
        let key = self.client.broker.fresh_id();
        let (targets, outbox) = (self.client.broker.replies.clone(), self.client.outbox.clone());
        let entry = self.channel(channel)?;
        if entry.reply().is_some() {
            return Err(precondition("reply consumer already set"));
        }
        if !consume.no_ack {
            return Err(precondition("reply consumer cannot acknowledge"));
        }
        entry.set_reply(ReplyConsumer::new(tag.clone(), targets.register(outbox, key)));
        self.replies.begin(key, channel);
        if !consume.nowait {
            let answer = Method::BasicConsumeOk(basic::ConsumeOk { consumer_tag: short(&tag) });
            encode_method(self.out(channel), channel, &answer);
        }
        Ok(())
    }

    /// The tag of a new consumer: the client's if it is unused on the channel, otherwise a generated one.
    pub(crate) fn free_consumer_tag(&mut self, channel: u16, given: ShortStr<'_>) -> Result<Arc<[u8]>> {
        if given.as_bytes().is_empty() {
            return Ok(self.client.broker.names.next("amq.ctag-").into_bytes().into());
        }
        let tag = given.as_bytes();
        if self.channel(channel)?.has_tag(tag) {
            return Err(not_allowed(format!("attempt to reuse consumer tag '{}'", String::from_utf8_lossy(tag))));
        }
        Ok(tag.into())
    }

    /// Replaces a `reply-to` that names the pseudo queue by the volatile name of the channel's consumer.
    pub(crate) fn with_volatile_reply_to(&mut self, channel: u16, raw: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut properties = Properties::decode(raw)?;
        if properties.reply_to.is_none_or(|name| name.as_bytes() != REPLY_TO.as_bytes()) {
            return Ok(None);
        }
        let Some(reply) = self.channel(channel)?.reply() else {
            return Err(precondition("fast reply consumer does not exist"));
        };
        properties.reply_to = Some(short(reply.target().name().as_bytes()));
        let mut out = Vec::with_capacity(raw.len() + 64);
        properties.encode(&mut out);
        Ok(Some(out))
    }

    /// `queue.declare` of the pseudo queue or a volatile name, passive or not: only checks that it exists.
    pub(crate) fn declare_reply_queue(&mut self, channel: u16, name: &str, nowait: bool) -> Result<()> {
        if name != REPLY_TO && self.client.broker.replies.find(name.as_bytes()).is_none() {
            return Err(Refused::no_queue(&self.client.vhost, name).into());
        }
        if !nowait {
            let answer = queue::DeclareOk { queue: short(name.as_bytes()), message_count: 0, consumer_count: 1 };
            encode_method(self.out(channel), channel, &Method::QueueDeclareOk(answer));
        }
        Ok(())
    }

    /// Refuses bindings of a volatile name, which can have none.
    pub(crate) fn refuse_reply_binding(&self, name: &str) -> Result<()> {
        match is_volatile(name.as_bytes()) {
            true => Err(ProtocolError::new(
                ReplyCode::AccessRefused,
                "cannot bind or unbind to a volatile (direct reply-to) queue",
            )),
            false => Ok(()),
        }
    }

    /// The error for consuming from a volatile name. Only its own channel gets the messages sent to it; for others
    /// there is no such queue.
    pub(crate) fn refuse_reply_queue(&self, name: &str, method: &str) -> ProtocolError {
        if self.client.broker.replies.find(name.as_bytes()).is_none() {
            return Refused::no_queue(&self.client.vhost, name).into();
        }
        let vhost = &self.client.vhost;
        match method {
            "basic.consume" => {
                precondition(format!("only creator channel may consume from queue '{name}' in vhost '{vhost}'"))
            }
            _ => ProtocolError::new(
                ReplyCode::NotImplemented,
                format!("{method} not supported by volatile queue '{name}' in vhost '{vhost}'"),
            ),
        }
    }

    /// Ends the channel's consumer of answers, if it has this tag.
    pub(crate) fn cancel_replies(&mut self, channel: u16, tag: &[u8]) {
        let entry = self.channels.get_mut(&channel);
        if let Some(reply) = entry.and_then(|entry| entry.take_reply_of(tag)) {
            self.forget_reply_consumer(&reply);
        }
    }

    /// Removes a channel's consumer of answers that has ended.
    pub(super) fn forget_reply_consumer(&mut self, reply: &ReplyConsumer) {
        self.replies.end(reply);
    }
}
