//! The steps of a connection: where its frames, signals and wake-ups go.

use leveret_amqp10::performative::{Flow, Transfer};
use leveret_amqp10::{Frame, FrameKind, HEADER_AMQP, Performative, Role, condition, decode_frame, encode_empty};
use leveret_queue::Signal;

use super::connection::{Connection, Phase};
use super::error::{Failure, Result, Scope};
use super::held::InputHold;
use super::link::Link;
use super::session::Session;
use leveret_broker::inquiry::Inquiry;
use leveret_broker::reply::Reply;
use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::ticket::Awaited;
use leveret_broker::time::{Now, SECOND};
use leveret_broker::turn_budget::{CONSUMER, CONTROL};
use leveret_broker::views::ConnectionView;
use leveret_session::client_connection::{CREDENTIAL_EXPIRED, ClientConnection};
use leveret_session::driven::{self, HANDSHAKE_TIMEOUT, Steps};

impl Connection {
    fn header(&mut self, header: &[u8; 8]) {
        if *header == HEADER_AMQP {
            self.client.output.buffer().extend_from_slice(&HEADER_AMQP);
            self.phase = Phase::Open;
            return;
        }
        let why = format!("bad_header: {header:?} after SASL; the answer is AMQP 1.0's");
        self.told().failed(self.state(), &why);
        self.client.output.buffer().extend_from_slice(&HEADER_AMQP);
        self.phase = Phase::Finished;
    }

    /// Handles any frame.
    #[inline(never)]
    fn handle(&mut self, &Frame { kind, channel, body }: &Frame<'_>, now: Now) -> Result<()> {
        match (self.phase, kind) {
            (Phase::SaslInit, FrameKind::Sasl) => return self.sasl(body, now),
            (Phase::SaslInit, FrameKind::Amqp) => {
                let text = "unexpected frame type 0 in sasl mode (expected 1)";
                return Err(Failure::connection(condition::FRAMING_ERROR, text));
            }
            (_, FrameKind::Sasl) => {
                let text = "unexpected frame type 1 in amqp mode (expected 0)";
                return Err(Failure::connection(condition::FRAMING_ERROR, text));
            }
            _ => {}
        }
        if body.is_empty() {
            return Ok(());
        }
        let (performative, payload) = Performative::decode(body)?;
        match (self.phase, performative) {
            (Phase::Closing, Performative::Close(_)) => self.phase = Phase::Finished,
            (Phase::Closing, _) => {}
            (Phase::Open, Performative::Open(open)) => self.open(&open, now)?,
            (Phase::Open, other) => {
                return Err(Failure::connection(
                    condition::ILLEGAL_STATE,
                    format!("expected open, received {}", other.name()),
                ));
            }
            (_, Performative::Open(_)) => {
                return Err(Failure::connection(condition::ILLEGAL_STATE, "received a second open"));
            }
            (_, Performative::Close(close)) => {
                if let Some(error) = close.error {
                    let text = error.description.unwrap_or_default();
                    self.told().closed_with(error.condition.as_str(), text);
                }
                if !self.leave(now) {
                    self.held = InputHold::NextTurn;
                    return Ok(());
                }
                let gone_at = std::mem::take(&mut self.gone_at);
                if self.waits_for(gone_at) {
                    return Ok(());
                }
                self.send_close(None);
                self.phase = Phase::Finished;
            }
            (_, performative) => return self.session_frame(channel, performative, payload, now),
        }
        Ok(())
    }

    fn session_frame(&mut self, channel: u16, performative: Performative<'_>, payload: &[u8], now: Now) -> Result<()> {
        if channel > self.client.channel_max() {
            return Err(Failure::connection(
                condition::FRAMING_ERROR,
                format!("channel number ({channel}) exceeds maximum channel number ({})", self.client.channel_max()),
            ));
        }
        let Some(mut session) = self.sessions.take(channel) else {
            let Performative::Begin(begin) = performative else {
                return Err(Failure::connection(
                    condition::FRAMING_ERROR,
                    format!(
                        "{} received on channel {channel}, which has no session: begin must come first",
                        performative.name()
                    ),
                ));
            };
            return self.begin(channel, &begin);
        };
        if session.is_ending() {
            if let Performative::End(_) = performative {
                return Ok(());
            }
            self.sessions.put(session);
            return Ok(());
        }
        if let Some(handle) = handle_of(&performative).filter(|handle| self.questions.hold(channel, *handle)) {
            self.held = InputHold::Asked { channel, handle };
            self.sessions.put(session);
            return Ok(());
        }
        if looks_at_contents(&session, &performative) && self.awaits_publishes(&mut session, now) {
            self.sessions.put(session);
            return Ok(());
        }
        if !matches!(performative, Performative::Transfer(_) | Performative::Disposition(_)) {
            self.client.budget.spend(CONTROL);
        }
        if matches!(performative, Performative::Attach(_)) {
            self.client.budget.spend(CONSUMER);
        }
        // A link that can't be detached isn't detached for that.
        let handle = handle_of(&performative).filter(|_| !matches!(performative, Performative::Detach(_)));
        let result = match performative {
            Performative::Transfer(transfer) => self.transfer(&mut session, &transfer, payload, now),
            Performative::Disposition(disposition) => self.disposition(&mut session, &disposition, now),
            Performative::Flow(flow) => self.flow(&mut session, &flow, now),
            Performative::Attach(attach) => self.attach(&mut session, &attach, now),
            Performative::Detach(detach) => self.detached(&mut session, &detach, now),
            Performative::End(_) => {
                if !self.leave_session(&mut session, now) {
                    self.held = InputHold::NextTurn;
                    self.sessions.put(session);
                    return Ok(());
                }
                let gone_at = std::mem::take(&mut self.gone_at);
                if self.waits_for(gone_at) {
                    self.sessions.put(session);
                    return Ok(());
                }
                self.send_end(channel, None);
                return Ok(());
            }
            Performative::Begin(_) => Err(Failure::session(
                condition::ILLEGAL_STATE,
                format!("begin received on channel {channel}, which has a session"),
            )),
            Performative::Open(_) | Performative::Close(_) => Ok(()),
        };
        self.conclude(session, handle, result, now)
    }

    /// Puts the session back after a frame that named this handle, and ends the link or session that failed. An error
    /// that ends the connection is passed on.
    #[inline]
    fn conclude(&mut self, session: Box<Session>, handle: Option<u32>, result: Result<()>, now: Now) -> Result<()> {
        match result {
            Ok(()) => {
                self.sessions.put(session);
                Ok(())
            }
            Err(failure) => self.conclude_failed(session, handle, failure, now),
        }
    }

    #[cold]
    fn conclude_failed(
        &mut self,
        mut session: Box<Session>,
        handle: Option<u32>,
        failure: Failure,
        now: Now,
    ) -> Result<()> {
        if self.client.parks(now) {
            self.sessions.put(session);
            return Ok(());
        }
        // RabbitMQ 4.3 ends the session if the action isn't permitted.
        let is_strict =
            self.client.broker.settings.strict_compat && failure.condition == condition::UNAUTHORIZED_ACCESS;
        let handle = handle.filter(|_| !is_strict);
        match (failure.scope, handle) {
            (Scope::Link, Some(handle)) => self.fail_link(&mut session, handle, failure, now),
            (Scope::Link, None) | (Scope::Session, _) => {
                self.fail_session(&mut session, failure.ending(Scope::Session), now);
            }
            (Scope::Connection, _) => {
                self.sessions.put(session);
                return Err(failure);
            }
        }
        self.sessions.put(session);
        Ok(())
    }

    #[cold]
    fn header_frame(&mut self, input: &[u8]) -> driven::Frame {
        let Some(header) = input.first_chunk::<8>() else { return driven::Frame::Waits };
        self.header(header);
        driven::Frame::Used(header.len())
    }

    #[cold]
    fn hold_for_log(&mut self, now: Now) -> driven::Frame {
        self.flush_runs(now);
        self.held = InputHold::LogRoom;
        driven::Frame::Waits
    }

    #[cold]
    fn broken(&mut self, failure: Failure, now: Now) -> driven::Frame {
        self.fail(failure, now);
        driven::Frame::Broken
    }

    #[cold]
    fn fail_unless_parked(&mut self, failure: Failure, now: Now) {
        // The vhost, or the permission to enter it, isn't there.
        let finds_nothing = self.phase == Phase::Open && failure.condition == condition::UNAUTHORIZED_ACCESS;
        if !(self.client.parks(now) || finds_nothing && self.client.catches_up(now)) {
            self.fail(failure, now);
        }
    }

    /// The result of a frame that was handled, and may have to wait.
    #[inline(never)]
    fn used_unless_held(&mut self, length: usize) -> driven::Frame {
        match self.held {
            // The frame is handled again when the data it needs is there, or with a new turn's budget.
            InputHold::Again { .. } | InputHold::Change | InputHold::NextTurn | InputHold::Asked { .. } => {
                driven::Frame::Waits
            }
            _ if self.client.awaits_publishes() || !self.client.takes_frame() => driven::Frame::Waits,
            _ => driven::Frame::Used(length),
        }
    }

    /// Whether consumers may take messages.
    fn delivers(&self) -> bool {
        self.phase == Phase::Running && !self.is_ending()
    }
}

impl Steps for Connection {
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
        self.endings.are_under_way() || self.publishing.has_wide() || self.transactions.is_committing()
    }

    fn is_leaving(&self) -> bool {
        self.endings.leaving().is_under_way()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Refused)
    }

    fn is_closed(&self) -> bool {
        self.phase == Phase::Finished
    }

    fn transaction_bytes(&self) -> u64 {
        self.transactions.bytes()
    }

    fn has_published(&self) -> bool {
        self.publishing.has_begun()
    }

    fn has_work(&self) -> bool {
        // If the socket is full, it wakes the task once it has room.
        // A link whose question is forgotten, since it failed, is asked nothing any more.
        let is_asked_in_vain =
            matches!(self.held, InputHold::Asked { channel, handle } if !self.questions.hold(channel, handle));
        // A removal may be answered at the end of the read that it came with.
        let is_removed = self.held == InputHold::Removal && !self.is_removing();
        self.held == InputHold::NextTurn
            || is_asked_in_vain
            || is_removed
            || (self.delivers() && !(self.client.turns.are_over() && self.waking.is_empty()))
            || (self.unfinished && self.client.output.len() < TURN_BYTES_MAX)
            || (self.client.turns.any_starved() && self.client.output.is_empty())
    }

    /// Inlined where frames are read: what most frames don't need is in functions of its own.
    #[inline(always)]
    fn frame(&mut self, input: &[u8], now: Now) -> driven::Frame {
        if self.phase == Phase::Header {
            return self.header_frame(input);
        }
        if self.phase == Phase::Running && self.publishes_wait() {
            return self.hold_for_log(now);
        }
        if self.client.unwritten.is_full() {
            self.held = InputHold::Upload;
            return driven::Frame::Waits;
        }
        let (frame, length) = match decode_frame(input, self.opened.frame_max_in()) {
            Ok(Some(found)) => found,
            Ok(None) => return driven::Frame::Waits,
            Err(error) => return self.broken(error.into(), now),
        };
        // Frames that come with every message bypass the enumeration, whose largest variant would be moved each time.
        let result = if self.phase == Phase::Running
            && frame.kind == FrameKind::Amqp
            && let Some((transfer, payload)) = Transfer::decode_plain(frame.body)
            && !self.questions.hold(frame.channel, transfer.handle)
            && let Some(mut session) = self.sessions.take(frame.channel)
        {
            let result = match session.is_ending() {
                true => Ok(()),
                false => self.transfer(&mut session, &transfer, payload, now),
            };
            self.conclude(session, Some(transfer.handle), result, now)
        } else {
            self.handle(&frame, now)
        };
        if let Err(failure) = result {
            self.fail_unless_parked(failure, now);
        }
        if matches!(self.held, InputHold::No) && !self.client.awaits_publishes() && self.client.takes_frame() {
            return driven::Frame::Used(length);
        }
        self.used_unless_held(length)
    }

    fn flush(&mut self, now: Now) {
        self.flush_runs(now);
        self.flush_settlements(now);
        self.answer_requests(now);
    }

    fn go_on(&mut self, now: Now) -> bool {
        let is_held_by_end = self.held == InputHold::NextTurn;
        if is_held_by_end {
            self.held = InputHold::No;
        }
        self.go_on_ending(now);
        !is_held_by_end
    }

    fn signal(&mut self, signal: Signal, now: Now) {
        if let Some(attaching) = &mut self.attaching
            && attaching.early.keep(signal)
        {
            return;
        }
        match signal {
            Signal::Scheduled(key) => self.client.turns.schedule(key),
            Signal::Activity { key, active, change, available } => {
                self.activity_changed(key, active, change, available);
            }
            Signal::Drained { key, delivery_count, available } => self.drained(key, delivery_count, available),
            Signal::Cancelled(key) => self.queue_gone(key, now),
            Signal::Answered(key) => self.answered(key, now),
            Signal::Loaded(_) => {}
        }
    }

    fn alarm_changed(&mut self) {
        self.set_alarm(self.client.broker.alarms.publishing_blocked());
    }

    fn reply(&mut self, reply: Reply, now: Now) {
        self.deliver_replies(&reply, now);
    }

    fn view(&self, inquiry: &Inquiry, now: Now) -> ConnectionView {
        self.describe_connection(inquiry, now)
    }

    fn close_for_maintenance(&mut self, now: Now) {
        if let Err(failure) = self.check_maintenance() {
            self.fail(failure, now);
        }
    }

    fn shed(&mut self, reason: &str, now: Now) {
        self.fail(Failure::connection(condition::RESOURCE_LIMIT_EXCEEDED, reason), now);
    }

    fn close(&mut self, reason: &str, now: Now) {
        let text = format!("Connection forced: {reason}");
        self.fail(Failure::connection(condition::CONNECTION_FORCED, text), now);
    }

    fn credential_expired(&mut self, now: Now) {
        self.fail(Failure::connection(condition::UNAUTHORIZED_ACCESS, CREDENTIAL_EXPIRED), now);
    }

    fn durable(&mut self, now: Now) {
        self.confirm(now);
        self.answer_settlements();
        self.answer_discharges();
        self.answer_requests(now);
        self.end_reached_hold(now);
    }

    fn deliver(&mut self, now: Now) {
        if self.delivers() {
            self.wake_more(now);
            self.serve_consumers(now);
        }
    }

    fn look(&mut self, number: u16, now: Now) {
        self.take_back(number, now);
    }

    fn end_turn(&mut self) {
        self.send_flows();
    }

    /// Idle timeouts begin with `open` (specification 2.4.5).
    fn keeps_alive(&self) -> bool {
        self.phase == Phase::Running
    }

    fn expects_input(&self) -> bool {
        let is_free = !self.is_held() && !self.client.is_paused() && !self.is_ending() && !self.is_over();
        is_free && !self.client.waits_for_log() && !self.client.awaits_publishes()
    }

    fn deadline_passed(&mut self, now: Now) {
        match self.phase {
            Phase::Refused => self.send_login_refused(),
            Phase::Closing => self.phase = Phase::Finished,
            _ => {
                self.told().cut(HANDSHAKE_TIMEOUT, now);
                self.phase = Phase::Finished;
            }
        }
    }

    fn fell_silent(&mut self, now: Now) {
        let seconds = self.client.silence.input_every() / SECOND;
        let text = format!("no frame received from client within idle timeout threshold of {seconds}s");
        self.fail(Failure::connection(condition::RESOURCE_LIMIT_EXCEEDED, text), now);
    }

    fn send_heartbeat(&mut self) {
        encode_empty(self.client.output.buffer());
    }

    fn show_wait(&mut self, now: Now) {
        let reason = self.publishes_wait_for();
        if self.client.shown_wait() == reason {
            return;
        }
        match reason {
            Some(reason) => self.client.show_wait(reason, self.queues_that_wait(reason), now),
            None => self.client.hide_wait(),
        }
    }

    fn register(&mut self) {
        let held = match self.held {
            // Without a ticket it waits for the answers of queues first.
            InputHold::Again { ticket } if !ticket.is_nothing() => Some(Awaited::durable(ticket)),
            _ => None,
        };
        let (responses, discharges) = (self.next_response_awaited(), self.transactions.awaited());
        let awaited = self.answers.awaited().chain(responses).chain(discharges).chain(held);
        let waits = self.client.waits_for_log();
        let wants_room = matches!(self.held, InputHold::LogRoom) || waits;
        self.client.register(awaited, wants_room);
    }

    fn cut_off(&mut self, now: Now) {
        match self.phase {
            Phase::Closing | Phase::Finished | Phase::Refused => self.told().closed(now),
            _ => self.told().lost(now),
        }
        self.forget_attaching(|_| true, now);
        self.leave(now);
        self.phase = Phase::Finished;
        self.client.hide_wait();
        self.held = InputHold::No;
    }
}

/// Whether a frame looks at what queues hold: earlier publishes of its connection have to be there by then. A consumer may begin
/// behind the last message of a stream; a drain ends when no message is left, and an echo says how many there are.
fn looks_at_contents(session: &Session, performative: &Performative<'_>) -> bool {
    match performative {
        Performative::Attach(attach) => attach.role == Role::Receiver,
        Performative::Flow(Flow { handle: Some(handle), drain, echo, .. }) if *drain || *echo => {
            matches!(session.look(*handle), Some(Link::Consumer(_)))
        }
        _ => false,
    }
}

/// The link that a frame names.
fn handle_of(performative: &Performative<'_>) -> Option<u32> {
    match performative {
        Performative::Transfer(transfer) => Some(transfer.handle),
        Performative::Attach(attach) => Some(attach.handle),
        Performative::Flow(flow) => flow.handle,
        Performative::Detach(detach) => Some(detach.handle),
        _ => None,
    }
}
