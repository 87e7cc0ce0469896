//! The state of a connection.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_model::{Action, Permit, Refused, RefusedKind, authorize_client};
use leveret_mqtt::{ReasonCode, Version};

use super::aliases::Aliases;
use super::client_ids::ClientKey;
use super::confirming::Confirming;
use super::consumer::Consumer;
use super::content::LargeDelivery;
use super::exchanges::{Exchanges, Unacknowledged};
use super::input_hold::MqttHold;
use super::node::Shared;
use super::open_connections::OpenConnection;
use super::publish_run::{OnItsWay, PublishRun};
use super::search::Search;
use super::stored_will::StoredWill;
use super::subscriptions::Subscriptions;
use leveret_broker::log_lines::Told;
use leveret_broker::streams::waits::InOrder;
use leveret_session::client_connection::ClientConnection;

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
        let (who, vhost) = (&self.client.identity, &self.client.vhost);
        authorize_client(&snapshot.topology, who, vhost, Some(&self.client_id), action)
    }

    /// Whether a backend has to answer before one of these is granted or refused. Then that question is noted.
    pub(crate) fn lacks_answer<'a>(&self, actions: impl IntoIterator<Item = Action<'a>>) -> bool {
        let is_unanswered = |refused: Refused| refused.kind == RefusedKind::Unanswered;
        self.client.identity.asked().is_some()
            && actions.into_iter().any(|action| self.authorize(action).is_err_and(is_unanswered))
    }

    pub(crate) fn told(&self) -> Told<'_> {
        self.client.told(&self.client_id)
    }

    /// The state by its name in log lines.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            MqttPhase::Begin => "starting",
            MqttPhase::Opening => "opening",
            MqttPhase::Open => "running",
            MqttPhase::Refused(_) => "closing",
            MqttPhase::Finished => "closed",
        }
    }

    /// The client id in its vhost.
    pub(crate) fn key(&self) -> ClientKey {
        ClientKey { vhost: self.client.vhost.clone(), client_id: self.client_id.clone() }
    }
}
