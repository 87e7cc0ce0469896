//! The state of a connection.

use std::sync::Arc;

use leveret_queue::TakenChunk;
use leveret_stream_protocol::{ResponseCode, answers};

use super::confirming::ChunkRuns;
use super::input_hold::InputHold;
use super::open_connections::{Counted, OpenConnections};
use super::publishers::{Publishers, Watched};
use super::refusal::RefusedLogin;
use super::refused::RefusedCounts;
use super::settings::StreamSettings;
use super::subscriptions::Subscriptions;
use super::tuned::Tuned;
use leveret_broker::alarms::AlarmSource;
use leveret_broker::log_lines::Told;
use leveret_session::client_connection::ClientConnection;

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamPhase {
    /// A login is expected.
    Begin,
    /// `Tune` was sent.
    Authenticated,
    /// `Open` is expected.
    Tuned,
    /// The login or the vhost is refused; the answer waits.
    Refused(RefusedLogin),
    /// The connection is open.
    Open,
    /// `Close` was sent; only its answer is handled.
    Closing,
    /// Nothing more is sent.
    Finished,
}

/// The state of one connection.
pub(crate) struct Session {
    pub(crate) client: ClientConnection,
    pub(crate) settings: Arc<StreamSettings>,
    pub(crate) refused: Arc<RefusedCounts>,
    pub(crate) open_connections: OpenConnections,
    /// This one among them, once it is open.
    pub(crate) counted: Option<Counted>,
    pub(crate) phase: StreamPhase,
    /// The client's properties.
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) tuned: Tuned,
    /// Publishing is blocked on the whole node.
    pub(crate) alarm: bool,
    pub(crate) publishers: Publishers,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) watched: Watched,
    pub(crate) publishing: ChunkRuns,
    /// Chunks of a subscription while they are written; empty in between, so that its memory is reused.
    pub(crate) taken: Vec<TakenChunk>,
    pub(crate) held: InputHold,
}

impl Session {
    pub(crate) fn new(
        client: ClientConnection,
        settings: Arc<StreamSettings>,
        refused: Arc<RefusedCounts>,
        open_connections: OpenConnections,
    ) -> Self {
        Self {
            alarm: client.broker.alarms.blocks(AlarmSource::Disk),
            tuned: Tuned::new(settings.initial_frame_max),
            client,
            settings,
            refused,
            open_connections,
            counted: None,
            phase: StreamPhase::Begin,
            properties: Vec::new(),
            publishers: Publishers::default(),
            subscriptions: Subscriptions::default(),
            watched: Watched::default(),
            publishing: ChunkRuns::default(),
            taken: Vec::new(),
            held: InputHold::No,
        }
    }

    /// Answers a command with a code.
    pub(crate) fn respond(&mut self, key: u16, correlation: u32, code: ResponseCode) {
        self.refused.count(code);
        answers::response(self.client.output.buffer(), key, correlation, code);
    }

    pub(crate) fn told(&self) -> Told<'_> {
        let named = self.properties.iter().find(|(name, _)| name == "connection_name");
        self.client.told(named.map_or("", |(_, value)| value))
    }

    /// The state by its name in log lines.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            StreamPhase::Begin => "starting",
            StreamPhase::Authenticated | StreamPhase::Tuned => "tuning",
            StreamPhase::Open => "running",
            StreamPhase::Refused(_) | StreamPhase::Closing => "closing",
            StreamPhase::Finished => "closed",
        }
    }
}
