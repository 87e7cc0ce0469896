//! From the protocol header to `connection.open-ok` (specification 2.2.4).

use leveret_amqp091::{Method, ReplyCode, ShortStr, Value, encode_method, method::connection};
use leveret_model::Action;

use super::arguments;
use super::error::{ProtocolError, Result, not_allowed, syntax, unanswered};
use super::identity;
use super::session::{Phase, Session};
use leveret_broker::authenticate::offered;
use leveret_broker::settings::IN_MAINTENANCE;
use leveret_broker::time::{Now, SECOND};
use leveret_session::driven::Steps as _;

/// Lower limit for the frame size that clients negotiate; older ones propose exactly this.
const FRAME_MAX_LOWEST: u32 = leveret_amqp091::FRAME_MIN_SIZE;

impl Session {
    /// Answers a valid protocol header with `connection.start`.
    pub(crate) fn start(&mut self, _now: Now) {
        let properties = identity::server_properties(&self.client.broker.settings).encoded();
        let mechanisms = offered(&self.client.broker.settings, &self.client.peer).join(" ");
        let start = connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties: properties.as_table(),
            mechanisms: mechanisms.as_bytes(),
            locales: b"en_US",
        };
        encode_method(self.client.output.buffer(), 0, &Method::ConnectionStart(start));
        self.phase = Phase::Start;
    }

    /// `connection.start-ok`: the client's properties and login.
    pub(crate) fn start_ok(&mut self, start_ok: &connection::StartOk<'_>, now: Now) -> Result<()> {
        let capabilities = match start_ok.client_properties.lookup("capabilities") {
            Some(Value::Table(table)) => Some(table),
            _ => None,
        };
        let has = |name: &str| capabilities.is_some_and(|table| table.lookup(name) == Some(Value::Bool(true)));
        self.negotiated.set_capabilities(has);
        let told = has("authentication_failure_close");
        let mechanism = arguments::name("mechanism", start_ok.mechanism)?.to_owned();
        let offered = offered(&self.client.broker.settings, &self.client.peer);
        if !offered.contains(&mechanism.as_str()) {
            let offered = offered.join(" ");
            let text = format!("unsupported SASL mechanism '{mechanism}', this server offers: {offered}");
            return Err(ProtocolError::new(ReplyCode::NotImplemented, text));
        }
        let response = self.client.plain_response(&mechanism, start_ok.response).map_err(syntax)?;
        match self.client.check_login(&mechanism, response, now).ok_or_else(unanswered)? {
            Ok(who) => {
                // A refused client leaves no data here.
                self.negotiated.set_properties(start_ok.client_properties);
                self.told().named();
                self.told().authenticated(who.name());
                self.client.log_in(who, &mechanism, now);
            }
            Err(reason) => {
                self.told().failed(self.state(), &reason);
                if !told {
                    // Such a client takes a closed socket for a refused login. The close is delayed, so that passwords
                    // can't be tried in quick succession.
                    self.client.delay_refusal(now);
                    self.phase = Phase::Refused;
                    return Ok(());
                }
                let text = format!(
                    "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
                );
                return Err(ProtocolError::new(ReplyCode::AccessRefused, text));
            }
        }
        let settings = &self.client.broker.settings;
        let tune = connection::Tune {
            channel_max: self.client.broker.channel_max(),
            frame_max: settings.frame_max,
            heartbeat: settings.heartbeat_s,
        };
        encode_method(self.client.output.buffer(), 0, &Method::ConnectionTune(tune));
        self.phase = Phase::Tune;
        Ok(())
    }

    /// `connection.tune-ok`: the lower value of both sides applies, 0 being no limit.
    pub(crate) fn tune_ok(&mut self, tune: &connection::TuneOk, now: Now) -> Result<()> {
        let settings = &self.client.broker.settings;
        if tune.frame_max != 0 && tune.frame_max < FRAME_MAX_LOWEST {
            let received = tune.frame_max;
            return Err(not_allowed(format!(
                "negotiated frame_max = {received} is lower than the minimum allowed value ({FRAME_MAX_LOWEST})"
            )));
        }
        if settings.frame_max != 0 && tune.frame_max > settings.frame_max {
            let (received, allowed) = (tune.frame_max, settings.frame_max);
            return Err(not_allowed(format!(
                "negotiated frame_max = {received} is higher than the maximum allowed value ({allowed})"
            )));
        }
        let channel_max = self.client.broker.channel_max();
        if channel_max != 0 && tune.channel_max > channel_max {
            let (received, allowed) = (tune.channel_max, channel_max);
            return Err(not_allowed(format!(
                "negotiated channel_max = {received} is higher than the maximum allowed value ({allowed})"
            )));
        }
        self.negotiated.set_frame_max(if tune.frame_max == 0 { settings.frame_max } else { tune.frame_max });
        self.client.agree_on_channels(if tune.channel_max == 0 { channel_max } else { tune.channel_max });
        let heartbeat = u64::from(tune.heartbeat) * SECOND;
        self.client.silence.agree(2 * heartbeat, heartbeat / 2, now);
        self.phase = Phase::Open;
        Ok(())
    }

    /// `connection.open`: enters a vhost.
    pub(crate) fn open(&mut self, open: &connection::Open<'_>, now: Now) -> Result<()> {
        let vhost = arguments::name("vhost", open.virtual_host)?;
        if self.client.broker.is_in_maintenance() {
            return Err(ProtocolError::new(ReplyCode::ConnectionForced, IN_MAINTENANCE));
        }
        self.client.broker.check_connection_limit()?;
        let snapshot = self.client.broker.registry.snapshot();
        self.client.authorize_in(vhost, Action::Enter)?;
        self.client.enter(&snapshot.topology, vhost.into()).map_err(|reached| not_allowed(reached.to_string()))?;
        self.phase = Phase::Running;
        let answer = connection::OpenOk { known_hosts: ShortStr::EMPTY };
        encode_method(self.client.output.buffer(), 0, &Method::ConnectionOpenOk(answer));
        self.told().opened();
        self.report_opened(now);
        Ok(())
    }
}
