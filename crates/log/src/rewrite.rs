//! Rewrites sparse segments, several into one, so that one old message doesn't retain a whole segment, and small
//! segments don't pile up.

use rustc_hash::FxHashMap;

use crate::background::Slot;
use crate::format::segment_index::LogIndex;
use crate::index::Breaks;
use crate::log::Log;
use crate::retire::worker::{Limits, Origin, Worker};
use crate::retire::{MoveSource, Retirement};
use crate::store::{Part, Store};
use crate::types::{LogId, Nanos};
use crate::wal::Known;

/// This many segments of about the same size, within a factor of this, are merged into one.
const ALIKE: u64 = 8;
/// Dead bytes that aren't worth a checkpoint: this fraction of a WAL file, and of the live bytes.
const WASTE_OF_FILE: u64 = 64;
const WASTE_OF_LIVE: u64 = 8;
/// Most segments in one rewrite: their names, indexes and descriptors are all in use at the same time.
const SEGMENTS_MAX: usize = 256;

/// A segment, as far as the choice needs it.
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

/// Chooses the segments that are rewritten together:
///
/// - All segments without a live message.
/// - Segments that are less than half live, if their waste is worth it: an eighth of the live bytes, or if all files
///   together are twice as long as the live bytes.
/// - Otherwise segments of similar size, small ones first, once there are eight.
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

/// The first of these with at most `bytes` live bytes together, but at least one.
fn within(candidates: impl Iterator<Item = Candidate>, bytes: u64) -> impl Iterator<Item = Candidate> {
    let mut taken = 0;
    candidates.take_while(move |candidate| {
        let first = taken == 0;
        taken += candidate.live;
        first || taken <= bytes
    })
}

/// The numbers at which the parts of logs begin in the segment that replaces these, which are copied in this order.
fn breaks(store: &Store, segments: &[u64], logs: &[LogId]) -> Breaks {
    let mut breaks = Breaks::default();
    let places: FxHashMap<u64, usize> = segments.iter().copied().zip(0..).collect();
    let place = |segment: u64| places.get(&segment).copied();
    for log in logs {
        let parts = store.parts(*log);
        let copied_at = |part: &Part| {
            let point = part.index.points.first()?;
            Some((place(part.segment)?, point.batch, point.run))
        };
        let in_order = parts.iter().filter_map(copied_at).is_sorted();
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
    /// Begins a rewrite if live counts changed since the last look and a rewrite is worth it.
    pub(crate) fn begin_rewrite(&mut self, now: Nanos) -> bool {
        if !std::mem::take(&mut self.rewrite_due) {
            return false;
        }
        let candidates: Vec<Candidate> = self
            .store
            .segments
            .iter()
            .filter(|(id, segment)| segment.live == 0 || !segment.is_unreadable && !self.store.is_frozen(**id))
            .map(|(id, segment)| Candidate { id: *id, length: segment.length, live: segment.live_length() })
            .collect();
        let mut chosen = choose(&candidates, self.options.file_bytes);
        if self.space.is_out {
            // On a full disk, only rewrites that need no space: they free some.
            chosen.retain(|id| self.store.segments.get(id).is_some_and(|segment| segment.live == 0));
        }
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
        self.rewrite = Some(Retirement::new(MoveSource::Segments(chosen), ask, worker, now));
        true
    }

    pub(crate) fn end_rewrite(&mut self, now: Nanos) {
        let Some(rewrite) = self.end_move(Slot::Rewrite, now) else {
            return;
        };
        if let MoveSource::Segments(old) = &rewrite.what {
            self.statistics.rewrites += 1;
            self.statistics.segments_rewritten += old.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use roaring::RoaringTreemap;

    use super::*;
    use crate::format::Identity;
    use crate::format::batch::RecordRun;
    use crate::format::record::RecordKind;
    use crate::index::FileIndex;
    use crate::store::NewSegment;
    use crate::store::Segment;

    fn candidate(id: u64, length: u64, live: u64) -> Candidate {
        Candidate { id, length, live }
    }

    const FILE: u64 = 64 << 20;

    #[test]
    fn mostly_live_segments_stay() {
        assert_eq!(choose(&[], FILE), [0; 0]);
        let full: Vec<_> = (1..100).map(|id| candidate(id, 40 << 20, 39 << 20)).collect();
        assert_eq!(choose(&full, FILE), [0; 0]);
        // The head of a long queue, half of it settled: little of the whole.
        let mut queue = full.clone();
        queue[0].live = 15 << 20;
        assert_eq!(choose(&queue, FILE), [0; 0]);
        assert_eq!(choose(&queue[..2], FILE), [1]);
        queue[0].live = 0;
        assert_eq!(choose(&queue, FILE), [1], "what is dead goes");
    }

    #[test]
    fn the_sparsest_come_first_and_no_more_than_a_file_at_a_time() {
        let sparse: Vec<_> = (1..20).map(|id| candidate(id, 60 << 20, (30 - id) << 20)).collect();
        assert_eq!(choose(&sparse, FILE), [19, 18, 17, 16]);
        assert_eq!(choose(&[candidate(1, 1 << 30, 400 << 20)], FILE), [1], "one at least");
    }

    #[test]
    fn twice_the_live_bytes_are_too_much_though_each_is_hardly_half() {
        let hardly: Vec<_> = (1..100).map(|id| candidate(id, 60 << 20, (30 << 20) - 1)).collect();
        assert!(!choose(&hardly, 4096 * FILE).is_empty());
        let alone = [candidate(1, 100_000, 100)];
        assert_eq!(choose(&alone, FILE), [0; 0], "not worth a checkpoint");
        assert_eq!(choose(&alone, 64 << 10), [1]);
    }

    #[test]
    fn eight_of_a_size_become_one() {
        let small: Vec<_> = (1..=8).map(|id| candidate(id, 2000 + id, 1900)).collect();
        assert_eq!(choose(&small, FILE), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(choose(&small[1..], FILE), [0; 0]);
        let mut mixed = small.clone();
        mixed[3].length = 1 << 20;
        mixed[3].live = 1 << 20;
        assert_eq!(choose(&mixed, FILE), [0; 0]);
    }

    /// The messages of a segment: log and number of each, in order of the file.
    type Content = Vec<(LogId, u64)>;

    fn segment(id: u64, content: &Content, breaks: Breaks) -> NewSegment {
        let mut index = FileIndex::of_segment(breaks);
        for (row, (log, number)) in content.iter().enumerate() {
            let (offset, length) = (row as u32 * 40_000, 40_000);
            let run = RecordRun { log: *log, first: *number, offset, length, count: 1, kind: RecordKind::Message };
            index.note_run(512, 600, row, &run);
        }
        let identity = Identity::segment(1, 0, id);
        let segment = Segment::new(format!("s{id}").into(), identity, 0, content.len() as u64 * 40_000);
        NewSegment { id, segment, parts: index.into_parts(), dead: FxHashMap::default(), gone: FxHashMap::default() }
    }

    #[derive(Default)]
    struct Model {
        contents: BTreeMap<u64, Content>,
        live: BTreeMap<LogId, RoaringTreemap>,
        next: BTreeMap<LogId, u64>,
        next_segment: u64,
        /// How many logs were deleted in each place, because ids of logs aren't reused.
        deleted: [u64; 4],
    }

    impl Model {
        fn log(&self, place: u8) -> LogId {
            let place = usize::from(place % 4);
            LogId(1 + place as u64 + 4 * self.deleted[place])
        }

        fn fresh_id(&mut self) -> u64 {
            self.next_segment += 1;
            self.next_segment
        }

        fn is_live(&self, log: LogId, number: u64) -> bool {
            self.live.get(&log).is_some_and(|live| live.contains(number))
        }

        /// Adds a segment as a retirement does.
        fn retire(&mut self, store: &mut Store, messages: &[(u8, u8)]) {
            let mut content = Content::new();
            for (log, gap) in messages {
                let log = self.log(*log);
                let number = self.next.get(&log).copied().unwrap_or(1) + u64::from(gap % 3);
                self.next.insert(log, number + 1);
                self.live.entry(log).or_default().insert(number);
                content.push((log, number));
            }
            if content.is_empty() {
                return;
            }
            let id = self.fresh_id();
            store.add(segment(id, &content, Breaks::default()));
            self.contents.insert(id, content);
        }

        /// Merges segments as a rewrite does, with the logs asked at its beginning.
        fn merge(&mut self, store: &mut Store, chosen: &[u64], meanwhile: impl FnOnce(&mut Model, &mut Store)) {
            let mut logs: Vec<LogId> = chosen.iter().flat_map(|id| store.logs_of(*id)).copied().collect();
            logs.sort_unstable();
            logs.dedup();
            let breaks = breaks(store, chosen, &logs);
            let all = chosen.iter().filter_map(|id| self.contents.get(id)).flatten();
            let copied: Content = all.copied().filter(|(log, number)| self.is_live(*log, *number)).collect();
            let id = self.fresh_id();
            meanwhile(self, store);
            let new = if copied.is_empty() { vec![] } else { vec![segment(id, &copied, breaks)] };
            store.replace(chosen, new);
            chosen.iter().for_each(|id| {
                self.contents.remove(id);
            });
            self.contents.insert(id, copied);
            self.count(store);
        }

        fn count(&mut self, store: &mut Store) {
            self.live.iter().for_each(|(log, live)| store.count_live(*log, live));
            store.bury_dead();
            self.contents.retain(|id, _| store.segments.contains_key(id));
        }

        fn delete(&mut self, store: &mut Store, place: u8) {
            let log = self.log(place);
            store.remove_log(log);
            self.live.remove(&log);
            self.deleted[usize::from(place % 4)] += 1;
        }

        fn check(&self, store: &Store) {
            for log in self.next.keys().copied() {
                let stored: BTreeMap<u64, u64> = self
                    .contents
                    .iter()
                    .flat_map(|(id, content)| content.iter().filter(|(of, _)| *of == log).map(|(_, n)| (*n, *id)))
                    .collect();
                if !self.live.contains_key(&log) {
                    assert!(store.find(log, 0).is_none());
                    continue;
                }
                for from in 0..=self.next[&log] {
                    let expected = stored.range(from..).next();
                    let found = store.find(log, from);
                    assert_eq!(expected.map(|(_, id)| *id), found.map(|(_, part)| part.segment), "{log} from {from}");
                    let Some((number, id)) = expected else { continue };
                    let part = found.unwrap().1;
                    assert!(part.index.first <= *number && *number <= part.index.last);
                    // The point before the number leads to it, and no other part comes before the last of this one.
                    let point = part.index.points_from(*number, 1)[0];
                    let rows = &self.contents[id][point.run as usize..];
                    let numbers = rows.iter().filter(|(of, _)| *of == log).map(|(_, number)| *number);
                    let mut run: Vec<u64> = numbers.take_while(|n| *n != part.index.last).collect();
                    run.push(part.index.last);
                    assert!(run.is_sorted() && run.contains(number), "{run:?} {number}");
                }
                let live = self.live[&log].len();
                assert_eq!(store.parts(log).iter().map(|part| part.live).sum::<u64>(), live, "{log}");
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Act {
        Retire(Vec<(u8, u8)>),
        Settle(u8, u64),
        Merge(u64, Option<u8>),
        Delete(u8),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => proptest::collection::vec(any::<(u8, u8)>(), 0..12).prop_map(Act::Retire),
            4 => any::<(u8, u64)>().prop_map(|(log, bits)| Act::Settle(log, bits)),
            3 => any::<(u64, Option<u8>)>().prop_map(|(bits, deleted)| Act::Merge(bits, deleted)),
            1 => any::<u8>().prop_map(Act::Delete),
        ]
    }

    proptest! {
        #[test]
        fn any_segments_may_become_one(acts in proptest::collection::vec(act(), 1..40)) {
            let (mut store, mut model) = (Store::new(), Model::default());
            for act in acts {
                match act {
                    Act::Retire(messages) => model.retire(&mut store, &messages),
                    Act::Settle(log, bits) => {
                        if let Some(live) = model.live.get_mut(&model.log(log)) {
                            let gone: Vec<u64> = live.iter().filter(|n| bits >> (n % 64) & 1 == 1).collect();
                            gone.into_iter().for_each(|n| { live.remove(n); });
                        }
                        model.count(&mut store);
                    }
                    Act::Merge(bits, deleted) => {
                        let ids = model.contents.keys().copied().enumerate();
                        let chosen: Vec<u64> = ids.filter(|(i, _)| bits >> (i % 64) & 1 == 1).map(|(_, id)| id).collect();
                        model.merge(&mut store, &chosen, |model, store| {
                            model.retire(store, &[(1, 0), (2, 1)]);
                            if let Some(log) = deleted.filter(|log| log % 3 == 0) {
                                model.delete(store, log);
                            }
                            model.count(store);
                        });
                    }
                    Act::Delete(log) => {
                        model.delete(&mut store, log);
                        model.count(&mut store);
                    }
                }
                model.check(&store);
            }
        }
    }
}
