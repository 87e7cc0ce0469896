//! Direct reply-to: a link on which answers come without a queue. Its address is volatile, and answers that come while
//! the client has given no credit are dropped.

use leveret_amqp10::{
    ReceiverSettleMode, Role, SenderSettleMode, Serial, Source, Symbol, Symbols, condition,
    performative::Attach,
    terminus::{DistributionMode, ExpiryPolicy, TerminusDurability},
};
use leveret_message::BatchPart;
use leveret_model::Action;
use leveret_queue::CreditState;

use super::address::percent_encode;
use super::connection::Connection;
use super::error::{Failure, Result};
use super::flow::INITIAL_DELIVERY_COUNT;
use super::link::Link;
use super::pending::{Pending, Rest};
use super::session::Session;
use leveret_broker::reply::Reply;
use leveret_broker::reply_to::{Registration, WAITING_BYTES_MAX};
use leveret_broker::time::Now;

/// The capability that a client must ask for to get a volatile address.
pub(crate) const VOLATILE_QUEUE: &str = "rabbitmq:volatile-queue";
const CAPABILITIES: [Symbol<'static>; 1] = [Symbol::new(VOLATILE_QUEUE)];

/// The sending endpoint of a requester's link.
pub(crate) struct Replies {
    pub registration: Registration,
    delivery_count: Serial,
    credit: u32,
    max_message_size: u64,
    next_tag: u32,
}

impl Replies {
    /// Handles the client's flow (2.6.7). No message is ever available, so a drain uses up the credit at once.
    pub(crate) fn grant(&mut self, seen: u32, link_credit: u32, drain: bool) -> CreditState {
        // Messages sent since the client's flow count against it; the credit may be more than half of the number space.
        let ahead = self.delivery_count.distance_from(Serial(seen));
        self.credit = match u32::try_from(ahead) {
            Ok(sent) => link_credit.saturating_sub(sent),
            Err(_) => link_credit.saturating_add(ahead.unsigned_abs()),
        };
        if drain {
            self.delivery_count = self.delivery_count.add(self.credit);
            self.credit = 0;
        }
        CreditState { delivery_count: self.delivery_count.0, credit: self.credit, available: 0 }
    }
}

impl Connection {
    /// Handles the attach of a link on which the client receives answers.
    pub(crate) fn attach_replies(
        &mut self,
        session: &mut Session,
        attach: &Attach<'_>,
        source: &Source<'_>,
    ) -> Result<()> {
        let ephemeral = source.expiry_policy == ExpiryPolicy::LinkDetach && source.durable == TerminusDurability::None;
        if attach.snd_settle_mode != SenderSettleMode::Settled || !ephemeral || source.address.is_some() {
            return Err(Failure::link(
                condition::NOT_IMPLEMENTED,
                format!(
                    "Dynamic source not supported: with the capability '{VOLATILE_QUEUE}' it has no address, is not durable, \
                     with expiry-policy link-detach and snd-settle-mode settled"
                ),
            ));
        }
        let key = self.client.broker.fresh_id();
        let registration = self.client.broker.replies.register(self.client.outbox.clone(), key);
        // The broker chooses the name; the user needs the permission to read from it.
        self.authorize(Action::Consume(registration.target().name()))?;
        let address = format!("/queues/{}", percent_encode(registration.target().name()));
        self.links.insert(key, (session.channel, attach.handle));
        let replies = Replies {
            registration,
            delivery_count: INITIAL_DELIVERY_COUNT,
            credit: 0,
            max_message_size: attach.max_message_size.unwrap_or(0),
            next_tag: 0,
        };
        session.put(attach.handle, Box::new(Link::Replies(replies)));
        let properties = super::dynamic::properties();
        let effective = Source {
            address: Some(&address),
            dynamic_node_properties: Some(properties.as_map()),
            distribution_mode: Some(DistributionMode::Move),
            durable: TerminusDurability::None,
            expiry_policy: ExpiryPolicy::LinkDetach,
            timeout: 0,
            dynamic: true,
            capabilities: Symbols::of(&CAPABILITIES),
            ..Source::default()
        };
        let answer = Attach {
            name: attach.name,
            handle: attach.handle,
            role: Role::Sender,
            snd_settle_mode: SenderSettleMode::Settled,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: Some(effective),
            target: attach.target,
            initial_delivery_count: Some(INITIAL_DELIVERY_COUNT.0),
            max_message_size: attach.max_message_size,
            ..Attach::default()
        };
        self.send_attach(session.channel, answer)
    }

    /// Sends an answer that has come.
    pub(crate) fn deliver_replies(&mut self, reply: &Reply, now: Now) {
        reply.done();
        let Some(&(channel, handle)) = self.links.get(&reply.key) else { return };
        let Some(mut session) = self.sessions.take(channel) else { return };
        if let Some(mut link) = session.take(handle) {
            if let Link::Replies(replies) = &mut *link
                && replies.registration.target().is_target_of(reply)
            {
                for at in 0..reply.batch.len() {
                    self.deliver_reply(&mut session, handle, replies, reply, at, now);
                }
            }
            session.put(handle, link);
        }
        self.continue_session(&mut session, now);
        self.sessions.put(session);
    }

    fn deliver_reply(
        &mut self,
        session: &mut Session,
        handle: u32,
        replies: &mut Replies,
        reply: &Reply,
        at: usize,
        now: Now,
    ) {
        // A client that granted credit but doesn't read loses further answers.
        if replies.credit == 0 || session.pending.bytes() as u64 >= WAITING_BYTES_MAX {
            return;
        }
        let delivery = leveret_message::deliver::Delivery {
            now_ms: now.wall_ms,
            sent_time: self.client.broker.settings.sent_time,
            ..Default::default()
        };
        let mut payload = Vec::new();
        leveret_message::deliver::to_amqp10(&reply.batch.message(at).view(), &delivery, &mut payload);
        if replies.max_message_size > 0 && payload.len() as u64 > replies.max_message_size {
            return;
        }
        replies.credit -= 1;
        replies.delivery_count.advance();
        let tag = replies.next_tag.to_be_bytes();
        replies.next_tag = replies.next_tag.wrapping_add(1);
        let delivery_id = session.next_delivery_id.advance();
        self.client.counters.delivered_replies.add(1);
        let (name, message) = (replies.registration.target().name(), BatchPart::of(&reply.batch, at as u32, 1));
        self.client.trace_delivered(session.channel, name, message, &delivery, now);
        session.pending.push_back(Pending::Rest(Rest {
            handle,
            delivery_id,
            tag,
            settled: true,
            payload,
            sent: 0,
            body: None,
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use leveret_broker::outbox::Outbox;
    use leveret_broker::reply_to::ReplyTargets;

    struct Nobody;

    impl leveret_broker::Wake for Nobody {
        fn wake(&self) {}
    }

    #[test]
    fn credit_may_be_more_than_half_of_the_numbers() {
        let outbox = Arc::new(Outbox::new(Arc::new(Nobody)));
        let registration =
            Arc::new(ReplyTargets::new(Arc::new(leveret_broker::names::Names::new([1; 16])))).register(outbox, 1);
        let delivery_count = Serial(5);
        let mut replies = Replies { registration, delivery_count, credit: 0, max_message_size: 0, next_tag: 0 };
        assert_eq!(replies.grant(5, u32::MAX, false).credit, u32::MAX);
        assert_eq!(replies.grant(3, u32::MAX, false).credit, u32::MAX - 2);
        assert_eq!(replies.grant(3, 1, false).credit, 0);
        assert_eq!(replies.grant(u32::MAX, 10, false).credit, 4);
        let drained = replies.grant(5, 7, true);
        assert_eq!((drained.delivery_count, drained.credit), (12, 0));
    }
}
