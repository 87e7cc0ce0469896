//! `open` and `begin`: negotiated limits (specification 2.7.1 and 2.7.2).

use std::sync::Arc;

use leveret_amqp10::{
    Performative, Serial, Symbol, Symbols, condition, encode_performative,
    performative::{Begin, Open},
    value::EncodedMap,
};
use leveret_model::{Action, RefusedKind};

use super::connection::{Connection, Phase};
use super::error::{Failure, Result, Scope};
use super::session::Session;
use super::window::{OUTGOING_WINDOW, Window};
use leveret_broker::quota::{Kind, OwnLimits};
use leveret_broker::settings::IN_MAINTENANCE;
use leveret_broker::time::{Now, SECOND};
use leveret_session::driven::Steps as _;

/// The frame size that every peer accepts (2.7.1).
const FRAME_MAX_LOWEST: u32 = 512;
/// The shortest idle timeout that we keep to.
const IDLE_LOWEST_MS: u32 = 1000;
/// A property of `open`, as RabbitMQ's tools set it.
const IGNORE_MAINTENANCE: &str = "ignore-maintenance";
/// Our capabilities, by the names of the extensions' specifications.
const CAPABILITIES: [Symbol<'static>; 2] = [Symbol::new("LINK_PAIR_V1_0"), Symbol::new("ANONYMOUS-RELAY")];

impl Connection {
    /// Handles the client's `open`.
    pub(crate) fn open(&mut self, open: &Open<'_>, now: Now) -> Result<()> {
        let vhost: Arc<str> = match open.hostname.and_then(|name| name.strip_prefix("vhost:")) {
            Some(vhost) => vhost.into(),
            None => self.client.broker.settings.default_vhost.as_str().into(),
        };
        self.client.vhost = vhost;
        let ignores = open.properties.and_then(|properties| properties.lookup(IGNORE_MAINTENANCE));
        self.opened.begin(open.container_id, ignores.and_then(|value| value.as_bool()).unwrap_or(false));
        self.check_maintenance()?;
        if let Err(refused) = self.client.broker.check_connection_limit() {
            return Err(Failure::connection(condition::RESOURCE_LIMIT_EXCEEDED, refused.text));
        }
        if let Err(refused) = self.authorize(Action::Enter) {
            let condition = match refused.kind {
                RefusedKind::NotAllowed
                | RefusedKind::AccessRefused
                | RefusedKind::NotFound
                | RefusedKind::Unanswered => condition::UNAUTHORIZED_ACCESS,
                _ => condition::INTERNAL_ERROR,
            };
            return Err(Failure::connection(condition, refused.text));
        }
        let frame_max_out = open.max_frame_size;
        if frame_max_out < FRAME_MAX_LOWEST {
            return Err(Failure::connection(
                condition::FRAME_SIZE_TOO_SMALL,
                format!("max_frame_size ({frame_max_out}) < minimum maximum frame size ({FRAME_MAX_LOWEST})"),
            ));
        }
        let idle = open.idle_time_out.unwrap_or(0);
        if idle > 0 && idle < IDLE_LOWEST_MS {
            return Err(Failure::connection(
                condition::NOT_ALLOWED,
                format!("idle-time-out ({idle} ms) < minimum idle-time-out ({IDLE_LOWEST_MS} ms)"),
            ));
        }
        let vhost = self.client.vhost.clone();
        let snapshot = self.client.broker.registry.snapshot();
        self.client
            .enter(&snapshot.topology, vhost)
            .map_err(|reached| Failure::from(reached).ending(Scope::Connection))?;
        let settings = &self.client.broker.settings;
        let frame_max_in = if settings.frame_max == 0 { u32::MAX } else { settings.frame_max };
        self.opened.set_frame_max(frame_max_in, frame_max_out);
        let channel_max = open.channel_max.min(settings.session_max.saturating_sub(1));
        // Twice as often as the client wants to hear from us.
        let output_every = u64::from(idle) * 1_000_000 / 2;
        self.client.silence.agree(u64::from(settings.heartbeat_s) * SECOND, output_every, now);
        self.client.silence.opened(now);
        self.client.agree_on_channels(channel_max);
        self.phase = Phase::Running;
        if let Some(properties) = open.properties {
            self.opened.set_properties(super::view::arguments(properties));
        }
        self.send_open();
        self.told().opened_by(self.opened.container(), self.client.mechanism());
        self.report_opened(now);
        Ok(())
    }

    /// Refuses a connection that may not stay during maintenance.
    pub(crate) fn check_maintenance(&self) -> Result<()> {
        if self.opened.ignores_maintenance() || !self.client.broker.is_in_maintenance() {
            return Ok(());
        }
        let text = format!("Connection forced: {IN_MAINTENANCE}");
        Err(Failure::connection(condition::CONNECTION_FORCED, text))
    }

    /// Sends our `open`.
    pub(crate) fn send_open(&mut self) {
        let broker = self.client.broker.clone();
        let settings = &broker.settings;
        let properties = properties(settings);
        let answer = Open {
            container_id: &settings.cluster_name,
            hostname: None,
            max_frame_size: self.opened.frame_max_in(),
            channel_max: self.client.channel_max(),
            // Half of the time that we tolerate (2.4.5).
            idle_time_out: (self.client.silence.input_every() > 0).then(|| u32::from(settings.heartbeat_s) * 500),
            outgoing_locales: Symbols::NONE,
            incoming_locales: Symbols::NONE,
            offered_capabilities: Symbols::of(&CAPABILITIES),
            desired_capabilities: Symbols::NONE,
            properties: Some(properties.as_map()),
        };
        encode_performative(self.client.output.buffer(), 0, &Performative::Open(answer));
    }

    /// Handles the client's `begin` of a session.
    pub(crate) fn begin(&mut self, channel: u16, begin: &Begin<'_>) -> Result<()> {
        if let Some(remote) = begin.remote_channel {
            return Err(Failure::connection(
                condition::NOT_ALLOWED,
                format!(
                    "begin on channel {channel} with remote-channel {remote}: this side begins no session, so there is none to answer"
                ),
            ));
        }
        let settings = &self.client.broker.settings;
        let mut window =
            Window::new(Serial(begin.next_outgoing_id), begin.incoming_window, settings.max_incoming_window);
        window.set_remote_outgoing(begin.outgoing_window);
        window.set_shut(self.client.broker.alarms.publishing_blocked());
        // We answer on the client's handles, so one limit holds for both sides.
        let handle_max = settings.link_max.saturating_sub(1).min(begin.handle_max);
        let mut session = Box::new(Session::new(channel, window, handle_max));
        let flow = session.window.flow();
        let answer = Begin {
            remote_channel: Some(channel),
            next_outgoing_id: flow.next_outgoing_id,
            incoming_window: flow.incoming_window,
            outgoing_window: OUTGOING_WINDOW,
            handle_max,
            offered_capabilities: Symbols::NONE,
            desired_capabilities: Symbols::NONE,
            properties: None,
        };
        encode_performative(self.client.output.buffer(), channel, &Performative::Begin(answer));
        let own = OwnLimits::of_channels(&self.client.broker.registry.snapshot().topology, self.client.identity.name());
        match self.client.account.take_within(Kind::Channels, own) {
            Ok(()) => self.client.channel_opened(channel),
            // Only a session that has begun can be ended with the reason.
            Err(reached) => self.refuse_session(&mut session, &reached.into()),
        }
        self.sessions.put(session);
        Ok(())
    }
}

fn properties(settings: &leveret_broker::settings::Settings) -> EncodedMap {
    let mut properties = EncodedMap::new();
    let mut add = |key: &'static str, value: &str| {
        properties.push_symbol(key, value);
    };
    add("node", &settings.node_name);
    add("cluster_name", &settings.cluster_name);
    add("information", &settings.information);
    add("platform", &settings.platform);
    add("product", &settings.product);
    add("version", &settings.version);
    properties
}
