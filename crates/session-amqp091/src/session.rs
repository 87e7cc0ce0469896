//! A connection's states and the dispatch of its frames.

use std::collections::VecDeque;

use leveret_amqp091::{ContentHeader, Frame, FrameKind, HEADER_OVERHEAD, Method, ReplyCode, decode_frame};
use leveret_queue::Signal;
use rustc_hash::FxHashMap;

use super::asked::Questions;
use super::channel::{ByQueue, Channel};
use super::content::Incoming;
use super::contents::Contents;
use super::deliver::Consumer;
use super::error::{ProtocolError, Result, no_channel};
use super::handshake::ClientProperties;
use super::held::Held;
use super::publish::{BodyRef, PublishRun};
use super::unfinished::Unfinished;
use leveret_broker::outbox::Event;
use leveret_broker::reply::Reply;
use leveret_broker::settings::{IN_MAINTENANCE, OUTPUT_BYTES_MAX, TURN_BYTES_MAX};
use leveret_broker::time::{Nanos, Now};
use leveret_broker::turn_budget::{CONTROL, EVENT};
use leveret_session::client_connection::ClientConnection;

/// The state of a connection (specification 2.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `connection.start` was sent.
    Start,
    /// `connection.tune` was sent.
    Tune,
    /// `connection.open` is expected.
    Open,
    /// The connection is open.
    Running,
    /// The login was refused, and the client isn't told; the socket is closed when the deadline passes.
    Refused,
    /// `connection.close` was sent; only its answer is handled.
    Closing,
    /// Nothing more is sent.
    Finished,
}

/// The state of one AMQP 0-9-1 connection.
pub(crate) struct Session {
    pub(crate) client: ClientConnection,
    pub(crate) phase: Phase,
    pub(crate) client_properties: ClientProperties,
    pub(crate) client_knows_cancel: bool,
    pub(crate) client_knows_blocked: bool,
    /// `connection.blocked` was sent, and `connection.unblocked` wasn't since.
    pub(crate) told_blocked: bool,
    /// Publishing is blocked on the whole node.
    pub(crate) alarm: bool,
    pub(crate) frame_max: u32,
    /// Negotiated interval; 0 is off.
    pub(crate) heartbeat: Nanos,
    pub(crate) channels: FxHashMap<u16, Box<Channel>>,
    pub(crate) consumers: FxHashMap<u64, Box<Consumer>>,
    /// Channels whose parked consumers are being woken.
    pub(super) waking: Vec<u16>,
    /// The channels of consumers of direct reply-to, by key.
    pub(crate) reply_channels: FxHashMap<u64, u16>,
    /// Answers of direct reply-to that wait for the socket.
    pub(crate) replies: VecDeque<Reply>,
    /// Large bodies that are being sent.
    pub(crate) contents: Contents,
    pub(crate) run: PublishRun,
    /// Acknowledgements that came in one read and are handed to their queues together.
    pub(crate) acks: ByQueue,
    pub(super) unfinished: VecDeque<Unfinished>,
    pub(crate) held: Held,
    pub(super) questions: Questions,
    /// Number of channels in transaction mode (`tx.select`).
    pub(crate) transactions: u32,
    /// Bytes of memory that wait for `tx.commit`.
    pub(crate) transaction_bytes: u64,
    pub(crate) confirming: Vec<u16>,
}

impl Session {
    pub(crate) fn new(client: ClientConnection) -> Self {
        let alarm = client.broker.alarms.publishing_blocked();
        let frame_max = client.broker.settings.initial_frame_max;
        Self {
            client,
            phase: Phase::Start,
            client_properties: ClientProperties::new(),
            client_knows_cancel: false,
            client_knows_blocked: false,
            told_blocked: false,
            alarm,
            frame_max,
            heartbeat: 0,
            channels: FxHashMap::default(),
            consumers: FxHashMap::default(),
            waking: Vec::new(),
            reply_channels: FxHashMap::default(),
            replies: VecDeque::new(),
            contents: Contents::default(),
            run: PublishRun::default(),
            acks: ByQueue::default(),
            unfinished: VecDeque::new(),
            held: Held::No,
            questions: Questions::default(),
            transactions: 0,
            transaction_bytes: 0,
            confirming: Vec::new(),
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.phase == Phase::Finished && !self.is_ending()
    }

    /// Whether work that was begun is left: turns go on with it.
    pub(crate) fn is_ending(&self) -> bool {
        !self.unfinished.is_empty()
    }

    pub(crate) fn wants_read(&self) -> bool {
        // During an alarm at least the next frame is read, and blocked if it publishes: only then is the client
        // notified.
        let has_to_be_told = self.alarm && !self.told_blocked;
        let takes_publishes = has_to_be_told || !self.client.waits_for_log;
        self.takes_input() && takes_publishes
    }

    fn takes_input(&self) -> bool {
        matches!(self.held, Held::No)
            && !self.client.paused
            && self.unfinished.is_empty()
            && !self.is_over()
            && !self.has_full_output()
    }

    /// Whether consumers may take messages.
    fn delivers(&self) -> bool {
        self.phase == Phase::Running && !self.is_ending()
    }

    /// Whether input of the client is ignored from now on.
    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Refused | Phase::Finished)
    }

    /// Whether the client has to read before more of its input is handled.
    fn has_full_output(&self) -> bool {
        self.client.output.is_full() || self.contents.behind_bytes() >= OUTPUT_BYTES_MAX
    }

    pub(crate) fn wants_turn(&self) -> bool {
        let has_content = self.contents.is_ready() && self.client.output.len() < TURN_BYTES_MAX;
        has_content
            || !self.client.events.is_empty()
            || self.is_ending()
            || self.takes_answers()
            || (self.delivers() && !(self.client.scheduled.is_empty() && self.waking.is_empty()))
            || (!(self.client.starved.is_empty() && self.replies.is_empty())
                && self.client.output.is_empty()
                && self.contents.behind_bytes() < TURN_BYTES_MAX)
    }

    /// Largest size in bytes of the properties in a content header to this client.
    pub(crate) fn properties_max(&self) -> usize {
        match self.frame_max {
            0 => usize::MAX,
            frame_max => (frame_max as usize).saturating_sub(HEADER_OVERHEAD),
        }
    }

    /// The channel with this number.
    pub(crate) fn channel(&mut self, number: u16) -> Result<&mut Channel> {
        self.channels.get_mut(&number).map(|channel| &mut **channel).ok_or_else(|| no_channel(number))
    }

    /// Handles input: see [`leveret_broker::Connection::receive`].
    pub(crate) fn receive(&mut self, input: &[u8], now: Now) -> usize {
        self.client.last_input = now.monotonic;
        // The outbox may have earlier events; an alarm takes effect from the next read on.
        self.alarm = self.client.broker.alarms.publishing_blocked();
        self.client.budget.renew();
        let mut used = 0;
        while self.takes_input() {
            if self.client.budget.is_spent() {
                self.client.paused = true;
                break;
            }
            if self.client.unwritten.is_full() {
                self.hold(Held::Upload, now);
                break;
            }
            if self.phase == Phase::Running && self.publishes_wait() {
                self.hold_for_log(now);
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
            if self.questions.hold(&frame) {
                self.held = Held::Asked;
                break;
            }
            if self.is_held_by_alarm(&frame) {
                self.hold_for_alarm(now);
                break;
            }
            if self.asks_for_contents(&frame) {
                self.flush_run(now);
                if !self.client.undurable.is_empty() {
                    self.hold(Held::OwnPublishes, now);
                    break;
                }
            }
            used += length;
            match self.frame(&frame, &input[used..], now) {
                Ok(further) => used += further,
                Err(error) => self.fail(frame.channel, error, now),
            }
        }
        self.flush_in_parts(now);
        self.flush_acks(now);
        self.register();
        self.client.broker.streams.announce();
        if self.is_over() { input.len() } else { used }
    }

    /// Handles a frame; returns how many bytes after it were used, too.
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
                self.ack(number, ack, now)
            }
            _ => {
                self.client.budget.spend(CONTROL);
                self.flush_run(now);
                self.flush_acks(now);
                self.channel_method(number, &method, now)
            }
        };
        result.map_err(|error| error.in_method(&method)).map(|()| 0)
    }

    /// Handles the usual publish, which is entirely in the read buffer, without copying any of it.
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

    /// Runs one turn: see [`leveret_broker::Connection::turn`].
    pub(crate) fn turn(&mut self, now: Now) {
        if !self.wants_read() && !self.client.output.is_full() {
            // Heartbeats that aren't read don't count as missed, unless it is the client that doesn't read.
            self.client.last_input = now.monotonic;
        }
        self.client.budget.renew();
        self.client.paused = false;
        self.go_on(now);
        self.client.outbox.drain_after(&mut self.client.events);
        while !self.client.budget.is_spent()
            && let Some(event) = self.client.events.pop_front()
        {
            self.client.budget.spend(EVENT);
            self.event(event, now);
        }
        if self.client.gone {
            // Work that ended in this turn may have published; those runs still have to be applied.
            self.client.hand_over();
            self.client.broker.streams.announce();
            return;
        }
        self.durable_work(now);
        self.take_answers(now);
        if self.delivers() {
            self.wake_more(now);
            self.deliver(now);
            self.deliver_replies(now);
        }
        self.keep_time(now);
        self.register();
        self.client.counters.flush();
        self.client.broker.streams.announce();
    }

    fn event(&mut self, event: Event, now: Now) {
        match event {
            Event::Queue(Signal::Scheduled(key)) => self.client.scheduled.push_back(key),
            Event::Queue(Signal::Cancelled(key)) => self.cancelled(key),
            Event::Queue(Signal::Loaded(key)) => self.loaded(key),
            Event::Queue(Signal::Answered(key)) => self.answered(key),
            // Consumers of this protocol have no link credit.
            Event::Queue(Signal::Drained { .. }) => {}
            // The connection checks in this turn whether its body is there.
            Event::Body => {}
            Event::Durable(stream) => self.client.registered.notified(stream, false),
            Event::Written(stream) => self.client.registered.notified(stream, true),
            Event::Alarm => self.alarm_changed(),
            Event::Reply(reply) => self.replies.push_back(reply),
            // A connection that isn't open yet is refused when it opens.
            Event::Maintenance if self.phase != Phase::Running || !self.client.broker.is_in_maintenance() => {}
            Event::Maintenance => {
                let text = format!("CONNECTION_FORCED - {IN_MAINTENANCE}");
                self.close(ReplyCode::ConnectionForced, &text, now);
            }
            Event::Describe(inquiry) => self.answer_inquiry(&inquiry, now),
            Event::Shed(reason) => self.shed(&reason, now),
            Event::Close(reason) => {
                let text = format!("CONNECTION_FORCED - {reason}");
                self.close(ReplyCode::ConnectionForced, &text, now);
            }
        }
    }
}
