//! The part of a client's connection that is the same in every protocol: identity, output, flow control, and the work of a
//! turn that is left. Each protocol's connection holds one and adds its own states.

mod login;
mod topology;
mod view;

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_model::{ConnectionId, QueueId};
use leveret_queue::{Taken, WaitReason};

use crate::undurable::Undurable;
use leveret_broker::bodies::Unwritten;
use leveret_broker::broker::Broker;
use leveret_broker::outbox::{Event, Outbox};
use leveret_broker::output::Output;
use leveret_broker::partial::PartialMessages;
use leveret_broker::peer::Peer;
use leveret_broker::protocol::{Accepted, ProtocolInfo};
use leveret_broker::quota::Account;
use leveret_broker::route::RouteCache;
use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::streams::waits::Registered;
use leveret_broker::streams::{CommitStream as _, Waiter};
use leveret_broker::ticket::{Awaited, StreamId, Ticket};
use leveret_broker::time::{Nanos, Now};
use leveret_broker::told::Told;
use leveret_broker::traffic::Traffic;
use leveret_broker::turn_budget::{CONSUMER, EXCLUSIVE_QUEUES, TurnBudget};
use leveret_broker::views::Client;
use leveret_broker::wait_for::WaitFor;

/// The protocol-independent state of one client's connection.
pub struct ClientConnection {
    /// The broker that it is a client of.
    pub broker: Arc<Broker>,
    /// Its id.
    pub id: ConnectionId,
    /// RabbitMQ's name of it: addresses of both ends.
    pub name: Arc<str>,
    /// Where it comes from.
    pub peer: Peer,
    /// How it is reached.
    pub outbox: Arc<Outbox>,
    /// Everything it counts.
    pub counters: Box<Traffic>,
    /// What it speaks.
    pub protocol: &'static ProtocolInfo,
    /// Monotonic time at which it was accepted, in nanoseconds.
    pub connected: Nanos,
    /// The SASL mechanism of its login; empty before.
    pub mechanism: Arc<str>,
    /// What the socket is to take.
    pub output: Output,
    /// Empty until the login.
    pub user: Arc<str>,
    /// Empty until the connection is opened.
    pub vhost: Arc<str>,
    /// The highest channel number, as both sides agreed on.
    pub channel_max: u16,
    /// Whether it declared queues that go with it.
    pub has_exclusive_queues: bool,
    /// What its limits count.
    pub account: Account,
    /// Monotonic time of the last input, in nanoseconds.
    pub last_input: Nanos,
    /// Monotonic time of the last output, in nanoseconds.
    pub last_output: Nanos,
    /// The handshake, or the answer to our close, is due at this monotonic time, in nanoseconds.
    pub deadline: Option<Nanos>,
    /// Keys of consumers whose queues have messages for them.
    pub scheduled: VecDeque<u64>,
    /// Keys of consumers that their queues pass over, since the socket is behind.
    pub starved: Vec<u64>,
    /// A consumer's messages while they are encoded; empty in between, so that its memory is reused.
    pub taken: Vec<Taken>,
    /// Of large bodies on their way in.
    pub unwritten: Unwritten,
    /// Messages of which a part has come.
    pub partial: PartialMessages,
    /// Where its messages go.
    pub routes: RouteCache,
    /// Its publishes that aren't durable yet.
    pub undurable: Undurable,
    /// Whether publishes had to wait for the log when this connection last registered for a wake-up. Don't evaluate it
    /// anew without registering again: it could block on something that never wakes it.
    pub waits_for_log: bool,
    /// The places that the commit streams notify this connection of.
    pub registered: Registered,
    /// Events from the outbox that earlier turns had no budget for.
    pub events: VecDeque<Event>,
    /// The work of the turn that is left.
    pub budget: TurnBudget,
    /// The rest of the input comes in the next turn.
    pub paused: bool,
    /// The socket is gone.
    pub gone: bool,
}

impl ClientConnection {
    /// A connection that hasn't logged in.
    pub fn new(accepted: Accepted, now: Now) -> Self {
        let Accepted { broker, id, peer, outbox, counters, spoken, deadline } = accepted;
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
            protocol: spoken.info,
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
            registered: Registered::default(),
            events: VecDeque::new(),
            budget,
            paused: false,
            gone: false,
        }
    }

    /// The connection as log lines name it; `client_name` is what its client calls it, empty if it doesn't.
    pub fn told<'a>(&'a self, client_name: &'a str) -> Told<'a> {
        Told {
            id: self.id,
            name: &self.name,
            client_name,
            vhost: &self.vhost,
            user: &self.user,
            connected: self.connected,
        }
    }

    /// The connection as listings show it.
    pub fn shown(&self) -> Client {
        Client { id: self.id, name: self.name.clone(), user: self.user.clone(), vhost: self.vhost.clone() }
    }

    /// Whether the log has no room for publishes, or this connection has enough on its way to the disk: the third level of
    /// flow control.
    pub fn is_log_full(&self) -> bool {
        // It is asked for each frame, and mostly there is one stream: then no list is looked through.
        let is_full = match self.broker.streams.all().len() {
            1 => !self.broker.commit.has_room(),
            _ => self.full_stream().is_some(),
        };
        self.undurable.is_full() || is_full
    }

    /// A stream that takes no publishes for now, of those that the connection publishes to.
    fn full_stream(&self) -> Option<StreamId> {
        self.undurable.streams().find(|stream| !self.broker.streams.get(*stream).has_room())
    }

    /// Why this connection's publishes wait, and whether all publishers do: else it has enough of its own on its way.
    pub fn log_wait(&self) -> (WaitReason, bool) {
        let full = self.full_stream();
        (self.broker.streams.get(full.unwrap_or_default()).publish_wait(), full.is_some())
    }

    /// Registers with the commit streams for a wake-up at these places and at the next ones of this connection's publishes.
    /// Without any, `wants_room` asks for one as soon as anything more is durable.
    pub fn register(&mut self, awaited: impl IntoIterator<Item = Awaited>, wants_room: bool) {
        awaited.into_iter().chain(self.undurable.awaited()).for_each(|awaited| self.registered.want(awaited));
        let room = match wants_room && !self.registered.wants_any_durable() {
            true => Some(self.full_stream().unwrap_or_default()),
            false => None,
        };
        if let Some(stream) = room {
            let next = self.broker.streams.reached(stream).durable.next();
            self.registered.want(Ticket::new(stream, next).into());
        }
        let (streams, outbox) = (&self.broker.streams, &self.outbox);
        self.registered.register(|awaited| streams.notify(awaited, Waiter::Connection(outbox.clone())));
        if let Some(stream) = room.filter(|_| self.full_stream().is_none()) {
            // Room appeared after the check and before the registration; without this event nothing might wake the
            // connection for long.
            self.outbox.send(Event::Durable(stream));
        }
    }

    /// Tells the queues of consumers whether the socket takes more, by `set_room` with a consumer's key, which is false when
    /// there is no such consumer. The result is whether it does.
    pub fn tell_room(&mut self, mut set_room: impl FnMut(u64, bool) -> bool) -> bool {
        if self.output.len() >= TURN_BYTES_MAX {
            // The socket did not take the last turn's output: others may have these messages.
            while let Some(key) = self.scheduled.pop_front() {
                if set_room(key, false) {
                    self.starved.push(key);
                }
            }
            return false;
        }
        for key in std::mem::take(&mut self.starved) {
            set_room(key, true);
        }
        true
    }

    /// The key of the consumer that is served next; none when the output holds one write's worth or the turn is over.
    pub fn next_scheduled(&mut self) -> Option<u64> {
        if self.output.len() >= TURN_BYTES_MAX || self.budget.is_spent() {
            return None;
        }
        let key = self.scheduled.pop_front()?;
        self.budget.spend(CONSUMER);
        Some(key)
    }

    /// Deletes the next part of the connection's exclusive queues, whose ids begin at `next`, and moves `next` on. The result
    /// is the ticket from which on they are gone; none when there are no more.
    pub fn delete_exclusive_queues(&mut self, next: &mut QueueId, now: Now) -> Option<Ticket> {
        self.budget.spend(EXCLUSIVE_QUEUES);
        let gone_at = match self.has_exclusive_queues {
            true => self.broker.delete_exclusive_queues(self.id, next, &self.counters, now),
            false => None,
        };
        self.has_exclusive_queues = gone_at.is_some();
        gone_at
    }

    /// Gives back what the connection's limits count, once all that was its own is gone.
    pub fn left(&mut self) {
        self.account = Account::default();
        self.broker.streams.announce();
    }

    /// Takes the connection out of the broker after its socket is gone. `wait` is the change whose answer it waited for.
    pub fn forget(&mut self, wait: Option<WaitFor>) {
        self.counters.leave();
        self.broker.forget_connection(self.id);
        if let Some(wait) = wait {
            self.broker.publish_later(wait);
        }
        self.hand_over();
    }

    /// Leaves what isn't durable yet to the commit stream to be applied, since this connection won't.
    pub fn hand_over(&mut self) {
        self.undurable.hand_over(&self.broker.streams);
    }
}
