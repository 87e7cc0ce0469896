//! The state of a connection.

use rustc_hash::FxHashMap;

use super::alarm_state::AlarmState;
use super::by_queue::ByQueue;
use super::channel::Channel;
use super::consumer::Consumer;
use super::contents::Contents;
use super::error::{Result, no_channel};
use super::held::InputHold;
use super::negotiated::Negotiated;
use super::noted_channels::{ConfirmingChannels, WakingChannels};
use super::questions::Questions;
use super::reply_consumer::ArrivedReplies;
use super::run::{LateReturns, PublishRun};
use super::tx::OpenTransactions;
use super::unfinished::UnfinishedWork;
use leveret_broker::log_lines::Told;
use leveret_session::client_connection::ClientConnection;

/// The state of a connection (specification 2.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `connection.start` was sent.
    Start,
    /// `connection.tune` was sent.
    Tune,
    /// `connection.open` is expected.
    Open,
    /// The connection is open.
    Running,
    /// The login was refused, and the client isn't told; the socket is closed when the deadline passes.
    Refused,
    /// `connection.close` was sent; only its answer is handled.
    Closing,
    /// Nothing more is sent.
    Finished,
}

/// The state of one AMQP 0-9-1 connection.
pub(crate) struct Session {
    pub(crate) client: ClientConnection,
    pub(crate) phase: Phase,
    pub(crate) negotiated: Negotiated,
    /// Alarms, which block publishing on the whole node.
    pub(crate) alarm: AlarmState,
    pub(crate) channels: FxHashMap<u16, Box<Channel>>,
    pub(crate) consumers: FxHashMap<u64, Box<Consumer>>,
    /// Channels whose parked consumers are being woken.
    pub(crate) waking: WakingChannels,
    /// Answers of direct reply-to.
    pub(crate) replies: ArrivedReplies,
    /// Large bodies that are being sent.
    pub(crate) contents: Contents,
    pub(crate) run: PublishRun,
    /// Acknowledgements that came in one read and are handed to their queues together.
    pub(crate) acks: ByQueue,
    /// Work that was begun.
    pub(crate) unfinished: UnfinishedWork,
    pub(crate) held: InputHold,
    pub(crate) questions: Questions,
    /// The transactions of all channels.
    pub(crate) transactions: OpenTransactions,
    pub(crate) confirming: ConfirmingChannels,
    /// Messages of queues that answer later, which may have to be returned.
    pub(crate) late_returns: LateReturns,
}

impl Session {
    pub(crate) fn new(client: ClientConnection) -> Self {
        let alarm = client.broker.alarms.publishing_blocked();
        let frame_max = client.broker.settings.initial_frame_max;
        Self {
            client,
            phase: Phase::Start,
            negotiated: Negotiated::new(frame_max),
            alarm: AlarmState::new(alarm),
            channels: FxHashMap::default(),
            consumers: FxHashMap::default(),
            waking: WakingChannels::default(),
            replies: ArrivedReplies::default(),
            contents: Contents::default(),
            run: PublishRun::default(),
            acks: ByQueue::default(),
            unfinished: UnfinishedWork::default(),
            held: InputHold::No,
            questions: Questions::default(),
            transactions: OpenTransactions::default(),
            confirming: ConfirmingChannels::default(),
            late_returns: LateReturns::default(),
        }
    }

    /// The channel with this number.
    pub(crate) fn channel(&mut self, number: u16) -> Result<&mut Channel> {
        self.channels.get_mut(&number).map(|channel| &mut **channel).ok_or_else(|| no_channel(number))
    }

    /// The buffer that frames for a channel are written to.
    pub(crate) fn out(&mut self, channel: u16) -> &mut Vec<u8> {
        self.contents.out(&mut self.client.output, channel)
    }

    pub(crate) fn told(&self) -> Told<'_> {
        self.client.told(self.negotiated.client_name())
    }

    /// The state by RabbitMQ's name.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            Phase::Start | Phase::Refused => "starting",
            Phase::Tune => "tuning",
            Phase::Open => "opening",
            Phase::Running => "running",
            Phase::Closing => "closing",
            Phase::Finished => "closed",
        }
    }
}
