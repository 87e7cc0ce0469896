//! The state machine of simulated placements: a counter that knows which entries it counted. It survives a stop as a store does: with
//! what was synced by then.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use leveret_cluster::{Applied, Machine, PlacementState};

/// The entries that were applied: term and commands by index. A blank entry, or one with members, has no commands.
/// Copies share memory: a counter is synced often.
pub type AppliedEntries = imbl::OrdMap<u64, (u64, Option<Bytes>)>;

/// A state of the counter.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Up to where entries are applied.
    pub state: PlacementState,
    /// Number of commands.
    pub count: u64,
    /// The applied entries, those of a replaced state included.
    pub history: AppliedEntries,
}

impl Counted {
    /// Index behind the last applied entry.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.state.applied.map_or(0, |(_, index)| index + 1)
    }
}

/// A counter on one node: in memory, and as it would be after a power cut.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// The state in memory.
    pub now: Rc<RefCell<Counted>>,
    /// The state that is synced.
    pub durable: Rc<RefCell<Counted>>,
}

impl Counter {
    /// Makes the state durable. Returns the index behind its last entry.
    pub fn sync(&self) -> u64 {
        *self.durable.borrow_mut() = self.now.borrow().clone();
        self.durable.borrow().next()
    }

    /// Loses what isn't synced.
    pub fn lose_power(&self) {
        *self.now.borrow_mut() = self.durable.borrow().clone();
    }
}

impl Machine for Counter {
    fn state(&self) -> PlacementState {
        self.now.borrow().state.clone()
    }

    fn apply(&mut self, state: PlacementState, commands: Option<&Bytes>) -> Applied {
        let mut now = self.now.borrow_mut();
        let (term, index) = state.applied.expect("an entry was applied");
        now.history.insert(index, (term, commands.cloned()));
        now.count += u64::from(commands.is_some());
        now.state = state;
        Applied(Bytes::copy_from_slice(&now.count.to_le_bytes()))
    }

    fn save(&self) -> Option<(PlacementState, Bytes)> {
        let now = self.now.borrow();
        let mut bytes = now.count.to_le_bytes().to_vec();
        for (index, (term, commands)) in &now.history {
            let length = commands.as_ref().map_or(u32::MAX, |commands| commands.len() as u32);
            bytes.extend(index.to_le_bytes());
            bytes.extend(term.to_le_bytes());
            bytes.extend(length.to_le_bytes());
            bytes.extend_from_slice(commands.as_deref().unwrap_or_default());
        }
        Some((now.state.clone(), bytes.into()))
    }

    fn restore(&mut self, state: PlacementState, saved: Bytes) -> Result<(), String> {
        let counted = restored(state, &saved).ok_or("the bytes aren't a counter's state")?;
        *self.now.borrow_mut() = counted;
        self.sync();
        Ok(())
    }
}

fn restored(state: PlacementState, mut saved: &[u8]) -> Option<Counted> {
    let mut number = || Some(u64::from_le_bytes(saved.split_off(..8)?.try_into().ok()?));
    let mut counted = Counted { state, count: number()?, history: AppliedEntries::new() };
    while !saved.is_empty() {
        let mut number = || Some(u64::from_le_bytes(saved.split_off(..8)?.try_into().ok()?));
        let (index, term) = (number()?, number()?);
        let length = u32::from_le_bytes(saved.split_off(..4)?.try_into().ok()?);
        let commands = match length {
            u32::MAX => None,
            length => Some(Bytes::copy_from_slice(saved.split_off(..length as usize)?)),
        };
        counted.history.insert(index, (term, commands));
    }
    Some(counted)
}
