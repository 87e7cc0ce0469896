//! A rule of the broker that a simulation found broken.

use std::fmt;

/// What the simulation checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The broker starts on what a power cut left.
    Starts,
    /// The broker goes on while the disk works.
    Runs,
    /// A write or sync that fails ends the node; a read that fails, or brings wrong bytes, ends its queue.
    DiskErrors,
    /// Everything that a client receives follows the specification.
    Protocol,
    /// Every request and publish is answered once nothing moves any more.
    Answered,
    /// A confirmed persistent message is there until it is settled, purged or deleted.
    NothingLost,
    /// What is there was published, to this queue.
    NoPhantom,
    /// What was gone for good stays away.
    NothingComesBack,
    /// A message is in a queue once.
    NoDuplicate,
    /// Of what was published in one transaction everything is there, or nothing.
    TransactionsAreWhole,
    /// Bytes, properties, exchange and routing key are those that were published.
    NoCorruption,
    /// Messages of one publisher keep their order in each queue.
    Order,
    /// What was delivered before says so.
    Redelivered,
    /// Durable objects that were declared are there.
    ObjectsExist,
    /// Objects that were deleted are not.
    ObjectsStayAway,
    /// What a queue accepted is what left it and what is in it, and the simulation's ledger agrees.
    Conservation,
    /// Counts that operators are shown are those that clients know.
    NoLies,
}

impl Check {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Starts => "the broker starts on what a power cut left",
            Self::Runs => "the broker goes on while the disk works",
            Self::DiskErrors => "what the disk refuses ends the node, or one queue",
            Self::Protocol => "clients receive what the specification allows",
            Self::Answered => "everything is answered",
            Self::NothingLost => "nothing confirmed is lost",
            Self::NoPhantom => "no phantom message",
            Self::NothingComesBack => "nothing that was gone for good comes back",
            Self::NoDuplicate => "no duplicate",
            Self::TransactionsAreWhole => "transactions hold as a whole or not at all",
            Self::NoCorruption => "no corruption",
            Self::Order => "order within each queue",
            Self::Redelivered => "redeliveries are flagged",
            Self::ObjectsExist => "confirmed objects exist",
            Self::ObjectsStayAway => "deleted objects stay away",
            Self::Conservation => "conservation equals the ledger",
            Self::NoLies => "shown counts are true",
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The rule.
    pub check: Check,
    /// What was found.
    pub detail: String,
}

impl Failure {
    /// A failure.
    pub fn new(check: Check, detail: impl Into<String>) -> Self {
        Self { check, detail: detail.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "check \"{}\" failed: {}", self.check.text(), self.detail)
    }
}

impl std::error::Error for Failure {}
