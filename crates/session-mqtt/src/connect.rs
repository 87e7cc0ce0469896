//! CONNECT: who the client is and where it may go, in RabbitMQ's order.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_broker::authenticate::LoginOrigin;
use leveret_broker::settings::IN_MAINTENANCE;
use leveret_broker::time::{Now, SECOND};
use leveret_message::mqtt::routing_key;
use leveret_model::{Action, RefusedKind, Topology, authorize, authorize_client};
use leveret_mqtt::{Connect, PropertyId, ReasonCode};

use super::failure::{BrokenRule, refused_as_a_whole};
use super::session::{MqttPhase, Session};
use super::stored_will;
use super::subscriptions::Level;

/// Longest client id, in bytes: names of queues have 255, and begin and end with more than the id.
const CLIENT_ID_BYTES_MAX: usize = 230;
/// The global parameter that maps ports to vhosts, as in RabbitMQ.
const PORTS: &str = "mqtt_port_to_vhost_mapping";

fn refused<T>(reason: ReasonCode, text: impl Into<String>) -> Result<T, BrokenRule> {
    Err(BrokenRule::new(reason, text))
}

impl Session {
    /// CONNECT.
    pub(crate) fn connect(&mut self, connect: &Connect<'_>, now: Now) {
        self.terms.begin(connect);
        match self.identify(connect, now) {
            Err(_) if self.client.parks(now) => {}
            Err(_) if self.finds_nothing(connect) && self.client.catches_up(now) => {}
            Ok(()) => self.begin_opening(now),
            Err(failure) => self.refuse_connect(&failure, now),
        }
    }

    /// Whether a client is refused because the vhost doesn't exist, or maybe for want of a permission. A refused login has caught up.
    fn finds_nothing(&self, connect: &Connect<'_>) -> bool {
        let topology = self.client.broker.registry.snapshot_full().topology.clone();
        let no_vhost = |(name, _): (String, _)| topology.vhost(&self.vhost_of(&name).0).is_none();
        self.client.is_logged_in() || self.credentials(connect).is_ok_and(no_vhost)
    }

    fn identify(&mut self, connect: &Connect<'_>, now: Now) -> Result<(), BrokenRule> {
        self.negotiate(connect, now)?;
        let client_id = self.check_client_id(connect)?;
        self.terms.identify(client_id);
        let (name, password) = self.credentials(connect)?;
        let (vhost, user) = self.vhost_of(&name);
        let snapshot = self.client.broker.registry.snapshot_full();
        if snapshot.topology.vhost(&vhost).is_none() {
            return refused(ReasonCode::BAD_USER_NAME_OR_PASSWORD, format!("vhost '{vhost}' does not exist"));
        }
        let response = [b"\0", user.as_bytes(), b"\0", &password].concat();
        if !self.client.is_logged_in() {
            self.log_in(response, &vhost, now)?;
        }
        if self.client.identity.asked().is_some() {
            self.await_grants(&snapshot.topology, &vhost, connect)?;
        }
        self.enter(&snapshot.topology, vhost)?;
        self.will.set(connect.will.as_ref());
        Ok(())
    }

    fn log_in(&mut self, response: Vec<u8>, vhost: &str, now: Now) -> Result<(), BrokenRule> {
        let client_id = self.terms.client_id().clone();
        let origin = LoginOrigin { client_id: Some(&client_id), vhost: Some(vhost), ..LoginOrigin::default() };
        let outcome = self.client.check_login_from(origin, "PLAIN", Cow::Owned(response), now);
        let who = outcome.unwrap_or_else(|| Err("the backend hasn't answered yet".to_owned())).map_err(|reason| {
            let code = match reason.contains("localhost") {
                true => ReasonCode::NOT_AUTHORIZED,
                false => ReasonCode::BAD_USER_NAME_OR_PASSWORD,
            };
            BrokenRule::new(code, reason)
        })?;
        self.told().authenticated(who.name());
        self.client.log_in(who, "PLAIN", now);
        Ok(())
    }

    /// Has a backend asked for everything that the session may need before the next packet, or when the client is gone: its queues of
    /// before, and its will. A missing answer fails the CONNECT, which is taken again.
    fn await_grants(&self, topology: &Topology, vhost: &str, connect: &Connect<'_>) -> Result<(), BrokenRule> {
        let client_id = Some(&**self.terms.client_id());
        let ask = |action: Action<'_>| match authorize_client(topology, &self.client.identity, vhost, client_id, action)
        {
            Err(refused) if refused.kind == RefusedKind::Unanswered => Err(refused_as_a_whole(&refused)),
            Ok(_) | Err(_) => Ok(()),
        };
        ask(Action::Enter)?;
        let will_queue = stored_will::queue_name(self.terms.client_id());
        let exists = |name: &str| topology.usable_queue(vhost, name, Some(self.client.id)).is_ok();
        for name in Level::BOTH.map(|level| level.queue_name(self.terms.client_id())) {
            if exists(&name) {
                ask(Action::DeleteQueue(&name))?;
                ask(Action::Consume(&name))?;
            }
        }
        if exists(&will_queue) {
            ask(Action::DeleteQueue(&will_queue))?;
        }
        if let Some(will) = &connect.will {
            let (exchange, key) = (&*self.shared.settings.exchange, routing_key(will.topic));
            ask(Action::PublishWith { exchange, routing_key: &key })?;
            ask(Action::DeclareQueue { queue: &will_queue, dead_letter_exchange: Some(exchange) })?;
        }
        Ok(())
    }

    /// Takes over what the client says of itself.
    fn negotiate(&mut self, connect: &Connect<'_>, now: Now) -> Result<(), BrokenRule> {
        if let Some(method) = connect.properties.text(PropertyId::AuthenticationMethod) {
            let text = format!("extended authentication isn't there yet, asked for method '{method}'");
            return refused(ReasonCode::BAD_AUTHENTICATION_METHOD, text);
        }
        self.client.silence.agree(u64::from(connect.keep_alive) * SECOND * 3 / 2, 0, now);
        self.terms.negotiate(connect, self.shared.settings.session_expiry_max_s.unwrap_or(u32::MAX));
        Ok(())
    }

    fn check_client_id(&mut self, connect: &Connect<'_>) -> Result<Arc<str>, BrokenRule> {
        let given = connect.client_id;
        if given.is_empty() {
            // [MQTT-3.1.3-8] of MQTT 3.1.1, and RabbitMQ in MQTT 5.
            if !connect.clean_start {
                let text = "an empty client identifier with a session that isn't clean";
                return refused(ReasonCode::CLIENT_IDENTIFIER_NOT_VALID, text);
            }
            self.terms.assign();
            return Ok(self.client.broker.names.next("").into());
        }
        if given.len() > CLIENT_ID_BYTES_MAX {
            let text = format!("a client identifier of {} bytes, the longest has {CLIENT_ID_BYTES_MAX}", given.len());
            return refused(ReasonCode::CLIENT_IDENTIFIER_NOT_VALID, text);
        }
        Ok(given.into())
    }

    fn credentials(&self, connect: &Connect<'_>) -> Result<(String, Vec<u8>), BrokenRule> {
        let code = ReasonCode::BAD_USER_NAME_OR_PASSWORD;
        match (connect.user_name, connect.password) {
            // An empty password proves nothing: RabbitMQ's CVE-2016-9877.
            (Some(name), Some(password)) if !password.is_empty() => Ok((name.to_owned(), password.to_vec())),
            (Some(name), _) => refused(code, format!("no password for user '{name}'")),
            (None, Some(_)) => refused(code, "a password without a user name"),
            (None, None) => match &self.client.broker.settings.anonymous_login {
                Some((name, password)) if self.shared.settings.allow_anonymous => {
                    Ok((name.clone(), password.clone().into_bytes()))
                }
                _ => refused(code, "no credentials, and mqtt.allow_anonymous or the anonymous login is off"),
            },
        }
    }

    /// The vhost and the user of a user name: before and behind the last colon. Without one the port decides, then `mqtt.vhost`.
    fn vhost_of(&self, name: &str) -> (Arc<str>, String) {
        if let Some((vhost, user)) = name.rsplit_once(':') {
            return (vhost.into(), user.to_owned());
        }
        let snapshot = self.client.broker.registry.snapshot();
        let ports = snapshot.topology.global_parameter(PORTS);
        let port = self.client.peer.local.port().to_string();
        let vhost = ports.and_then(|ports| ports.get(&port)?.as_str().map(Arc::from));
        (vhost.unwrap_or_else(|| self.shared.settings.vhost.clone()), name.to_owned())
    }

    fn enter(&mut self, topology: &Topology, vhost: Arc<str>) -> Result<(), BrokenRule> {
        let broker = &self.client.broker;
        if broker.is_in_maintenance() {
            return refused(ReasonCode::SERVER_SHUTTING_DOWN, IN_MAINTENANCE);
        }
        let quota = |text: String| BrokenRule::new(ReasonCode::QUOTA_EXCEEDED, text);
        broker.check_connection_limit().map_err(|refused| quota(refused.to_string()))?;
        let counted = self.shared.open.enter(self.shared.settings.max_connections).map_err(quota)?;
        authorize(topology, &self.client.identity, &vhost, Action::Enter)
            .map_err(|refused| BrokenRule::new(ReasonCode::NOT_AUTHORIZED, refused.to_string()))?;
        self.client.enter(topology, vhost).map_err(|reached| quota(reached.to_string()))?;
        self.counted = Some(counted);
        Ok(())
    }

    /// Refuses the connection. A wrong password is answered late, so that passwords can't be tried in quick succession.
    fn refuse_connect(&mut self, failure: &BrokenRule, now: Now) {
        self.told().failed(self.state(), &failure.text);
        self.will.drop_it();
        let is_password = matches!(failure.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD | ReasonCode::NOT_AUTHORIZED);
        self.begin_end(now);
        self.phase = MqttPhase::Refused(failure.reason);
        if is_password && !self.client.is_logged_in() {
            self.client.delay_refusal(now);
        } else {
            self.end_refused(failure.reason);
        }
    }
}
