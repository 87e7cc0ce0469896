//! The state of a connection (specification 2.4).

use std::collections::VecDeque;

use leveret_amqp10::condition;
use leveret_model::{Action, Permit, Refused};
use rustc_hash::FxHashMap;

use super::answers::Answers;
use super::attaching::Attaching;
use super::declaring::Declaring;
use super::endings::Endings;
use super::error::{Failure, Result};
use super::held::InputHold;
use super::opened::Opened;
use super::pairs::Waiting;
use super::publishing::Publishing;
use super::questions::Questions;
use super::sessions::Sessions;
use super::settlements::Settlements;
use super::transactions::Transactions;
use super::unconfirmed::Due;
use super::waking::WakingSessions;
use leveret_broker::log_lines::Told;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::ticket::Ticket;
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
    pub(crate) phase: Phase,
    pub(crate) opened: Opened,
    pub(crate) sessions: Sessions,
    /// Channel and handle of links that are notified, by the key in their queue's signals or waiting responses.
    pub(crate) links: FxHashMap<u64, (u16, u32)>,
    /// The last turn filled the output before it had sent everything that the windows allow.
    pub(crate) unfinished: bool,
    pub(crate) publishing: Publishing,
    pub(crate) settlements: Settlements,
    pub(crate) answers: Answers,
    /// Responses to management requests that wait.
    pub(crate) responses: VecDeque<Waiting>,
    /// Whether the request that is being served renews the token.
    pub(crate) renews_token: bool,
    /// A request of this connection had a token that was refused, with this text: the connection ends after the response.
    pub(crate) refused_token: Option<&'static str>,
    pub(crate) transactions: Transactions,
    pub(crate) held: InputHold,
    pub(crate) endings: Endings,
    /// The time from which on the queues are gone that are deleted with ending links and sessions.
    pub(crate) gone_at: GoneAt,
    /// The queues that have to be gone before the frame at the head of the input is handled again, if they answer later.
    pub(crate) going: GoneAt,
    pub(crate) questions: Questions,
    pub(crate) waking: WakingSessions,
    /// A queue that is being declared for the held attach.
    pub(crate) declaring: Option<Declaring>,
    /// The consumer that the attach at the head of the input has asked a queue for.
    pub(crate) attaching: Option<Box<Attaching>>,
    /// A buffer for outcomes that are due.
    pub(crate) due: Vec<Due>,
}

impl Connection {
    pub(crate) fn new(client: ClientConnection) -> Self {
        let initial_frame_max = client.broker.settings.initial_frame_max;
        Self {
            client,
            phase: Phase::SaslInit,
            opened: Opened::new(initial_frame_max),
            sessions: Sessions::default(),
            links: FxHashMap::default(),
            unfinished: false,
            publishing: Publishing::default(),
            settlements: Settlements::default(),
            answers: Answers::default(),
            responses: VecDeque::new(),
            renews_token: false,
            refused_token: None,
            transactions: Transactions::default(),
            held: InputHold::No,
            endings: Endings::default(),
            gone_at: GoneAt::default(),
            going: GoneAt::default(),
            questions: Questions::default(),
            waking: WakingSessions::default(),
            declaring: None,
            attaching: None,
            due: Vec::new(),
        }
    }

    /// The permit for an action of this connection's user in its vhost.
    pub(crate) fn authorize(&self, action: Action<'_>) -> core::result::Result<Permit, Refused> {
        self.client.authorize(action)
    }

    /// Holds the frame, which is handled again when `ticket` is durable.
    pub(crate) fn hold(&mut self, ticket: Ticket) {
        self.held = InputHold::Again { ticket };
    }

    /// A queue that this connection may use, for `action` if one is given.
    pub(crate) fn usable_queue(&self, name: &str, action: Option<Action<'_>>) -> Result<QueueRef> {
        let snapshot = self.client.broker.registry.snapshot();
        let info = snapshot.topology.usable_queue(&self.client.vhost, name, Some(self.client.id))?;
        let queue = snapshot.queues.get(&info.id).expect("every queue of the topology is there").newest();
        if let Some(action) = action {
            self.authorize(action)?;
        }
        running(queue)
    }

    pub(crate) fn told(&self) -> Told<'_> {
        self.client.told("")
    }

    /// The state by RabbitMQ's name.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            Phase::SaslInit | Phase::Refused => "waiting_sasl_init",
            Phase::Header => "waiting_amqp0100",
            Phase::Open => "waiting_open",
            Phase::Running => "running",
            Phase::Closing => "closing",
            Phase::Finished => "closed",
        }
    }
}

pub(super) fn running(queue: QueueRef) -> Result<QueueRef> {
    queue.check_runs().map_err(|text| Failure::link(condition::ILLEGAL_STATE, text))?;
    Ok(queue)
}
