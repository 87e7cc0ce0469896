//! Direct reply-to: a link on which answers come without a queue. Its address is volatile, and answers that come while
//! the client has given no credit are dropped.

use leveret_amqp10::{
    ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol, Symbols, condition,
    performative::Attach,
    terminus::{DistributionMode, ExpiryPolicy, TerminusDurability},
};
use leveret_message::BatchPart;
use leveret_model::Action;

use super::address::percent_encode;
use super::connection::Connection;
use super::error::{Failure, Result};
use super::link::Link;
use super::link_state::INITIAL_DELIVERY_COUNT;
use super::on_link::OnLink;
use super::pending::{Pending, Rest};
use super::requester::Replies;
use super::session::Session;
use leveret_broker::reply::Reply;
use leveret_broker::reply_to::WAITING_BYTES_MAX;
use leveret_broker::time::Now;

/// The capability that a client must ask for to get a volatile address.
pub(crate) const VOLATILE_QUEUE: &str = "rabbitmq:volatile-queue";
/// The name that stands for those that the broker chooses, in a question to a backend: RabbitMQ's name of the pseudo-queue.
const ANY_NAME: &str = "amq.rabbitmq.reply-to";
const CAPABILITIES: [Symbol<'static>; 1] = [Symbol::new(VOLATILE_QUEUE)];

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
        // The broker chooses the name; the user needs the permission to read from it. A backend is asked about all these names at once.
        let name = registration.target().name();
        let asked_for = if self.client.identity.asked().is_some() { ANY_NAME } else { name };
        self.authorize(Action::Consume(asked_for))?;
        let address = format!("/queues/{}", percent_encode(registration.target().name()));
        self.links.insert(key, (session.channel(), attach.handle));
        let replies = Replies::new(registration, attach.max_message_size.unwrap_or(0));
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
        self.send_attach(session.channel(), answer)
    }

    /// Sends an answer that has come.
    pub(crate) fn deliver_replies(&mut self, reply: &Reply, now: Now) {
        reply.done();
        let Some(&(channel, handle)) = self.links.get(&reply.key) else { return };
        let Some(mut session) = self.sessions.take(channel) else { return };
        if let Some(mut link) = session.take(handle) {
            if let Link::Replies(replies) = &mut *link
                && replies.target().is_target_of(reply)
            {
                let mut on = OnLink { session: &mut session, handle, link: replies };
                for at in 0..reply.batch.len() {
                    self.deliver_reply(&mut on, reply, at, now);
                }
            }
            session.put(handle, link);
        }
        self.continue_session(&mut session, now);
        self.sessions.put(session);
    }

    fn deliver_reply(&mut self, on: &mut OnLink<'_, Replies>, reply: &Reply, at: usize, now: Now) {
        // A client that granted credit but doesn't read loses further answers.
        if !on.link.has_credit() || on.session.pending.bytes() as u64 >= WAITING_BYTES_MAX {
            return;
        }
        let delivery = leveret_message::deliver::Delivery {
            now_ms: now.wall_ms,
            sent_time: self.client.broker.settings.sent_time,
            ..Default::default()
        };
        let mut payload = Vec::new();
        leveret_message::deliver::to_amqp10(&reply.batch.message(at).view(), &delivery, &mut payload);
        if !on.link.takes(payload.len()) {
            return;
        }
        let tag = on.link.send();
        let delivery_id = on.session.use_delivery_id();
        self.client.counters.delivered_replies.add(1);
        let (name, message) = (on.link.target().name(), BatchPart::of(&reply.batch, at as u32, 1));
        self.client.trace_delivered(on.session.channel(), name, message, &delivery, now);
        on.session.pending.push_back(Pending::Rest(Rest {
            handle: on.handle,
            delivery_id,
            tag,
            settled: true,
            payload,
            sent: 0,
            body: None,
        }));
    }
}
