//! Operations that fail, or answer wrongly.

use std::io;

use leveret_log::Operation;

use super::damage::Damage;

/// Input/output error of the operating system.
pub const EIO: i32 = 5;
/// No space left on the device.
pub const ENOSPC: i32 = 28;

/// Who uses the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum User {
    /// A broker that starts.
    #[default]
    Start,
    /// Its commit lane.
    Commit,
    /// Its background lane.
    Background,
    /// Its lane of reads.
    Reads,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The operation is refused.
    Refused,
    /// Of a write, this part is done, in 256ths; then it is refused.
    Short(u8),
    /// A sync is refused, and what it should have brought to the disk counts as if it were there.
    Forgets,
    /// A read succeeds with this bit of its bytes, counted modulo their number, wrong.
    Flips(u64),
}

/// An operation that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of this user.
    pub user: User,
    /// Of this kind.
    pub on: Operation,
    /// After this many that go well.
    pub after: u64,
    /// How.
    pub wrong: Wrong,
    /// All later ones, too.
    pub sticky: bool,
}

impl Fault {
    /// As it is counted.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match (self.wrong, self.on) {
            (Wrong::Flips(_), _) => "bits flipped on read",
            (Wrong::Short(_), _) => "short writes",
            (Wrong::Forgets, _) => "failed syncs whose bytes were forgotten",
            (Wrong::Refused, Operation::Write) => "EIO on write",
            (Wrong::Refused, Operation::Sync) => "EIO on sync",
            (Wrong::Refused, Operation::SyncDirectory) => "EIO on directory sync",
            (Wrong::Refused, Operation::Read) => "EIO on read",
            (Wrong::Refused, _) => "EIO on create, rename, remove, list or length",
        }
    }
}

/// What is to go wrong, and did.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub user: User,
    armed: Option<Fault>,
    seen: u64,
    /// How often something went wrong since it was armed.
    pub fired: u64,
    /// All files together may have this many bytes.
    pub space: Option<u64>,
}

impl Faults {
    pub(super) fn arm(&mut self, fault: Option<Fault>) {
        (self.armed, self.seen, self.fired) = (fault, 0, 0);
    }

    /// What goes wrong with this operation.
    pub(super) fn strike(&mut self, on: Operation, damage: &mut Damage) -> Option<Wrong> {
        let fault = self.armed.filter(|fault| fault.user == self.user && fault.on == on)?;
        self.seen += 1;
        if self.seen <= fault.after {
            return None;
        }
        if !fault.sticky {
            self.armed = None;
        }
        self.fired += 1;
        damage.hit(fault.name());
        if self.fired > 1 {
            damage.hit("operations that failed again");
        }
        Some(fault.wrong)
    }
}

pub(super) fn refused(error: i32) -> io::Error {
    io::Error::from_raw_os_error(error)
}
