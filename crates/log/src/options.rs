//! Every limit and delay of the log. [`Options::default`] is for production.

use crate::ring::Ring;
use crate::types::Nanos;

const MICROSECOND: Nanos = 1_000;
const MILLISECOND: Nanos = 1_000_000;

/// The log's options. All sizes in bytes, all times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of a WAL file. At least 16 KiB.
    pub file_bytes: u64,
    /// Size of the buffer that collects a batch.
    pub buffer_bytes: usize,
    /// Part of the buffer reserved for settles and metadata: [`crate::Log::room`] is false when only this is left.
    pub reserve_bytes: usize,
    /// Bodies of this size and more are referenced instead of copied.
    pub inline_below: usize,
    /// A WAL file of which this part is live, in percent, becomes a segment as it is, and isn't copied. Over 100, none
    /// does. The rest of such a file stays on the disk until less than half of it is live, and it is rewritten.
    pub keep_live_percent: u64,
    /// Logs with fewer live bytes than this in a retired file go to the mixed segment.
    pub mixed_below: u64,
    /// Bytes reserved in a file of their own for a full disk. `None` means two and a half WAL files: a new WAL file,
    /// one retirement, its checkpoint, and the settles meanwhile.
    pub disk_reserve: Option<u64>,
    /// Most WAL files that aren't retired, including the current one. At least 2.
    pub unretired_max: usize,
    /// After this many bytes in a WAL file that was never written before, the next one is filled with zeros and then
    /// used instead, because a sync of blocks that are only allocated takes twice as long. Fewer bytes don't justify
    /// writing a file of zeros.
    pub fill_after: u64,
    /// Least interval between surveys, which ask the owners which stored messages are live, while no WAL file is
    /// retired.
    pub survey_interval: Nanos,
    /// Deadline for making records durable that no caller waits for, or that only had to be written.
    pub lazy_flush: Nanos,
    /// Bytes that only had to be written are synced once there are this many. A recovery rewrites as many.
    pub unsynced_max: u64,
    /// A batch of up to this many bytes that only has to be written may be written by the appending thread.
    pub small_write_bytes_max: u64,
    /// A batch is written at once if the last round ended longer ago than this.
    pub sync_idle: Nanos,
    /// A batch is also written at once if it has as many waiting records as the last round and the time since
    /// together. Otherwise it waits for more records for as long as the last sync took (the last write, if no record
    /// was waited for), but no longer than this.
    pub confirm_delay_max: Nanos,
    /// Id of the node that created the directory, part of every salt; 0 in directories created before nodes had ids.
    pub node_id: u64,
    /// Id of this WAL on its node.
    pub wal_id: u16,
    /// The files that the log is in.
    pub ring: Ring,
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
            keep_live_percent: 75,
            mixed_below: 256 << 10,
            disk_reserve: None,
            unretired_max: 4,
            fill_after: 1 << 20,
            survey_interval: 3_000 * MILLISECOND,
            lazy_flush: 50 * MILLISECOND,
            unsynced_max: 4 << 20,
            small_write_bytes_max: 256 << 10,
            sync_idle: MILLISECOND,
            confirm_delay_max: 200 * MICROSECOND,
            node_id: 0,
            wal_id: 0,
            ring: Ring::Store,
            max_record_bytes: (512 << 20) + (1 << 20),
            #[cfg(feature = "planted-bugs")]
            bug: None,
        }
    }
}

/// Faults that tests and the simulator must catch.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A batch counts as durable once it is written.
    SkipSync,
    /// The directory isn't synced after a WAL file was created.
    SkipDirectorySync,
    /// A recycled WAL file keeps its salt.
    ReuseSalt,
    /// A WAL file is retired before the settles that emptied it are durable.
    UnlinkBeforeSettleDurable,
    /// A record counts as durable once it is appended.
    ConfirmAtAppend,
    /// Recovery takes the records of a group without checking for its commit record.
    IgnoreGroupCommit,
    /// A checkpoint may reflect settles of a group whose commit isn't durable.
    CutGroupByCheckpoint,
    /// Recovery takes the last batch although its checksums are wrong.
    AcceptTornBatch,
    /// Recovery replays records that the checkpoint already reflects.
    ReplayTwice,
    /// Recovery skips every settle after a checkpoint.
    ForgetSettlesAfterCheckpoint,
    /// The first batch after a recovery has the sequence of the last one before it.
    ReuseBatchNumber,
    /// Recovery doesn't sync batches that it found only in the page cache.
    SkipSyncOfRecovered,
    /// A retirement doesn't copy the last message of a row.
    RetireOneTooFew,
    /// A retirement doesn't copy messages whose number ends a container (of 65,536).
    LoseContainerEdge,
    /// The first WAL file that a checkpoint requires is one too high.
    FloorOneTooHigh,
    /// The directory isn't synced after segments were written.
    SkipSegmentDirectorySync,
    /// A segment isn't synced.
    SkipSegmentSync,
    /// A checkpoint isn't synced.
    SkipCheckpointSync,
    /// Recovery deletes the newest segment as if no checkpoint named it.
    DeleteNamedSegment,
    /// Of an uncommitted group, only the first message is withdrawn.
    WithdrawFirstOnly,
    /// A retirement takes the state of a log before all durable records of the file are applied.
    RetireBeforeApply,
    /// The first batch after a recovery isn't marked as such.
    OmitRestart,
    /// Publishes may use the room reserved for settles, in memory and on disk.
    SpendReserve,
    /// Recovery takes batches that an earlier use of a recycled WAL file left there.
    TakeEarlierUse,
    /// The commit record of a group precedes the rest of it.
    CommitGroupFirst,
    /// A checkpoint's state of a log claims to reflect all records appended by the time it is written.
    LoseSettlesAtRetirement,
    /// The checkpoint of a rewrite contains the states as of its beginning.
    UndoSettlesByRewrite,
    /// A rewrite doesn't copy the last message of a row.
    DropLiveByRewrite,
    /// Recovery doesn't rewrite the last batch before a crash, which a failed sync may have dropped.
    TrustLastBatch,
    /// Recovery doesn't rewrite the checkpoint in force before a crash.
    TrustCheckpoint,
    /// A batch claims that all before it are durable although they aren't.
    OmitUnsynced,
    /// A retirement or rewrite doesn't copy a chunk whose first message is dead, although others aren't.
    DropChunkByFirst,
    /// A WAL file that became a segment is used again for the log.
    ReuseKeptFile,
    /// Recovery removes WAL files below the first one that it replays, although they became segments.
    RemoveKeptFile,
    /// Metadata records are written once.
    SkipMetadataCopies,
    /// Records of the entry log count as durable once they are appended.
    AcknowledgeEarly,
    /// Entries are purged that aren't durably applied.
    PurgeUnapplied,
    /// The last entry of a file isn't carried when the file is used again.
    DropCarried,
    /// A file of the entry log is used again before what was carried out of it is durable.
    ReuseBeforeDurable,
    /// No mark says that entries were cut whose files are used again.
    ForgetCut,
    /// A carried entry cuts those behind it.
    CutByCarried,
    /// An entry in the place of one that was cut counts as durable with what was appended before it.
    AcknowledgeCut,
    /// A vote is answered before it is durable.
    AnswerVoteEarly,
    /// An entry is appended with a lower term than the one before it.
    LetTermFall,
    /// Of several flushes that are over, the last one is reported first.
    ReportOutOfOrder,
    /// A member that catches up doesn't ask the leader.
    SkipReadBarrier,
    /// A leader goes on deciding on what it has decided before, committed or not.
    KeepStagedModel,
    /// The number of a member that was forgotten is given to the next one.
    GiveNumberAgain,
    /// A leader that hears no quorum goes on leading.
    LeadUnheard,
    /// A blank node seeds a cluster although no majority takes it for the first one.
    SeedWithoutMajority,
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    /// Plants the fault in this thread, or removes it.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether the fault is planted in this thread.
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

    /// Resolves [`Options::disk_reserve`] to bytes.
    #[must_use]
    pub fn disk_reserve(&self) -> u64 {
        self.disk_reserve.unwrap_or(self.file_bytes / 2 * 5)
    }

    /// The name of the file that reserves disk space.
    #[must_use]
    pub fn reserve_file(&self) -> String {
        self.ring.reserve(self.wal_id)
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
