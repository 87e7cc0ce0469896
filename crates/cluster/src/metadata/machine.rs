//! The metadata as the state machine of placement 0.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use leveret_broker::Broker;
use leveret_broker::registry::{Followed, PlacedAnswer};
use leveret_broker::ticket::Ticket;
use leveret_model::{AppliedEntry, MemberNumber};

use super::batch::{Batch, Origin};
use super::{MetadataHost, PLACEMENT};
use crate::event::Happening;
use crate::machine::{Applied, Machine};
use crate::placement::PlacementState;

/// Number of answered requests that are remembered for each start of a member, and of those that a member has in flight: one that it sends
/// again is among the last that were answered.
pub(super) const REMEMBERED: usize = 4096;

type AnswerOf = Box<dyn FnOnce(PlacedAnswer) + Send>;

/// A request of this node that isn't answered.
pub(super) struct AskedRequest {
    /// The function that gets the answer.
    answer: AnswerOf,
    /// Happens once it has been called.
    answered: Rc<Happening>,
}

impl AskedRequest {
    pub(super) fn new(answer: AnswerOf) -> Self {
        AskedRequest { answer, answered: Rc::default() }
    }
}

/// The requests of a start that were answered last.
#[derive(Default)]
struct AnsweredRequests {
    /// Their numbers, in the order of the answers.
    order: VecDeque<u64>,
    numbers: BTreeSet<u64>,
}

impl AnsweredRequests {
    fn add(&mut self, number: u64) {
        if self.numbers.insert(number) {
            self.order.push_back(number);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
    }
}

/// The parts that the machine shares with those who ask and decide.
pub(super) struct MetadataShared<H> {
    pub host: H,
    pub broker: Arc<Broker>,
    pub member: MemberNumber,
    /// The number of this start.
    pub boot: u64,
    /// This node's requests that aren't answered.
    pub asked: RefCell<BTreeMap<u64, AskedRequest>>,
    /// The last requests of each start of each member that were answered.
    answered: RefCell<BTreeMap<(MemberNumber, u64), AnsweredRequests>>,
    /// Index of the last entry whose requests aren't remembered: this start has found it applied, or was sent the state with it.
    pub remembers_from: Cell<u64>,
    /// Number of states that were sent to this start.
    pub restores: Cell<u64>,
    /// Happens with each entry.
    pub entries: Happening,
    /// Indexes behind entries whose records in the store aren't known to be durable.
    pub undurable: RefCell<VecDeque<(Ticket, u64)>>,
}

impl<H: MetadataHost> MetadataShared<H> {
    pub(super) fn new(host: H, broker: Arc<Broker>, (member, boot): (MemberNumber, u64)) -> Self {
        let found =
            broker.registry.committed_model().applied().and_then(|applied| applied.at).map_or(0, |(_, index)| index);
        MetadataShared {
            host,
            broker,
            member,
            boot,
            asked: RefCell::default(),
            answered: RefCell::default(),
            remembers_from: Cell::new(found),
            restores: Cell::new(0),
            entries: Happening::default(),
            undurable: RefCell::default(),
        }
    }

    /// Whether this request is in an entry that was applied.
    pub(super) fn is_answered(&self, origin: &Origin) -> bool {
        let answered = self.answered.borrow();
        let of_start = answered.get(&(origin.member, origin.boot));
        of_start.is_some_and(|answered| answered.numbers.contains(&origin.number))
    }

    /// Answers a request of this node, unless it is answered already.
    pub(super) fn answer(&self, number: u64, answer: PlacedAnswer) {
        let asked = self.asked.borrow_mut().remove(&number);
        if let Some(AskedRequest { answer: take, answered }) = asked {
            take(answer);
            // Only its own task: with many requests in flight, each entry would wake all of them otherwise.
            answered.happen();
        }
    }

    /// The event that a request of this node is answered; `None` if it is answered.
    pub(super) fn answered(&self, number: u64) -> Option<Rc<Happening>> {
        self.asked.borrow().get(&number).map(|asked| asked.answered.clone())
    }

    fn note(&self, origin: Origin, answer: PlacedAnswer) {
        let mut answered = self.answered.borrow_mut();
        // A member's earlier starts ask no more.
        answered.retain(|(member, boot), _| *member != origin.member || *boot >= origin.boot);
        answered.entry((origin.member, origin.boot)).or_default().add(origin.number);
        drop(answered);
        if (origin.member, origin.boot) == (self.member, self.boot) {
            self.answer(origin.number, answer);
        }
    }

    /// Notes from where on entries are durable in the store. Returns the index behind the last one, if it is a new one.
    pub(super) fn durable(&self) -> Option<u64> {
        let mut undurable = self.undurable.borrow_mut();
        let is_durable = |(ticket, _): &mut (Ticket, u64)| self.host.is_durable(*ticket);
        let mut below = None;
        while let Some((_, index)) = undurable.pop_front_if(is_durable) {
            below = Some(index);
        }
        below
    }

    fn fail(&self, text: String) {
        self.host.stopped(PLACEMENT, &format!("placement 0 stops: {text}"));
    }
}

/// The state machine of placement 0.
pub(super) struct MetadataMachine<H>(pub Rc<MetadataShared<H>>);

fn applied_entry(state: &PlacementState) -> AppliedEntry {
    let PlacementState { applied, members_at, members, clock } = state;
    AppliedEntry { at: *applied, members_at: *members_at, members: members.to_vec(), clock: *clock }
}

impl<H: MetadataHost> Machine for MetadataMachine<H> {
    fn state(&self) -> PlacementState {
        let model = self.0.broker.registry.committed_model();
        let Some(applied) = model.applied() else { return PlacementState::default() };
        let AppliedEntry { at, members_at, members, clock } = (**applied).clone();
        PlacementState { applied: at, members_at, members: members.into(), clock }
    }

    fn apply(&mut self, state: PlacementState, commands: Option<&Bytes>) -> Applied {
        let shared = &self.0;
        let index = state.applied.map_or(0, |(_, index)| index);
        let decoded = commands.map_or_else(|| Some(Batch::default()), Batch::decode);
        let Some(batch) = decoded else {
            shared.fail(format!("entry {index} isn't one of this version; start the release that its leader runs"));
            return Applied::default();
        };
        // Another entry came between the state that it was decided on and itself: everybody skips it, and the leader decides anew.
        let is_current = commands.is_some() && (batch.base + 1 == index || index == 0);
        let requests = if is_current { &batch.requests[..] } else { &[] };
        let follow = requests.iter().filter_map(|request| {
            let is_ours = (request.origin.member, request.origin.boot) == (shared.member, shared.boot);
            Some(Followed { record: request.record.as_ref()?, actor: &request.actor, is_ours })
        });
        let follow: Vec<_> = follow.collect();
        match shared.broker.registry.follow(&follow, applied_entry(&state), shared.host.now()) {
            Ok(ticket) => shared.undurable.borrow_mut().push_back((ticket, index + 1)),
            Err(error) => shared.fail(format!("entry {index} can't be followed: {error}")),
        }
        drop(follow);
        if is_current {
            batch.requests.into_iter().for_each(|request| shared.note(request.origin, request.answer));
        }
        shared.entries.happen();
        Applied(Bytes::copy_from_slice(&[u8::from(is_current)]))
    }

    fn save(&self) -> Option<(PlacementState, Bytes)> {
        Some((self.state(), self.0.broker.registry.committed_model().snapshot().into()))
    }

    fn restore(&mut self, state: PlacementState, saved: Bytes) -> Result<(), String> {
        let shared = &self.0;
        let index = state.applied.map_or(0, |(_, index)| index);
        let replaced = shared.broker.registry.replace(&saved, applied_entry(&state), shared.host.now());
        let ticket = replaced.map_err(|error| format!("the metadata of another member can't be read: {error}"))?;
        shared.host.wait_until_durable(ticket);
        shared.undurable.borrow_mut().clear();
        shared.remembers_from.set(index);
        shared.restores.set(shared.restores.get() + 1);
        shared.entries.happen();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_that_were_answered_last_are_remembered() {
        let mut answered = AnsweredRequests::default();
        let last = REMEMBERED as u64 + 10;
        // The numbers' order isn't that of the answers.
        [last + 1].into_iter().chain(1..=last).chain([last]).for_each(|number| answered.add(number));
        assert_eq!(answered.order.len(), REMEMBERED);
        assert_eq!(answered.numbers, (11..=last).collect());
    }
}
