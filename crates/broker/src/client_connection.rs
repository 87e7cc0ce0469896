//! The part of a client's connection that is the same in every protocol: identity, output, flow control, and the work of a
//! turn that is left. Each protocol's connection holds one and adds its own states.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_log::Position;
use leveret_model::ConnectionId;
use leveret_queue::Taken;

use crate::bodies::Unwritten;
use crate::broker::Broker;
use crate::outbox::{Event, Outbox};
use crate::output::Output;
use crate::partial::PartialMessages;
use crate::peer::Peer;
use crate::quota::Account;
use crate::route::RouteCache;
use crate::time::{Nanos, Now};
use crate::traffic::Traffic;
use crate::turn_budget::TurnBudget;
use crate::undurable::Undurable;

/// The protocol-independent state of one client's connection.
pub(crate) struct ClientConnection {
    pub(crate) broker: Arc<Broker>,
    pub(crate) id: ConnectionId,
    /// RabbitMQ's name of it: addresses of both ends.
    pub(crate) name: Arc<str>,
    pub(crate) peer: Peer,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) counters: Box<Traffic>,
    /// Monotonic time at which it was accepted, in nanoseconds.
    pub(crate) connected: Nanos,
    /// The SASL mechanism of its login; empty before.
    pub(crate) mechanism: Arc<str>,
    pub(crate) output: Output,
    /// Empty until the login.
    pub(crate) user: Arc<str>,
    /// Empty until the connection is opened.
    pub(crate) vhost: Arc<str>,
    /// The highest channel number, as both sides agreed on.
    pub(crate) channel_max: u16,
    pub(crate) has_exclusive_queues: bool,
    pub(crate) account: Account,
    /// Monotonic time of the last input, in nanoseconds.
    pub(crate) last_input: Nanos,
    /// Monotonic time of the last output, in nanoseconds.
    pub(crate) last_output: Nanos,
    /// The handshake, or the answer to our close, is due at this monotonic time, in nanoseconds.
    pub(crate) deadline: Option<Nanos>,
    /// Keys of consumers whose queues have messages for them.
    pub(crate) scheduled: VecDeque<u64>,
    /// Keys of consumers that their queues pass over, since the socket is behind.
    pub(crate) starved: Vec<u64>,
    /// A consumer's messages while they are encoded; empty in between, so that its memory is reused.
    pub(crate) taken: Vec<Taken>,
    /// Of large bodies on their way in.
    pub(crate) unwritten: Unwritten,
    pub(crate) partial: PartialMessages,
    pub(crate) routes: RouteCache,
    pub(crate) undurable: Undurable,
    /// Whether publishes had to wait for the log when this connection last registered for a wake-up. Don't evaluate it
    /// anew without registering again: it could block on something that never wakes it.
    pub(crate) waits_for_log: bool,
    /// The position that the commit stream notifies this connection of when it is durable.
    pub(crate) registered: Option<Position>,
    /// The same for a position that only has to be written.
    pub(crate) registered_written: Option<Position>,
    /// Events from the outbox that earlier turns had no budget for.
    pub(crate) events: VecDeque<Event>,
    pub(crate) budget: TurnBudget,
    /// The rest of the input comes in the next turn.
    pub(crate) paused: bool,
    /// The socket is gone.
    pub(crate) gone: bool,
}

impl ClientConnection {
    /// A connection that hasn't logged in and has until `deadline`, in nanoseconds of monotonic time, to open.
    pub(crate) fn new(
        broker: Arc<Broker>,
        id: ConnectionId,
        peer: Peer,
        outbox: Arc<Outbox>,
        counters: Box<Traffic>,
        deadline: Nanos,
        now: Now,
    ) -> Self {
        let partial = PartialMessages::new(&broker.settings);
        let undurable = Undurable::new(broker.commit.allowance().clone());
        let budget = TurnBudget::new(broker.settings.turn_work_max);
        Self {
            broker,
            id,
            name: peer.connection_name().into(),
            peer,
            outbox,
            counters,
            connected: now.monotonic,
            mechanism: "".into(),
            output: Output::default(),
            user: "".into(),
            vhost: "".into(),
            channel_max: 0,
            has_exclusive_queues: false,
            account: Account::default(),
            last_input: now.monotonic,
            last_output: now.monotonic,
            deadline: Some(deadline),
            scheduled: VecDeque::new(),
            starved: Vec::new(),
            taken: Vec::new(),
            unwritten: Unwritten::default(),
            partial,
            routes: RouteCache::default(),
            undurable,
            waits_for_log: false,
            registered: None,
            registered_written: None,
            events: VecDeque::new(),
            budget,
            paused: false,
            gone: false,
        }
    }

    /// Whether a user has proved its identity.
    pub(crate) fn is_logged_in(&self) -> bool {
        !self.user.is_empty()
    }
}
