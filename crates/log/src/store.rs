//! Everything that has left the WAL: segments, and the checkpoint that says which of their messages are live.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use roaring::RoaringTreemap;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::format::Identity;
use crate::format::segment_index::LogIndex;
use crate::pin::Pin;
use crate::types::{LogId, Position};

/// A segment.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The file with its batches.
    pub name: Arc<str>,
    pub identity: Identity,
    /// End of its batches.
    pub end: u64,
    /// Its length on disk.
    pub length: u64,
    /// If its batches are in a WAL file that was kept: the file with its index.
    index_file: Option<IndexFile>,
    /// Live messages in it, as of the last time that their owners were asked.
    pub live: u64,
    /// Payload bytes of the live messages, estimated from the average of each part, and of all messages in it.
    live_bytes: u64,
    bytes: u64,
    /// Logs with messages in it, including deleted ones.
    logs: Vec<LogId>,
    /// Damage was found in it; it is kept for inspection.
    pub is_damaged: bool,
    /// An error of the device kept it from being rewritten.
    pub is_unreadable: bool,
    pub pin: Pin,
}

/// The file with the index of a segment whose batches are in a WAL file.
#[derive(Clone, Debug)]
pub(crate) struct IndexFile {
    pub name: Arc<str>,
    pub length: u64,
}

impl Segment {
    /// A segment that counts as empty until it is added to the store.
    pub(crate) fn new(name: Arc<str>, identity: Identity, end: u64, length: u64) -> Segment {
        Segment {
            name,
            identity,
            end,
            length,
            index_file: None,
            live: 0,
            live_bytes: 0,
            bytes: 0,
            logs: Vec::new(),
            is_damaged: false,
            is_unreadable: false,
            pin: Pin::default(),
        }
    }

    /// The same for a WAL file that becomes a segment as it is.
    pub(crate) fn of_kept_file(self, index_file: IndexFile) -> Segment {
        Segment { index_file: Some(index_file), ..self }
    }

    /// Whether its batches are in a WAL file.
    pub(crate) fn is_kept_file(&self) -> bool {
        self.index_file.is_some()
    }

    /// The file that has its id in its name, and the length by which a checkpoint knows it.
    pub(crate) fn named_file(&self) -> (&Arc<str>, u64) {
        self.index_file.as_ref().map_or((&self.name, self.length), |file| (&file.name, file.length))
    }

    /// The part of its length that belongs to live messages.
    pub(crate) fn live_length(&self) -> u64 {
        match self.live {
            0 => 0,
            _ => scale(self.length, self.live_bytes, self.bytes).max(1),
        }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pin.is_shared()
    }
}

/// A segment that was written or loaded, and the parts of logs in it, in order of logs and numbers.
#[derive(Debug)]
pub(crate) struct NewSegment {
    pub id: u64,
    pub segment: Segment,
    pub parts: Vec<(LogId, LogIndex)>,
    /// Messages in it that were dead when their chunks were copied; none if the segment was loaded.
    pub dead: FxHashMap<LogId, RoaringTreemap>,
    /// Of each log, how many other messages in it were dead when it was made: those of a WAL file that was kept.
    pub gone: FxHashMap<LogId, u64>,
}

impl NewSegment {
    /// Number of messages in a part that were dead when their chunks were copied.
    fn dead_in(&self, log: LogId, index: &LogIndex) -> u64 {
        self.dead.get(&log).map_or(0, |dead| dead.range_cardinality(index.first..=index.last))
    }
}

/// The `share` of `whole` of this many bytes.
fn scale(bytes: u64, share: u64, whole: u64) -> u64 {
    if share >= whole {
        return bytes;
    }
    (u128::from(bytes) * u128::from(share) / u128::from(whole)) as u64
}

/// A segment's consecutive messages of one log: no other segment has messages in between.
#[derive(Debug)]
pub(crate) struct Part {
    pub segment: u64,
    pub index: LogIndex,
    pub live: u64,
    /// Messages that were dead when their chunks were copied. Another copy would keep their bytes, too, so these count as
    /// live until more of the part's messages are dead.
    dead: u64,
}

impl Part {
    fn live_bytes(&self) -> u64 {
        scale(self.index.bytes, self.live, self.index.messages.saturating_sub(self.dead))
    }
}

/// Place of a log's entry in the checkpoint file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryPlace {
    pub log: LogId,
    pub offset: u64,
    /// 0 if the head of the entry is wrong, so that the log may be another one.
    pub length: u64,
    /// The log is deleted: its records up to this position are void.
    pub deleted: Option<Position>,
}

/// The checkpoint in force.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointFile {
    pub name: Arc<str>,
    /// In order of logs.
    pub entries: Arc<Vec<EntryPlace>>,
    /// Sequence of the file with the second copy of the metadata's entry; 0 if there is none, or it is damaged.
    pub metadata: u64,
}

/// Segments and checkpoint.
#[derive(Debug)]
pub(crate) struct Store {
    pub segments: BTreeMap<u64, Segment>,
    /// In order of numbers, without overlaps.
    parts: FxHashMap<LogId, Vec<Part>>,
    pub checkpoint: Option<CheckpointFile>,
    /// One of the two copies of the checkpoint's metadata is damaged, or an earlier version wrote only one.
    pub metadata_is_single: bool,
    /// Shared by all writers of segments, so that no id is used twice.
    pub next_segment: Arc<AtomicU64>,
    pub next_checkpoint: u64,
    /// Position of the last record in a retired WAL file.
    pub retired_position: Position,
    pub retired_batch: u64,
    /// Logs whose state in the checkpoint is damaged. Which of their messages are live isn't known, so all of them are kept, and
    /// their owners, which know no better, aren't asked.
    pub frozen: FxHashSet<LogId>,
    /// Ids and lengths of segments that can't be loaded, which checkpoints list all the same.
    pub lost: Vec<(u64, u64)>,
    /// Segments out of use, kept until the checkpoint that doesn't name them is durable ...
    pub dead: Vec<Segment>,
    /// ... and then as long as they have readers.
    pub superfluous: Vec<Segment>,
    /// Logs with settled messages that the live counts don't reflect yet.
    pub settled: FxHashSet<LogId>,
}

impl Store {
    pub(crate) fn new() -> Store {
        Store {
            segments: BTreeMap::new(),
            parts: FxHashMap::default(),
            checkpoint: None,
            metadata_is_single: false,
            next_segment: Arc::new(AtomicU64::new(1)),
            next_checkpoint: 1,
            retired_position: 0,
            retired_batch: 0,
            frozen: FxHashSet::default(),
            lost: Vec::new(),
            dead: Vec::new(),
            superfluous: Vec::new(),
            settled: FxHashSet::default(),
        }
    }

    /// Adds a segment, whose other messages than those count as live until [`Store::count_live`].
    pub(crate) fn add(&mut self, new: NewSegment) {
        let dead: Vec<u64> = new.parts.iter().map(|(log, index)| new.dead_in(*log, index)).collect();
        let NewSegment { id, segment, parts, gone, .. } = new;
        self.segments.insert(id, segment);
        for ((log, index), dead) in parts.into_iter().zip(dead) {
            let gone = gone.get(&log).copied().unwrap_or(0);
            let live = index.messages.saturating_sub(dead + gone);
            self.add_part(log, Part { segment: id, live, dead, index });
        }
    }

    fn add_part(&mut self, log: LogId, part: Part) {
        if let Some(segment) = self.segments.get_mut(&part.segment) {
            segment.live += part.live;
            segment.live_bytes += part.live_bytes();
            segment.bytes += part.index.bytes;
            if segment.logs.last() != Some(&log) {
                segment.logs.push(log);
            }
        }
        let parts = self.parts.entry(log).or_default();
        let at = parts.partition_point(|other| other.index.first < part.index.first);
        debug_assert!(at == 0 || parts[at - 1].index.last < part.index.first);
        debug_assert!(
            parts.get(at).is_none_or(|next| part.index.last < next.index.first),
            "messages {} to {} of log {:#x} are not before those from {:?} on",
            part.index.first,
            part.index.last,
            log.0,
            parts.get(at).map(|next| next.index.first)
        );
        parts.insert(at, part);
    }

    /// Replaces old segments by new ones, which hold their live messages. Parts of a log that was deleted meanwhile,
    /// or that had no live message any more, are dropped.
    pub(crate) fn replace(&mut self, old: &[u64], new: Vec<NewSegment>) {
        let mut replaced: FxHashMap<LogId, Vec<Part>> = FxHashMap::default();
        for id in old {
            let Some(mut segment) = self.segments.remove(id) else {
                continue;
            };
            for log in mem::take(&mut segment.logs) {
                let taken = self.take_parts(log, *id);
                replaced.entry(log).or_default().extend(taken);
            }
            self.dead.push(segment);
        }
        for new in new {
            let dead: Vec<u64> = new.parts.iter().map(|(log, index)| new.dead_in(*log, index)).collect();
            let NewSegment { id, segment, parts, .. } = new;
            self.segments.insert(id, segment);
            for ((log, index), dead) in parts.into_iter().zip(dead) {
                let Some(old) = replaced.get(&log).filter(|old| !old.is_empty()) else {
                    continue;
                };
                // The logs may have been asked since: the counts of the old parts are the latest.
                let inside = |part: &&Part| part.index.first <= index.last && index.first <= part.index.last;
                let live: u64 = old.iter().filter(inside).map(|part| part.live).sum();
                let live = live.min(index.messages);
                self.add_part(log, Part { segment: id, live, dead, index });
            }
        }
    }

    /// Removes the parts of a log that are in this segment.
    fn take_parts(&mut self, log: LogId, segment: u64) -> Vec<Part> {
        let Some(parts) = self.parts.get_mut(&log) else {
            return Vec::new();
        };
        let taken = parts.extract_if(.., |part| part.segment == segment).collect();
        if parts.is_empty() {
            self.parts.remove(&log);
        }
        taken
    }

    /// Updates the live counts of a log.
    pub(crate) fn count_live(&mut self, log: LogId, alive: &RoaringTreemap) {
        self.settled.remove(&log);
        if self.frozen.contains(&log) {
            return;
        }
        let below = |number: u64| match number.checked_sub(1) {
            Some(last) => alive.rank(last),
            None => 0,
        };
        for part in self.parts.get_mut(&log).into_iter().flatten() {
            let live = (alive.rank(part.index.last) - below(part.index.first)).min(part.index.messages);
            let before = (part.live, part.live_bytes());
            part.live = live;
            if let Some(segment) = self.segments.get_mut(&part.segment) {
                segment.live = segment.live - before.0 + live;
                segment.live_bytes = segment.live_bytes - before.1 + part.live_bytes();
            }
        }
    }

    /// Forgets the messages of a log.
    pub(crate) fn remove_log(&mut self, log: LogId) {
        self.frozen.remove(&log);
        self.settled.remove(&log);
        for part in self.parts.remove(&log).into_iter().flatten() {
            if let Some(segment) = self.segments.get_mut(&part.segment) {
                segment.live -= part.live;
                segment.live_bytes -= part.live_bytes();
            }
        }
    }

    /// Forgets the messages of all logs but these.
    pub(crate) fn retain_logs(&mut self, is_kept: impl Fn(LogId) -> bool) {
        let gone: Vec<LogId> = self.parts.keys().copied().filter(|log| !is_kept(*log)).collect();
        gone.into_iter().for_each(|log| self.remove_log(log));
    }

    /// The names of the WAL files that became segments.
    pub(crate) fn kept_files(&self) -> impl Iterator<Item = &str> {
        self.segments.values().filter(|segment| segment.is_kept_file()).map(|segment| &*segment.name)
    }

    pub(crate) fn has_log(&self, log: LogId) -> bool {
        self.parts.contains_key(&log)
    }

    /// Every log with messages in segments.
    pub(crate) fn logs(&self) -> impl Iterator<Item = LogId> {
        self.parts.keys().copied()
    }

    /// The parts of a log, in order of numbers.
    pub(crate) fn parts(&self, log: LogId) -> &[Part] {
        self.parts.get(&log).map_or(&[], Vec::as_slice)
    }

    /// The logs with messages in a segment; some may have none any more.
    pub(crate) fn logs_of(&self, segment: u64) -> &[LogId] {
        self.segments.get(&segment).map_or(&[], |segment| &segment.logs)
    }

    /// Takes the segments without a live message out of use.
    pub(crate) fn bury_dead(&mut self) {
        let dead: Vec<u64> = self.segments.iter().filter(|(_, segment)| segment.live == 0).map(|(id, _)| *id).collect();
        self.replace(&dead, Vec::new());
    }

    /// Whether a segment has messages of a log whose live messages aren't known.
    pub(crate) fn is_frozen(&self, segment: u64) -> bool {
        self.logs_of(segment).iter().any(|log| self.frozen.contains(log))
    }

    /// The segment with the first message of the log numbered `from` or higher.
    pub(crate) fn find(&self, log: LogId, from: u64) -> Option<(&Segment, &Part)> {
        let parts = self.parts.get(&log)?;
        let part = parts.get(parts.partition_point(|part| part.index.last < from))?;
        Some((&self.segments[&part.segment], part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::segment_index::Point;

    fn segment(id: u64, parts: Vec<(LogId, LogIndex)>) -> NewSegment {
        let segment = Segment::new(format!("s{id}").into(), Identity::segment(0, 0, id), 0, 1000);
        NewSegment { id, segment, parts, dead: FxHashMap::default(), gone: FxHashMap::default() }
    }

    fn index(first: u64, last: u64) -> LogIndex {
        LogIndex {
            first,
            last,
            messages: last + 1 - first,
            bytes: (last + 1 - first) * 10,
            points: vec![Point { number: first, batch: 512, run: 0 }],
        }
    }

    #[test]
    fn a_segment_dies_with_its_last_live_message() {
        let mut store = Store::new();
        let [a, b] = [LogId(1), LogId(2)];
        store.add(segment(1, vec![(a, index(1, 10)), (b, index(1, 5))]));
        store.add(segment(2, vec![(a, index(11, 20))]));
        assert_eq!(store.segments[&1].live, 15);
        store.count_live(a, &(8..=12).collect());
        assert_eq!((store.segments[&1].live, store.segments[&2].live), (8, 2));
        assert_eq!((store.segments[&1].live_length(), store.segments[&2].live_length()), (533, 200));
        store.bury_dead();
        assert!(store.dead.is_empty());
        assert_eq!(store.find(a, 9).unwrap().1.segment, 1);
        assert_eq!(store.find(a, 11).unwrap().1.segment, 2);
        assert!(store.find(a, 21).is_none());
        store.count_live(a, &(11..=12).collect());
        store.remove_log(b);
        store.bury_dead();
        assert_eq!(store.dead.len(), 1);
        assert_eq!(store.find(a, 1).unwrap().1.segment, 2);
        assert!(!store.has_log(b));
    }

    /// Otherwise a segment of half dead chunks would be rewritten over and over.
    #[test]
    fn dead_messages_of_copied_chunks_count_as_live_bytes() {
        let mut store = Store::new();
        let log = LogId(1);
        let mut new = segment(1, vec![(log, index(0, 99)), (log, index(200, 299))]);
        new.dead.insert(log, (20..100).collect());
        store.add(new);
        assert_eq!((store.segments[&1].live, store.segments[&1].live_length()), (120, 1000));
        store.count_live(log, &(0..20).chain(200..300).collect());
        assert_eq!((store.segments[&1].live, store.segments[&1].live_length()), (120, 1000));
        store.count_live(log, &(0..5).chain(200..300).collect());
        assert_eq!((store.segments[&1].live, store.segments[&1].live_length()), (105, 625));
        store.count_live(log, &(0..5).collect());
        assert_eq!(store.segments[&1].live_length(), 125);
        let mut new = segment(2, vec![(log, index(0, 99))]);
        new.dead.insert(log, (5..100).collect());
        store.replace(&[1], vec![new]);
        assert_eq!((store.segments[&2].live, store.segments[&2].live_length()), (5, 1000));
    }

    #[test]
    fn a_new_segment_takes_the_place_of_old_ones() {
        let mut store = Store::new();
        let [a, b, c] = [1, 2, 3].map(LogId);
        store.add(segment(1, vec![(a, index(1, 10)), (b, index(1, 5)), (c, index(1, 1))]));
        store.add(segment(2, vec![(a, index(11, 20))]));
        store.add(segment(3, vec![(a, index(21, 30)), (b, index(6, 7))]));
        // While the new segment is written, the logs are asked again, and one is deleted.
        store.count_live(a, &[3, 15, 24].into_iter().collect());
        store.remove_log(c);
        let new = vec![(a, index(2, 9)), (a, index(24, 26)), (b, index(1, 7)), (c, index(1, 1))];
        store.replace(&[1, 3], vec![segment(4, new)]);
        assert_eq!(store.dead.len(), 2);
        assert_eq!(store.segments[&4].live, 1 + 1 + 7);
        let places =
            |log: LogId| store.parts(log).iter().map(|part| (part.index.first, part.segment)).collect::<Vec<_>>();
        assert_eq!(places(a), [(2, 4), (11, 2), (24, 4)]);
        assert_eq!(places(b), [(1, 4)]);
        assert!(!store.has_log(c));
        assert_eq!(store.find(a, 10).unwrap().1.segment, 2);
        assert_eq!(store.logs_of(4), [a, b]);
    }
}
