//! The state machine of a placement, and the engine's view of it.

use std::cell::RefCell;
use std::io;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use futures_core::Stream;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{AsyncRuntime, RaftSnapshotBuilder, StoredMembership};

use crate::entry_codec::log_id;
use crate::members;
use crate::network::Host;
use crate::placement::{PlacementState, Shared};
use crate::types::{LogId, MemberInfo, Members, Payload, ReplicaId, Term, Types};

/// The answer to an entry that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied(pub Bytes);

/// The state that a placement's entries are applied to.
pub trait Machine: 'static {
    /// The state that survived the last stop: entries up to there aren't applied again.
    fn state(&self) -> PlacementState;
    /// Applies an entry, after which the placement is in this state. An entry without commands changes nothing else.
    fn apply(&mut self, state: PlacementState, commands: Option<&Bytes>) -> Applied;
    /// All of the state, for a replica that lags too far behind.
    fn save(&self) -> Bytes;
    /// Replaces the state; it is durable when this returns.
    fn restore(&mut self, state: PlacementState, saved: Bytes);
}

type Stored = StoredMembership<Term, ReplicaId, MemberInfo>;
type Snapshot = openraft::Snapshot<Term, ReplicaId, MemberInfo, Bytes>;

/// A machine as the engine calls it. Clones share it.
pub(crate) struct Applier<H, M> {
    pub shared: Rc<Shared<H>>,
    pub machine: Rc<RefCell<M>>,
}

impl<H, M> Clone for Applier<H, M> {
    fn clone(&self) -> Self {
        Applier { shared: self.shared.clone(), machine: self.machine.clone() }
    }
}

fn id_of((term, index): (u64, u64)) -> LogId {
    log_id(term, index)
}

/// The next state, if an entry may follow this one.
fn follow(state: &PlacementState, id: &LogId, changed: Option<&Members>) -> Result<PlacementState, String> {
    let (term, due) = state.applied.map_or((0, 0), |(term, index)| (term, index + 1));
    let place = (id.leader_id.term, id.index);
    if id.index != due {
        return Err(format!("entry {} was to be applied, but entry {due} is due", id.index));
    }
    if place.0 < term {
        return Err(format!(
            "entry {due} has term {}, the one applied before it has {term}; terms never fall",
            place.0
        ));
    }
    let mut next = PlacementState { applied: Some(place), ..state.clone() };
    if let Some(changed) = changed {
        next.members_at = Some(place);
        next.members = members::encode(changed);
    }
    Ok(next)
}

impl<H: Host, M: Machine> Applier<H, M> {
    fn stored(&self, state: &PlacementState) -> io::Result<Stored> {
        if state.members_at.is_none() {
            return Ok(Stored::default());
        }
        let members = members::decode(&state.members);
        let members = members.ok_or_else(|| self.shared.stop("its members aren't written as by this version"))?;
        Ok(Stored::new(state.members_at.map(id_of), members))
    }

    fn snapshot(&self) -> io::Result<Snapshot> {
        let machine = self.machine.borrow();
        let state = self.shared.state.borrow().clone();
        let meta =
            openraft::SnapshotMeta { last_log_id: state.applied.map(id_of), last_membership: self.stored(&state)? };
        Ok(Snapshot { meta, snapshot: machine.save() })
    }
}

impl<R: AsyncRuntime, H: Host, M: Machine> RaftSnapshotBuilder<Types<R>> for Applier<H, M> {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        self.snapshot()
    }
}

impl<R: AsyncRuntime, H: Host, M: Machine> RaftStateMachine<Types<R>> for Applier<H, M> {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Stored)> {
        let state = self.shared.state.borrow().clone();
        Ok((state.applied.map(id_of), self.stored(&state)?))
    }

    async fn apply<S>(&mut self, entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types<R>>>> + Unpin,
    {
        let mut entries = pin!(entries);
        while let Some(next) = std::future::poll_fn(|context| entries.as_mut().poll_next(context)).await {
            let (entry, responder) = next?;
            let changed = match &entry.payload {
                Payload::Members(members) => Some(members),
                _ => None,
            };
            let state = follow(&self.shared.state.borrow(), &entry.id, changed);
            let state = state.map_err(|reason| self.shared.stop(&reason))?;
            *self.shared.state.borrow_mut() = state.clone();
            let commands = match &entry.payload {
                Payload::Commands(commands) => Some(&commands.0),
                _ => None,
            };
            let applied = self.machine.borrow_mut().apply(state, commands);
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(
        &mut self,
        meta: &openraft::SnapshotMeta<Term, ReplicaId, MemberInfo>,
        saved: Bytes,
    ) -> io::Result<()> {
        let place = |id: &LogId| (id.leader_id.term, id.index);
        let state = PlacementState {
            applied: meta.last_log_id.as_ref().map(place),
            members_at: meta.last_membership.log_id().as_ref().map(place),
            members: members::encode(meta.last_membership.membership()),
        };
        if state.applied < self.shared.state.borrow().applied {
            let now = self.shared.state.borrow().applied;
            return Err(self
                .shared
                .stop(&format!("a state up to {:?} was to replace one up to {now:?}", state.applied)));
        }
        *self.shared.state.borrow_mut() = state.clone();
        self.machine.borrow_mut().restore(state.clone(), saved);
        let next = state.applied.map_or(0, |(_, index)| index + 1);
        self.shared.log(|log| log.applied(self.shared.placement, next))
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let is_empty = self.shared.state.borrow().applied.is_none();
        if is_empty { Ok(None) } else { self.snapshot().map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_applied_once_and_in_order() {
        let state = PlacementState { applied: Some((3, 7)), ..PlacementState::default() };
        assert_eq!(follow(&state, &log_id(4, 8), None).unwrap().applied, Some((4, 8)));
        for (term, index) in [(4, 7), (4, 9), (2, 8)] {
            assert!(follow(&state, &log_id(term, index), None).is_err(), "entry {index} of term {term}");
        }
        assert_eq!(follow(&PlacementState::default(), &log_id(0, 0), None).unwrap().applied, Some((0, 0)));
    }
}
