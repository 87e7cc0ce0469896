//! A disk in memory that loses power.
//!
//! What was written but not synced may be there afterwards, or not, or in part, sector by sector, whatever was written
//! later; a name that was made, removed or changed is as it was until the directory is synced. The seed decides.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use leveret_log::Disk;

use crate::random::Random;

/// Bytes that survive together.
pub const SECTOR: usize = 512;

/// A change of the disk, in the order in which they were made. Reads are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file was made.
    Create {
        /// Its name.
        name: String,
        /// Its length.
        length: u64,
    },
    /// Bytes were written.
    Write {
        /// The file.
        name: String,
        /// Where.
        offset: u64,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// A file was synced.
    Sync {
        /// The file.
        name: String,
    },
    /// The directory was synced.
    SyncDirectory,
    /// A file was unlinked.
    Remove {
        /// The file.
        name: String,
    },
    /// A file was renamed.
    Rename {
        /// Its old name.
        from: String,
        /// Its new name.
        to: String,
    },
}

#[derive(Clone, Debug)]
enum Pending {
    Length(usize),
    Write(usize, Arc<[u8]>),
}

impl Pending {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Pending::Length(length) => content.resize(*length, 0),
            Pending::Write(offset, bytes) => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    durable: Arc<Vec<u8>>,
    /// As a reader sees it.
    current: Arc<Vec<u8>>,
    pending: Vec<Pending>,
}

impl File {
    fn change(&mut self, change: Pending) {
        change.apply(Arc::make_mut(&mut self.current));
        self.pending.push(change);
    }

    fn sync(&mut self) {
        self.durable = self.current.clone();
        self.pending.clear();
    }

    /// What a power cut leaves.
    fn crash(&self, random: &mut Random) -> File {
        let mut content = Vec::clone(&self.durable);
        for change in &self.pending {
            match (random.below(3), change) {
                (0, _) => {}
                (1, change) => change.apply(&mut content),
                (_, Pending::Length(_)) => {}
                (_, Pending::Write(offset, bytes)) => {
                    // Sectors are those of the disk, not of the write.
                    let mut at = 0;
                    while at < bytes.len() {
                        let end = (SECTOR - (offset + at) % SECTOR + at).min(bytes.len());
                        if random.below(2) == 0 {
                            Pending::Write(offset + at, bytes[at..end].into()).apply(&mut content);
                        }
                        at = end;
                    }
                }
            }
        }
        let content = Arc::new(content);
        File { durable: content.clone(), current: content, pending: Vec::new() }
    }
}

#[derive(Clone, Debug)]
enum NameChange {
    Link(String, u64),
    Unlink(String),
    Rename(String, String, u64),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Link(name, file) => {
                names.insert(name.clone(), *file);
            }
            NameChange::Unlink(name) => {
                names.remove(name);
            }
            NameChange::Rename(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    files: BTreeMap<u64, File>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<NameChange>,
    next_file: u64,
}

impl State {
    fn apply(&mut self, change: &Change) -> io::Result<()> {
        match change {
            Change::Create { name, length } => {
                let id = self.next_file;
                self.next_file += 1;
                let mut file = File::default();
                if *length > 0 {
                    file.change(Pending::Length(*length as usize));
                }
                self.files.insert(id, file);
                self.rename(NameChange::Link(name.clone(), id));
            }
            Change::Write { name, offset, bytes } => {
                self.file(name)?.change(Pending::Write(*offset as usize, bytes.clone()));
            }
            Change::Sync { name } => self.file(name)?.sync(),
            Change::SyncDirectory => {
                self.durable_names = self.names.clone();
                self.pending_names.clear();
                let used: Vec<u64> = self.names.values().copied().collect();
                self.files.retain(|id, _| used.contains(id));
            }
            Change::Remove { name } => {
                self.id(name)?;
                self.rename(NameChange::Unlink(name.clone()));
            }
            Change::Rename { from, to } => {
                let id = self.id(from)?;
                self.rename(NameChange::Rename(from.clone(), to.clone(), id));
            }
        }
        Ok(())
    }

    fn rename(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    fn id(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        let id = self.id(name)?;
        self.files.get_mut(&id).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn crash(&self, seed: u64) -> State {
        let mut random = Random::new(seed);
        let mut names = self.durable_names.clone();
        let prefix = random.below(self.pending_names.len() as u64 + 1) as usize;
        let way = random.below(3);
        for (i, change) in self.pending_names.iter().enumerate() {
            let survives = match way {
                0 => false,
                1 => i < prefix,
                _ => random.below(2) == 0,
            };
            if survives {
                change.apply(&mut names);
            }
        }
        let files: BTreeMap<u64, File> = names.values().map(|id| (*id, self.files[id].crash(&mut random))).collect();
        State { files, durable_names: names.clone(), names, pending_names: Vec::new(), next_file: self.next_file }
    }
}

#[derive(Debug, Default)]
struct Inner {
    start: State,
    state: State,
    changes: Vec<Change>,
    /// The change with this index, counted from 0, and all later ones fail with this error.
    fails: Option<(usize, i32)>,
}

/// The disk. Clones share nothing.
#[derive(Debug, Default)]
pub struct SimDisk {
    inner: Mutex<Inner>,
}

impl SimDisk {
    /// An empty one.
    #[must_use]
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    fn from_state(state: State) -> SimDisk {
        let inner = Inner { start: state.clone(), state, changes: Vec::new(), fails: None };
        SimDisk { inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|error| error.into_inner())
    }

    /// What is left after the power went now.
    #[must_use]
    pub fn crash(&self, seed: u64) -> SimDisk {
        SimDisk::from_state(self.lock().state.crash(seed))
    }

    /// The disk as it was after each change, beginning with none.
    pub fn moments(&self) -> impl Iterator<Item = SimDisk> {
        let inner = self.lock();
        let mut state = inner.start.clone();
        let mut changes = std::iter::once(None).chain(inner.changes.clone().into_iter().map(Some));
        std::iter::from_fn(move || {
            if let Some(change) = changes.next()? {
                state.apply(&change).expect("it could be made before");
            }
            Some(SimDisk::from_state(state.clone()))
        })
    }

    /// Lets the change with this index, and all after it, fail with this error of the operating system.
    pub fn fail_from(&self, change: usize, error: i32) {
        self.lock().fails = Some((change, error));
    }

    /// Changes made so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().changes.len()
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
        let mut inner = self.lock();
        let file = inner.state.file(name).expect("the file is there");
        for content in [&mut file.durable, &mut file.current] {
            Arc::make_mut(content)[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// The bytes of a file.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().state.file(name).ok().map(|file| Vec::clone(&file.current))
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let mut inner = self.lock();
        if let Some((_, error)) = inner.fails.filter(|(from, _)| inner.changes.len() >= *from) {
            return Err(io::Error::from_raw_os_error(error));
        }
        inner.state.apply(&change)?;
        inner.changes.push(change);
        Ok(())
    }
}

impl Clone for SimDisk {
    fn clone(&self) -> SimDisk {
        SimDisk::from_state(self.lock().state.clone())
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str, length: u64) -> io::Result<()> {
        self.change(Change::Create { name: name.to_owned(), length })
    }

    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        self.change(Change::Write { name: name.to_owned(), offset, bytes: slices.concat().into() })
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.change(Change::Sync { name: name.to_owned() })
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.change(Change::SyncDirectory)
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut inner = self.lock();
        let file = inner.state.file(name)?;
        let rest = file.current.get(offset as usize..).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        Ok(self.lock().state.file(name)?.current.len() as u64)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(Change::Remove { name: name.to_owned() })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(Change::Rename { from: from.to_owned(), to: to.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn outcomes(disk: &SimDisk, name: &str) -> BTreeSet<Option<Vec<u8>>> {
        (0..200).map(|seed| disk.crash(seed).content(name)).collect()
    }

    #[test]
    fn what_is_synced_stays() {
        let disk = SimDisk::new();
        disk.create("a", 0).unwrap();
        disk.write_at("a", 0, &[b"kept"]).unwrap();
        disk.sync("a").unwrap();
        disk.sync_directory().unwrap();
        assert_eq!(outcomes(&disk, "a"), [Some(b"kept".to_vec())].into());
    }

    #[test]
    fn a_name_needs_its_directory_synced() {
        let disk = SimDisk::new();
        disk.create("a", 0).unwrap();
        disk.write_at("a", 0, &[b"kept"]).unwrap();
        disk.sync("a").unwrap();
        assert_eq!(outcomes(&disk, "a"), [None, Some(b"kept".to_vec())].into());
        disk.sync_directory().unwrap();
        disk.rename("a", "b").unwrap();
        assert_eq!(outcomes(&disk, "a"), [None, Some(b"kept".to_vec())].into());
        disk.sync_directory().unwrap();
        disk.remove("b").unwrap();
        assert_eq!(outcomes(&disk, "b").len(), 2);
    }

    #[test]
    fn unsynced_writes_are_kept_lost_or_torn_at_sectors() {
        let disk = SimDisk::new();
        disk.create("a", 2048).unwrap();
        disk.sync("a").unwrap();
        disk.sync_directory().unwrap();
        disk.write_at("a", 256, &[&[1; 1024]]).unwrap();
        let found = outcomes(&disk, "a");
        assert_eq!(found.len(), 8, "three sectors were touched");
        assert!(found.iter().flatten().all(|content| content[..256] == [0; 256]));
    }

    #[test]
    fn a_seed_repeats_itself() {
        let disk = SimDisk::new();
        disk.create("a", 0).unwrap();
        disk.sync_directory().unwrap();
        disk.write_at("a", 0, &[&[1; 9000]]).unwrap();
        for seed in 0..20 {
            assert_eq!(disk.crash(seed).content("a"), disk.crash(seed).content("a"));
        }
    }

    #[test]
    fn moments_are_the_disk_after_each_change() {
        let disk = SimDisk::new();
        disk.create("a", 1).unwrap();
        disk.write_at("a", 0, &[b"x"]).unwrap();
        disk.remove("a").unwrap();
        let contents: Vec<_> = disk.moments().map(|disk| disk.content("a")).collect();
        assert_eq!(contents, [None, Some(vec![0]), Some(vec![b'x']), None]);
    }

    #[test]
    fn failing_goes_on() {
        let disk = SimDisk::new();
        disk.fail_from(1, 5);
        disk.create("a", 1).unwrap();
        assert_eq!(disk.sync("a").unwrap_err().raw_os_error(), Some(5));
        assert_eq!(disk.sync("a").unwrap_err().raw_os_error(), Some(5));
        assert_eq!(disk.count(), 1);
    }
}
