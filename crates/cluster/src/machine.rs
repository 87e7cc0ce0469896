//! The state machine of a placement, and the engine's view of it.

use std::cell::RefCell;
use std::future::{Future, ready};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{AsyncRuntime, RaftSnapshotBuilder, StoredMembership};

use crate::entry_codec::log_id;
use crate::members;
use crate::network::Host;
use crate::placement::PlacementState;
use crate::shared::Shared;
use crate::types::{LogEntry, LogId, MemberInfo, Payload, ReplicaId, Term, Types};

/// The answer to an entry that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied(pub Bytes);

/// A future of the thread of the placements.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// Asks the replica that has sent a state for something that it left out.
pub type Ask = Box<dyn Fn(Bytes) -> LocalFuture<Result<Bytes, String>>>;

/// Interval at which it is looked whether a machine can be saved.
const SAVE_AGAIN: Duration = Duration::from_millis(10);

/// The state that a placement's entries are applied to.
pub trait Machine: 'static {
    /// The state that survived the last stop, and is durable: entries up to there aren't applied again, and may be purged. What a start
    /// finds that was written and maybe not synced is synced before.
    fn state(&self) -> PlacementState;
    /// Applies an entry, after which the placement is in this state. An entry without commands changes nothing else.
    fn apply(&mut self, state: PlacementState, commands: Option<&Bytes>) -> Applied;
    /// The state for a replica that lags too far behind, as far as it is durable, and how far that is. `None` while it can't be made yet.
    fn save(&self) -> Option<(PlacementState, Bytes)>;
    /// Gets by `ask` what a state that will be restored leaves out.
    fn complete(&self, _saved: &Bytes, _ask: Ask) -> LocalFuture<Result<(), String>> {
        Box::pin(ready(Ok(())))
    }
    /// Lets go of what was got for a state that isn't needed any more.
    fn abandon(&self) {}
    /// Answers a question for what a state of this machine left out.
    fn answer(&self, _question: &Bytes) -> LocalFuture<Result<Bytes, String>> {
        Box::pin(ready(Err("states of this placement leave nothing out".to_owned())))
    }
    /// Replaces the state; it is durable when this returns.
    ///
    /// # Errors
    /// The bytes, which came from another node, aren't a state. Nothing was changed, and the placement stops with this text.
    fn restore(&mut self, state: PlacementState, saved: Bytes) -> Result<(), String>;
}

/// A machine's state as it travels, with what its placement adds to it.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    /// The placement's clock by then.
    pub clock: u64,
    pub state: Bytes,
}

type Stored = StoredMembership<Term, ReplicaId, MemberInfo>;
type Snapshot = openraft::Snapshot<Term, ReplicaId, MemberInfo, Saved>;

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

/// Brings a state to the next one, if an entry may follow it.
///
/// # Errors
/// It may not. Nothing was changed.
fn follow(state: &mut PlacementState, entry: &LogEntry) -> Result<(), String> {
    let (term, due) = state.applied.map_or((0, 0), |(term, index)| (term, index + 1));
    let place = (entry.id.leader_id.term, entry.id.index);
    if place.1 != due {
        return Err(format!("entry {} was to be applied, but entry {due} is due", place.1));
    }
    if place.0 < term {
        return Err(format!(
            "entry {due} has term {}, the one applied before it has {term}; terms never fall",
            place.0
        ));
    }
    if entry.clock < state.clock {
        return Err(format!(
            "entry {due} has clock {}, the one applied before it has {}; it never goes back",
            entry.clock, state.clock
        ));
    }
    (state.applied, state.clock) = (Some(place), entry.clock);
    if let Payload::Members(changed) = &entry.payload {
        state.members_at = Some(place);
        state.members = members::encode(changed);
    }
    Ok(())
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

    fn snapshot(&self, (state, bytes): (PlacementState, Bytes)) -> io::Result<Snapshot> {
        let meta =
            openraft::SnapshotMeta { last_log_id: state.applied.map(id_of), last_membership: self.stored(&state)? };
        Ok(Snapshot { meta, snapshot: Saved { clock: state.clock, state: bytes } })
    }
}

impl<R: AsyncRuntime, H: Host, M: Machine> RaftSnapshotBuilder<Types<R>> for Applier<H, M> {
    type SnapshotData = Saved;

    /// The engine asks for a name up to which entries may be purged, and drops the rest.
    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let state = self.shared.state.borrow().clone();
        self.snapshot((state, Bytes::new()))
    }
}

impl<R: AsyncRuntime, H: Host, M: Machine> RaftStateMachine<Types<R>> for Applier<H, M> {
    type SnapshotData = Saved;
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
            let followed = follow(&mut self.shared.state.borrow_mut(), &entry);
            followed.map_err(|reason| self.shared.stop(&reason))?;
            let state = self.shared.state.borrow().clone();
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
        Saved { clock, state: saved }: Saved,
    ) -> io::Result<()> {
        let place = |id: &LogId| (id.leader_id.term, id.index);
        let state = PlacementState {
            applied: meta.last_log_id.as_ref().map(place),
            members_at: meta.last_membership.log_id().as_ref().map(place),
            members: members::encode(meta.last_membership.membership()),
            clock,
        };
        if state.applied < self.shared.state.borrow().applied {
            let now = self.shared.state.borrow().applied;
            return Err(self
                .shared
                .stop(&format!("a state up to {:?} was to replace one up to {now:?}", state.applied)));
        }
        let restored = self.machine.borrow_mut().restore(state.clone(), saved);
        restored.map_err(|reason| self.shared.stop(&reason))?;
        self.shared.note_clock(clock);
        *self.shared.state.borrow_mut() = state.clone();
        let next = state.applied.map_or(0, |(_, index)| index + 1);
        self.shared.log(|log| log.applied(self.shared.placement, next))
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let state = self.shared.state.borrow().clone();
        if state.applied.is_none() {
            return Ok(None);
        }
        if !self.shared.is_running.get() {
            return self.snapshot((state, Bytes::new())).map(Some);
        }
        loop {
            let saved = self.machine.borrow().save();
            match saved {
                Some(saved) => return self.snapshot(saved).map(Some),
                None => R::sleep(SAVE_AGAIN).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(term: u64, index: u64, clock: u64) -> LogEntry {
        LogEntry { id: log_id(term, index), payload: Payload::Blank, led_by: 1, clock, committed: 0 }
    }

    #[test]
    fn entries_are_applied_once_and_in_order() {
        let before = PlacementState { applied: Some((3, 7)), clock: 50, ..PlacementState::default() };
        let after = |entry| {
            let mut state = before.clone();
            let followed = follow(&mut state, &entry);
            assert!(followed.is_ok() || state == before, "what is refused changes nothing");
            followed.map(|()| (state.applied, state.clock))
        };
        assert_eq!(after(entry(4, 8, 60)), Ok((Some((4, 8)), 60)));
        for (term, index) in [(4, 7), (4, 9), (2, 8)] {
            assert!(after(entry(term, index, 60)).is_err(), "entry {index} of term {term}");
        }
        assert!(after(entry(4, 8, 49)).unwrap_err().contains("it never goes back"));
        let mut first = PlacementState::default();
        assert_eq!(follow(&mut first, &entry(0, 0, 0)), Ok(()));
        assert_eq!(first.applied, Some((0, 0)));
    }
}
