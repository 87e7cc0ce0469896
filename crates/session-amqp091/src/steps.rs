//! The steps of a connection: where its frames, signals and wake-ups go.

use leveret_amqp091::{ContentHeader, Frame, FrameKind, Method, ReplyCode, decode_frame, encode_heartbeat};
use leveret_queue::Signal;

use super::content::Incoming;
use super::error::{ProtocolError, Result};
use super::held::InputHold;
use super::run::{Arriving, BodyRef};
use super::session::{Phase, Session};
use leveret_broker::inquiry::Inquiry;
use leveret_broker::reply::Reply;
use leveret_broker::settings::{IN_MAINTENANCE, OUTPUT_BYTES_MAX, TURN_BYTES_MAX};
use leveret_broker::time::Now;
use leveret_broker::turn_budget::CONTROL;
use leveret_broker::views::ConnectionView;
use leveret_session::client_connection::ClientConnection;
use leveret_session::driven::{self, HANDSHAKE_TIMEOUT, Steps};

/// The next frame that a channel may get.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expects {
    /// A method.
    Method,
    /// Content of `basic.publish`.
    Content,
    /// It isn't open.
    NoChannel,
}

impl Session {
    /// Whether a frame is refused because something doesn't exist: an object, or a vhost and the permission to enter it. The frames of
    /// content can't be taken again: their message is complete.
    fn finds_nothing(&self, frame: &Frame<'_>, error: &ProtocolError) -> bool {
        frame.kind == FrameKind::Method
            && match error.code {
                ReplyCode::NotFound => true,
                ReplyCode::NotAllowed | ReplyCode::AccessRefused => self.phase == Phase::Open,
                _ => false,
            }
    }

    /// Whether consumers may take messages.
    fn delivers(&self) -> bool {
        self.phase == Phase::Running && !self.is_ending()
    }

    /// Handles a frame; returns how many bytes after it were used, too.
    fn handle(&mut self, frame: &Frame<'_>, rest: &[u8], now: Now) -> Result<usize> {
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
        // Looked up once for each frame.
        let expects = match self.channels.get(&frame.channel) {
            Some(channel) if channel.is_closing() && frame.channel != 0 => {
                return self.closing_channel(frame, now).map(|()| 0);
            }
            Some(channel) if !matches!(channel.incoming(), Incoming::Method) => Expects::Content,
            Some(_) => Expects::Method,
            None => Expects::NoChannel,
        };
        match frame.kind {
            FrameKind::Method => self.method_frame(frame, expects, rest, now),
            FrameKind::Header => self.content_header(frame.channel, frame.payload, now).map(|()| 0),
            FrameKind::Body => self.content_body(frame.channel, frame.payload, now).map(|()| 0),
            FrameKind::Heartbeat => Ok(0),
        }
    }

    fn method_frame(&mut self, frame: &Frame<'_>, expects: Expects, rest: &[u8], now: Now) -> Result<usize> {
        let number = frame.channel;
        let method = Method::decode(frame.payload)?;
        if self.phase != Phase::Running || number == 0 {
            return self.connection_method(number, &method, now).map_err(|error| error.in_method(&method)).map(|()| 0);
        }
        if expects == Expects::Content {
            let text = format!("expected content frames of basic.publish on channel {number}, got {}", method.name());
            return Err(ProtocolError::new(ReplyCode::UnexpectedFrame, text).in_method(&method));
        }
        let result = match &method {
            Method::BasicPublish(publish) if expects == Expects::Method => {
                match self.inline_publish(number, publish, rest, now) {
                    Ok(Some(used)) => return Ok(used),
                    Ok(None) => self.begin_publish(number, publish, now),
                    Err(error) => Err(error),
                }
            }
            Method::BasicPublish(publish) => self.begin_publish(number, publish, now),
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
        if publish.immediate {
            return Ok(None);
        }
        let Ok(Some((frame, length))) = decode_frame(rest, self.negotiated.frame_max()) else { return Ok(None) };
        if frame.kind != FrameKind::Header || frame.channel != number {
            return Ok(None);
        }
        let header = ContentHeader::decode(frame.payload)?;
        self.check_header(&header)?;
        let mut used = length;
        let mut body: &[u8] = b"";
        if header.body_size > 0 {
            let Ok(Some((frame, length))) = decode_frame(&rest[used..], self.negotiated.frame_max()) else {
                return Ok(None);
            };
            if frame.kind != FrameKind::Body
                || frame.channel != number
                || frame.payload.len() as u64 != header.body_size
            {
                return Ok(None);
            }
            used += length;
            body = frame.payload;
        }
        let arriving = Arriving {
            channel: number,
            exchange: publish.exchange.as_bytes(),
            routing_key: publish.routing_key.as_bytes(),
            mandatory: publish.mandatory,
            properties: header.properties,
        };
        self.publish(&arriving, BodyRef::Slice(body), now)?;
        Ok(Some(used))
    }
}

impl Steps for Session {
    fn client(&self) -> &ClientConnection {
        &self.client
    }

    fn client_mut(&mut self) -> &mut ClientConnection {
        &mut self.client
    }

    fn is_open(&self) -> bool {
        self.phase == Phase::Running
    }

    fn is_held(&self) -> bool {
        !matches!(self.held, InputHold::No)
    }

    fn is_ending(&self) -> bool {
        !self.unfinished.is_empty()
    }

    fn is_leaving(&self) -> bool {
        self.unfinished.ends_connection()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Refused | Phase::Finished)
    }

    fn is_closed(&self) -> bool {
        self.phase == Phase::Finished
    }

    fn transaction_bytes(&self) -> u64 {
        self.transactions.bytes()
    }

    fn has_published(&self) -> bool {
        self.run.has_route()
    }

    /// During an alarm at least the next frame is read, and blocked if it publishes: only then is the client notified.
    fn has_to_be_told(&self) -> bool {
        self.alarm.has_to_be_told()
    }

    fn has_full_output(&self) -> bool {
        self.client.output.is_full() || self.contents.behind_bytes() >= OUTPUT_BYTES_MAX
    }

    fn has_work(&self) -> bool {
        let has_content = self.contents.is_ready() && self.client.output.len() < TURN_BYTES_MAX;
        has_content
            || self.takes_answers()
            || (self.delivers() && !(self.client.turns.are_over() && self.waking.is_empty()))
            || ((self.client.turns.any_starved() || !self.replies.is_empty())
                && self.client.output.is_empty()
                && self.contents.behind_bytes() < TURN_BYTES_MAX)
    }

    fn begin_read(&mut self) {
        // The outbox may have earlier events; an alarm takes effect from the next read on.
        self.alarm.note(self.client.broker.alarms.publishing_blocked());
    }

    fn frame(&mut self, input: &[u8], now: Now) -> driven::Frame {
        if self.client.unwritten.is_full() {
            self.hold(InputHold::Upload, now);
            return driven::Frame::Waits;
        }
        if self.phase == Phase::Running && self.publishes_wait() {
            self.hold_for_log(now);
            return driven::Frame::Waits;
        }
        let (frame, length) = match decode_frame(input, self.negotiated.frame_max()) {
            Ok(Some(found)) => found,
            Ok(None) => return driven::Frame::Waits,
            Err(error) => {
                self.fail(0, error.into(), now);
                return driven::Frame::Broken;
            }
        };
        if self.questions.hold(&frame) {
            self.held = InputHold::Asked;
            return driven::Frame::Waits;
        }
        if self.is_held_by_alarm(&frame) {
            self.hold_for_alarm(now);
            return driven::Frame::Waits;
        }
        if self.asks_for_contents(&frame) {
            self.flush_run(now);
            if self.client.await_publishes() {
                return driven::Frame::Waits;
            }
        }
        match self.handle(&frame, &input[length..], now) {
            Ok(further) => {
                self.client.has_found();
                driven::Frame::Used(length + further)
            }
            Err(_) if self.client.parks(now) => driven::Frame::Waits,
            Err(error) if self.finds_nothing(&frame, &error) && self.client.catches_up(now) => driven::Frame::Waits,
            Err(error) => {
                self.fail(frame.channel, error, now);
                driven::Frame::Used(length)
            }
        }
    }

    fn flush(&mut self, now: Now) {
        self.flush_in_parts(now);
        self.flush_acks(now);
    }

    fn begin_turn(&mut self, now: Now) {
        if !self.wants_read() && !self.client.output.is_full() {
            // Heartbeats that aren't read don't count as missed, unless it is the client that doesn't read.
            self.client.silence.heard(now);
        }
    }

    fn go_on(&mut self, now: Now) -> bool {
        self.continue_work(now);
        true
    }

    fn signal(&mut self, signal: Signal, now: Now) {
        if self.questions.keep_early(signal) {
            return;
        }
        match signal {
            Signal::Scheduled(key) => self.client.turns.schedule(key),
            Signal::Cancelled(key) => self.cancelled(key, now.monotonic),
            Signal::Loaded(key) => self.questions.loaded(key),
            Signal::Answered(key) => self.questions.answered(key),
            // Consumers of this protocol have no link credit.
            Signal::Drained { .. } | Signal::Activity { .. } => {}
        }
    }

    fn alarm_changed(&mut self) {
        self.note_alarm();
    }

    fn reply(&mut self, reply: Reply, _: Now) {
        self.replies.push(reply);
    }

    fn view(&self, inquiry: &Inquiry, now: Now) -> ConnectionView {
        self.describe_connection(inquiry, now)
    }

    fn close_for_maintenance(&mut self, now: Now) {
        self.close(IN_MAINTENANCE, now);
    }

    fn shed(&mut self, reason: &str, now: Now) {
        self.told().cut(reason, now);
        self.begin_end(None, now);
        self.phase = Phase::Finished;
    }

    fn close(&mut self, reason: &str, now: Now) {
        self.close_with(ReplyCode::ConnectionForced, &format!("CONNECTION_FORCED - {reason}"), now);
    }

    fn durable(&mut self, now: Now) {
        self.confirm_durable(now);
        self.end_reached_hold(now);
    }

    fn deliver(&mut self, now: Now) {
        self.take_answers(now);
        if self.delivers() {
            self.wake_more(now);
            self.serve_consumers(now);
            self.deliver_replies(now);
        }
    }

    fn look(&mut self, number: u16, now: Now) {
        self.take_back(number, now);
    }

    /// Heartbeats are negotiated before the connection is open (specification 4.2.7).
    fn keeps_alive(&self) -> bool {
        self.phase != Phase::Finished
    }

    fn deadline_passed(&mut self, now: Now) {
        if !matches!(self.phase, Phase::Closing | Phase::Refused) {
            self.told().cut(HANDSHAKE_TIMEOUT, now);
        }
        self.phase = Phase::Finished;
    }

    fn fell_silent(&mut self, now: Now) {
        let seconds = self.heartbeat_s();
        self.told().cut(&format!("missed heartbeats from client, timeout: {seconds}s"), now);
        self.phase = Phase::Finished;
    }

    fn send_heartbeat(&mut self) {
        encode_heartbeat(self.client.output.buffer());
    }

    fn register(&mut self) {
        let streams = &self.client.broker.streams;
        let (awaited, wants_room) = match &self.held {
            // If there is no position yet, the connection is notified when a move of dead letters gets one.
            InputHold::Durable { wait, .. } => (wait.next_awaited(&|stream| streams.reached(stream)), false),
            InputHold::No => (None, self.client.waits_for_log()),
            InputHold::Publishes { reason } if reason.is_for_room() => (None, true),
            _ => (None, false),
        };
        self.client.register(awaited, wants_room);
    }

    fn cut_off(&mut self, now: Now) {
        match self.phase {
            Phase::Closing | Phase::Finished | Phase::Refused => self.told().closed(now),
            _ => self.told().lost(now),
        }
        self.begin_end(None, now);
        self.phase = Phase::Finished;
        self.end_hold();
    }
}
