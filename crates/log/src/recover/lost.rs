//! Segments that can't be loaded: the logs with messages in them are those with live messages that are in no other
//! file.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use roaring::RoaringTreemap;

use super::{Damage, Hit, Numbers, Recovery, Replay};
use crate::live_state::LiveState;
use crate::store::Store;
use crate::types::LogId;
use crate::wal::WalFile;

/// The segments that can't be loaded, and the messages missing with them.
#[derive(Debug, Default)]
pub(super) struct LostSegments {
    /// Their names, bytes, and the reasons.
    pub segments: Vec<(String, Range<u64>, String)>,
    /// Messages that are live by the checkpoint and in none of the other segments.
    missing: BTreeMap<LogId, RoaringTreemap>,
}

impl LostSegments {
    /// Notes the state of a log in the checkpoint, once the segments are loaded.
    pub(super) fn note(&mut self, state: &LiveState, store: &Store) {
        if self.segments.is_empty() || state.live.is_empty() {
            return;
        }
        let mut missing = state.live.clone();
        for part in store.parts(state.log) {
            missing.remove_range(part.index.first..=part.index.last);
        }
        if !missing.is_empty() {
            self.missing.insert(state.log, missing);
        }
    }
}

impl Recovery<'_> {
    /// Reports each log that lost messages, and which; also the files whose loss hit none.
    pub(super) fn report_lost_segments(&mut self, wal: &VecDeque<WalFile>, replay: &dyn Replay) {
        let Some((file, range, reason)) = self.lost.segments.first().cloned() else {
            return;
        };
        let of_all = match self.lost.segments.len() {
            1 => String::new(),
            count => format!(" (the first of {count} such files)"),
        };
        for (log, mut missing) in std::mem::take(&mut self.lost.missing) {
            missing -= replay.bytes_elsewhere(log);
            // The rest is still in the WAL.
            let first = wal.iter().filter_map(|file| file.index.log(log)).filter(|index| index.messages > 0);
            if let Some(first) = first.map(|index| index.first).min() {
                missing.remove_range(first..);
            }
            let (Some(first), Some(last)) = (missing.min(), missing.max()) else {
                continue;
            };
            let count = missing.len();
            let reason = format!("{reason}{of_all}; {count} messages between the numbers {first} and {last} are lost");
            let mut damage = Damage::new(&file, range.clone(), Hit::Logs(vec![log]), reason);
            damage.messages.push(Numbers { log, first, last });
            self.report.damaged.push(damage);
        }
        for (file, range, reason) in &self.lost.segments {
            if self.report.damaged.iter().all(|damage| damage.file != *file) {
                let nobody = Hit::Logs(Vec::new());
                self.report.damaged.push(Damage::new(file, range.clone(), nobody, reason.as_str()));
            }
        }
    }
}
