//! Messages that are sent again, and what a queue knows of earlier ones to recognise them: ids (`x-message-deduplication`), or the
//! numbers of publishers (`x-publisher-deduplication`).

mod compared;
mod duplicates;
mod offered;
mod sequences;

pub use duplicates::RecoveredIds;
pub use offered::Offered;
pub use sequences::RecoveredSequences;

use leveret_model::QueueOptions;

use self::duplicates::Duplicates;
use self::sequences::Sequences;

/// Earlier messages, as recovery finds them and a checkpoint keeps them.
#[derive(Debug, Default)]
pub struct RecoveredRepeats {
    /// The ids of the last messages, if the queue drops duplicates.
    pub ids: RecoveredIds,
    /// The numbers of its publishers, if it drops what they send again.
    pub publishers: RecoveredSequences,
}

/// The knowledge of earlier messages.
#[derive(Debug)]
pub(crate) enum Repeats {
    Ids(Duplicates),
    Publishers(Sequences),
}

impl Repeats {
    /// That of a queue with these options, with what recovery found; `None` if it takes everything.
    pub(crate) fn of(options: &QueueOptions, recovered: RecoveredRepeats, next: u64) -> Option<Box<Self>> {
        let RecoveredRepeats { ids, publishers } = recovered;
        match &options.deduplication {
            Some(rules) => Some(Box::new(Self::Ids(Duplicates::new(rules, ids, next)))),
            None if options.numbers_publishers => Some(Box::new(Self::Publishers(Sequences::new(publishers, next)))),
            None => None,
        }
    }

    /// The places of the messages that weren't sent before, and counts the others. Messages from number `next` on aren't applied.
    pub(crate) fn fresh(&mut self, offered: &[Option<Offered>], next: u64) -> Vec<u32> {
        match self {
            Self::Ids(ids) => ids.fresh(offered, next),
            Self::Publishers(publishers) => publishers.fresh(offered, next),
        }
    }

    /// Notes a message that was submitted. Messages from number `next` on aren't applied.
    pub(crate) fn note(&mut self, number: u64, offered: Offered, durable: bool, next: u64) {
        match self {
            Self::Ids(ids) => ids.note(number, offered, durable, next),
            Self::Publishers(publishers) => publishers.note(number, offered, durable, next),
        }
    }

    /// Messages from this number on were submitted and never become part of the queue.
    pub(crate) fn withdraw(&mut self, from: u64) {
        match self {
            Self::Ids(ids) => ids.withdraw(from),
            Self::Publishers(publishers) => publishers.withdraw(from),
        }
    }

    /// Number of messages that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        match self {
            Self::Ids(ids) => ids.dropped(),
            Self::Publishers(publishers) => publishers.dropped(),
        }
    }

    /// The part of it that survives a restart, of messages below `next`.
    pub(crate) fn durable(&self, next: u64) -> RecoveredRepeats {
        match self {
            Self::Ids(ids) => RecoveredRepeats { ids: ids.durable(next), ..RecoveredRepeats::default() },
            Self::Publishers(all) => RecoveredRepeats { publishers: all.durable(next), ..RecoveredRepeats::default() },
        }
    }

    /// All of it, for a machine that goes on with the queue.
    pub(crate) fn all(&self) -> RecoveredRepeats {
        match self {
            Self::Ids(ids) => RecoveredRepeats { ids: ids.all(), ..RecoveredRepeats::default() },
            Self::Publishers(all) => RecoveredRepeats { publishers: all.all(), ..RecoveredRepeats::default() },
        }
    }
}
