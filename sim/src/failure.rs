//! A rule of the broker that a simulation found broken.

use std::fmt;

/// The rules that the simulation checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The broker starts on the disk that a power cut left.
    Starts,
    /// The broker continues while the disk works.
    Runs,
    /// A write or sync that fails ends the node. A read that fails, or returns wrong bytes, stops its queue.
    DiskErrors,
    /// Everything that a client receives follows the specification.
    Protocol,
    /// Every request and publish has been answered once nothing moves any more.
    Answered,
    /// A confirmed persistent message exists until it is settled, purged or deleted.
    NothingLost,
    /// Every message in a queue was published, to this queue.
    NoPhantom,
    /// Messages that were gone for good don't reappear.
    NothingComesBack,
    /// A message is in a queue at most once.
    NoDuplicate,
    /// All messages published in one transaction exist, or none.
    TransactionsAreWhole,
    /// Bytes, properties, exchange and routing key are as published.
    NoCorruption,
    /// Messages of one publisher keep their order in each queue.
    Order,
    /// At an offset of a stream every reader finds the same message, at any time.
    InconsistentOffsets,
    /// The offsets of a stream's reader only rise.
    NonmonotonicPoll,
    /// A stream's reader passes no message.
    PollSkip,
    /// Messages of one publisher have rising offsets in a stream.
    NonmonotonicSend,
    /// No message of a transaction is delivered before its commit was requested.
    AbortedRead,
    /// A quorum queue delivers no message before its time of delivery.
    NotEarly,
    /// Messages that were delivered before are flagged as redelivered.
    Redelivered,
    /// Durable objects that were declared exist.
    ObjectsExist,
    /// Objects that were deleted don't exist.
    ObjectsStayAway,
    /// The messages that a queue accepted are those that left it and those in it, and the simulation's ledger agrees.
    Conservation,
    /// A queue with a single active consumer gives messages to no other one.
    SingleActive,
    /// The counts that operators see are the ones that clients know.
    NoLies,
}

impl Check {
    /// The rule in words.
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
            Self::InconsistentOffsets => "an offset has one message for all readers",
            Self::NonmonotonicPoll => "a reader's offsets only rise",
            Self::PollSkip => "a reader passes no message",
            Self::NonmonotonicSend => "a stream has each publisher's messages as they were sent",
            Self::AbortedRead => "nothing is read that wasn't committed",
            Self::NotEarly => "nothing is delivered before its time",
            Self::Redelivered => "redeliveries are flagged",
            Self::ObjectsExist => "confirmed objects exist",
            Self::ObjectsStayAway => "deleted objects stay away",
            Self::Conservation => "conservation equals the ledger",
            Self::SingleActive => "only the single active consumer gets messages",
            Self::NoLies => "shown counts are true",
        }
    }
}

/// A broken rule, with details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The rule.
    pub check: Check,
    /// The details.
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
