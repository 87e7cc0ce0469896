//! A placement's queues as the state machine of its entries.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use leveret_broker::Broker;
use leveret_broker::replicas::{PlacedState, PlacedStream};
use leveret_log::PlacementId;
use leveret_model::PlacementNumber;

use leveret_broker::ticket::Ticket;

use super::promise::promise;
use crate::event::Happening;
use crate::machine::{Applied, Ask, LocalFuture, Machine};
use crate::metadata::MetadataHost;
use crate::network::Host;
use crate::placement::PlacementState;

/// The parts that the machine shares with those who lead and propose.
pub(super) struct QueuesShared<H> {
    pub host: H,
    pub broker: Arc<Broker>,
    pub number: PlacementNumber,
    /// The proposals, while this node leads.
    pub stream: RefCell<Option<Arc<PlacedStream>>>,
    /// Happens when there may be something to propose.
    pub arrivals: Happening,
    /// Tasks that want nothing to be proposed.
    pub pauses: Cell<u32>,
    /// The last term in which this node gave the leadership up.
    given_up: Cell<u64>,
    /// Happens when it gives one up: the engine doesn't know of that.
    pub gives_up: Happening,
}

impl<H: Host> QueuesShared<H> {
    pub(super) fn new(host: H, broker: Arc<Broker>, number: PlacementNumber) -> Self {
        let (stream, arrivals) = (RefCell::default(), Happening::default());
        let (pauses, given_up) = (Cell::new(0), Cell::new(0));
        Self { host, broker, number, stream, arrivals, pauses, given_up, gives_up: Happening::default() }
    }

    /// Gives up the leadership of this term: its queues lack something of what they proposed.
    pub(super) fn give_up(&self, term: u64) {
        self.given_up.set(term);
        self.gives_up.happen();
    }

    /// Whether the leadership of this term was given up.
    pub(super) fn has_given_up(&self, term: u64) -> bool {
        self.given_up.get() >= term
    }

    pub(super) fn id(&self) -> PlacementId {
        PlacementId(self.number.0)
    }

    /// Waits until this ticket of the store is durable.
    pub(super) async fn until_durable(&self, ticket: Ticket) {
        let replicas = self.broker.placements.replicas();
        replicas.hurry(ticket);
        let (give, durable) = promise();
        self.broker.streams.when_over(ticket, Box::new(move |_| give(())));
        self.broker.streams.announce();
        durable.await;
    }

    /// Gets the messages that this member lacks of a state.
    async fn complete(&self, saved: &Bytes, ask: &Ask) -> Result<(), String> {
        let (number, replicas) = (self.number, self.broker.placements.replicas().clone());
        self.until_durable(replicas.last(number)).await;
        let mut last = Ticket::default();
        for lacking in replicas.begin_difference(number, saved)? {
            let (mut next, end) = (lacking.numbers.min(), lacking.numbers.max());
            while let Some(from) = next.filter(|from| Some(*from) <= end) {
                let answer = ask(replicas.question(number, lacking.queue, from)).await?;
                let (following, ticket) = replicas.take_answer(number, lacking.queue, answer)?;
                self.broker.streams.announce();
                (next, last) = (following, last.or_later(ticket));
                if !replicas.has_room() {
                    self.until_durable(last).await;
                    if !replicas.has_room() {
                        return Err("the log has no room for the messages of the state".to_owned());
                    }
                }
            }
        }
        self.until_durable(last).await;
        Ok(())
    }

    fn fail(&self, text: &str) {
        self.host.stopped(self.id(), &format!("placement {} stops: {text}", self.number));
    }
}

/// The state machine of a placement of queues.
pub(super) struct QueueMachine<H>(pub Rc<QueuesShared<H>>);

fn placed_state(state: &PlacementState) -> PlacedState {
    let PlacementState { applied, members_at, members, clock } = state;
    PlacedState { applied: *applied, members_at: *members_at, members: members.to_vec(), clock: *clock }
}

fn placement_state(state: PlacedState) -> PlacementState {
    let PlacedState { applied, members_at, members, clock } = state;
    PlacementState { applied, members_at, members: members.into(), clock }
}

impl<H: MetadataHost> Machine for QueueMachine<H> {
    fn state(&self) -> PlacementState {
        placement_state(self.0.broker.placements.replicas().state(self.0.number))
    }

    fn apply(&mut self, state: PlacementState, commands: Option<&Bytes>) -> Applied {
        let shared = &self.0;
        let term = state.applied.map_or(0, |(term, _)| term);
        match shared.broker.apply_placed(shared.number, placed_state(&state), commands) {
            Ok(applied) => {
                let stream = shared.stream.borrow().clone().filter(|stream| stream.term() == term);
                match (stream, applied.sequence) {
                    (Some(stream), Some(sequence)) => stream.applied(sequence),
                    // An entry of this leadership was refused, since one before it was: what comes later lacks that.
                    (Some(_), None) if commands.is_some() => shared.give_up(term),
                    _ => {}
                }
            }
            Err(text) => shared.fail(&text),
        }
        Applied::default()
    }

    fn save(&self) -> Option<(PlacementState, Bytes)> {
        let (state, saved) = self.0.broker.save_placed(self.0.number)?;
        Some((placement_state(state), saved))
    }

    fn complete(&self, saved: &Bytes, ask: Ask) -> LocalFuture<Result<(), String>> {
        let (shared, saved) = (self.0.clone(), saved.clone());
        Box::pin(async move { shared.complete(&saved, &ask).await })
    }

    fn abandon(&self) {
        self.0.broker.placements.replicas().drop_difference(self.0.number);
    }

    fn answer(&self, question: &Bytes) -> LocalFuture<Result<Bytes, String>> {
        let (give, answer) = promise();
        self.0.broker.answer_placed(self.0.number, question, Box::new(give));
        Box::pin(answer)
    }

    fn restore(&mut self, state: PlacementState, _: Bytes) -> Result<(), String> {
        let (shared, replicas) = (&self.0, self.0.broker.placements.replicas().clone());
        let ticket = replicas.adopt_difference(shared.number, placed_state(&state))?;
        replicas.hurry(ticket);
        shared.host.wait_until_durable(ticket);
        shared.broker.finish_placed(shared.number, ticket)?;
        tracing::info!("placement {}: its queues were completed by another member", shared.number);
        Ok(())
    }
}
