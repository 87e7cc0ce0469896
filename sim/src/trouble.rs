//! Faults of the disk in one life, or while a broker starts.

use leveret_log::Operation;

use crate::disk::{Fault, SimDisk, User, Wrong};
use crate::random::Random;

/// A fault of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No fault.
    None,
    /// A faulty operation.
    Fault(Fault),
    /// Room for only this many more bytes.
    Space(u64),
}

impl Trouble {
    /// The fault of a life.
    pub fn of_life(random: &mut Random) -> Self {
        let sticky = random.below(2) == 0;
        match random.below(16) {
            0..=6 => Self::None,
            7 | 8 => Self::Space(random.below(300_000)),
            9 | 10 => Self::Fault(reading(User::Reads, random.below(30), sticky, random)),
            11..=13 => Self::Fault(changing(User::Commit, random.below(200), sticky, random)),
            _ if random.below(2) == 0 => Self::Fault(changing(User::Background, random.below(6), sticky, random)),
            // Only once: repeated faults would lose the messages that the reads are for.
            _ => Self::Fault(reading(User::Background, random.below(40), false, random)),
        }
    }

    /// The fault of a start: an operation is refused, once.
    pub fn of_start(random: &mut Random) -> Self {
        match random.below(3) {
            0 => Self::Fault(Fault { wrong: Wrong::Refused, ..reading(User::Start, random.below(20), false, random) }),
            1 => Self::Fault(changing(User::Start, random.below(2), false, random)),
            _ => {
                let on = [Operation::List, Operation::Length, Operation::Remove][random.below(3) as usize];
                let after = random.below(2);
                Self::Fault(Fault { user: User::Start, on, after, wrong: Wrong::Refused, sticky: false })
            }
        }
    }

    /// The fault in words; if there is none, the text `before`.
    #[must_use]
    pub fn text(self, before: &str) -> String {
        match self {
            Self::None if before.is_empty() => String::from("nothing"),
            Self::None => format!("{}, then a life", before.trim_end_matches(", then a life")),
            Self::Fault(fault) => format!("{} ({:?} lane)", fault.name(), fault.user).to_lowercase(),
            Self::Space(_) => String::from("a full disk"),
        }
    }

    /// Applies the fault to the disk.
    pub fn arm(self, disk: &SimDisk) {
        match self {
            Self::None => {}
            Self::Fault(fault) => disk.arm(Some(fault)),
            Self::Space(bytes) => disk.limit_space(Some(disk.used() + bytes)),
        }
    }

    /// Makes the disk work again.
    pub fn end(disk: &SimDisk) {
        disk.arm(None);
        disk.limit_space(None);
    }

    /// The fault that persists while a broker starts.
    #[must_use]
    pub fn at_restart(self) -> Option<Fault> {
        match self {
            // Bits read wrong may be taken for damage, which a healthy disk doesn't have.
            Self::Fault(fault) if fault.sticky && !matches!(fault.wrong, Wrong::Flips(_)) => {
                Some(Fault { user: User::Start, after: 0, ..fault })
            }
            _ => None,
        }
    }
}

/// A faulty read.
#[must_use]
pub fn reading(user: User, after: u64, sticky: bool, random: &mut Random) -> Fault {
    let wrong = if random.below(2) == 0 { Wrong::Refused } else { Wrong::Flips(random.next() >> 8) };
    Fault { user, on: Operation::Read, after, wrong, sticky }
}

fn changing(user: User, after: u64, sticky: bool, random: &mut Random) -> Fault {
    let (on, wrong) = match random.below(8) {
        0 => (Operation::Write, Wrong::Refused),
        1 | 2 => (Operation::Write, Wrong::Short(random.below(256) as u8)),
        3 => (Operation::Sync, Wrong::Refused),
        4 | 5 => (Operation::Sync, Wrong::Forgets),
        6 => (Operation::SyncDirectory, Wrong::Refused),
        _ => ([Operation::Create, Operation::Rename, Operation::Remove][random.below(3) as usize], Wrong::Refused),
    };
    // These operations are rarer.
    let after = if matches!(on, Operation::Write | Operation::Sync) { after } else { after / 16 };
    Fault { user, on, after, wrong, sticky }
}
