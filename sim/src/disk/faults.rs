//! Operations that fail, or return wrong results.

use std::io;

use leveret_log::Operation;

use super::damage::Damage;

/// Error code of the operating system for input/output errors.
pub const EIO: i32 = 5;
/// Error code for no space left on the device.
pub const ENOSPC: i32 = 28;

/// The user of the disk.
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

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The operation is refused.
    Refused,
    /// This part of a write is done, in 256ths; then it is refused.
    Short(u8),
    /// A sync is refused, and its bytes are treated as clean although they aren't on the disk.
    Forgets,
    /// A read succeeds with a wrong bit; its index is taken modulo the number of bits read.
    Flips(u64),
}

/// An operation that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The user whose operation it is.
    pub user: User,
    /// The kind of operation.
    pub on: Operation,
    /// Number of such operations before it that succeed.
    pub after: u64,
    /// The kind of fault.
    pub wrong: Wrong,
    /// All later operations fail, too.
    pub sticky: bool,
}

impl Fault {
    /// The fault's name in the counts.
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

/// The armed fault, and its effects so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub user: User,
    armed: Option<Fault>,
    seen: u64,
    /// Number of times that the fault happened since it was armed.
    pub fired: u64,
    /// Limit of the bytes of all files together.
    pub space: Option<u64>,
}

impl Faults {
    pub(super) fn arm(&mut self, fault: Option<Fault>) {
        (self.armed, self.seen, self.fired) = (fault, 0, 0);
    }

    /// The fault that applies to this operation.
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
