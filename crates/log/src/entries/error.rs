//! Calls that would break a placement's log. Nothing was changed; the placement has to stop with this text.

use crate::format::entry::{PlacementId, Vote};

/// A call on a placement that can't be right, or on one whose records were damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// An entry doesn't follow the one before it.
    #[error(
        "placement {placement} stops: entry {found} was appended, its log has entries {first} up to {end}, so one of {first} to {end} is due"
    )]
    Gap {
        /// The placement.
        placement: PlacementId,
        /// Index of the first entry that isn't purged.
        first: u64,
        /// Index behind the last entry.
        end: u64,
        /// Index of the entry.
        found: u64,
    },
    /// The term of an entry is lower than that of the entry before it.
    #[error(
        "placement {placement} stops: entry {index} has term {found}, the entry before it has term {last}; terms never fall"
    )]
    TermFalls {
        /// The placement.
        placement: PlacementId,
        /// Index of the entry.
        index: u64,
        /// Its term.
        found: u64,
        /// The term before it.
        last: u64,
    },
    /// An entry that is applied would be cut.
    #[error(
        "placement {placement} stops: its log was to be cut from entry {index} on, but the entries below {applied} are applied"
    )]
    CutsApplied {
        /// The placement.
        placement: PlacementId,
        /// First entry that would be cut.
        index: u64,
        /// Index behind the last applied entry.
        applied: u64,
    },
    /// An entry that isn't durably applied would be purged.
    #[error(
        "placement {placement} stops: the entries below {index} were to be purged, but only those below {applied} are applied durably"
    )]
    PurgesUnapplied {
        /// The placement.
        placement: PlacementId,
        /// Index behind the last entry to purge.
        index: u64,
        /// Index behind the last applied entry.
        applied: u64,
    },
    /// The applied index would fall.
    #[error(
        "placement {placement} stops: the entries below {found} are said to be applied, after those below {applied}"
    )]
    AppliedFalls {
        /// The placement.
        placement: PlacementId,
        /// Index behind the last entry that was applied before.
        applied: u64,
        /// The index that was said.
        found: u64,
    },
    /// A vote goes back.
    #[error("placement {placement} stops: the vote {found:?} doesn't follow {last:?}; votes never go back")]
    VoteFalls {
        /// The placement.
        placement: PlacementId,
        /// The vote that was to be saved.
        found: Vote,
        /// The vote before it.
        last: Vote,
    },
    /// Entries were asked for that the log doesn't have.
    #[error("placement {placement} stops: entries {from} up to {to} were asked for, its log has {first} up to {end}")]
    NotThere {
        /// The placement.
        placement: PlacementId,
        /// First entry that was asked for.
        from: u64,
        /// Index behind the last one.
        to: u64,
        /// Index of the first entry that isn't purged.
        first: u64,
        /// Index behind the last entry.
        end: u64,
    },
    /// The last entry that is said to be purged isn't the one that is there, and can't have taken its place.
    #[error(
        "placement {placement} stops: the entries below {index} were to be purged, the last of them of term {found}, but its log has one of \
         term {known} there"
    )]
    PurgesOther {
        /// The placement.
        placement: PlacementId,
        /// Index behind the last entry to purge.
        index: u64,
        /// The term that was said.
        found: u64,
        /// The term that is known.
        known: u64,
    },
    /// An entry is longer than a record may be.
    #[error("placement {placement} stops: entry {index} has {bytes} bytes; an entry has at most {max}")]
    TooLong {
        /// The placement.
        placement: PlacementId,
        /// Index of the entry.
        index: u64,
        /// Its bytes.
        bytes: usize,
        /// The most that an entry has.
        max: usize,
    },
    /// The id stands for any placement, so no placement has it.
    #[error("placement {} can't be used: this id stands for any placement", PlacementId::ANY)]
    NoPlacement,
    /// Records of the placement were damaged.
    #[error(
        "placement {placement} stops: its records in the entry log are damaged ({reason}), so this replica can't vouch for its log; it has \
         to be removed, and to join again under a new id"
    )]
    Damaged {
        /// The placement.
        placement: PlacementId,
        /// The damage.
        reason: String,
    },
}
