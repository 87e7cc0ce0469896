//! The part of a client's connection that is the same in every protocol: identity, output, flow control, and the budget
//! that is left of a turn. Each protocol's connection holds one and adds its own states.

mod asking;
mod events;
mod login;
mod shown_wait;
mod topology;
mod trace;
mod view;

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_model::{ConnectionId, Identity, QueueId};
use leveret_queue::{Taken, WaitReason, Watermarks};
use smallvec::SmallVec;

pub use self::asking::ANSWER_WITHIN;
use self::asking::Asking;
pub(crate) use self::asking::BACKEND_KEY;
pub use self::events::ConsumerUse;
pub use self::login::CREDENTIAL_EXPIRED;
use self::login::NEVER;
use self::shown_wait::ShownWait;
pub use self::shown_wait::WAIT_SHOWN_MAX;
use crate::consumer_turns::ConsumerTurns;
use crate::gone::GoneAt;
use crate::overdue::Looks;
use crate::pace::Pace;
use crate::silence::Silence;
use crate::undurable::Undurable;
use leveret_broker::bodies::Unwritten;
use leveret_broker::broker::Broker;
use leveret_broker::group::{GroupSlot, TakenSlot};
use leveret_broker::log_lines::Told;
use leveret_broker::outbox::{Event, Outbox};
use leveret_broker::output::Output;
use leveret_broker::partial::PartialMessages;
use leveret_broker::peer::Peer;
use leveret_broker::protocol::{Accepted, ProtocolInfo};
use leveret_broker::quota::Account;
use leveret_broker::route::RouteCache;
use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::streams::Waiter;
use leveret_broker::streams::waits::Registered;
use leveret_broker::ticket::{Awaited, StreamId, Ticket};
use leveret_broker::time::{Nanos, Now};
use leveret_broker::traffic::Traffic;
use leveret_broker::turn_budget::{CONSUMER, EXCLUSIVE_QUEUES, TurnBudget};
use leveret_broker::views::Client;
use leveret_broker::wait_for::Reached;

/// The protocol-independent state of one client's connection.
pub struct ClientConnection {
    /// The broker that the client is connected to.
    pub broker: Arc<Broker>,
    /// The connection's id.
    pub id: ConnectionId,
    /// The connection's name in RabbitMQ's form: the addresses of both ends.
    pub name: Arc<str>,
    /// The client's end of the connection.
    pub peer: Peer,
    /// The connection's outbox, through which the broker notifies it.
    pub outbox: Arc<Outbox>,
    /// All counters of the connection.
    pub counters: Box<Traffic>,
    /// The slot for a group of its core's connections that stays open over several turns.
    group_slot: Arc<GroupSlot>,
    /// The protocol that the client speaks.
    protocol: &'static ProtocolInfo,
    /// Monotonic time at which it was accepted, in nanoseconds.
    connected: Nanos,
    /// The SASL mechanism of its login; empty before.
    mechanism: Arc<str>,
    /// Bytes to be written to the socket.
    pub output: Output,
    /// The client's identity; nobody until the login.
    pub identity: Identity,
    /// Monotonic time, in nanoseconds, at which its identity may have ended; `NEVER` if it doesn't end.
    credential_due: Nanos,
    /// An answer of the identity's backend that a frame needs. In a box, since few connections wait.
    asking: Option<Box<Asking>>,
    /// The vhost; empty until the connection is opened.
    pub vhost: Arc<str>,
    /// The highest channel number that both sides agreed on.
    channel_max: u16,
    /// Whether the client declared exclusive queues, which are deleted with the connection.
    has_exclusive_queues: bool,
    /// The connection's share of its limits.
    pub account: Account,
    /// How long either side has been silent, and what is due from the client.
    pub silence: Silence,
    /// When to look at deliveries that may be unsettled for too long.
    pub looks: Looks,
    /// The consumers that are served next.
    pub turns: ConsumerTurns,
    /// A consumer's messages while they are encoded; empty in between, so that its memory is reused.
    pub taken: Vec<Taken>,
    /// Incoming parts of large bodies that aren't written to their files yet.
    pub unwritten: Unwritten,
    /// Messages that have come in only partly.
    pub partial: PartialMessages,
    /// Cached routes of the messages that it publishes.
    pub routes: RouteCache,
    /// Publishes of this connection that aren't durable yet.
    pub undurable: Undurable,
    /// Whether input is blocked until all earlier publishes are in their queues.
    awaits_publishes: bool,
    /// Whether publishes were blocked on the log when this connection last registered for a wake-up. Don't re-evaluate
    /// it without registering again: the connection could block on something that never wakes it.
    waits_for_log: bool,
    /// The stream whose room a commit waits for, which can't begin before. Its connection has no turn until it is woken.
    waits_for_room: Option<StreamId>,
    /// The commit-stream positions that this connection is registered for.
    registered: Registered,
    /// Events from the outbox that didn't fit into the budget of earlier turns.
    events: VecDeque<Event>,
    /// The wait of its publishes that listings show. In a box, since few connections wait.
    shown_wait: Option<Box<ShownWait>>,
    /// The watermarks of the streams that it publishes to, when publishes were last applied.
    reached: SmallVec<[(StreamId, Watermarks); 1]>,
    /// Whether all publishes up to there are in their queues.
    is_applied: bool,
    /// The publishes that the pacing of queues holds back.
    pub pace: Pace,
    /// The budget that is left of this turn.
    pub budget: TurnBudget,
    /// Reading is paused; the rest of the input is handled in the next turn.
    paused: bool,
    /// The socket is closed.
    gone: bool,
}

/// The watermarks of a stream among these.
fn known(reached: &[(StreamId, Watermarks)], stream: StreamId) -> Option<Watermarks> {
    reached.iter().find(|(id, _)| *id == stream).map(|(_, reached)| *reached)
}

impl ClientConnection {
    /// A connection that hasn't logged in.
    pub fn new(accepted: Accepted, now: Now) -> Self {
        let Accepted { broker, id, peer, outbox, counters, group_slot, spoken, deadline } = accepted;
        let partial = PartialMessages::new(&broker.settings, outbox.unfinished());
        let undurable = Undurable::new(broker.commit.allowance().clone());
        let budget = TurnBudget::new(broker.settings.turn_work_max);
        Self {
            broker,
            id,
            name: peer.connection_name().into(),
            peer,
            outbox,
            counters,
            group_slot,
            protocol: spoken.info,
            connected: now.monotonic,
            mechanism: "".into(),
            output: Output::default(),
            identity: Identity::nobody(),
            credential_due: NEVER,
            asking: None,
            vhost: "".into(),
            channel_max: 0,
            has_exclusive_queues: false,
            account: Account::default(),
            silence: Silence::new(now, deadline),
            looks: Looks::default(),
            turns: ConsumerTurns::default(),
            taken: Vec::new(),
            unwritten: Unwritten::default(),
            partial,
            routes: RouteCache::default(),
            undurable,
            awaits_publishes: false,
            waits_for_log: false,
            waits_for_room: None,
            registered: Registered::default(),
            events: VecDeque::new(),
            shown_wait: None,
            reached: SmallVec::new(),
            is_applied: true,
            pace: Pace::default(),
            budget,
            paused: false,
            gone: false,
        }
    }

    /// The SASL mechanism of its login; empty before.
    pub fn mechanism(&self) -> &Arc<str> {
        &self.mechanism
    }

    /// The highest channel number that both sides agreed on.
    #[inline]
    pub fn channel_max(&self) -> u16 {
        self.channel_max
    }

    /// Both sides agreed on this highest channel number.
    pub fn agree_on_channels(&mut self, max: u16) {
        self.channel_max = max;
    }

    /// The first id from which on the client's exclusive queues are looked for; none if it declared none.
    pub fn first_exclusive_queue(&self) -> Option<QueueId> {
        self.has_exclusive_queues.then_some(QueueId(0))
    }

    /// Whether the socket is closed.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// The socket is closed. False if it was closed before.
    pub(crate) fn end(&mut self) -> bool {
        !std::mem::replace(&mut self.gone, true)
    }

    /// Whether the rest of the input is handled in the next turn.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Leaves the rest of the input to the next turn.
    pub(crate) fn pause(&mut self) {
        self.paused = true;
    }

    /// Begins a turn, with all of its budget.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.budget.renew();
        self.paused = false;
        self.pace.pass(now.monotonic);
    }

    /// Takes events from the outbox, behind those that are left of earlier turns. Returns whether some are: then others stay in the
    /// outbox.
    #[inline]
    pub(crate) fn take_events(&mut self) -> bool {
        let are_left = !self.events.is_empty();
        self.outbox.drain_after(&mut self.events);
        are_left
    }

    /// Takes out the event that is handled next.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Puts back an event, which is handled first in the next turn.
    pub(crate) fn put_event_back(&mut self, event: Event) {
        self.events.push_front(event);
    }

    /// Whether events are left for the next turn.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The connection as log lines name it; `client_name` is the client's own name for it, empty if it has none.
    pub fn told<'a>(&'a self, client_name: &'a str) -> Told<'a> {
        Told {
            id: self.id,
            name: &self.name,
            client_name,
            vhost: &self.vhost,
            user: self.identity.name(),
            connected: self.connected,
        }
    }

    /// The connection as listings show it.
    pub fn shown(&self) -> Client {
        Client {
            id: self.id,
            name: self.name.clone(),
            user: self.identity.name().clone(),
            vhost: self.vhost.clone(),
            protocol: self.protocol,
        }
    }

    /// Whether the log has no room for publishes, or too much of this connection's data is on its way to the disk: the
    /// third level of flow control.
    #[inline]
    pub fn is_log_full(&self) -> bool {
        // This runs for every frame, and mostly only the node's own log is asked.
        let is_full = match self.undurable.holds_only_local() {
            true => !self.broker.streams.takes_publishers(StreamId::LOCAL),
            false => self.full_stream().is_some(),
        };
        self.undurable.is_full() || is_full
    }

    /// A stream that takes no publishes at the moment, among the streams that this connection publishes to.
    #[inline(never)]
    fn full_stream(&self) -> Option<StreamId> {
        self.undurable.holding().find(|stream| !self.broker.streams.takes_publishers(*stream))
    }

    /// Why this connection's publishes wait, and whether all publishers wait. If not, only its own share on the way to
    /// the disk is used up.
    pub fn log_wait(&self) -> (WaitReason, bool) {
        let full = self.full_stream();
        let first = || self.undurable.streams().next().unwrap_or_default();
        let stream = self.broker.streams.get(full.unwrap_or_else(first));
        (stream.map_or(WaitReason::LogFull, |stream| stream.publish_wait()), full.is_some())
    }

    /// Whether publishes were blocked on the log when this connection last registered for a wake-up.
    #[inline]
    pub fn waits_for_log(&self) -> bool {
        self.waits_for_log
    }

    /// Notes whether publishes are blocked on the log, just before the connection registers for a wake-up.
    #[inline]
    pub(crate) fn note_log(&mut self, is_full: bool) {
        self.waits_for_log = is_full;
    }

    /// Whether a commit waits for room in a stream.
    #[inline]
    pub(crate) fn waits_for_room(&self) -> bool {
        self.waits_for_room.is_some()
    }

    /// A commit waits for room in this stream, or for none.
    pub(crate) fn wait_for_room(&mut self, stream: Option<StreamId>) {
        self.waits_for_room = stream;
    }

    /// The slot for a group of its core's connections that stays open over several turns, unless another has it.
    pub(crate) fn take_group_slot(&self) -> Option<TakenSlot> {
        self.group_slot.take()
    }

    /// A stream has got as far as this connection was registered for: more of it is durable, or only written.
    #[inline]
    pub(crate) fn notified(&mut self, stream: StreamId, is_written: bool) {
        self.registered.notified(stream, is_written);
    }

    /// Registers with the commit streams for a wake-up at these positions and at the next ones of this connection's
    /// publishes. Without any position, `wants_room` asks for a wake-up as soon as anything more is durable.
    pub fn register(&mut self, awaited: impl IntoIterator<Item = Awaited>, wants_room: bool) {
        awaited.into_iter().chain(self.undurable.awaited()).for_each(|awaited| self.registered.want(awaited));
        // With a share that is used up there are positions of its own to wait for.
        let full = self.waits_for_room.or_else(|| if wants_room { self.full_stream() } else { None });
        if let Some(stream) = full.filter(|stream| !self.registered.wants_durable(*stream)) {
            let next = self.broker.streams.reached(stream).unwrap_or_default().durable.next();
            self.registered.want(Ticket::new(stream, next).into());
        }
        let (streams, outbox) = (&self.broker.streams, &self.outbox);
        self.registered.register(|awaited| streams.notify(awaited, Waiter::Connection(outbox.clone())));
        let has_room = match full {
            // A commit waits for room alone.
            Some(stream) if self.waits_for_room.is_some() => self.broker.streams.has_room(stream),
            Some(stream) => self.broker.streams.takes_publishers(stream),
            None => wants_room && !self.undurable.is_full(),
        };
        if has_room {
            // Room appeared after the check and before the registration; without this event the connection might sleep
            // for a long time.
            self.outbox.send(Event::Durable(full.unwrap_or_default()));
        }
    }

    /// Applies publishes that became durable, as far as the turn's budget allows. Returns whether all of them are in their
    /// queues; then confirms and answers may follow, up to [`applied`](Self::applied).
    pub fn apply_durable(&mut self) -> bool {
        self.reached.clear();
        if self.undurable.is_empty() {
            self.is_applied = true;
            return true;
        }
        let streams = &self.broker.streams;
        self.reached.extend(self.undurable.streams().filter_map(|id| Some((id, streams.reached(id)?))));
        let reached = &self.reached;
        self.is_applied = self.undurable.apply(&|stream| known(reached, stream), &mut self.budget);
        self.is_applied
    }

    /// Blocks input if publishes of this connection aren't in their queues yet, and returns whether it does. A frame that looks at
    /// what queues hold asks this before it is handled, and is handled again later: a client may publish without confirms, and what
    /// it did before is seen by what it does next.
    pub fn await_publishes(&mut self) -> bool {
        self.awaits_publishes = !self.undurable.is_empty();
        self.awaits_publishes
    }

    /// Whether input is blocked until all earlier publishes are in their queues.
    #[inline]
    pub fn awaits_publishes(&self) -> bool {
        self.awaits_publishes
    }

    /// Unblocks input if all publishes are in their queues.
    pub(crate) fn end_await_publishes(&mut self, now: Now) {
        if self.awaits_publishes && self.undurable.is_empty() {
            self.awaits_publishes = false;
            // The client isn't to blame for the silence.
            self.silence.heard(now);
        }
    }

    /// The watermarks up to which this connection's publishes are in their queues; none while some are left to apply. A stream
    /// may have got further meanwhile: a confirm up to there could reach the client before its messages reach their queues. A
    /// stream that it doesn't publish to has nothing of it to be applied.
    pub fn applied(&self) -> impl Reached + use<> {
        let mut applied = self.reached.clone();
        if !self.undurable.is_empty() {
            for stream in self.undurable.streams() {
                if known(&applied, stream).is_none() && self.broker.streams.reached(stream).is_some() {
                    // It has published there since.
                    applied.push((stream, Watermarks::default()));
                }
            }
        }
        let (is_applied, streams) = (self.is_applied, self.broker.streams.clone());
        move |stream| match is_applied {
            true => known(&applied, stream).or_else(|| streams.reached(stream)),
            false => Some(Watermarks::default()),
        }
    }

    /// Notifies the queues of consumers whether the socket has room. `set_room` does so for a consumer's key and
    /// returns false if there is no such consumer. Returns whether the socket has room.
    pub fn tell_room(&mut self, mut set_room: impl FnMut(u64, bool) -> bool) -> bool {
        if self.output.len() >= TURN_BYTES_MAX {
            // The socket didn't take the last turn's output, so other consumers may have these messages.
            self.turns.starve(|key| set_room(key, false));
            return false;
        }
        for key in self.turns.take_starved() {
            set_room(key, true);
        }
        true
    }

    /// The key of the consumer that is served next. None if the output holds one write's worth or the turn is over.
    pub fn next_scheduled(&mut self) -> Option<u64> {
        if self.output.len() >= TURN_BYTES_MAX || self.budget.is_spent() {
            return None;
        }
        let key = self.turns.next()?;
        self.budget.spend(CONSUMER);
        Some(key)
    }

    /// Deletes the next part of the connection's exclusive queues, whose ids begin at `next`, and advances `next`.
    /// Returns the time from which on they are gone, or none if no more are left.
    pub fn delete_exclusive_queues(&mut self, next: &mut QueueId, now: Now) -> Option<GoneAt> {
        self.budget.spend(EXCLUSIVE_QUEUES);
        let gone_at = match self.has_exclusive_queues {
            true => self.broker.delete_exclusive_queues(self.id, next, now),
            false => None,
        };
        self.has_exclusive_queues = gone_at.is_some();
        gone_at.map(GoneAt::from)
    }

    /// Returns the connection's share of its limits once everything that it owned is gone.
    pub fn left(&mut self) {
        self.account = Account::default();
        self.broker.streams.announce();
    }

    /// Removes the connection from the broker after its socket was closed.
    pub fn forget(&mut self) {
        self.counters.leave();
        self.broker.forget_connection(self.id);
        self.hand_over();
    }

    /// Hands publishes that aren't durable yet to the commit stream, which applies them in place of this connection.
    pub fn hand_over(&mut self) {
        self.undurable.hand_over(&self.broker.streams);
    }
}
