//! A disk with one directory tree, and the part of it that would be left if the power failed now.
//!
//! Bytes and length of a file are durable after its sync, a name after the sync of its directory. Of everything else, each
//! sector that was written and each name that was changed is left or not, as chance has it.

use std::collections::BTreeMap;

use leveret_tests::random::Random;

/// The root's number.
pub const ROOT: u64 = 1;
/// Bytes that are written as a whole or not at all.
const SECTOR: usize = 512;

/// A change of a file that no sync has made durable.
#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Length(length) => bytes.resize(*length, 0),
            Change::Write(offset, new) => {
                let end = offset + new.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(new);
            }
        }
    }
}

/// A file.
#[derive(Clone, Debug, Default)]
struct File {
    now: Vec<u8>,
    durable: Vec<u8>,
    changes: Vec<Change>,
}

type Names = BTreeMap<String, u64>;

/// A change of names that no sync of the directory has made durable: each name with what it stands for then. A rename is
/// one.
type Renaming = Vec<(String, Option<u64>)>;

#[derive(Clone, Debug, Default)]
struct Directory {
    now: Names,
    durable: Names,
    changes: Vec<Renaming>,
}

fn rename(names: &mut Names, change: &Renaming) {
    for (name, node) in change {
        match node {
            Some(node) => names.insert(name.clone(), *node),
            None => names.remove(name),
        };
    }
}

/// Probability that unsynced bytes stay, in sixteenths.
#[derive(Clone, Copy, Debug)]
pub struct Luck(pub usize);

/// The disk in memory.
#[derive(Clone, Debug)]
pub struct Disk {
    files: BTreeMap<u64, File>,
    directories: BTreeMap<u64, Directory>,
    next: u64,
    /// Operations until the power goes; none when nothing says so.
    pub until_cut: Option<u64>,
    /// It says that it syncs and doesn't.
    pub lies: bool,
    /// The power is gone: nothing works.
    pub is_dead: bool,
}

impl Disk {
    /// An empty one.
    pub fn new() -> Self {
        let directories = BTreeMap::from([(ROOT, Directory::default())]);
        Self { files: BTreeMap::new(), directories, next: ROOT + 1, until_cut: None, lies: false, is_dead: false }
    }

    /// Before each change. None when the power is gone.
    fn work(&mut self) -> Option<()> {
        if let Some(left) = &mut self.until_cut {
            *left = left.saturating_sub(1);
            self.is_dead |= *left == 0;
        }
        (!self.is_dead).then_some(())
    }

    /// The power comes back: what is durable is there, and of the rest what chance has left.
    pub fn come_back(&mut self, random: &mut Random, Luck(luck): Luck) {
        let mut left = |_: usize| random.below(16) < luck;
        for directory in self.directories.values_mut() {
            for change in directory.changes.drain(..) {
                if left(0) {
                    rename(&mut directory.durable, &change);
                }
            }
            directory.now = directory.durable.clone();
        }
        for file in self.files.values_mut() {
            for change in file.changes.drain(..) {
                match &change {
                    Change::Length(_) if left(0) => change.apply(&mut file.durable),
                    Change::Length(_) => {}
                    Change::Write(offset, bytes) => {
                        let mut at = 0;
                        while at < bytes.len() {
                            let end = ((offset + at) / SECTOR * SECTOR + SECTOR - offset).min(bytes.len());
                            if left(0) {
                                Change::Write(offset + at, bytes[at..end].to_vec()).apply(&mut file.durable);
                            }
                            at = end;
                        }
                    }
                }
            }
            file.now = file.durable.clone();
        }
        let named: Vec<u64> = self.directories.values().flat_map(|directory| directory.now.values().copied()).collect();
        self.files.retain(|node, _| named.contains(node));
        (self.is_dead, self.until_cut) = (false, None);
    }

    /// The number of the file or directory with this name.
    pub fn find(&self, directory: u64, name: &str) -> Option<u64> {
        self.directories.get(&directory)?.now.get(name).copied()
    }

    /// Length of a file; none for a directory.
    pub fn length(&self, node: u64) -> Option<usize> {
        self.files.get(&node).map(|file| file.now.len())
    }

    /// Whether this is a directory.
    pub fn is_directory(&self, node: u64) -> bool {
        self.directories.contains_key(&node)
    }

    /// The names in a directory.
    pub fn names(&self, directory: u64) -> Option<&Names> {
        self.directories.get(&directory).map(|directory| &directory.now)
    }

    fn change_names(&mut self, directory: u64, change: Renaming) -> Option<()> {
        let directory = self.directories.get_mut(&directory)?;
        rename(&mut directory.now, &change);
        directory.changes.push(change);
        Some(())
    }

    /// Makes a file or a directory.
    pub fn make(&mut self, parent: u64, name: &str, is_directory: bool) -> Option<u64> {
        self.work()?;
        let node = self.next;
        self.next += 1;
        if is_directory {
            self.directories.insert(node, Directory::default());
        } else {
            self.files.insert(node, File::default());
        }
        self.change_names(parent, vec![(name.to_owned(), Some(node))])?;
        Some(node)
    }

    /// Unlinks a name.
    pub fn remove(&mut self, parent: u64, name: &str) -> Option<()> {
        self.work()?;
        self.find(parent, name)?;
        self.change_names(parent, vec![(name.to_owned(), None)])
    }

    /// Renames within a directory.
    pub fn rename(&mut self, parent: u64, from: &str, to: &str) -> Option<()> {
        self.work()?;
        let node = self.find(parent, from)?;
        self.change_names(parent, vec![(from.to_owned(), None), (to.to_owned(), Some(node))])
    }

    fn change(&mut self, node: u64, change: Change) -> Option<()> {
        self.work()?;
        let file = self.files.get_mut(&node)?;
        change.apply(&mut file.now);
        file.changes.push(change);
        Some(())
    }

    /// Writes.
    pub fn write(&mut self, node: u64, offset: usize, bytes: &[u8]) -> Option<()> {
        self.change(node, Change::Write(offset, bytes.to_vec()))
    }

    /// Cuts a file, or makes it longer.
    pub fn set_length(&mut self, node: u64, length: usize) -> Option<()> {
        self.change(node, Change::Length(length))
    }

    /// Reads.
    pub fn read(&self, node: u64, offset: usize, length: usize) -> Option<&[u8]> {
        let bytes = &self.files.get(&node).filter(|_| !self.is_dead)?.now;
        let start = offset.min(bytes.len());
        Some(&bytes[start..(start + length).min(bytes.len())])
    }

    /// Makes a file's bytes and length durable, or a directory's names.
    pub fn sync(&mut self, node: u64) -> Option<()> {
        self.work()?;
        if self.lies {
            return Some(());
        }
        if let Some(file) = self.files.get_mut(&node) {
            file.changes.drain(..).for_each(|change| change.apply(&mut file.durable));
        } else if let Some(directory) = self.directories.get_mut(&node) {
            directory.changes.drain(..).for_each(|change| rename(&mut directory.durable, &change));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_bytes_stay_and_unsynced_ones_are_lost() {
        let mut disk = Disk::new();
        let a = disk.make(ROOT, "a", false).unwrap();
        disk.write(a, 0, &[1; 2000]).unwrap();
        disk.sync(a).unwrap();
        disk.sync(ROOT).unwrap();
        disk.write(a, 1000, &[2; 2000]).unwrap();
        disk.make(ROOT, "b", false).unwrap();
        let mut random = Random::new(7);
        let mut unlucky = disk.clone();
        unlucky.come_back(&mut random, Luck(0));
        assert_eq!(unlucky.read(a, 0, 9_000).unwrap(), [1; 2000]);
        assert_eq!(unlucky.find(ROOT, "b"), None);
        let mut lucky = disk.clone();
        lucky.come_back(&mut random, Luck(16));
        assert_eq!(lucky.length(a), Some(3000));
        assert!(lucky.find(ROOT, "b").is_some());
        let mut torn = 0;
        for _ in 0..50 {
            let mut disk = disk.clone();
            disk.come_back(&mut random, Luck(8));
            let bytes = disk.read(a, 1000, 1000).unwrap();
            torn += usize::from(bytes.contains(&1) && bytes.contains(&2));
        }
        assert!(torn > 0);
    }

    #[test]
    fn the_power_goes_after_so_many_operations() {
        let mut disk = Disk::new();
        disk.until_cut = Some(3);
        let a = disk.make(ROOT, "a", false).unwrap();
        assert!(disk.write(a, 0, b"x").is_some());
        assert!(disk.sync(a).is_none());
        assert!(disk.is_dead && disk.read(a, 0, 1).is_none());
    }
}
