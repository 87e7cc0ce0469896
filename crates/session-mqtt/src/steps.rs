//! The steps of a connection: where its frames, signals and wake-ups go.

use leveret_mqtt::{AckKind, Packet, PacketKind, ReasonCode, next_packet};
use leveret_queue::Signal;

use super::changing::CHANGE_KEY;
use super::client_ids::CLAIM_KEY;
use super::failure::BrokenRule;
use super::input_hold::MqttHold;
use super::ledger::LEDGER_KEY;
use super::session::{MqttPhase, Session};
use leveret_broker::inquiry::Inquiry;
use leveret_broker::reply::Reply;
use leveret_broker::settings::{IN_MAINTENANCE, TURN_BYTES_MAX};
use leveret_broker::time::Now;
use leveret_broker::turn_budget::CONTROL;
use leveret_broker::views::ConnectionView;
use leveret_session::client_connection::{CREDENTIAL_EXPIRED, ClientConnection};
use leveret_session::driven::{self, HANDSHAKE_TIMEOUT, Steps};

impl Session {
    /// Largest packet that the client may send now, in bytes.
    pub(super) fn packet_max(&self) -> u32 {
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
            Packet::PingReq => Packet::PingResp.encode(self.terms.version(), self.client.output.buffer()),
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
        self.publishing.is_unfinished()
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
        self.publishing.has_published()
    }

    fn has_work(&self) -> bool {
        let has_room = self.client.output.len() < TURN_BYTES_MAX;
        let can_deliver = self.phase == MqttPhase::Open && !self.client.turns.are_over();
        can_deliver || has_room && self.client.turns.any_starved() || self.has_kept() || self.has_content()
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
        let packet = match Packet::decode(&raw, self.terms.version()) {
            Ok(packet) => packet,
            Err(wrong) => return self.broken(&error(wrong), now),
        };
        if let (MqttPhase::Begin, Packet::Connect(connect)) = (self.phase, &packet) {
            self.client.budget.spend(CONTROL);
            self.connect(connect, now);
            return if self.client.takes_frame() { driven::Frame::Used(length) } else { driven::Frame::Waits };
        }
        match self.packet(&packet, now) {
            Ok(true) => driven::Frame::Used(length),
            Ok(false) => driven::Frame::Waits,
            Err(_) if self.client.parks(now) => driven::Frame::Waits,
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
            self.client.silence.heard(now);
        }
    }

    fn go_on(&mut self, now: Now) -> bool {
        self.go_on_with_run(now);
        true
    }

    fn signal(&mut self, signal: Signal, now: Now) {
        match signal {
            Signal::Scheduled(key) => self.client.turns.schedule(key),
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

    fn credential_expired(&mut self, now: Now) {
        if self.is_over() {
            return;
        }
        self.told().cut(CREDENTIAL_EXPIRED, now);
        self.end_with(ReasonCode::MAXIMUM_CONNECT_TIME, CREDENTIAL_EXPIRED, now);
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
        let why = format!("keepalive timeout: nothing came for 1.5 times {} s", self.terms.keep_alive_s());
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
            MqttHold::Publishes(reason) => reason.is_for_room(),
            MqttHold::Asked(_) | MqttHold::Claim | MqttHold::Ledger | MqttHold::Body => false,
            MqttHold::No => self.client.waits_for_log(),
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
