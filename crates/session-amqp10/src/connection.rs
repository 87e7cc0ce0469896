//! A connection's states and the dispatch of its frames (specification 2.4).

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_amqp10::{FrameKind, HEADER_AMQP, Performative, condition, decode_frame, performative::Transfer};
use leveret_model::{Action, Permit, Refused};
use leveret_queue::Signal;
use rustc_hash::FxHashMap;

use super::answers::Answers;
use super::asked::Questions;
use super::closing::FailedLink;
use super::coordinator::Transactions;
use super::deliver::Waking;
use super::disposition::Settlements;
use super::error::{Failure, Result, Scope};
use super::held::{Held, ShownWait};
use super::leaving::Leaving;
use super::link::Link;
use super::management::Waiting;
use super::publisher::WideRun;
use super::session::Session;
use super::sessions::Sessions;
use super::unconfirmed::Due;
use leveret_broker::outbox::Event;
use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::ticket::Awaited;
use leveret_broker::time::{Nanos, Now};
use leveret_broker::turn_budget::{CONSUMER, CONTROL, EVENT};
use leveret_session::client_connection::ClientConnection;
use leveret_session::gone::GoneAt;

/// The state of a connection (2.4.6 and 5.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The SASL header came; `sasl-init` is expected.
    SaslInit,
    /// The login was refused; the outcome is sent when the deadline passes.
    Refused,
    /// The outcome was sent; the AMQP header is expected.
    Header,
    /// `open` is expected.
    Open,
    /// The connection is open.
    Running,
    /// `close` was sent; only its answer is handled.
    Closing,
    /// Nothing more is sent.
    Finished,
}

/// The state of one AMQP 1.0 connection.
pub(crate) struct Connection {
    pub(crate) client: ClientConnection,
    /// The properties that its client sent.
    pub(crate) client_properties: leveret_model::Arguments,
    pub(crate) phase: Phase,
    /// The client's container-id.
    pub(crate) container: Arc<str>,
    /// Largest frame that we take, in bytes.
    pub(crate) frame_max_in: u32,
    /// Largest frame that the client takes, in bytes.
    pub(crate) frame_max_out: u32,
    /// The client wants to hear from us within this time; 0 is off.
    pub(crate) idle_out: Nanos,
    /// We want to hear from the client within this time; 0 is off.
    pub(crate) idle_in: Nanos,
    pub(super) sessions: Sessions,
    /// Channel and handle of links that are notified, by the key in their queue's signals or waiting responses.
    pub(crate) links: FxHashMap<u64, (u16, u32)>,
    /// The last turn filled the output before it had sent everything that the windows allow.
    pub(crate) unfinished: bool,
    /// Channel and handle of publishers that are collecting a run.
    pub(crate) collecting: Vec<(u16, u32)>,
    /// Runs that aren't handed to all of their many queues yet.
    pub(super) fan_outs: VecDeque<Box<WideRun>>,
    pub(crate) has_published: bool,
    pub(crate) settlements: Settlements,
    pub(crate) answers: Answers,
    /// Responses to management requests that wait.
    pub(crate) responses: VecDeque<Waiting>,
    pub(crate) transactions: Transactions,
    pub(crate) held: Held,
    pub(crate) shown_wait: Option<ShownWait>,
    /// The client maintains the node, and stays connected while it is in maintenance.
    pub(crate) ignores_maintenance: bool,
    /// Links that we detach and whose deliveries aren't all settled yet.
    pub(super) failed_links: VecDeque<(FailedLink, Box<Link>)>,
    /// Sessions that we end and that aren't left yet, with the error that is sent then.
    pub(super) ended: VecDeque<(u16, Failure)>,
    /// The error of our close, to be sent when everything has ended.
    pub(super) close_due: Option<Failure>,
    pub(super) leaving: Leaving,
    /// The time from which on the queues are gone that are deleted with ending links and sessions.
    pub(super) gone_at: GoneAt,
    /// The queues that have to be gone before the frame at the head of the input is handled again, if they answer later.
    pub(super) going: GoneAt,
    pub(super) questions: Questions,
    pub(super) waking: Vec<Waking>,
    /// A queue that is being declared for the held attach.
    pub(crate) declaring: Option<Arc<str>>,
    /// A buffer for outcomes that are due.
    pub(crate) due: Vec<Due>,
}

impl Connection {
    pub(crate) fn new(client: ClientConnection) -> Self {
        let initial_frame_max = client.broker.settings.initial_frame_max;
        Self {
            client,
            client_properties: leveret_model::Arguments::default(),
            phase: Phase::SaslInit,
            container: "".into(),
            frame_max_in: initial_frame_max,
            frame_max_out: initial_frame_max,
            idle_out: 0,
            idle_in: 0,
            sessions: Sessions::default(),
            links: FxHashMap::default(),
            unfinished: false,
            collecting: Vec::new(),
            fan_outs: VecDeque::new(),
            has_published: false,
            settlements: Settlements::default(),
            answers: Answers::default(),
            responses: VecDeque::new(),
            transactions: Transactions::default(),
            held: Held::No,
            shown_wait: None,
            ignores_maintenance: false,
            failed_links: VecDeque::new(),
            ended: VecDeque::new(),
            close_due: None,
            leaving: Leaving::default(),
            gone_at: GoneAt::default(),
            going: GoneAt::default(),
            questions: Questions::default(),
            waking: Vec::new(),
            declaring: None,
            due: Vec::new(),
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.phase == Phase::Finished && !self.is_ending()
    }

    /// Whether work that was begun is left, most often an end: turns go on with it.
    pub(crate) fn is_ending(&self) -> bool {
        let is_leaving = self.leaving.is_under_way() || !self.ended.is_empty() || !self.failed_links.is_empty();
        is_leaving || !self.fan_outs.is_empty()
    }

    pub(crate) fn wants_read(&self) -> bool {
        self.takes_input() && !self.client.output.is_full()
    }

    /// True if we aren't applying backpressure; only then may a silent client be timed out.
    pub(crate) fn takes_input(&self) -> bool {
        self.has_turn_for_input() && !self.client.waits_for_log
    }

    fn has_turn_for_input(&self) -> bool {
        let is_over = matches!(self.phase, Phase::Finished | Phase::Refused);
        matches!(self.held, Held::No) && !self.client.paused && !self.is_ending() && !is_over
    }

    pub(crate) fn wants_turn(&self) -> bool {
        // If the socket is full, it wakes the task once it has room.
        !self.client.events.is_empty()
            || self.is_ending()
            || self.held == Held::NextTurn
            || (self.phase == Phase::Running && !(self.client.scheduled.is_empty() && self.waking.is_empty()))
            || (self.unfinished && self.client.output.len() < TURN_BYTES_MAX)
            || (!self.client.starved.is_empty() && self.client.output.is_empty())
    }

    /// Handles input: see [`leveret_broker::Connection::receive`].
    pub(crate) fn receive(&mut self, input: &[u8], now: Now) -> usize {
        self.client.last_input = now.monotonic;
        self.client.budget.renew();
        let mut used = 0;
        while self.has_turn_for_input() && !self.client.output.is_full() {
            if self.client.budget.is_spent() {
                self.client.paused = true;
                break;
            }
            if self.phase == Phase::Header {
                let Some(header) = input[used..].first_chunk::<8>() else { break };
                used += header.len();
                self.header(header);
                continue;
            }
            if self.phase == Phase::Running && self.publishes_wait() {
                self.flush_runs(now);
                self.held = Held::LogRoom;
                break;
            }
            if self.client.unwritten.is_full() {
                self.held = Held::Upload;
                break;
            }
            let (frame, length) = match decode_frame(&input[used..], self.frame_max_in) {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(error) => {
                    self.fail(error.into(), now);
                    used = input.len();
                    break;
                }
            };
            if let Err(failure) = self.frame(frame.kind, frame.channel, frame.body, now) {
                self.fail(failure, now);
            }
            if matches!(self.held, Held::Again { .. } | Held::NextTurn | Held::Asked { .. }) {
                // The frame is handled again when the data it needs is there, or with a new turn's budget.
                break;
            }
            used += length;
        }
        self.flush_runs(now);
        self.flush_settlements(now);
        self.answer_requests(now);
        self.show_wait(now);
        self.register();
        self.client.broker.streams.announce();
        if self.phase == Phase::Finished { input.len() } else { used }
    }

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

    fn frame(&mut self, kind: FrameKind, channel: u16, body: &[u8], now: Now) -> Result<()> {
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
        // Frames that come with every message bypass the enumeration, whose largest variant would be moved each time.
        if self.phase == Phase::Running
            && let Some((transfer, payload)) = Transfer::decode_plain(body)
            && !self.questions.hold(channel, transfer.handle)
            && let Some(mut session) = self.sessions.take(channel)
        {
            let result = match session.ending {
                true => Ok(()),
                false => self.transfer(&mut session, &transfer, payload, now),
            };
            return self.conclude(session, Some(transfer.handle), result, now);
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
                    self.held = Held::NextTurn;
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
        if channel > self.client.channel_max {
            return Err(Failure::connection(
                condition::FRAMING_ERROR,
                format!("channel number ({channel}) exceeds maximum channel number ({})", self.client.channel_max),
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
        if session.ending {
            if let Performative::End(_) = performative {
                return Ok(());
            }
            self.sessions.put(session);
            return Ok(());
        }
        if let Some(handle) = handle_of(&performative).filter(|handle| self.questions.hold(channel, *handle)) {
            self.held = Held::Asked { channel, handle };
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
                    self.held = Held::NextTurn;
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

    /// Runs one turn: see [`leveret_broker::Connection::turn`].
    pub(crate) fn turn(&mut self, now: Now) {
        self.client.budget.renew();
        self.client.paused = false;
        let is_held_by_end = self.held == Held::NextTurn;
        if is_held_by_end {
            self.held = Held::No;
        }
        self.go_on_ending(now);
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
        if self.phase == Phase::Running && !is_held_by_end && !self.is_ending() {
            self.wake_more(now);
            self.deliver(now);
        }
        self.send_flows();
        self.keep_time(now);
        self.show_wait(now);
        self.register();
        self.client.counters.flush();
        self.client.broker.streams.announce();
    }

    fn event(&mut self, event: Event, now: Now) {
        match event {
            Event::Queue(Signal::Scheduled(key)) => self.client.scheduled.push_back(key),
            Event::Queue(Signal::Drained { key, delivery_count, available }) => {
                self.drained(key, delivery_count, available)
            }
            Event::Queue(Signal::Cancelled(key)) => self.queue_gone(key, now),
            Event::Queue(Signal::Answered(key)) => self.answered(key),
            Event::Queue(Signal::Loaded(_)) => {}
            Event::Alarm => self.set_alarm(self.client.broker.alarms.publishing_blocked()),
            Event::Reply(reply) => self.deliver_replies(&reply, now),
            // The connection checks in this turn whether its body is there.
            Event::Body => {}
            Event::Durable(stream) => self.client.registered.notified(stream, false),
            Event::Written(stream) => self.client.registered.notified(stream, true),
            // A connection that isn't open yet is refused when it opens.
            Event::Maintenance if self.phase == Phase::Running => {
                if let Err(failure) = self.check_maintenance() {
                    self.fail(failure, now);
                }
            }
            Event::Maintenance => {}
            Event::Describe(inquiry) => self.answer_inquiry(&inquiry, now),
            Event::Shed(reason) => {
                if !self.client.is_logged_in() {
                    self.fail(Failure::connection(condition::RESOURCE_LIMIT_EXCEEDED, &*reason), now);
                }
            }
            Event::Close(reason) => {
                let text = format!("Connection forced: {reason}");
                self.fail(Failure::connection(condition::CONNECTION_FORCED, text), now);
            }
        }
    }

    /// Registers for a wake-up at the next positions that this connection waits for.
    fn register(&mut self) {
        let held = match self.held {
            // Without a ticket it waits for the answers of queues first.
            Held::Again { ticket } if !ticket.is_nothing() => Some(Awaited::durable(ticket)),
            _ => None,
        };
        let (responses, discharges) = (self.next_response_awaited(), self.transactions.awaited());
        let awaited = self.answers.awaited().chain(responses).chain(discharges).chain(held);
        self.client.waits_for_log = self.publishes_wait();
        let wants_room = matches!(self.held, Held::LogRoom) || self.client.waits_for_log;
        self.client.register(awaited, wants_room);
    }

    /// True while this connection's publishes have to wait for the disk: the third level of flow control. It doesn't
    /// apply to a connection that never published.
    pub(crate) fn publishes_wait(&self) -> bool {
        self.has_published && self.client.is_log_full()
    }

    /// The permit for an action of this connection's user in its vhost.
    pub(crate) fn authorize(&self, action: Action<'_>) -> core::result::Result<Permit, Refused> {
        self.client.authorize(action)
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
