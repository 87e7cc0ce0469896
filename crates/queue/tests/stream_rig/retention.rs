//! The reference's view of retention: chunks leave as a whole, the oldest first, and no more of them than a limit asks for.

use std::ops::Range;
use std::sync::Arc;

use leveret_message::Batch;
use leveret_queue::Run;

use super::{LATE_MS, Rig};

/// Chunks of a stretch have times that differ by no more than this, in milliseconds, with limits as low as those of the tests.
const STRETCH_MS: u64 = 500;

impl Rig {
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_chunks().map(|(_, batch)| u64::from(batch.chunk_bytes())).sum()
    }

    /// Most bytes of the stretch that has this chunk.
    fn stretch_bytes(&self, chunk: &Batch) -> u64 {
        let most = self.options.max_length_bytes.map_or(0, |most| most / 64).max(4096);
        u64::from(chunk.chunk_bytes()).max(most)
    }

    /// Messages have left.
    pub(super) fn learn_of_retention(&mut self, drops: &[Run], expired: &[Run]) {
        let mut runs: Vec<(&Run, bool)> = Vec::new();
        runs.extend(drops.iter().map(|run| (run, false)));
        runs.extend(expired.iter().map(|run| (run, true)));
        runs.sort_by_key(|(run, _)| run.first);
        for (run, is_old) in runs {
            assert!(run.first <= self.low && run.last < self.end, "{run:?} of {}..{}", self.low, self.end);
            let is_gap = |mut offsets: Range<u64>| offsets.all(|offset| self.messages[offset as usize].is_gap);
            assert!(is_gap(run.first..self.low), "{run:?} of {}..{}", self.low, self.end);
            let before = self.live_bytes();
            let leaves = |(first, _): &(&u64, &Arc<Batch>)| **first <= run.last;
            let (last, chunk) = self.live_chunks().take_while(leaves).last().expect("a chunk leaves");
            let end = last + chunk.len() as u64;
            assert!(end <= run.last + 1 && is_gap(end..run.last + 1), "whole chunks leave");
            let stretch = self.stretch_bytes(chunk);
            for (_, batch) in self.live_chunks().take_while(leaves).filter(|_| is_old) {
                let age = self.now_ms - batch.times(0).0;
                assert!(self.options.max_age_ms.is_some_and(|most| age > most), "{run:?} isn't too old");
            }
            self.low = run.last + 1;
            self.pass_gaps();
            let bytes = self.live_bytes();
            assert_eq!(run.bytes, before - bytes);
            let most = self.options.max_length_bytes;
            assert!(is_old || most.is_some_and(|most| bytes + stretch > most), "{run:?}: {bytes} bytes are left");
            assert!(is_old || self.low < self.end, "the newest stretch stays");
            self.left.push(*run);
        }
    }

    /// Checks that nothing is beyond a limit, after messages were added, or timers were looked at.
    pub(super) fn check_limits(&self, has_looked: bool) {
        let (Some((_, first)), last) = (self.live_chunks().next(), self.live_chunks().next_back()) else {
            return;
        };
        if let (Some(most), Some((_, newest))) = (self.options.max_length_bytes, last) {
            let bytes = self.live_bytes();
            assert!(self.is_recovered || bytes <= most.max(self.stretch_bytes(newest)), "{bytes} bytes");
        }
        if let Some(most) = self.options.max_age_ms {
            let age = self.now_ms - first.times(0).0;
            assert!(!has_looked || age <= most + STRETCH_MS + LATE_MS, "{age} ms old");
        }
    }
}
