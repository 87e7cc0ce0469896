//! An in-memory disk that loses power, refuses operations and returns wrong bits.
//!
//! Each unsynced write survives a power cut entirely, in part or not at all, in units of 512 bytes or 4 KiB,
//! independently of later writes. A created, removed or renamed name is in its old state until the directory is synced.
//! The seed decides.

use std::io;
use std::sync::{Mutex, MutexGuard};

use leveret_log::{Disk, Operation};

mod change;
mod content;
mod damage;
mod faults;
mod file;
mod state;
#[cfg(test)]
mod tests;

pub use change::Change;
pub use damage::Damage;
pub use faults::{EIO, ENOSPC, Fault, User, Wrong};

use faults::{Faults, refused};
use state::State;

/// Bytes that survive together on most disks.
pub const SECTOR: usize = 512;
/// Bytes that survive together on other disks.
pub const PAGE: usize = 4096;

#[derive(Debug, Default)]
struct Inner {
    start: State,
    state: State,
    changes: Vec<Change>,
    /// The change with this index, counted from 0, and all later ones fail with this error.
    fails: Option<(usize, i32)>,
    faults: Faults,
    damage: Damage,
}

impl Inner {
    fn make(&mut self, change: Change) -> io::Result<()> {
        self.state.apply(&change)?;
        self.changes.push(change);
        Ok(())
    }

    /// The part of a growth, in bytes, that there is room for.
    fn room(&self, growth: u64) -> u64 {
        match self.faults.space {
            Some(space) => growth.min(space.saturating_sub(self.state.used())),
            None => growth,
        }
    }

    fn create(&mut self, name: &str, length: u64) -> io::Result<()> {
        if self.room(length) < length {
            self.damage.hit("ENOSPC");
            self.make(Change::Create { name: name.to_owned(), length: 0 })?;
            return Err(refused(ENOSPC));
        }
        self.make(Change::Create { name: name.to_owned(), length })
    }

    fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let write = |bytes: &[u8]| Change::Write { name: name.to_owned(), offset, bytes: bytes.into() };
        let length = self.state.file(name)?.current.len() as u64;
        let growth = (offset + bytes.len() as u64).saturating_sub(length);
        let missing = growth - self.room(growth);
        if missing == 0 {
            return self.make(write(bytes));
        }
        self.damage.hit("ENOSPC");
        let kept = bytes.len() - (missing as usize).min(bytes.len());
        self.make(write(&bytes[..kept]))?;
        Err(refused(ENOSPC))
    }
}

/// The disk. Clones share nothing.
#[derive(Debug, Default)]
pub struct SimDisk {
    inner: Mutex<Inner>,
}

impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    fn from_state(state: State, damage: Damage) -> SimDisk {
        let inner = Inner { start: state.clone(), state, damage, ..Inner::default() };
        SimDisk { inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|error| error.into_inner())
    }

    /// The disk after a power cut at this moment. Its damage is counted from zero.
    #[must_use]
    pub fn crash(&self, seed: u64) -> SimDisk {
        let (state, damage) = self.lock().state.crash(seed);
        SimDisk::from_state(state, damage)
    }

    /// The disk as it was after each change, beginning with no change.
    pub fn moments(&self) -> impl Iterator<Item = SimDisk> {
        let inner = self.lock();
        let mut state = inner.start.clone();
        let mut changes = std::iter::once(None).chain(inner.changes.clone().into_iter().map(Some));
        std::iter::from_fn(move || {
            if let Some(change) = changes.next()? {
                state.apply(&change).expect("it could be made before");
            }
            Some(SimDisk::from_state(state.clone(), Damage::default()))
        })
    }

    /// The disk as it was after this many changes.
    ///
    /// # Panics
    /// If there were fewer.
    #[must_use]
    pub fn moment(&self, at: usize) -> SimDisk {
        let inner = self.lock();
        if at == inner.changes.len() {
            return SimDisk::from_state(inner.state.clone(), Damage::default());
        }
        let mut state = inner.start.clone();
        for change in &inner.changes[..at] {
            state.apply(change).expect("it could be made before");
        }
        SimDisk::from_state(state, Damage::default())
    }

    /// Makes the change with this index, and all after it, fail with this error of the operating system.
    pub fn fail_from(&self, change: usize, error: i32) {
        self.lock().fails = Some((change, error));
    }

    /// Arms a fault, in place of the one that was armed before.
    pub fn arm(&self, fault: Option<Fault>) {
        self.lock().faults.arm(fault);
    }

    /// Sets the user of the disk from now on.
    pub fn act_as(&self, user: User) {
        self.lock().faults.user = user;
    }

    /// Number of times that the fault happened since it was armed.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.lock().faults.fired
    }

    /// Whether the space is limited.
    #[must_use]
    pub fn has_space_limit(&self) -> bool {
        self.lock().faults.space.is_some()
    }

    /// Limits the bytes of all files together.
    pub fn limit_space(&self, bytes: Option<u64>) {
        self.lock().faults.space = bytes;
    }

    /// Bytes that all files have together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().state.used()
    }

    /// Takes the damage since the last call: by the power cut that this disk came from, and by faults since.
    pub fn take_damage(&self) -> Damage {
        std::mem::take(&mut self.lock().damage)
    }

    /// Number of changes made so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().changes.len()
    }

    /// Number of changes of a kind made so far.
    #[must_use]
    pub fn count_changes(&self, kind: impl Fn(&Change) -> bool) -> u64 {
        self.lock().changes.iter().filter(|change| kind(change)).count() as u64
    }

    /// Number of changes up to and including the last one of a kind, among the first `among`.
    #[must_use]
    pub fn last_change(&self, among: usize, kind: impl Fn(&Change) -> bool) -> Option<usize> {
        self.lock().changes[..among].iter().rposition(kind).map(|at| at + 1)
    }

    /// Number of changes before each one of a kind, among those from `from` on.
    #[must_use]
    pub fn before_each(&self, from: usize, kind: impl Fn(&Change) -> bool) -> Vec<usize> {
        let inner = self.lock();
        (from..inner.changes.len()).filter(|at| kind(&inner.changes[*at])).collect()
    }

    /// All changes made so far.
    #[must_use]
    pub fn trace(&self) -> Vec<Change> {
        self.lock().changes.clone()
    }

    /// Flips a bit of a file, durably.
    ///
    /// # Panics
    /// If there is no such bit.
    pub fn flip(&self, name: &str, bit: usize) {
        self.lock().state.file(name).expect("the file is there").flip(bit);
    }

    /// The names of all files, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.lock().state.names.keys().cloned().collect()
    }

    /// The bytes of a file.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().state.file(name).ok().map(|file| file.current.to_vec())
    }

    /// Checks whether a fault applies to an operation, which the caller has to carry out otherwise.
    fn begin(&self, on: Operation) -> io::Result<(MutexGuard<'_, Inner>, Option<Wrong>)> {
        let mut inner = self.lock();
        let Inner { faults, damage, .. } = &mut *inner;
        match faults.strike(on, damage) {
            Some(Wrong::Refused) => Err(refused(EIO)),
            wrong => Ok((inner, wrong)),
        }
    }

    fn change(&self, on: Operation, make: impl FnOnce(&mut Inner, Option<Wrong>) -> io::Result<()>) -> io::Result<()> {
        let (mut inner, wrong) = self.begin(on)?;
        match inner.fails.filter(|(from, _)| inner.changes.len() >= *from) {
            Some((_, error)) => Err(refused(error)),
            None => make(&mut inner, wrong),
        }
    }
}

impl Clone for SimDisk {
    fn clone(&self) -> SimDisk {
        SimDisk::from_state(self.lock().state.clone(), Damage::default())
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let (inner, _) = self.begin(Operation::List)?;
        Ok(inner.state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str, length: u64) -> io::Result<()> {
        self.change(Operation::Create, |inner, _| inner.create(name, length))
    }

    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        let bytes = slices.concat();
        self.change(Operation::Write, |inner, wrong| match wrong {
            Some(Wrong::Short(part)) => {
                inner.write(name, offset, &bytes[..bytes.len() * usize::from(part) / 256])?;
                Err(refused(EIO))
            }
            _ => inner.write(name, offset, &bytes),
        })
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.change(Operation::Sync, |inner, wrong| match wrong {
            Some(Wrong::Forgets) => {
                inner.make(Change::LoseUnsynced { name: name.to_owned() })?;
                Err(refused(EIO))
            }
            _ => inner.make(Change::Sync { name: name.to_owned() }),
        })
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.change(Operation::SyncDirectory, |inner, _| inner.make(Change::SyncDirectory))
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut inner, wrong) = self.begin(Operation::Read)?;
        let count = inner.state.file(name)?.current.read(offset as usize, buffer);
        if let Some(Wrong::Flips(bit)) = wrong.filter(|_| count > 0) {
            let bit = (bit % (count as u64 * 8)) as usize;
            buffer[bit / 8] ^= 1 << (bit % 8);
        }
        Ok(count)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        let (mut inner, _) = self.begin(Operation::Length)?;
        Ok(inner.state.file(name)?.current.len() as u64)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(Operation::Remove, |inner, _| inner.make(Change::Remove { name: name.to_owned() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(Operation::Rename, |inner, _| {
            inner.make(Change::Rename { from: from.to_owned(), to: to.to_owned() })
        })
    }
}
