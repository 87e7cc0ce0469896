//! From the first frame to an open connection: `PeerProperties`, `SaslHandshake`, `SaslAuthenticate`, `Tune`, `Open`.

use leveret_model::{Action, Identity, RefusedKind, authorize};
use leveret_stream_protocol::{Pairs, ResponseCode, answers};

use super::refusal::RefusedLogin;
use super::session::{Session, StreamPhase};
use leveret_broker::authenticate::offered;
use leveret_broker::settings::IN_MAINTENANCE;
use leveret_broker::time::{Now, SECOND};

/// The owners of the program.
const COPYRIGHT: &str = "Copyright (c) the authors of Leveret";

/// Frames of an open connection may always have this many bytes, whatever the client asks for.
const FRAME_MAX_LOWEST: u32 = 8_192;

impl Session {
    /// `PeerProperties`.
    pub(crate) fn peer_properties(&mut self, correlation: u32, properties: Pairs<'_>) {
        if self.phase == StreamPhase::Begin {
            self.properties = properties.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        }
        let settings = &self.client.broker.settings;
        let own = [
            ("cluster_name", settings.cluster_name.as_str()),
            ("copyright", COPYRIGHT),
            ("information", &settings.information),
            ("platform", &settings.platform),
            ("product", &settings.product),
            ("version", &settings.version),
        ];
        answers::peer_properties(self.client.output.buffer(), correlation, ResponseCode::Ok, &own);
    }

    /// `SaslHandshake`.
    pub(crate) fn sasl_handshake(&mut self, correlation: u32) {
        let mechanisms = offered(&self.client.broker.settings, &self.client.peer);
        answers::sasl_mechanisms(self.client.output.buffer(), correlation, &mechanisms);
    }

    /// `SaslAuthenticate`: a login, or a new secret on an open connection.
    pub(crate) fn sasl_authenticate(&mut self, correlation: u32, mechanism: &str, response: &[u8], now: Now) {
        let is_renewal = self.client.is_logged_in();
        // Without an outcome the command is taken again.
        let Some(checked) = self.check_secret(mechanism, response, now) else { return };
        let code = match &checked {
            Ok(who) if is_renewal && who.name() != self.client.identity.name() => {
                ResponseCode::SaslCannotChangeUsername
            }
            Ok(who) if is_renewal && !self.may_enter(who) => ResponseCode::VhostAccessFailure,
            Ok(_) => ResponseCode::Ok,
            Err(code) => *code,
        };
        self.refused.count(code);
        if code == ResponseCode::Ok {
            answers::sasl_authenticated(self.client.output.buffer(), correlation, code, None);
        }
        match (code, checked) {
            (ResponseCode::Ok, Ok(who)) if is_renewal => {
                self.client.log_in(who, mechanism, now);
                self.renewed(now);
            }
            (ResponseCode::Ok, Ok(who)) => {
                self.told().named();
                self.told().authenticated(who.name());
                self.client.log_in(who, mechanism, now);
                answers::tune(self.client.output.buffer(), self.settings.frame_max, self.settings.heartbeat_s);
                self.phase = StreamPhase::Authenticated;
            }
            _ => {
                let why = format!("a login by mechanism {mechanism} was refused: {code}");
                let refusal = RefusedLogin::Secret { correlation, code };
                // These say nothing of a password.
                if matches!(code, ResponseCode::SaslMechanismNotSupported | ResponseCode::SaslError) {
                    self.told().failed(self.state(), &why);
                    self.begin_end(now);
                    return self.end_refused(refusal);
                }
                self.refuse_later(refusal, &why, now);
            }
        }
    }

    /// The identity that a secret proves, or the code of the refusal. `None` if a backend has to answer first.
    fn check_secret(&mut self, mechanism: &str, response: &[u8], now: Now) -> Option<Result<Identity, ResponseCode>> {
        if self.client.is_logged_in() && **self.client.mechanism() != *mechanism {
            return Some(Err(ResponseCode::SaslCannotChangeMechanism));
        }
        if !offered(&self.client.broker.settings, &self.client.peer).contains(&mechanism) {
            return Some(Err(ResponseCode::SaslMechanismNotSupported));
        }
        // An authorization identity, a name and a password (RFC 4616).
        if mechanism == "PLAIN" && response.iter().filter(|byte| **byte == 0).count() != 2 {
            return Some(Err(ResponseCode::SaslError));
        }
        let Ok(response) = self.client.plain_response(mechanism, response) else {
            return Some(Err(ResponseCode::SaslError));
        };
        let outcome = self.client.check_login(mechanism, response, now)?;
        Some(outcome.map_err(|reason| {
            let loopback = reason.contains("localhost");
            if loopback { ResponseCode::AuthenticationFailureLoopback } else { ResponseCode::AuthenticationFailure }
        }))
    }

    /// Whether an identity may stay in the vhost of this connection. One whose backend hasn't answered may.
    fn may_enter(&self, who: &Identity) -> bool {
        let snapshot = self.client.broker.registry.snapshot();
        self.client.vhost.is_empty()
            || authorize(&snapshot.topology, who, &self.client.vhost, Action::Enter)
                .map_or_else(|refused| refused.kind == RefusedKind::Unanswered, |_| true)
    }

    /// The secret was renewed: what the user's permissions don't allow any more ends.
    fn renewed(&mut self, now: Now) {
        self.told().secret_updated("SaslAuthenticate");
        let may = |session: &Self, action| session.client.no_longer_grants(action).is_none();
        let resource = leveret_model::Resource::Queue;
        let written = self.publishers.values().map(|known| known.stream());
        let mut ended: Vec<_> = written.filter(|stream| !may(self, Action::Write(resource(stream)))).cloned().collect();
        for subscription in self.subscriptions.values() {
            if !may(self, Action::Consume(subscription.stream())) {
                let _left = subscription.queue().cancel(subscription.id(), now.monotonic);
                ended.push(subscription.stream().clone());
            }
        }
        for stream in ended {
            let others: Vec<_> = self
                .subscriptions
                .values()
                .filter(|known| *known.stream() == stream)
                .map(|known| (known.queue().clone(), known.id()))
                .collect();
            others.into_iter().for_each(|(queue, id)| drop(queue.cancel(id, now.monotonic)));
            self.end_of_stream(&stream, ResponseCode::StreamNotAvailable);
        }
    }

    /// `Tune`: the lower value of both sides applies, 0 being no limit.
    pub(crate) fn tune(&mut self, frame_max: u32, heartbeat_s: u32, now: Now) {
        let frame_max = match (frame_max, self.settings.frame_max) {
            (0, own) => own,
            (other, 0) => other,
            (other, own) => other.min(own),
        };
        // Smaller ones have no room for requests, and clients don't keep to them.
        let frame_max =
            if frame_max == 0 { 0 } else { frame_max.max(self.settings.initial_frame_max.min(FRAME_MAX_LOWEST)) };
        self.tuned.tune(frame_max, heartbeat_s);
        let heartbeat = u64::from(heartbeat_s) * SECOND;
        self.client.silence.agree(2 * heartbeat, heartbeat / 2, now);
        self.phase = StreamPhase::Tuned;
    }

    /// `Open`: enters a vhost.
    pub(crate) fn open(&mut self, correlation: u32, vhost: &str, now: Now) {
        let entered = self.enter(vhost);
        if entered.is_err() && (self.client.parks(now) || self.client.catches_up(now)) {
            return;
        }
        if let Err(why) = entered {
            self.refused.count(ResponseCode::VhostAccessFailure);
            return self.refuse_later(RefusedLogin::Vhost { correlation }, &why, now);
        }
        self.phase = StreamPhase::Open;
        self.client.silence.expect_by(None);
        let (host, port) = self.own_address();
        let properties = [("advertised_host", &*host), ("advertised_port", &*port.to_string())];
        answers::opened(self.client.output.buffer(), correlation, ResponseCode::Ok, &properties);
        self.told().opened();
    }

    fn enter(&mut self, vhost: &str) -> Result<(), String> {
        if self.client.broker.is_in_maintenance() {
            return Err(IN_MAINTENANCE.to_owned());
        }
        self.client.broker.check_connection_limit().map_err(|refused| refused.to_string())?;
        let counted = self.open_connections.enter(self.settings.max_connections)?;
        let snapshot = self.client.broker.registry.snapshot_full();
        authorize(&snapshot.topology, &self.client.identity, vhost, Action::Enter)
            .map_err(|refused| refused.to_string())?;
        self.client.enter(&snapshot.topology, vhost.into()).map_err(|reached| reached.to_string())?;
        self.counted = Some(counted);
        Ok(())
    }
}
