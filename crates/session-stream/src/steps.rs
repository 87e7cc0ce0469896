//! The steps of a connection: where its frames, signals and wake-ups go.

use leveret_queue::Signal;
use leveret_stream_protocol::{FrameError, Request, ResponseCode, answers, key, next_frame};

use super::commands::{CreateSuperStream, Subscribe};
use super::input_hold::InputHold;
use super::questions::AskedCommand;
use super::session::{Session, StreamPhase};
use super::subscriptions::UPDATE_SECONDS;
use leveret_broker::alarms::AlarmSource;
use leveret_broker::inquiry::Inquiry;
use leveret_broker::reply::Reply;
use leveret_broker::settings::{IN_MAINTENANCE, TURN_BYTES_MAX};
use leveret_broker::time::Now;
use leveret_broker::turn_budget::CONTROL;
use leveret_broker::views::ConnectionView;
use leveret_session::client_connection::ClientConnection;
use leveret_session::driven::{self, HANDSHAKE_TIMEOUT, Steps};

impl Session {
    /// Handles a command before the connection is open. False if it isn't one for that time.
    fn early(&mut self, request: &Request<'_>, now: Now) -> bool {
        match (self.phase, *request) {
            (StreamPhase::Begin, Request::PeerProperties { correlation, properties }) => {
                self.peer_properties(correlation, properties);
            }
            (StreamPhase::Begin, Request::SaslHandshake { correlation }) => self.sasl_handshake(correlation),
            (StreamPhase::Begin, Request::SaslAuthenticate { correlation, mechanism, response }) => {
                self.sasl_authenticate(correlation, mechanism, response, now);
            }
            (StreamPhase::Authenticated | StreamPhase::Tuned, Request::Tune { frame_max, heartbeat }) => {
                self.tune(frame_max, heartbeat, now);
            }
            (StreamPhase::Authenticated | StreamPhase::Tuned, Request::Open { correlation, vhost }) => {
                self.open(correlation, vhost, now);
            }
            (_, Request::Close { correlation, .. }) => self.close_by_client(correlation, now),
            (_, Request::Heartbeat) => {}
            _ => return false,
        }
        true
    }

    /// Whether a command names a stream or a super stream that isn't there.
    fn names_nothing(&self, request: &Request<'_>) -> bool {
        let snapshot = self.client.broker.registry.snapshot();
        let (topology, vhost) = (&snapshot.topology, &*self.client.vhost);
        let no_stream = |name: &str| topology.queue(vhost, name).is_none();
        let no_super_stream = |name: &str| topology.exchange(vhost, name).is_none();
        match *request {
            Request::DeclarePublisher { stream, .. }
            | Request::QueryPublisherSequence { stream, .. }
            | Request::Subscribe { stream, .. }
            | Request::StoreOffset { stream, .. }
            | Request::QueryOffset { stream, .. }
            | Request::Delete { stream, .. }
            | Request::StreamStats { stream, .. }
            | Request::ResolveOffsetSpec { stream, .. } => no_stream(stream),
            Request::Metadata { streams, .. } => streams.iter().any(no_stream),
            Request::Route { super_stream, .. } | Request::Partitions { super_stream, .. } => {
                no_super_stream(super_stream)
            }
            Request::DeleteSuperStream { name, .. } => no_super_stream(name),
            _ => false,
        }
    }

    /// Handles a command of an open connection, other than `Publish`.
    fn command(&mut self, request: &Request<'_>, now: Now) {
        match *request {
            Request::Publish(_) | Request::Heartbeat | Request::Closed { .. } => {}
            Request::Credit { subscription, credit } => self.credit(subscription, credit, now),
            Request::DeclarePublisher { correlation, publisher, reference, stream } => {
                self.declare_publisher(correlation, publisher, reference, stream, now);
            }
            Request::QueryPublisherSequence { correlation, reference, stream } => {
                self.query_sequence(correlation, reference, stream, now);
            }
            Request::DeletePublisher { correlation, publisher } => self.delete_publisher(correlation, publisher, now),
            Request::Subscribe { correlation, subscription: id, stream, start, credit, properties } => {
                self.subscribe(Subscribe { correlation, id, stream, start, credit, properties }, now);
            }
            Request::StoreOffset { reference, stream, offset } => self.store_offset(reference, stream, offset, now),
            Request::QueryOffset { correlation, reference, stream } => {
                self.query_offset(correlation, reference, stream)
            }
            Request::Unsubscribe { correlation, subscription } => self.unsubscribe(correlation, subscription, now),
            Request::Create { correlation, stream, arguments } => self.create(correlation, stream, arguments, now),
            Request::Delete { correlation, stream } => self.delete(correlation, stream, now),
            Request::Metadata { correlation, streams } => self.metadata(correlation, streams),
            Request::PeerProperties { correlation, properties } => self.peer_properties(correlation, properties),
            Request::SaslHandshake { correlation } => self.sasl_handshake(correlation),
            Request::SaslAuthenticate { correlation, mechanism, response } => {
                self.sasl_authenticate(correlation, mechanism, response, now);
            }
            Request::Close { correlation, .. } => self.close_by_client(correlation, now),
            Request::Route { correlation, routing_key, super_stream } => {
                self.route(correlation, routing_key, super_stream);
            }
            Request::Partitions { correlation, super_stream } => self.partitions(correlation, super_stream),
            Request::ExchangeCommandVersions { correlation, versions } => self.command_versions(correlation, versions),
            Request::StreamStats { correlation, stream } => self.stream_stats(correlation, stream),
            Request::CreateSuperStream { correlation, name, partitions, binding_keys, arguments } => {
                let create = CreateSuperStream { correlation, name, partitions, binding_keys, arguments };
                self.create_super_stream(&create, now);
            }
            Request::DeleteSuperStream { correlation, name } => self.delete_super_stream(correlation, name, now),
            Request::ResolveOffsetSpec { correlation, stream, start, properties } => {
                self.resolve_offset(correlation, stream, start, properties);
            }
            Request::ConsumerUpdated { correlation, start, .. } => self.updated(correlation, start, now),
            Request::Tune { .. } | Request::Open { .. } => {
                self.close_for(ResponseCode::UnknownFrame, "the connection is open already", now);
            }
        }
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
        self.phase == StreamPhase::Open
    }

    fn is_held(&self) -> bool {
        !matches!(self.held, InputHold::No)
    }

    fn is_ending(&self) -> bool {
        false
    }

    fn is_leaving(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, StreamPhase::Refused(_) | StreamPhase::Finished)
    }

    fn is_closed(&self) -> bool {
        self.phase == StreamPhase::Finished
    }

    fn has_published(&self) -> bool {
        self.publishers.have_been()
    }

    fn has_work(&self) -> bool {
        let can_deliver = self.phase == StreamPhase::Open && !self.client.turns.are_over();
        can_deliver || self.client.turns.any_starved() && self.client.output.len() < TURN_BYTES_MAX
    }

    fn begin_read(&mut self) {
        // The outbox may have earlier events; an alarm takes effect from the next read on.
        self.alarm = self.client.broker.alarms.blocks(AlarmSource::Disk);
    }

    fn frame(&mut self, input: &[u8], now: Now) -> driven::Frame {
        let (frame, length) = match next_frame(input, self.tuned.frame_max()) {
            Ok(Some(found)) => found,
            Ok(None) => return driven::Frame::Waits,
            Err(error) => {
                let code = match error {
                    FrameError::TooLarge { .. } => ResponseCode::FrameTooLarge,
                    FrameError::TooSmall { .. } => ResponseCode::UnknownFrame,
                };
                self.close_for(code, &error.to_string(), now);
                return driven::Frame::Broken;
            }
        };
        if self.phase == StreamPhase::Closing {
            if frame.is_response && frame.key == key::CLOSE {
                self.phase = StreamPhase::Finished;
            }
            return driven::Frame::Used(length);
        }
        let request = match Request::decode(&frame) {
            Ok(request) => request,
            Err(error) => {
                self.close_for(ResponseCode::UnknownFrame, &error.to_string(), now);
                return driven::Frame::Used(length);
            }
        };
        if self.phase != StreamPhase::Open {
            self.client.budget.spend(CONTROL);
            if !self.early(&request, now) {
                let name = key::name(frame.key).unwrap_or("an unknown command");
                let why = format!("{name} came before the connection was open");
                self.close_for(ResponseCode::UnknownFrame, &why, now);
            }
            return if self.client.takes_frame() { driven::Frame::Used(length) } else { driven::Frame::Waits };
        }
        if let Request::Publish(publish) = request {
            return match self.publish(publish, now) {
                Ok(true) => driven::Frame::Used(length),
                Ok(false) => driven::Frame::Waits,
                Err(error) => {
                    self.close_for(ResponseCode::UnknownFrame, &error.to_string(), now);
                    driven::Frame::Used(length)
                }
            };
        }
        if looks_at_contents(&request) {
            self.flush_run(now);
            if self.client.await_publishes() {
                return driven::Frame::Waits;
            }
        }
        self.client.budget.spend(CONTROL);
        if self.client.may_be_behind() && self.names_nothing(&request) && self.client.catches_up(now) {
            return driven::Frame::Waits;
        }
        let mark = self.client.output.mark();
        self.command(&request, now);
        if self.client.parks(now) {
            // The answer was a refusal, and nothing else was done.
            self.client.output.rewind(mark);
            return driven::Frame::Waits;
        }
        self.client.has_found();
        driven::Frame::Used(length)
    }

    fn flush(&mut self, now: Now) {
        self.flush_run(now);
    }

    fn begin_turn(&mut self, now: Now) {
        if !self.wants_read() && !self.client.output.is_full() {
            // Heartbeats that aren't read don't count as missed, unless it is the client that doesn't read.
            self.client.silence.heard(now);
        }
    }

    fn go_on(&mut self, _now: Now) -> bool {
        true
    }

    fn signal(&mut self, signal: Signal, now: Now) {
        if let InputHold::Asked(asked) = &mut self.held
            && let AskedCommand::Subscribe { early, .. } = &mut **asked
            && early.keep(signal)
        {
            return;
        }
        self.signalled(signal, now);
    }

    fn alarm_changed(&mut self) {
        self.note_alarm();
    }

    fn reply(&mut self, _reply: Reply, _now: Now) {}

    fn view(&self, inquiry: &Inquiry, now: Now) -> ConnectionView {
        self.describe(inquiry, now)
    }

    fn stream_restarted(&mut self, stream: &str) {
        self.end_of_stream(stream, ResponseCode::StreamNotAvailable);
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
        self.end_reached_hold();
    }

    fn deliver(&mut self, now: Now) {
        if self.phase == StreamPhase::Open {
            self.serve_subscriptions(now);
        }
    }

    fn look(&mut self, _number: u16, _now: Now) {}

    /// Heartbeats are negotiated before the connection is open.
    fn keeps_alive(&self) -> bool {
        self.phase != StreamPhase::Finished
    }

    fn deadline_passed(&mut self, now: Now) {
        match self.phase {
            StreamPhase::Refused(refusal) => self.end_refused(refusal),
            StreamPhase::Closing => self.phase = StreamPhase::Finished,
            StreamPhase::Open => self.cut(&format!("no answer to a consumer update within {UPDATE_SECONDS} s"), now),
            _ => {
                self.told().cut(HANDSHAKE_TIMEOUT, now);
                self.phase = StreamPhase::Finished;
            }
        }
    }

    fn fell_silent(&mut self, now: Now) {
        let seconds = self.tuned.heartbeat_s();
        self.told().cut(&format!("missed heartbeats from client, timeout: {seconds}s"), now);
        self.phase = StreamPhase::Finished;
    }

    fn send_heartbeat(&mut self) {
        answers::heartbeat(self.client.output.buffer());
    }

    fn register(&mut self) {
        let streams = &self.client.broker.streams;
        let mut awaited: smallvec::SmallVec<[_; 2]> = self.publishing.awaited().collect();
        let wants_room = match &self.held {
            InputHold::Durable { wait, .. } => {
                awaited.extend(wait.next_awaited(&|stream| streams.reached(stream)));
                false
            }
            InputHold::Publishes { reason } => reason.is_for_room(),
            InputHold::Asked(_) => false,
            InputHold::No => self.client.waits_for_log(),
        };
        self.client.register(awaited, wants_room);
    }

    fn cut_off(&mut self, now: Now) {
        match self.phase {
            StreamPhase::Closing | StreamPhase::Refused(_) | StreamPhase::Finished => {}
            _ => self.told().lost(now),
        }
        self.begin_end(now);
        self.phase = StreamPhase::Finished;
    }
}

/// Whether a command looks at the messages of a stream: earlier publishes of its connection have to be there by then.
fn looks_at_contents(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::Subscribe { .. }
            | Request::ResolveOffsetSpec { .. }
            | Request::StreamStats { .. }
            | Request::ConsumerUpdated { .. }
    )
}
