//! A connection's states and the dispatch of its packets.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_broker::inquiry::Inquiry;
use leveret_broker::reply::Reply;
use leveret_broker::settings::{IN_MAINTENANCE, TURN_BYTES_MAX};
use leveret_broker::streams::waits::InOrder;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::CONTROL;
use leveret_broker::views::ConnectionView;
use leveret_model::{Action, Permit, Refused, authorize_client};
use leveret_mqtt::{AckKind, Packet, PacketKind, ReasonCode, Version, next_packet};
use leveret_queue::{Signal, WaitReason};
use leveret_session::client_connection::ClientConnection;
use leveret_session::driven::{self, HANDSHAKE_TIMEOUT, Steps};

use super::aliases::Aliases;
use super::changing::CHANGE_KEY;
use super::client_ids::CLAIM_KEY;
use super::confirming::Confirming;
use super::consumer::Consumer;
use super::content::LargeDelivery;
use super::exchanges::{Exchanges, Unacknowledged};
use super::failure::BrokenRule;
use super::input_hold::MqttHold;
use super::ledger::LEDGER_KEY;
use super::node::Shared;
use super::open_connections::OpenConnection;
use super::publish_run::{OnItsWay, PublishRun};
use super::search::Search;
use super::stored_will::StoredWill;
use super::subscriptions::Subscriptions;

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MqttPhase {
    /// CONNECT is expected.
    Begin,
    /// The client has logged in; its session is ended or resumed.
    Opening,
    /// CONNACK was sent.
    Open,
    /// The login is refused; the answer waits.
    Refused(ReasonCode),
    /// Nothing more is sent.
    Finished,
}

/// The state of one connection. What only some clients have is allocated when they have it.
pub(crate) struct Session {
    pub(crate) client: ClientConnection,
    pub(crate) shared: Arc<Shared>,
    /// This connection among those of MQTT, once it is open.
    pub(crate) counted: Option<OpenConnection>,
    pub(crate) version: Version,
    pub(crate) phase: MqttPhase,
    /// The client id; empty before the CONNECT.
    pub(crate) client_id: Arc<str>,
    /// Interval in which the client sends something, in seconds; 0 is any time.
    pub(crate) keep_alive_s: u16,
    /// Messages of QoS 1 and 2 that the client takes without an acknowledgement.
    pub(crate) receive_max: u16,
    /// Largest packet that the client takes, in bytes.
    pub(crate) packet_max_of_client: u32,
    /// Seconds for which the session outlives the connection; `u32::MAX` is for ever.
    pub(crate) expiry_s: u32,
    /// Whether the client wants a new session.
    pub(crate) clean_start: bool,
    /// Whether a CONNECT was decoded.
    pub(crate) has_connect: bool,
    /// Whether the server chose the client id.
    pub(crate) has_assigned_id: bool,
    /// Whether the connection has its client id, or waits for it.
    pub(crate) claims: bool,
    /// Whether everything that it had was ended.
    pub(crate) has_ended: bool,
    /// Whether it ever published.
    pub(crate) has_published: bool,
    /// Whether the will is recorded.
    pub(crate) has_recorded_will: bool,
    /// Publishing is blocked on the whole node.
    pub(crate) alarm: bool,
    pub(crate) held: MqttHold,
    pub(crate) will: Option<Box<StoredWill>>,
    pub(crate) aliases: Aliases,
    pub(crate) subscriptions: Subscriptions,
    /// The consumers of its queues, by their level.
    pub(crate) consumers: [Option<Box<Consumer>>; 2],
    pub(crate) exchanges: Exchanges,
    /// Acknowledgements that came in one read.
    pub(crate) acked: Vec<Unacknowledged>,
    /// The messages that go to their queues next.
    pub(crate) run: Option<Box<PublishRun>>,
    /// A run that not all of its queues have.
    pub(crate) unfinished: Option<Box<OnItsWay>>,
    /// Answers that wait for the disk.
    pub(crate) confirming: InOrder<Confirming>,
    /// Searches for retained messages.
    pub(crate) searches: VecDeque<Search>,
    pub(crate) content: Option<Box<LargeDelivery>>,
    /// The head of a message while it is written; empty in between, so that its memory is reused.
    pub(crate) head: Vec<u8>,
}

impl Session {
    pub(crate) fn new(client: ClientConnection, shared: Arc<Shared>, version: Version) -> Self {
        Self {
            alarm: client.broker.alarms.publishing_blocked(),
            client,
            shared,
            counted: None,
            version,
            phase: MqttPhase::Begin,
            client_id: "".into(),
            keep_alive_s: 0,
            receive_max: u16::MAX,
            packet_max_of_client: u32::MAX,
            expiry_s: 0,
            clean_start: true,
            has_connect: false,
            has_assigned_id: false,
            claims: false,
            has_ended: false,
            has_published: false,
            has_recorded_will: false,
            held: MqttHold::No,
            will: None,
            aliases: Aliases::default(),
            subscriptions: Subscriptions::default(),
            consumers: [None, None],
            exchanges: Exchanges::default(),
            acked: Vec::new(),
            run: None,
            unfinished: None,
            confirming: InOrder::default(),
            searches: VecDeque::new(),
            content: None,
            head: Vec::new(),
        }
    }

    /// The permit for an action of this client.
    ///
    /// # Errors
    /// Its user lacks the permission.
    pub(crate) fn authorize(&self, action: Action<'_>) -> Result<Permit, Refused> {
        let snapshot = self.client.broker.registry.snapshot();
        let (user, vhost) = (&self.client.user, &self.client.vhost);
        authorize_client(&snapshot.topology, user, vhost, Some(&self.client_id), action)
    }

    /// Largest packet that the client may send now, in bytes.
    fn packet_max(&self) -> u32 {
        let settings = &self.shared.settings;
        if self.phase == MqttPhase::Open { settings.packet_max } else { settings.packet_max_unauthenticated }
    }

    /// Handles a packet of an open connection. False if it has to wait.
    fn packet(&mut self, packet: &Packet<'_>, now: Now) -> Result<bool, BrokenRule> {
        if let Packet::Publish(publish) = packet {
            return self.publish(publish, now);
        }
        self.client.budget.spend(CONTROL);
        match packet {
            Packet::Ack(ack) => {
                if ack.kind == AckKind::PubRec && self.waits_for_sessions(now) {
                    return Ok(false);
                }
                self.ack(ack, now)?;
            }
            Packet::Subscribe(subscribe) => {
                self.flush_run(now);
                self.subscribe(subscribe, now)?;
            }
            Packet::Unsubscribe(unsubscribe) => {
                self.flush_run(now);
                self.unsubscribe(unsubscribe, now)?;
            }
            Packet::PingReq => Packet::PingResp.encode(self.version, self.client.output.buffer()),
            Packet::Disconnect(disconnect) => self.disconnected_by_client(disconnect, now),
            Packet::Auth(_) => {
                let text = "AUTH without a method of extended authentication (4.12.1)";
                return Err(BrokenRule::new(ReasonCode::PROTOCOL_ERROR, text));
            }
            Packet::Connect(_) => {
                return Err(BrokenRule::new(ReasonCode::PROTOCOL_ERROR, "a second CONNECT [MQTT-3.1.0-2]"));
            }
            Packet::Publish(_) | Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PingResp => {
                return Err(BrokenRule::new(ReasonCode::PROTOCOL_ERROR, "a packet that only servers send"));
            }
        }
        Ok(true)
    }

    /// Ends the connection, whose client sent something broken.
    fn broken(&mut self, failure: &BrokenRule, now: Now) -> driven::Frame {
        self.fail(failure, now);
        driven::Frame::Broken
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
        self.phase == MqttPhase::Open
    }

    fn is_held(&self) -> bool {
        !matches!(self.held, MqttHold::No)
    }

    fn is_ending(&self) -> bool {
        self.unfinished.is_some()
    }

    fn is_leaving(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, MqttPhase::Refused(_) | MqttPhase::Finished)
    }

    fn is_closed(&self) -> bool {
        self.phase == MqttPhase::Finished
    }

    fn has_published(&self) -> bool {
        self.has_published
    }

    fn has_work(&self) -> bool {
        let has_room = self.client.output.len() < TURN_BYTES_MAX;
        let can_deliver = self.phase == MqttPhase::Open && !self.client.scheduled.is_empty();
        can_deliver || has_room && !self.client.starved.is_empty() || self.has_kept() || self.has_content()
    }

    fn begin_read(&mut self) {
        // The outbox may have earlier events; an alarm takes effect from the next read on.
        self.alarm = self.client.broker.alarms.publishing_blocked();
    }

    fn frame(&mut self, input: &[u8], now: Now) -> driven::Frame {
        let error = |error: leveret_mqtt::DecodeError| BrokenRule::new(error.reason(), error.to_string());
        let (raw, length) = match next_packet(input, self.packet_max()) {
            Ok(Some(found)) => found,
            Ok(None) => return driven::Frame::Waits,
            Err(wrong) => return self.broken(&error(wrong), now),
        };
        if self.phase == MqttPhase::Begin && raw.kind != PacketKind::Connect {
            let text = format!("{} before CONNECT [MQTT-3.1.0-1]", raw.kind);
            return self.broken(&BrokenRule::new(ReasonCode::PROTOCOL_ERROR, text), now);
        }
        let packet = match Packet::decode(&raw, self.version) {
            Ok(packet) => packet,
            Err(wrong) => return self.broken(&error(wrong), now),
        };
        if let (MqttPhase::Begin, Packet::Connect(connect)) = (self.phase, &packet) {
            self.has_connect = true;
            self.client.budget.spend(CONTROL);
            self.connect(connect, now);
            return driven::Frame::Used(length);
        }
        match self.packet(&packet, now) {
            Ok(true) => driven::Frame::Used(length),
            Ok(false) => driven::Frame::Waits,
            Err(failure) => self.broken(&failure, now),
        }
    }

    fn flush(&mut self, now: Now) {
        self.flush_in_parts(now);
        self.flush_acks(now);
    }

    fn begin_turn(&mut self, now: Now) {
        if !self.wants_read() && !self.client.output.is_full() {
            // Packets that aren't read don't count as missed, unless it is the client that doesn't read.
            self.client.last_input = now.monotonic;
        }
    }

    fn go_on(&mut self, now: Now) -> bool {
        self.go_on_with_run(now);
        true
    }

    fn signal(&mut self, signal: Signal, now: Now) {
        match signal {
            Signal::Scheduled(key) => self.client.scheduled.push_back(key),
            Signal::Cancelled(key) => {
                if let Some(level) = self.level_of(key) {
                    self.lose_queue(level, now);
                }
            }
            Signal::Answered(CHANGE_KEY) => self.take_change(now),
            Signal::Answered(CLAIM_KEY) => {
                if matches!(self.held, MqttHold::Claim) && self.shared.client_ids.has(&self.key(), self.client.id) {
                    self.claimed(now);
                }
            }
            Signal::Answered(LEDGER_KEY) => self.ledger_is_read(now),
            Signal::Answered(key) => self.consumer_answered(key, now),
            // Nothing of this protocol asks for the others.
            Signal::Loaded(_) | Signal::Drained { .. } | Signal::Activity { .. } => {}
        }
    }

    fn alarm_changed(&mut self) {
        self.note_alarm();
    }

    fn reply(&mut self, _reply: Reply, _now: Now) {}

    fn view(&self, inquiry: &Inquiry, now: Now) -> ConnectionView {
        self.describe(inquiry, now)
    }

    fn close_for_maintenance(&mut self, now: Now) {
        self.cut(IN_MAINTENANCE, now);
    }

    fn shed(&mut self, reason: &str, now: Now) {
        self.cut(reason, now);
    }

    fn close(&mut self, reason: &str, now: Now) {
        self.cut(reason, now);
    }

    fn durable(&mut self, now: Now) {
        self.confirm_durable(now);
        self.end_reached_hold(now);
    }

    fn deliver(&mut self, now: Now) {
        if self.phase == MqttPhase::Open {
            self.serve_consumers(now);
            self.send_retained(now);
        }
    }

    fn end_turn(&mut self) {
        if self.head.capacity() > 0 {
            // An idle connection owns no buffer.
            self.head = Vec::new();
        }
    }

    fn look(&mut self, _number: u16, _now: Now) {}

    fn keeps_alive(&self) -> bool {
        self.phase == MqttPhase::Open
    }

    fn deadline_passed(&mut self, now: Now) {
        match self.phase {
            MqttPhase::Refused(reason) => self.end_refused(reason),
            _ => {
                self.told().cut(HANDSHAKE_TIMEOUT, now);
                self.begin_end(now);
                self.phase = MqttPhase::Finished;
            }
        }
    }

    fn fell_silent(&mut self, now: Now) {
        let why = format!("keepalive timeout: nothing came for 1.5 times {} s", self.keep_alive_s);
        self.told().cut(&why, now);
        self.end_with(ReasonCode::KEEP_ALIVE_TIMEOUT, &why, now);
    }

    /// Only clients send packets to show that they are alive.
    fn send_heartbeat(&mut self) {}

    fn register(&mut self) {
        let streams = &self.client.broker.streams;
        let mut awaited: smallvec::SmallVec<[_; 2]> = self.confirming.awaited().collect();
        let wants_room = match &self.held {
            MqttHold::Durable(waiting) => {
                awaited.extend(waiting.0.next_awaited(&|stream| streams.reached(stream)));
                false
            }
            MqttHold::Publishes(WaitReason::LogFull | WaitReason::DiskFull) => true,
            MqttHold::Publishes(_) | MqttHold::Asked(_) | MqttHold::Claim | MqttHold::Ledger | MqttHold::Body => false,
            MqttHold::No => self.client.waits_for_log,
        };
        self.client.register(awaited, wants_room);
    }

    fn cut_off(&mut self, now: Now) {
        if !self.is_over() {
            self.told().lost(now);
        }
        self.begin_end(now);
        self.phase = MqttPhase::Finished;
    }
}
