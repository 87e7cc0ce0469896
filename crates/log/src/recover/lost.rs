//! Messages that are in no file: those of segments that can't be loaded, and any others that the checkpoint counts as live.

use std::collections::{BTreeMap, VecDeque};

use roaring::RoaringTreemap;

use super::{Damage, Hit, Numbers, Recovery, Replay};
use crate::live_state::LiveState;
use crate::names::Name;
use crate::store::Store;
use crate::types::LogId;
use crate::wal::WalFile;

/// A segment that can't be loaded.
#[derive(Clone, Debug)]
struct LostSegment {
    id: u64,
    length: u64,
    reason: String,
}

/// The segments that can't be loaded, and the messages that are missing.
#[derive(Debug, Default)]
pub(super) struct LostSegments {
    segments: Vec<LostSegment>,
    /// Messages that are live by the checkpoint and in no segment.
    missing: BTreeMap<LogId, RoaringTreemap>,
}

impl LostSegments {
    pub(super) fn add(&mut self, id: u64, length: u64, reason: String) {
        self.segments.push(LostSegment { id, length, reason });
    }

    /// Notes the state of a log in the checkpoint, once the segments are loaded.
    pub(super) fn note(&mut self, state: &LiveState, store: &Store) {
        let parts = store.parts(state.log);
        let stored: u64 =
            parts.iter().map(|part| state.live.range_cardinality(part.index.first..=part.index.last)).sum();
        if stored == state.live.len() {
            return;
        }
        let mut missing = state.live.clone();
        for part in parts {
            missing.remove_range(part.index.first..=part.index.last);
        }
        self.missing.insert(state.log, missing);
    }
}

impl Recovery<'_> {
    /// Reports each log with messages that are in no file, and which; also the segments whose loss hit none. Segments that may
    /// have missing messages stay in the list of the next checkpoints, so that each start looks for them.
    pub(super) fn report_lost_segments(&mut self, wal: &VecDeque<WalFile>, replay: &dyn Replay) {
        let wal_id = self.options.wal_id;
        let segments = std::mem::take(&mut self.lost.segments);
        let first = segments.first().map(|first| {
            let of_all = match segments.len() {
                1 => String::new(),
                count => format!(" (the first of {count} such files)"),
            };
            (Name::Segment(first.id).text(wal_id), 0..first.length, format!("{}{of_all}; ", first.reason))
        });
        let (file, range, reason) = first.unwrap_or_else(|| (self.checkpoint_name(), 0..0, String::new()));
        let mut hits_any = false;
        for (log, mut missing) in std::mem::take(&mut self.lost.missing) {
            // The rest is still in the WAL.
            let first = wal.iter().filter_map(|file| file.index.log(log)).filter(|index| index.messages > 0);
            if let Some(first) = first.map(|index| index.first).min() {
                missing.remove_range(first..);
            }
            if missing.is_empty() {
                continue;
            }
            let missing = replay.wanted(log, &missing);
            let (Some(first), Some(last)) = (missing.min(), missing.max()) else {
                continue;
            };
            hits_any = true;
            let count = missing.len();
            let reason = format!("{reason}{count} live messages between the numbers {first} and {last} are in no file");
            let mut damage = Damage::new(&file, range.clone(), Hit::Logs(vec![log]), reason);
            damage.messages.push(Numbers { log, first, last });
            self.report.damaged.push(damage);
        }
        for LostSegment { id, length, reason } in segments {
            let name = Name::Segment(id).text(wal_id);
            if self.report.damaged.iter().all(|damage| damage.file != name) {
                let nobody = Hit::Logs(Vec::new());
                self.report.damaged.push(Damage::new(&name, 0..length, nobody, reason));
            }
            if hits_any {
                self.store.lost.push((id, length));
            }
        }
    }
}
