//! Every limit and delay of the log, by name. [`Options::default`] is production.

use crate::names;
use crate::types::Nanos;

const MICROSECOND: Nanos = 1_000;
const MILLISECOND: Nanos = 1_000_000;

/// How a log behaves. All sizes in bytes, all times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of a WAL file. At least 16 KiB.
    pub file_bytes: u64,
    /// Size of the buffer that collects a batch.
    pub buffer_bytes: usize,
    /// Part of the buffer kept for settles and metadata: [`crate::Log::room`] is false when only this is left.
    pub reserve_bytes: usize,
    /// Bodies from this size on are referenced instead of copied.
    pub inline_below: usize,
    /// Logs with fewer live bytes than this in a retired file go to the mixed segment.
    pub mixed_below: u64,
    /// Bytes kept in a file of their own for when the disk is full. `None`: two and a half WAL files, for a new WAL file,
    /// one retirement, its checkpoint, and the settles meanwhile.
    pub disk_reserve: Option<u64>,
    /// WAL files that may be unretired, the current one included. At least 2.
    pub unretired_max: usize,
    /// After so many bytes in a WAL file that was never written to, the next one is filled with zeros and then used instead:
    /// a sync of blocks that are only allocated takes twice as long. Less isn't worth a file of zeros.
    pub fill_after: u64,
    /// Owners of stored messages are asked at most this often which of them are alive, while no WAL file is retired.
    pub survey_interval: Nanos,
    /// Records that nobody waits for, and those that only had to be written, are durable within this time.
    pub lazy_flush: Nanos,
    /// After so many bytes that only had to be written, they are synced. A recovery writes as many again.
    pub unsynced_max: u64,
    /// A batch of up to so many bytes that only has to be written may be written by who appended to it.
    pub small_write_bytes_max: u64,
    /// A batch is written at once when the last one was confirmed longer ago than this.
    pub sync_idle: Nanos,
    /// So is one with as many records waited for as the last one confirmed and as came meanwhile. Fewer are kept back to
    /// collect others for as long as the last sync took (the last write, if none was waited for), and for no longer than
    /// this.
    pub confirm_delay_max: Nanos,
    /// Id of the node that began the directory, part of every salt. 0 in directories that were begun before nodes had ids.
    pub node_id: u64,
    /// Id of this WAL on its node.
    pub wal_id: u16,
    /// Longest payload of a record.
    pub max_record_bytes: usize,
    /// A planted fault.
    #[cfg(feature = "planted-bugs")]
    pub bug: Option<Bug>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            file_bytes: 64 << 20,
            buffer_bytes: 16 << 20,
            reserve_bytes: 1 << 20,
            inline_below: 4096,
            mixed_below: 256 << 10,
            disk_reserve: None,
            unretired_max: 4,
            fill_after: 1 << 20,
            survey_interval: 3_000 * MILLISECOND,
            lazy_flush: 50 * MILLISECOND,
            unsynced_max: 4 << 20,
            small_write_bytes_max: 64 << 10,
            sync_idle: MILLISECOND,
            confirm_delay_max: 200 * MICROSECOND,
            node_id: 0,
            wal_id: 0,
            max_record_bytes: (512 << 20) + (64 << 10),
            #[cfg(feature = "planted-bugs")]
            bug: None,
        }
    }
}

/// Faults that tests and simulator must catch.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A batch counts as durable when it was written.
    SkipSync,
    /// The directory isn't synced after a WAL file was made.
    SkipDirectorySync,
    /// A recycled WAL file keeps its salt.
    ReuseSalt,
    /// A WAL file is retired before the settles that emptied it are durable.
    UnlinkBeforeSettleDurable,
    /// A record counts as durable when it was appended.
    ConfirmAtAppend,
    /// Recovery takes the records of a group without looking for its commit record.
    IgnoreGroupCommit,
    /// A checkpoint may reflect settles of a group that isn't committed durably.
    CutGroupByCheckpoint,
    /// Recovery takes the last batch although its checksums are wrong.
    AcceptTornBatch,
    /// Recovery replays what the checkpoint reflects already.
    ReplayTwice,
    /// Recovery passes over every settle behind a checkpoint.
    ForgetSettlesAfterCheckpoint,
    /// The first batch of a life has the number of the last one before.
    ReuseBatchNumber,
    /// Recovery doesn't sync what it found in memory.
    SkipSyncOfRecovered,
    /// A retirement doesn't copy the last message of a row.
    RetireOneTooFew,
    /// A retirement doesn't copy messages whose number ends a container (of 65,536).
    LoseContainerEdge,
    /// The first file that a checkpoint leaves to the WAL is one too late.
    FloorOneTooHigh,
    /// The directory isn't synced after segments were written.
    SkipSegmentDirectorySync,
    /// A segment isn't synced.
    SkipSegmentSync,
    /// A checkpoint isn't synced.
    SkipCheckpointSync,
    /// Recovery takes the newest segment for one that no checkpoint names.
    DeleteNamedSegment,
    /// Only the first message of a group that wasn't committed is taken back.
    WithdrawFirstOnly,
    /// A retirement takes the state of a log before everything of the file is applied.
    RetireBeforeApply,
    /// The first batch of a life doesn't say that an earlier one ended.
    OmitRestart,
    /// Published messages may use the room that is kept for settles, in memory and on the disk.
    SpendReserve,
    /// Recovery takes what an earlier use of a recycled WAL file left there.
    TakeEarlierUse,
    /// The commit record of a group comes before the rest of it.
    CommitGroupFirst,
    /// What a checkpoint says of a log reaches as far as the log has come when it is written.
    LoseSettlesAtRetirement,
    /// The checkpoint of a rewrite has the states with which it was begun.
    UndoSettlesByRewrite,
    /// A rewrite doesn't copy the last message of a row.
    DropLiveByRewrite,
    /// The last batch before a crash isn't written again by recovery: a sync that failed may have forgotten it.
    TrustLastBatch,
    /// The checkpoint before a crash isn't written again by recovery.
    TrustCheckpoint,
    /// A batch says that all before it are durable although they aren't.
    OmitUnsynced,
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    /// Plants it in this thread, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether it is planted in this thread.
    #[must_use]
    pub fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }
}

impl Options {
    /// Whether this fault is planted.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn has_bug(&self, bug: Bug) -> bool {
        self.bug == Some(bug) || bug.is_planted()
    }

    /// See [`Options::disk_reserve`].
    #[must_use]
    pub fn disk_reserve(&self) -> u64 {
        self.disk_reserve.unwrap_or(self.file_bytes / 2 * 5)
    }

    /// The name of the file that keeps space for when there is no other.
    #[must_use]
    pub fn reserve_file(&self) -> String {
        names::reserve(self.wal_id)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.file_bytes < 16 << 10 || self.file_bytes > 1 << 30 {
            return Err(format!("file_bytes is {}, allowed are 16 KiB to 1 GiB", self.file_bytes));
        }
        if self.unretired_max < 2 {
            return Err(format!("unretired_max is {}, at least 2 are needed", self.unretired_max));
        }
        if self.reserve_bytes >= self.buffer_bytes {
            return Err(format!(
                "reserve_bytes ({}) must be less than buffer_bytes ({})",
                self.reserve_bytes, self.buffer_bytes
            ));
        }
        if self.max_record_bytes > 1 << 30 {
            return Err(format!("max_record_bytes is {}, at most 1 GiB", self.max_record_bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_allowed() {
        assert_eq!(Options::default().check(), Ok(()));
    }

    #[test]
    fn limits_are_checked() {
        let bad = [
            Options { file_bytes: 100, ..Options::default() },
            Options { unretired_max: 1, ..Options::default() },
            Options { reserve_bytes: 16 << 20, ..Options::default() },
            Options { max_record_bytes: 2 << 30, ..Options::default() },
        ];
        for options in bad {
            assert!(options.check().is_err());
        }
    }
}
