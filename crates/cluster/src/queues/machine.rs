//! A placement's queues as the state machine of its entries.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use leveret_broker::Broker;
use leveret_broker::replicas::{PlacedState, PlacedStream};
use leveret_log::PlacementId;
use leveret_model::PlacementNumber;

use crate::event::Happening;
use crate::machine::{Applied, Machine};
use crate::network::Host;
use crate::placement::PlacementState;

/// The parts that the machine shares with those who lead and propose.
pub(super) struct QueuesShared<H> {
    pub host: H,
    pub broker: Arc<Broker>,
    pub number: PlacementNumber,
    /// The proposals, while this node leads.
    pub stream: RefCell<Option<Arc<PlacedStream>>>,
    /// Happens with each entry.
    pub entries: Happening,
    /// Happens when there may be something to propose.
    pub arrivals: Happening,
    /// The last term in which this node gave the leadership up.
    pub given_up: std::cell::Cell<u64>,
}

impl<H: Host> QueuesShared<H> {
    pub(super) fn id(&self) -> PlacementId {
        PlacementId(self.number.0)
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

impl<H: Host> Machine for QueueMachine<H> {
    fn state(&self) -> PlacementState {
        let state = self.0.broker.placements.replicas().state(self.0.number);
        let PlacedState { applied, members_at, members, clock } = state;
        PlacementState { applied, members_at, members: members.into(), clock }
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
                    (Some(_), None) if commands.is_some() => shared.given_up.set(term),
                    _ => {}
                }
            }
            Err(text) => shared.fail(&text),
        }
        shared.entries.happen();
        Applied::default()
    }

    /// Nothing: a replica gets what it lacks from the entry log.
    fn save(&self) -> Bytes {
        Bytes::new()
    }

    fn restore(&mut self, _: PlacementState, _: Bytes) -> Result<(), String> {
        Err("this replica lacks entries that the others don't have any more, and its queues can't be sent to it whole yet".to_owned())
    }
}
