//! A connection's states and the dispatch of its frames.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_amqp091::{
    ContentHeader, Frame, FrameKind, Method, PROTOCOL_HEADER, ReplyCode, ShortStr, decode_frame, encode_heartbeat,
    encode_method,
    method::{access, channel, confirm, connection},
};
use leveret_log::Position;
use leveret_metrics::Counters;
use leveret_model::ConnectionId;
use leveret_queue::{Signal, Taken};
use rustc_hash::FxHashMap;

use super::acknowledge::PendingAck;
use super::channel::Channel;
use super::content::Incoming;
use super::deliver::Consumer;
use super::error::{ProtocolError, Result, not_allowed, not_implemented};
use super::handshake::ClientProperties;
use super::held::{Answer, Held};
use super::publish::{BodyRef, PublishRun, short};
use super::route::RouteCache;
use crate::broker::Broker;
use crate::confirms::Confirms;
use crate::connection::Peer;
use crate::outbox::{Event, Outbox};
use crate::output::Output;
use crate::queue_handle::QueueRef;
use crate::settings::{PRE_LOGIN_FRAME_MAX, TURN_BYTES_MAX};
use crate::time::{Nanos, Now, SECOND};

/// How long a client may take to answer our `connection.close`.
const CLOSE_TIMEOUT: Nanos = 5 * SECOND;

/// Where a connection is (specification 2.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `connection.start` was sent.
    Start,
    /// `connection.tune` was sent.
    Tune,
    /// `connection.open` is expected.
    Open,
    /// Open.
    Running,
    /// `connection.close` was sent; only its answer counts.
    Closing,
    /// Nothing more will be said.
    Finished,
}

struct Unapplied {
    position: Position,
    queue: QueueRef,
    bytes: u64,
}

/// See the module.
pub(crate) struct Session {
    pub(crate) broker: Arc<Broker>,
    pub(crate) id: ConnectionId,
    pub(crate) name: Arc<str>,
    pub(crate) peer: Peer,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) output: Output,
    pub(crate) phase: Phase,
    pub(crate) user: Arc<str>,
    pub(crate) vhost: Arc<str>,
    pub(crate) client_properties: ClientProperties,
    pub(crate) client_knows_cancel: bool,
    pub(crate) has_exclusive_queues: bool,
    pub(crate) frame_max: u32,
    pub(crate) channel_max: u16,
    /// Negotiated interval; 0 is off.
    pub(crate) heartbeat: Nanos,
    pub(crate) last_input: Nanos,
    pub(crate) last_output: Nanos,
    deadline: Option<Nanos>,
    pub(crate) channels: FxHashMap<u16, Channel>,
    pub(crate) consumers: FxHashMap<u64, Consumer>,
    pub(crate) scheduled: VecDeque<u64>,
    pub(crate) starved: Vec<u64>,
    pub(crate) taken: Vec<Taken>,
    pub(crate) run: PublishRun,
    pub(crate) routes: RouteCache,
    pub(crate) acks: Vec<PendingAck>,
    pub(crate) held: Held,
    unapplied: VecDeque<Unapplied>,
    pub(crate) undurable_bytes: u64,
    confirming: Vec<u16>,
    registered: Option<Position>,
    events: Vec<Event>,
    names_given: u64,
    gone: bool,
}

impl Session {
    pub(crate) fn new(
        broker: Arc<Broker>,
        id: ConnectionId,
        peer: Peer,
        outbox: Arc<Outbox>,
        counters: Arc<Counters>,
        now: Now,
    ) -> Self {
        let deadline = now.monotonic + broker.settings.handshake_timeout_ms * 1_000_000;
        counters.connections_opened.add(1);
        Self {
            broker,
            id,
            name: peer.connection_name().into(),
            peer,
            outbox,
            counters,
            output: Output::default(),
            phase: Phase::Start,
            user: "".into(),
            vhost: "".into(),
            client_properties: ClientProperties::new(),
            client_knows_cancel: false,
            has_exclusive_queues: false,
            frame_max: PRE_LOGIN_FRAME_MAX,
            channel_max: 0,
            heartbeat: 0,
            last_input: now.monotonic,
            last_output: now.monotonic,
            deadline: Some(deadline),
            channels: FxHashMap::default(),
            consumers: FxHashMap::default(),
            scheduled: VecDeque::new(),
            starved: Vec::new(),
            taken: Vec::new(),
            run: PublishRun::default(),
            routes: RouteCache::default(),
            acks: Vec::new(),
            held: Held::No,
            unapplied: VecDeque::new(),
            undurable_bytes: 0,
            confirming: Vec::new(),
            registered: None,
            events: Vec::new(),
            names_given: 0,
            gone: false,
        }
    }

    /// Answers a protocol that isn't spoken here with the header of one that is, and ends.
    pub(crate) fn refuse_protocol(&mut self, received: &[u8]) {
        tracing::warn!(connection = %self.name, ?received, "unknown protocol header, answered with AMQP 0-9-1");
        self.output.buffer().extend_from_slice(&PROTOCOL_HEADER);
        self.phase = Phase::Finished;
    }

    pub(crate) fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    pub(crate) fn wants_read(&self) -> bool {
        matches!(self.held, Held::No) && !self.publishes_wait() && self.phase != Phase::Finished
    }

    pub(crate) fn wants_turn(&self) -> bool {
        !self.scheduled.is_empty() || (!self.starved.is_empty() && self.output.is_empty())
    }

    /// The channel with this number.
    pub(crate) fn channel(&mut self, number: u16) -> Result<&mut Channel> {
        self.channels.get_mut(&number).ok_or_else(|| {
            ProtocolError::new(ReplyCode::ChannelError, format!("expected 'channel.open' on channel {number}"))
        })
    }

    /// See [`crate::Connection::receive`].
    pub(crate) fn receive(&mut self, input: &[u8], now: Now) -> usize {
        self.last_input = now.monotonic;
        let mut used = 0;
        while self.phase != Phase::Finished && matches!(self.held, Held::No) {
            if self.phase == Phase::Running && self.publishes_wait() {
                self.flush_run(now);
                self.held = Held::LogRoom;
                break;
            }
            let (frame, length) = match decode_frame(&input[used..], self.frame_max) {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(error) => {
                    self.fail(0, error.into(), now);
                    used = input.len();
                    break;
                }
            };
            used += length;
            match self.frame(&frame, &input[used..], now) {
                Ok(further) => used += further,
                Err(error) => self.fail(frame.channel, error, now),
            }
        }
        self.flush_run(now);
        self.flush_acks(now);
        self.register();
        self.broker.commit.announce();
        if self.phase == Phase::Finished { input.len() } else { used }
    }

    /// Handles a frame; returns how many bytes of what follows it were used, too.
    fn frame(&mut self, frame: &Frame<'_>, rest: &[u8], now: Now) -> Result<usize> {
        if self.phase == Phase::Closing {
            if frame.kind == FrameKind::Method
                && let Ok(method) = Method::decode(frame.payload)
            {
                match method {
                    Method::ConnectionCloseOk(_) => self.phase = Phase::Finished,
                    Method::ConnectionClose(_) => self.close_ok(),
                    _ => {}
                }
            }
            return Ok(0);
        }
        if frame.kind == FrameKind::Heartbeat {
            return Ok(0);
        }
        if frame.channel != 0
            && let Some(channel) = self.channels.get(&frame.channel)
            && channel.closing
        {
            return self.closing_channel(frame, now).map(|()| 0);
        }
        match frame.kind {
            FrameKind::Method => self.method_frame(frame, rest, now),
            FrameKind::Header => self.content_header(frame.channel, frame.payload, now).map(|()| 0),
            FrameKind::Body => self.content_body(frame.channel, frame.payload, now).map(|()| 0),
            FrameKind::Heartbeat => Ok(0),
        }
    }

    fn method_frame(&mut self, frame: &Frame<'_>, rest: &[u8], now: Now) -> Result<usize> {
        let number = frame.channel;
        let method = Method::decode(frame.payload)?;
        if self.phase != Phase::Running || number == 0 {
            return self.connection_method(number, &method, now).map_err(|error| error.in_method(&method)).map(|()| 0);
        }
        if let Some(channel) = self.channels.get(&number)
            && !matches!(channel.incoming, Incoming::Method)
        {
            let text = format!("expected content frames of basic.publish on channel {number}, got {}", method.name());
            return Err(ProtocolError::new(ReplyCode::UnexpectedFrame, text).in_method(&method));
        }
        let result = match &method {
            Method::BasicPublish(publish) => match self.inline_publish(number, publish, rest, now) {
                Ok(Some(used)) => return Ok(used),
                Ok(None) => self.begin_publish(number, publish),
                Err(error) => Err(error),
            },
            Method::BasicAck(ack) => {
                self.flush_run(now);
                self.ack(number, ack)
            }
            _ => {
                self.flush_run(now);
                self.flush_acks(now);
                self.channel_method(number, &method, now)
            }
        };
        result.map_err(|error| error.in_method(&method)).map(|()| 0)
    }

    /// The usual publish lies whole in the read buffer: it is handled without keeping any of it.
    fn inline_publish(
        &mut self,
        number: u16,
        publish: &leveret_amqp091::method::basic::Publish<'_>,
        rest: &[u8],
        now: Now,
    ) -> Result<Option<usize>> {
        if publish.immediate || !self.channels.contains_key(&number) {
            return Ok(None);
        }
        let Ok(Some((frame, length))) = decode_frame(rest, self.frame_max) else { return Ok(None) };
        if frame.kind != FrameKind::Header || frame.channel != number {
            return Ok(None);
        }
        let header = ContentHeader::decode(frame.payload)?;
        self.check_header(&header)?;
        let mut used = length;
        let mut body: &[u8] = b"";
        if header.body_size > 0 {
            let Ok(Some((frame, length))) = decode_frame(&rest[used..], self.frame_max) else { return Ok(None) };
            if frame.kind != FrameKind::Body
                || frame.channel != number
                || frame.payload.len() as u64 != header.body_size
            {
                return Ok(None);
            }
            used += length;
            body = frame.payload;
        }
        let (exchange, key) = (publish.exchange.as_bytes(), publish.routing_key.as_bytes());
        let body = BodyRef::Slice(body);
        self.publish(number, exchange, key, publish.mandatory, header.properties, body, now)?;
        Ok(Some(used))
    }

    fn connection_method(&mut self, number: u16, method: &Method<'_>, now: Now) -> Result<()> {
        if number != 0 {
            let text = format!("{} on channel {number} before the connection was opened", method.name());
            return Err(ProtocolError::new(ReplyCode::ChannelError, text));
        }
        match (self.phase, method) {
            (_, Method::ConnectionClose(_)) => {
                self.leave(now);
                self.close_ok();
                Ok(())
            }
            (Phase::Start, Method::ConnectionStartOk(start_ok)) => self.start_ok(start_ok),
            (Phase::Tune, Method::ConnectionTuneOk(tune_ok)) => self.tune_ok(tune_ok, now),
            (Phase::Open, Method::ConnectionOpen(open)) => {
                self.open(open)?;
                self.deadline = None;
                Ok(())
            }
            (Phase::Running, Method::ConnectionUpdateSecret(_)) => {
                Err(not_implemented("connection.update-secret is not supported yet"))
            }
            _ => {
                let text = format!("{} is not expected now (connection state {:?})", method.name(), self.phase);
                Err(ProtocolError::new(ReplyCode::CommandInvalid, text))
            }
        }
    }

    fn close_ok(&mut self) {
        encode_method(self.output.buffer(), 0, &Method::ConnectionCloseOk(connection::CloseOk {}));
        self.phase = Phase::Finished;
    }

    fn channel_method(&mut self, number: u16, method: &Method<'_>, now: Now) -> Result<()> {
        if let Method::ChannelOpen(_) = method {
            return self.channel_open(number);
        }
        self.channel(number)?;
        match method {
            Method::ChannelClose(_) => {
                self.leave_channel(number, now);
                encode_method(self.output.buffer(), number, &Method::ChannelCloseOk(channel::CloseOk {}));
                Ok(())
            }
            Method::ChannelCloseOk(_) => Ok(()),
            Method::ChannelFlow(flow) if flow.active => {
                let answer = Method::ChannelFlowOk(channel::FlowOk { active: true });
                encode_method(self.output.buffer(), number, &answer);
                Ok(())
            }
            Method::ChannelFlow(_) => Err(not_implemented("active=false")),
            Method::AccessRequest(_) => {
                let answer = Method::AccessRequestOk(access::RequestOk { ticket: 1 });
                encode_method(self.output.buffer(), number, &answer);
                Ok(())
            }
            Method::ConfirmSelect(select) => {
                self.channel(number)?.confirms.get_or_insert_with(Confirms::default);
                if !select.nowait {
                    let answer = Method::ConfirmSelectOk(confirm::SelectOk {});
                    encode_method(self.output.buffer(), number, &answer);
                }
                Ok(())
            }
            Method::QueueDeclare(declare) => self.queue_declare(number, declare, now),
            Method::QueueBind(bind) => self.queue_bind(number, bind, now),
            Method::QueueUnbind(unbind) => self.queue_unbind(number, unbind, now),
            Method::QueuePurge(purge) => self.queue_purge(number, purge, now),
            Method::QueueDelete(delete) => self.queue_delete(number, delete, now),
            Method::ExchangeDeclare(declare) => self.exchange_declare(number, declare, now),
            Method::ExchangeDelete(delete) => self.exchange_delete(number, delete, now),
            Method::ExchangeBind(bind) => self.exchange_bind(number, bind, now),
            Method::ExchangeUnbind(unbind) => self.exchange_unbind(number, unbind, now),
            Method::BasicQos(qos) => self.qos(number, qos),
            Method::BasicConsume(consume) => self.consume(number, consume, now),
            Method::BasicCancel(cancel) => self.cancel(number, cancel, now),
            Method::BasicCancelOk(_) => Ok(()),
            Method::BasicGet(get) => self.get(number, get, now),
            Method::BasicNack(nack) => self.nack(number, nack.delivery_tag, nack.multiple, nack.requeue, now),
            Method::BasicReject(reject) => self.nack(number, reject.delivery_tag, false, reject.requeue, now),
            Method::BasicRecover(recover) => self.recover(number, recover.requeue, true, now),
            Method::BasicRecoverAsync(recover) => self.recover(number, recover.requeue, false, now),
            other => Err(not_implemented(format!("method {} is not supported", other.name()))),
        }
    }

    fn channel_open(&mut self, number: u16) -> Result<()> {
        if self.channels.contains_key(&number) {
            return Err(ProtocolError::new(ReplyCode::ChannelError, "second 'channel.open' seen"));
        }
        if self.channel_max != 0 && number > self.channel_max {
            let limit = self.channel_max;
            return Err(not_allowed(format!(
                "channel number {number} is above the negotiated channel_max ({limit}); raise channel_max"
            )));
        }
        self.counters.channels_opened.add(1);
        self.channels.insert(number, Channel::default());
        encode_method(self.output.buffer(), number, &Method::ChannelOpenOk(channel::OpenOk { channel_id: b"" }));
        Ok(())
    }

    fn closing_channel(&mut self, frame: &Frame<'_>, _now: Now) -> Result<()> {
        if frame.kind != FrameKind::Method {
            return Ok(());
        }
        match Method::decode(frame.payload)? {
            Method::ChannelCloseOk(_) => {
                self.channels.remove(&frame.channel);
            }
            Method::ChannelClose(_) => {
                let answer = Method::ChannelCloseOk(channel::CloseOk {});
                encode_method(self.output.buffer(), frame.channel, &answer);
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the channel or the connection, as the error asks for (specification 1.1.3).
    fn fail(&mut self, number: u16, error: ProtocolError, now: Now) {
        self.flush_run(now);
        self.flush_acks(now);
        let text = error.reply_text();
        let (class_id, method_id) = error.method;
        let hard = error.code.is_hard() || number == 0 || !self.channels.contains_key(&number);
        if !hard {
            tracing::warn!(connection = %self.name, channel = number, error = text, "channel closed");
            self.confirm_durable();
            self.leave_channel(number, now);
            self.channels.insert(number, Channel::closing());
            let close = channel::Close {
                reply_code: error.code.code(),
                reply_text: ShortStr::truncated(&text),
                class_id,
                method_id,
            };
            encode_method(self.output.buffer(), number, &Method::ChannelClose(close));
            return;
        }
        self.close(error.code, &text, (class_id, method_id), now);
    }

    fn close(&mut self, code: ReplyCode, text: &str, method: (u16, u16), now: Now) {
        if matches!(self.phase, Phase::Closing | Phase::Finished) {
            return;
        }
        tracing::warn!(connection = %self.name, error = text, "connection closed");
        self.leave(now);
        let close = connection::Close {
            reply_code: code.code(),
            reply_text: ShortStr::truncated(text),
            class_id: method.0,
            method_id: method.1,
        };
        encode_method(self.output.buffer(), 0, &Method::ConnectionClose(close));
        self.phase = Phase::Closing;
        self.held = Held::No;
        self.deadline = Some(now.monotonic + CLOSE_TIMEOUT);
    }

    /// A channel is over: its consumers end, its deliveries go back to their place.
    fn leave_channel(&mut self, number: u16, now: Now) {
        let keys: Vec<u64> =
            self.consumers.iter().filter(|(_, consumer)| consumer.channel == number).map(|(key, _)| *key).collect();
        let mut keys = keys;
        keys.sort_unstable();
        // Deliveries go back first, so that an auto-delete queue takes them with it.
        if let Some(channel) = self.channels.get_mut(&number) {
            let settled = channel.settle_all();
            // A consumer that is about to end must not get them again.
            for key in &keys {
                if let Some(consumer) = self.consumers.get(key) {
                    consumer.queue.set_room(consumer.id, false, now.monotonic);
                }
            }
            self.give_back(number, settled, true, now);
        }
        for key in keys {
            self.remove_consumer(key, now);
        }
        if self.channels.remove(&number).is_some() {
            self.counters.channels_closed.add(1);
        }
        self.confirming.retain(|channel| *channel != number);
    }

    /// The connection is over: everything that is its own goes.
    fn leave(&mut self, now: Now) {
        self.flush_run(now);
        self.flush_acks(now);
        let mut numbers: Vec<u16> = self.channels.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            self.leave_channel(number, now);
        }
        self.scheduled.clear();
        self.starved.clear();
        if std::mem::take(&mut self.has_exclusive_queues) {
            for queue in self.broker.registry.exclusive_queues(&self.vhost, self.id) {
                self.delete_by_broker(&queue, now);
            }
        }
        self.broker.commit.announce();
    }

    /// See [`crate::Connection::disconnected`].
    pub(crate) fn disconnected(&mut self, now: Now) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        self.leave(now);
        self.phase = Phase::Finished;
        self.counters.connections_closed.add(1);
        self.broker.forget_connection(self.id);
        if let Held::Durable { position, .. } = std::mem::take(&mut self.held) {
            self.broker.publish_later(position);
        }
        // What isn't durable yet still has to be applied by somebody.
        for unapplied in self.unapplied.drain(..) {
            self.broker.commit.apply_later(unapplied.position, unapplied.queue);
        }
    }

    /// See [`crate::Connection::turn`].
    pub(crate) fn turn(&mut self, now: Now) {
        let mut events = std::mem::take(&mut self.events);
        self.outbox.drain(&mut events);
        for event in events.drain(..) {
            self.event(event, now);
        }
        self.events = events;
        if self.gone {
            return;
        }
        self.durable_work(now);
        if self.phase == Phase::Running {
            self.deliver(now);
        }
        self.keep_time(now);
        self.register();
        self.broker.commit.announce();
    }

    fn event(&mut self, event: Event, now: Now) {
        match event {
            Event::Queue(Signal::Scheduled(key)) => self.scheduled.push_back(key),
            Event::Queue(Signal::Cancelled(key)) => self.cancelled(key),
            Event::Queue(Signal::Loaded(_)) => {
                if let Held::Get { channel, queue, no_ack } = std::mem::take(&mut self.held)
                    && let Err(error) = self.try_get(channel, queue, no_ack, now)
                {
                    self.fail(channel, error, now);
                }
            }
            Event::Durable => self.registered = None,
            Event::Close(reason) => {
                let text = format!("CONNECTION_FORCED - {reason}");
                self.close(ReplyCode::ConnectionForced, &text, (0, 0), now);
            }
        }
    }

    /// Applies, confirms and answers whatever became durable.
    fn durable_work(&mut self, now: Now) {
        let durable = self.broker.commit.durable();
        let mut applied: Option<QueueRef> = None;
        while let Some(unapplied) = self.unapplied.pop_front_if(|first| first.position <= durable) {
            self.undurable_bytes -= unapplied.bytes;
            if !applied.as_ref().is_some_and(|last| Arc::ptr_eq(last, &unapplied.queue)) {
                unapplied.queue.apply();
                applied = Some(unapplied.queue);
            }
        }
        self.confirm_durable();
        match &self.held {
            Held::Durable { position, .. } if *position <= durable => {
                let Held::Durable { answer, .. } = std::mem::take(&mut self.held) else { return };
                self.broker.registry.publish();
                self.answer(answer);
            }
            Held::LogRoom if !self.publishes_wait() => self.held = Held::No,
            _ => {}
        }
        let _ = now;
    }

    /// Sends the confirms that are due.
    fn confirm_durable(&mut self) {
        if self.confirming.is_empty() {
            return;
        }
        let durable = self.broker.commit.durable();
        let (channels, output, counters) = (&mut self.channels, &mut self.output, &self.counters);
        self.confirming.retain(|number| {
            let Some(confirms) = channels.get_mut(number).and_then(|channel| channel.confirms.as_mut()) else {
                return false;
            };
            let before = confirms.unanswered();
            while let Some(confirm) = confirms.next(durable) {
                use leveret_amqp091::method::basic;
                let (delivery_tag, multiple) = (confirm.sequence, confirm.multiple);
                let method = if confirm.accepted {
                    Method::BasicAck(basic::Ack { delivery_tag, multiple })
                } else {
                    Method::BasicNack(basic::Nack { delivery_tag, multiple, requeue: false })
                };
                encode_method(output.buffer(), *number, &method);
            }
            counters.confirmed.add(before - confirms.unanswered());
            confirms.unanswered() > 0
        });
    }

    pub(crate) fn note_confirming(&mut self, number: u16) {
        if !self.confirming.contains(&number) {
            self.confirming.push(number);
        }
    }

    pub(crate) fn note_unapplied(&mut self, position: Position, queue: &QueueRef, bytes: u64) {
        self.undurable_bytes += bytes;
        match self.unapplied.back_mut() {
            Some(last) if Arc::ptr_eq(&last.queue, queue) && last.position + 64 > position && last.bytes < 4096 => {
                // Few small runs of the same queue: the first is answered with the last.
                last.position = position;
                last.bytes += bytes;
            }
            _ => self.unapplied.push_back(Unapplied { position, queue: queue.clone(), bytes }),
        }
    }

    /// Answers now, or holds input back until `position` is durable.
    pub(crate) fn answer_when_durable(&mut self, position: Position, answer: Answer) {
        if position <= self.broker.commit.durable() {
            self.broker.registry.publish();
            self.answer(answer);
        } else {
            self.held = Held::Durable { position, answer };
        }
    }

    /// Leaves word with the commit stream when something of this connection isn't durable.
    fn register(&mut self) {
        let mut wanted = self.unapplied.front().map(|first| first.position);
        match &self.held {
            Held::Durable { position, .. } => wanted = Some(wanted.map_or(*position, |other| other.min(*position))),
            Held::No if self.publishes_wait() => wanted = Some(wanted.unwrap_or(self.broker.commit.durable() + 1)),
            Held::LogRoom => wanted = Some(wanted.unwrap_or(self.broker.commit.durable() + 1)),
            _ => {}
        }
        if let Some(position) = wanted
            && self.registered.is_none_or(|registered| registered > position)
        {
            self.registered = Some(position);
            self.broker.commit.notify(position, &self.outbox);
        }
    }

    /// Heartbeats and deadlines (specification 4.2.7).
    fn keep_time(&mut self, now: Now) {
        if !self.output.is_empty() {
            self.last_output = now.monotonic;
        }
        if let Some(deadline) = self.deadline
            && now.monotonic >= deadline
        {
            if self.phase != Phase::Closing {
                tracing::warn!(connection = %self.name, "handshake_timeout: the connection was not opened in time");
            }
            self.phase = Phase::Finished;
            return;
        }
        if self.heartbeat == 0 || self.phase == Phase::Finished {
            return;
        }
        if now.monotonic >= self.last_input + 2 * self.heartbeat {
            let seconds = self.heartbeat / SECOND;
            tracing::warn!(connection = %self.name, "missed heartbeats from client, timeout: {seconds}s");
            self.phase = Phase::Finished;
        } else if now.monotonic >= self.last_output + self.heartbeat / 2 && self.output.len() < TURN_BYTES_MAX {
            encode_heartbeat(self.output.buffer());
            self.last_output = now.monotonic;
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let heartbeat = (self.heartbeat > 0 && self.phase != Phase::Finished)
            .then(|| (self.last_input + 2 * self.heartbeat).min(self.last_output + self.heartbeat / 2));
        match (self.deadline, heartbeat) {
            (Some(deadline), Some(heartbeat)) => Some(deadline.min(heartbeat)),
            (deadline, heartbeat) => deadline.or(heartbeat),
        }
    }

    /// A name that nobody has and nobody guesses.
    pub(crate) fn generated_name(&mut self, prefix: &str) -> String {
        self.names_given += 1;
        self.broker.generated_name(prefix, self.id, self.names_given)
    }

    fn answer(&mut self, answer: Answer) {
        use leveret_amqp091::method::{exchange, queue};
        let name;
        let (number, method) = match answer {
            Answer::Nothing => return,
            Answer::QueueDeclareOk { channel, queue, messages, consumers } => {
                name = queue;
                let queue = short(name.as_bytes());
                let answer = queue::DeclareOk { queue, message_count: messages, consumer_count: consumers };
                (channel, Method::QueueDeclareOk(answer))
            }
            Answer::QueueDeleteOk { channel, deleted } => {
                let count: u64 = deleted.iter().map(|queue| queue.deleted_messages()).sum();
                let message_count = u32::try_from(count).unwrap_or(u32::MAX);
                (channel, Method::QueueDeleteOk(queue::DeleteOk { message_count }))
            }
            Answer::QueueBindOk { channel } => (channel, Method::QueueBindOk(queue::BindOk {})),
            Answer::QueueUnbindOk { channel } => (channel, Method::QueueUnbindOk(queue::UnbindOk {})),
            Answer::QueuePurgeOk { channel, messages } => {
                (channel, Method::QueuePurgeOk(queue::PurgeOk { message_count: messages }))
            }
            Answer::ExchangeDeclareOk { channel } => (channel, Method::ExchangeDeclareOk(exchange::DeclareOk {})),
            Answer::ExchangeDeleteOk { channel } => (channel, Method::ExchangeDeleteOk(exchange::DeleteOk {})),
            Answer::ExchangeBindOk { channel } => (channel, Method::ExchangeBindOk(exchange::BindOk {})),
            Answer::ExchangeUnbindOk { channel } => (channel, Method::ExchangeUnbindOk(exchange::UnbindOk {})),
        };
        encode_method(self.output.buffer(), number, &method);
    }
}
