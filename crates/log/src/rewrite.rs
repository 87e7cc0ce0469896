//! Writing sparse segments again, several into one, so that nothing is kept for the sake of one old message, and small
//! ones don't pile up.

use rustc_hash::FxHashMap;

use crate::background::Slot;
use crate::index::{Breaks, LogIndex};
use crate::log::Log;
use crate::retire::worker::{Limits, Origin, Worker};
use crate::retire::{Retirement, What};
use crate::store::Store;
use crate::types::{LogId, Nanos};
use crate::wal::Known;

/// So many segments of about the same size become one: within a factor of this, too.
const ALIKE: u64 = 8;
/// Dead bytes that aren't worth a checkpoint: this part of a WAL file, and of what is alive.
const WASTE_OF_FILE: u64 = 64;
const WASTE_OF_LIVE: u64 = 8;
/// Segments in one rewrite: their names, indexes and descriptors are all in use at a time.
const SEGMENTS_MAX: usize = 256;

/// A segment, as far as the choice goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    id: u64,
    length: u64,
    live: u64,
}

impl Candidate {
    fn is_sparse(&self) -> bool {
        self.live * 2 < self.length
    }
}

/// Which segments are rewritten together.
///
/// All that are dead. Those less than half alive, when what they waste is worth it: an eighth of what is alive, or the
/// files are twice as long as that. Those of one size, small ones first, when eight have come together.
fn choose(candidates: &[Candidate], file_bytes: u64) -> Vec<u64> {
    let mut chosen: Vec<Candidate> = candidates.iter().copied().filter(|candidate| candidate.live == 0).collect();
    let mut sparse: Vec<Candidate> =
        candidates.iter().copied().filter(|candidate| candidate.live > 0 && candidate.is_sparse()).collect();
    sparse.sort_by_key(|candidate| (u128::from(candidate.live) << 32) / u128::from(candidate.length));
    let length: u64 = candidates.iter().map(|candidate| candidate.length).sum();
    let live: u64 = candidates.iter().map(|candidate| candidate.live).sum();
    let waste: u64 = sparse.iter().map(|candidate| candidate.length - candidate.live).sum();
    let slack = file_bytes / WASTE_OF_FILE;
    if waste >= slack.max(live / WASTE_OF_LIVE) || length > live * 2 + slack {
        chosen.extend(within(sparse.iter().copied(), file_bytes));
    } else {
        let mut bounds = 4096;
        while bounds < file_bytes {
            let (low, high) = (if bounds == 4096 { 0 } else { bounds }, bounds * ALIKE);
            let alike = candidates.iter().filter(|it| it.live > 0 && (low..high).contains(&it.length));
            let alike: Vec<Candidate> = within(alike.copied(), file_bytes).collect();
            if alike.len() as u64 >= ALIKE {
                chosen.extend(alike);
                break;
            }
            bounds = high;
        }
    }
    chosen.truncate(SEGMENTS_MAX);
    chosen.iter().map(|candidate| candidate.id).collect()
}

/// The first of these with at most so many live bytes together; one at least.
fn within(candidates: impl Iterator<Item = Candidate>, bytes: u64) -> impl Iterator<Item = Candidate> {
    let mut taken = 0;
    candidates.take_while(move |candidate| {
        let first = taken == 0;
        taken += candidate.live;
        first || taken <= bytes
    })
}

/// Where the parts of logs begin in the segment that takes the place of these, which are copied in this order.
fn breaks(store: &Store, segments: &[u64], logs: &[LogId]) -> Breaks {
    let mut breaks = Breaks::default();
    let places: FxHashMap<u64, usize> = segments.iter().copied().zip(0..).collect();
    let place = |segment: u64| places.get(&segment).copied();
    for log in logs {
        let parts = store.parts(*log);
        let places: Vec<usize> = parts.iter().filter_map(|part| place(part.segment)).collect();
        let in_order = places.is_sorted();
        let mut before_is_chosen = false;
        for part in parts {
            let is_chosen = place(part.segment).is_some();
            if is_chosen && !(before_is_chosen && in_order) {
                breaks.add(*log, part.index.first);
            }
            before_is_chosen = is_chosen;
        }
    }
    breaks
}

impl Log {
    /// Begins a rewrite if something was counted since the last look and one is worth it.
    pub(crate) fn begin_rewrite(&mut self, now: Nanos) -> bool {
        if !std::mem::take(&mut self.rewrite_due) {
            return false;
        }
        let candidates: Vec<Candidate> = self
            .store
            .segments
            .iter()
            .map(|(id, segment)| Candidate { id: *id, length: segment.length, live: segment.live_length() })
            .collect();
        let mut chosen = choose(&candidates, self.options.file_bytes);
        if chosen.is_empty() {
            return false;
        }
        chosen.sort_unstable();
        let store = &self.store;
        let mut logs: Vec<LogId> = chosen.iter().flat_map(|id| store.logs_of(*id)).copied().collect();
        logs.sort_unstable();
        logs.dedup();
        logs.retain(|log| !self.forgotten.contains_key(log));
        let mut touched: Vec<(LogId, LogIndex)> = Vec::new();
        for log in &logs {
            let alive =
                store.parts(*log).iter().filter(|part| part.live > 0 && chosen.binary_search(&part.segment).is_ok());
            touched.extend(alive.map(|part| (*log, LogIndex { points: Vec::new(), ..part.index })));
        }
        let origins = chosen.iter().map(|id| &store.segments[id]).filter(|segment| segment.live > 0);
        let origins = origins
            .map(|segment| Origin {
                name: segment.name.clone(),
                identity: segment.identity,
                end: segment.end,
                known: Known::default(),
                _pin: Some(segment.pin.clone()),
            })
            .collect();
        let ask = touched.iter().map(|(log, _)| *log).collect();
        let breaks = breaks(store, &chosen, &logs);
        let limits = Limits { mixed_below: u64::MAX, ..self.limits() };
        let mut worker = Worker::new(limits, origins, touched, store.next_segment.clone());
        worker.breaks = breaks;
        self.rewrite = Some(Retirement::new(What::Segments(chosen), ask, worker, now));
        true
    }

    pub(crate) fn end_rewrite(&mut self, now: Nanos) {
        let Some(rewrite) = self.end_move(Slot::Rewrite, now) else {
            return;
        };
        if let What::Segments(old) = &rewrite.what {
            self.statistics.rewrites += 1;
            self.statistics.segments_rewritten += old.len() as u64;
        }
    }
}
