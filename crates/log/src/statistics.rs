//! The log's counters.

use crate::types::Nanos;

/// Counters since the log was opened, and a few current sizes.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Syncs of the commit lane.
    pub syncs: u64,
    /// Moving average of a sync's duration over about eight syncs, in nanoseconds.
    pub sync_smoothed: Nanos,
    /// Durations of syncs: slot i counts those of less than 2^i µs (and at least 2^(i-1)).
    pub sync_histogram: [u64; 32],
    /// Batches written.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes written by the commit lane, headers and padding included.
    pub bytes_written: u64,
    /// WAL files retired.
    pub retirements: u64,
    /// Of these, files that became segments as they were.
    pub files_kept: u64,
    /// Messages copied to segments.
    pub messages_copied: u64,
    /// Payload bytes copied to segments.
    pub bytes_copied: u64,
    /// Rewrites of sparse or small segments.
    pub rewrites: u64,
    /// Segments replaced by rewrites, including those without a live message.
    pub segments_rewritten: u64,
    /// Bytes by which rewrites shortened the files.
    pub bytes_reclaimed: u64,
    /// Operations that failed for want of disk space.
    pub out_of_space: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Current number of segments.
    pub segments: u64,
    /// Bytes of their files.
    pub segment_bytes: u64,
    /// WAL files that aren't retired, including the current one.
    pub unretired_files: u64,
}

impl Statistics {
    pub(crate) fn note_sync(&mut self, took: Nanos) {
        self.syncs += 1;
        self.sync_smoothed = match self.syncs {
            1 => took,
            _ => self.sync_smoothed - self.sync_smoothed / 8 + took / 8,
        };
        let microseconds = took / 1000;
        let slot = (64 - microseconds.leading_zeros()).min(31);
        self.sync_histogram[slot as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_are_counted_by_powers_of_two() {
        let mut statistics = Statistics::default();
        for took in [0, 999, 1_000, 1_999, 2_000, 5_900_000, u64::MAX] {
            statistics.note_sync(took);
        }
        assert_eq!(statistics.syncs, 7);
        assert_eq!(statistics.sync_histogram[0], 2);
        assert_eq!(statistics.sync_histogram[1], 2);
        assert_eq!(statistics.sync_histogram[2], 1);
        assert_eq!(statistics.sync_histogram[13], 1);
        assert_eq!(statistics.sync_histogram[31], 1);
    }
}
