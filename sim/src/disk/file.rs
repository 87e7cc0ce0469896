//! A file: its durable bytes, its bytes as readers see them, and the changes in between.

use std::sync::Arc;

use super::content::Content;
use super::damage::{Damage, Unit};
use crate::random::Random;

#[derive(Clone, Debug)]
enum Pending {
    Length(usize),
    Write(usize, Arc<[u8]>),
}

impl Pending {
    fn apply(&self, content: &mut Content) {
        match self {
            Pending::Length(length) => content.resize(*length),
            Pending::Write(offset, bytes) => content.write(*offset, bytes),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct File {
    durable: Arc<Content>,
    /// The bytes as readers see them.
    pub(super) current: Arc<Content>,
    pending: Vec<Pending>,
    /// Readers see bytes that aren't on the disk and that no sync makes durable.
    has_lost: bool,
}

impl File {
    fn change(&mut self, change: Pending) {
        change.apply(Arc::make_mut(&mut self.current));
        self.pending.push(change);
    }

    pub(super) fn resize(&mut self, length: usize) {
        self.change(Pending::Length(length));
    }

    pub(super) fn write(&mut self, offset: usize, bytes: Arc<[u8]>) {
        self.change(Pending::Write(offset, bytes));
    }

    pub(super) fn sync(&mut self) {
        if self.has_lost {
            self.pending.drain(..).for_each(|change| change.apply(Arc::make_mut(&mut self.durable)));
        } else {
            self.durable = self.current.clone();
            self.pending.clear();
        }
    }

    /// Loses track of unsynced bytes; see [`super::Change::LoseUnsynced`].
    pub(super) fn lose_unsynced(&mut self) {
        self.has_lost |= !self.pending.is_empty();
        self.pending.clear();
    }

    pub(super) fn flip(&mut self, bit: usize) {
        for content in [&mut self.durable, &mut self.current] {
            Arc::make_mut(content).flip(bit);
        }
    }

    /// The file after a power cut.
    pub(super) fn crash(&self, unit: Unit, random: &mut Random, damage: &mut Damage) -> File {
        let mut content = self.durable.clone();
        let mut lost = self.has_lost;
        for change in &self.pending {
            let whole = match (random.below(3), change) {
                (0, _) | (2.., Pending::Length(_)) => false,
                (1, change) => {
                    change.apply(Arc::make_mut(&mut content));
                    true
                }
                (_, Pending::Write(offset, bytes)) => {
                    // Units are those of the disk, not of the write.
                    let (mut at, mut kept, mut parts) = (0, 0, 0);
                    while at < bytes.len() {
                        let end = (unit.bytes() - (offset + at) % unit.bytes() + at).min(bytes.len());
                        parts += 1;
                        if random.below(2) == 0 {
                            Arc::make_mut(&mut content).write(offset + at, &bytes[at..end]);
                            kept += 1;
                        }
                        at = end;
                    }
                    if kept > 0 && kept < parts {
                        damage.hit(unit.torn());
                    }
                    kept == parts
                }
            };
            if whole && lost {
                damage.hit("writes kept that came after lost ones");
            }
            lost |= !whole;
        }
        if lost {
            damage.hit("unsynced writes lost");
        }
        File { durable: content.clone(), current: content, pending: Vec::new(), has_lost: false }
    }
}
