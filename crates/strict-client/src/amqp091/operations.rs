//! Requests of a client. They are appended to the output at once and may be pipelined; none of them fails: a request
//! that the server refuses results in a closed channel.

use leveret_amqp091::method::{basic, channel, confirm, connection, tx};
use leveret_amqp091::{
    FieldTable, Method, ShortStr, encode_content_body, encode_header, encode_heartbeat, encode_method,
};

use super::channel::{Channel, ChannelState, ConsumerState, Expected};
use super::client::{Client, ConnectionState};
use super::confirms::Confirms;

/// Class basic.
const BASIC: u16 = 60;

/// The flags of `basic.consume`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Consume {
    /// Deliveries count as acknowledged when they are sent.
    pub no_ack: bool,
    /// Allow no other consumer on the queue.
    pub exclusive: bool,
}

/// A message to be published.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    /// The exchange.
    pub exchange: &'a [u8],
    /// The routing key.
    pub routing_key: &'a [u8],
    /// Whether it comes back if it can't be routed.
    pub mandatory: bool,
    /// Property flags and list.
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Publication<'a> {
    /// A message without properties.
    pub fn to(exchange: &'a [u8], routing_key: &'a [u8], body: &'a [u8]) -> Self {
        Self { exchange, routing_key, mandatory: false, properties: &[0, 0], body }
    }

    /// A message without properties for the queue of this name.
    pub fn to_queue(queue: &'a [u8], body: &'a [u8]) -> Self {
        Self::to(b"", queue, body)
    }

    /// The same with property flags and list.
    #[must_use]
    pub fn with(self, properties: &'a [u8]) -> Self {
        Self { properties, ..self }
    }

    /// The same with the flag `mandatory`.
    #[must_use]
    pub fn mandatory(self) -> Self {
        Self { mandatory: true, ..self }
    }
}

pub(super) fn short(bytes: &[u8]) -> ShortStr<'_> {
    ShortStr::new(bytes).expect("names have at most 255 octets")
}

impl Client {
    /// Writes any method unchanged and expects no reply to it: for tests that break rules themselves.
    pub fn send(&mut self, channel: u16, method: &Method<'_>) {
        encode_method(&mut self.out, channel, method);
    }

    /// Writes a heartbeat.
    pub fn send_heartbeat(&mut self) {
        encode_heartbeat(&mut self.out);
    }

    /// Closes the connection.
    pub fn close(&mut self, text: &str) {
        let close = connection::Close { reply_code: 200, reply_text: ShortStr::truncated(text), ..Default::default() };
        self.send(0, &Method::ConnectionClose(close));
        self.state = ConnectionState::Closing;
    }

    /// Opens a channel, possibly with a number that was used before.
    ///
    /// # Panics
    /// If it is open.
    pub fn open_channel(&mut self, id: u16) {
        let index = usize::from(id);
        if self.channels.len() <= index {
            self.channels.resize_with(index + 1, || None);
        }
        let slot = &mut self.channels[index];
        assert!(slot.as_ref().is_none_or(|old| old.state == ChannelState::Closed), "channel {id} is open");
        *slot = Some(Box::new(Channel::new(id)));
        self.send(id, &Method::ChannelOpen(channel::Open::default()));
    }

    /// Closes a channel.
    pub fn close_channel(&mut self, id: u16) {
        let close = channel::Close { reply_code: 200, ..Default::default() };
        self.send(id, &Method::ChannelClose(close));
        self.channel(id).state = ChannelState::Closing;
    }

    /// True if the channel is open on both sides.
    #[must_use]
    pub fn is_channel_open(&self, id: u16) -> bool {
        matches!(self.channels.get(usize::from(id)), Some(Some(channel)) if channel.state == ChannelState::Open)
    }

    /// Number of unconfirmed publishes.
    #[must_use]
    pub fn unconfirmed(&self, id: u16) -> usize {
        match self.channels.get(usize::from(id)) {
            Some(Some(channel)) => channel.confirms.as_ref().map_or(0, Confirms::open),
            _ => 0,
        }
    }

    /// Number of unsettled deliveries.
    #[must_use]
    pub fn unacked(&self, id: u16) -> usize {
        match self.channels.get(usize::from(id)) {
            Some(Some(channel)) => channel.unacked.open(),
            _ => 0,
        }
    }

    fn channel(&mut self, id: u16) -> &mut Channel {
        match self.channels.get_mut(usize::from(id)) {
            Some(Some(channel)) => channel,
            _ => panic!("channel {id} was never opened"),
        }
    }

    /// Writes a request and records that its reply is due.
    pub(super) fn request(&mut self, id: u16, method: Method<'_>, expected: Expected) {
        self.send(id, &method);
        self.channel(id).expected.push_back(expected);
    }

    /// Enables confirms; the next publish has tag 1.
    pub fn confirm_select(&mut self, id: u16) {
        self.request(
            id,
            Method::ConfirmSelect(confirm::Select { nowait: false }),
            Expected::Reply("confirm.select-ok"),
        );
        self.channel(id).confirms.get_or_insert_default();
    }

    /// Makes the channel transactional.
    pub fn tx_select(&mut self, id: u16) {
        self.request(id, Method::TxSelect(tx::Select {}), Expected::Reply("tx.select-ok"));
    }

    /// Commits the transaction.
    pub fn tx_commit(&mut self, id: u16) {
        self.request(id, Method::TxCommit(tx::Commit {}), Expected::Reply("tx.commit-ok"));
    }

    /// Rolls the transaction back.
    pub fn tx_rollback(&mut self, id: u16) {
        self.request(id, Method::TxRollback(tx::Rollback {}), Expected::Reply("tx.rollback-ok"));
    }

    /// Sets prefetch with RabbitMQ's meaning of `global`: false for each future consumer, true for the channel.
    pub fn qos(&mut self, id: u16, prefetch_count: u16, global: bool) {
        let qos = Method::BasicQos(basic::Qos { prefetch_size: 0, prefetch_count, global });
        self.send(id, &qos);
        let channel = self.channel(id);
        if global {
            channel.ask_channel_prefetch(prefetch_count);
        } else {
            channel.prefetch = prefetch_count;
            channel.expected.push_back(Expected::Reply("basic.qos-ok"));
        }
    }

    /// Publishes a message. Returns the tag for the confirm, 0 without confirms.
    #[inline]
    pub fn publish(&mut self, id: u16, message: Publication<'_>) -> u64 {
        let Publication { exchange, routing_key, mandatory, properties, body } = message;
        let publish = basic::Publish {
            ticket: 0,
            exchange: short(exchange),
            routing_key: short(routing_key),
            mandatory,
            immediate: false,
        };
        encode_method(&mut self.out, id, &Method::BasicPublish(publish));
        encode_header(&mut self.out, id, BASIC, body.len() as u64, properties);
        let frame_max = self.frame_max();
        encode_content_body(&mut self.out, id, body, frame_max);
        self.channel(id).confirms.as_mut().map_or(0, Confirms::publish)
    }

    /// Starts a consumer; with an empty tag the server chooses one.
    pub fn consume(&mut self, id: u16, queue: &[u8], tag: &[u8], flags: Consume, arguments: &FieldTable) {
        let arguments = arguments.encoded();
        let consume = basic::Consume {
            queue: short(queue),
            consumer_tag: short(tag),
            no_ack: flags.no_ack,
            exclusive: flags.exclusive,
            arguments: arguments.as_table(),
            ..Default::default()
        };
        let prefetch = self.channel(id).prefetch;
        let expected = Expected::Consume { tag: tag.to_vec(), no_ack: flags.no_ack, prefetch };
        self.request(id, Method::BasicConsume(consume), expected);
    }

    /// Ends a consumer. Deliveries may arrive until the reply does.
    pub fn cancel(&mut self, id: u16, tag: &[u8]) {
        let cancel = basic::Cancel { consumer_tag: short(tag), nowait: false };
        self.request(id, Method::BasicCancel(cancel), Expected::Cancel(tag.to_vec()));
        if let Some(consumer) = self.channel(id).consumer(tag)
            && consumer.state == ConsumerState::Live
        {
            consumer.state = ConsumerState::Cancelling;
        }
    }

    /// Asks for one message.
    pub fn get(&mut self, id: u16, queue: &[u8], no_ack: bool) {
        let get = basic::Get { ticket: 0, queue: short(queue), no_ack };
        self.request(id, Method::BasicGet(get), Expected::Get { no_ack });
    }

    /// Acknowledges one delivery, or all up to it.
    #[inline]
    pub fn ack(&mut self, id: u16, delivery_tag: u64, multiple: bool) {
        self.send(id, &Method::BasicAck(basic::Ack { delivery_tag, multiple }));
        self.channel(id).settle(delivery_tag, multiple);
    }

    /// Rejects one delivery, or all up to it.
    pub fn nack(&mut self, id: u16, delivery_tag: u64, multiple: bool, requeue: bool) {
        self.send(id, &Method::BasicNack(basic::Nack { delivery_tag, multiple, requeue }));
        self.channel(id).settle(delivery_tag, multiple);
    }

    /// Rejects one delivery.
    pub fn reject(&mut self, id: u16, delivery_tag: u64, requeue: bool) {
        self.send(id, &Method::BasicReject(basic::Reject { delivery_tag, requeue }));
        self.channel(id).settle(delivery_tag, false);
    }

    /// Asks the server to requeue everything unacknowledged.
    pub fn recover(&mut self, id: u16) {
        self.request(id, Method::BasicRecover(basic::Recover { requeue: true }), Expected::Reply("basic.recover-ok"));
    }
}
