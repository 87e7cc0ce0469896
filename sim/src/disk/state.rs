//! Files and their names.

use std::collections::BTreeMap;
use std::io;

use super::change::Change;
use super::damage::{Damage, Unit};
use super::file::File;
use crate::random::Random;

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
pub(super) struct State {
    files: BTreeMap<u64, File>,
    pub(super) names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<NameChange>,
    next_file: u64,
}

impl State {
    pub(super) fn apply(&mut self, change: &Change) -> io::Result<()> {
        match change {
            Change::Create { name, length } => {
                let id = self.next_file;
                self.next_file += 1;
                let mut file = File::default();
                if *length > 0 {
                    file.resize(*length as usize);
                }
                self.files.insert(id, file);
                self.rename(NameChange::Link(name.clone(), id));
            }
            Change::Write { name, offset, bytes } => self.file(name)?.write(*offset as usize, bytes.clone()),
            Change::Sync { name } => self.file(name)?.sync(),
            Change::LoseUnsynced { name } => self.file(name)?.lose_unsynced(),
            Change::SyncDirectory => {
                if !self.pending_names.is_empty() {
                    for change in self.pending_names.drain(..) {
                        change.apply(&mut self.durable_names);
                    }
                    if self.files.len() > self.names.len() {
                        let mut used: Vec<u64> = self.names.values().copied().collect();
                        used.sort_unstable();
                        self.files.retain(|id, _| used.binary_search(id).is_ok());
                    }
                }
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

    pub(super) fn file(&mut self, name: &str) -> io::Result<&mut File> {
        let id = self.id(name)?;
        self.files.get_mut(&id).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Bytes that the files take, including files whose removal isn't durable yet.
    pub(super) fn used(&self) -> u64 {
        self.files.values().map(|file| file.current.len() as u64).sum()
    }

    pub(super) fn crash(&self, seed: u64) -> (State, Damage) {
        let mut random = Random::new(seed);
        let mut damage = Damage::default();
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
            } else {
                damage.hit("directory entries as they were before");
            }
        }
        let unit = [Unit::Sector, Unit::Sector, Unit::Page][random.below(3) as usize];
        let mut crash = |id: &u64| (*id, self.files[id].crash(unit, &mut random, &mut damage));
        let files: BTreeMap<u64, File> = names.values().map(&mut crash).collect();
        let state =
            State { files, durable_names: names.clone(), names, pending_names: Vec::new(), next_file: self.next_file };
        (state, damage)
    }
}
