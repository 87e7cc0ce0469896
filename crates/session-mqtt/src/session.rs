//! The state of a connection.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_model::{Action, Permit, Refused, RefusedKind, authorize_client};
use leveret_mqtt::{ReasonCode, Version};

use super::aliases::Aliases;
use super::client_ids::ClientKey;
use super::confirming::Confirming;
use super::consumer::Consumers;
use super::content::LargeDelivery;
use super::exchanges::{Exchanges, Unacknowledged};
use super::input_hold::MqttHold;
use super::node::Shared;
use super::open_connections::OpenConnection;
use super::publish_run::PublishRuns;
use super::search::Search;
use super::stored_will::OwnWill;
use super::subscriptions::Subscriptions;
use super::terms::Terms;
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
    pub(crate) terms: Terms,
    pub(crate) phase: MqttPhase,
    /// Whether the connection has its client id, or waits for it.
    pub(crate) claims: bool,
    /// Whether everything that it had was ended.
    pub(crate) has_ended: bool,
    /// Publishing is blocked on the whole node.
    pub(crate) alarm: bool,
    pub(crate) held: MqttHold,
    pub(crate) will: OwnWill,
    pub(crate) aliases: Aliases,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) consumers: Consumers,
    pub(crate) exchanges: Exchanges,
    /// Acknowledgements that came in one read.
    pub(crate) acked: Vec<Unacknowledged>,
    pub(crate) publishing: PublishRuns,
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
            terms: Terms::new(version),
            phase: MqttPhase::Begin,
            claims: false,
            has_ended: false,
            held: MqttHold::No,
            will: OwnWill::default(),
            aliases: Aliases::default(),
            subscriptions: Subscriptions::default(),
            consumers: Consumers::default(),
            exchanges: Exchanges::default(),
            acked: Vec::new(),
            publishing: PublishRuns::default(),
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
        authorize_client(&snapshot.topology, who, vhost, Some(self.terms.client_id()), action)
    }

    /// Whether a backend has to answer before one of these is granted or refused. Then that question is noted.
    pub(crate) fn lacks_answer<'a>(&self, actions: impl IntoIterator<Item = Action<'a>>) -> bool {
        let is_unanswered = |refused: Refused| refused.kind == RefusedKind::Unanswered;
        self.client.identity.asked().is_some()
            && actions.into_iter().any(|action| self.authorize(action).is_err_and(is_unanswered))
    }

    pub(crate) fn told(&self) -> Told<'_> {
        self.client.told(self.terms.client_id())
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
        ClientKey { vhost: self.client.vhost.clone(), client_id: self.terms.client_id().clone() }
    }
}
