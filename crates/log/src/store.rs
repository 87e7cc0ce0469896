//! What has left the WAL: segments, and the checkpoint that says what is alive in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::RoaringTreemap;
use rustc_hash::FxHashMap;

use crate::format::Identity;
use crate::index::LogIndex;
use crate::types::{LogId, Position};

/// A segment file.
#[derive(Debug)]
pub(crate) struct Segment {
    pub name: Arc<str>,
    pub identity: Identity,
    /// End of its batches.
    pub end: u64,
    /// Its length on disk.
    pub length: u64,
    /// Live messages in it, as of the last time its logs were asked.
    pub live: u64,
    pub pin: Arc<()>,
}

/// What a segment holds of one log.
#[derive(Debug)]
pub(crate) struct Part {
    pub segment: u64,
    pub index: LogIndex,
    live: u64,
}

/// Where the entry of a log is in the checkpoint file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryPlace {
    pub log: LogId,
    pub offset: u64,
    pub length: u64,
    /// The log is deleted: its records up to this position don't count.
    pub deleted: Option<Position>,
}

/// The checkpoint in force.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointFile {
    pub name: Arc<str>,
    /// In order of logs.
    pub entries: Arc<Vec<EntryPlace>>,
}

/// Segments and checkpoint.
#[derive(Debug)]
pub(crate) struct Store {
    pub segments: BTreeMap<u64, Segment>,
    /// In order of numbers.
    parts: FxHashMap<LogId, Vec<Part>>,
    pub checkpoint: Option<CheckpointFile>,
    pub next_segment: u64,
    pub next_checkpoint: u64,
    /// Of the last retired WAL file.
    pub retired_position: Position,
    pub retired_batch: u64,
    /// Without a live message, their names unlinked when nobody reads them.
    pub dead: Vec<Segment>,
}

impl Store {
    pub(crate) fn new() -> Store {
        Store {
            segments: BTreeMap::new(),
            parts: FxHashMap::default(),
            checkpoint: None,
            next_segment: 1,
            next_checkpoint: 1,
            retired_position: 0,
            retired_batch: 0,
            dead: Vec::new(),
        }
    }

    /// Adds a segment, all of whose messages are alive until [`Store::count_live`] says otherwise.
    pub(crate) fn add(&mut self, id: u64, segment: Segment, logs: impl IntoIterator<Item = (LogId, LogIndex)>) {
        let mut live = 0;
        for (log, index) in logs {
            live += index.messages;
            let parts = self.parts.entry(log).or_default();
            debug_assert!(parts.last().is_none_or(|last| last.index.last < index.first));
            parts.push(Part { segment: id, live: index.messages, index });
        }
        self.segments.insert(id, Segment { live, ..segment });
    }

    /// Takes in which messages of a log are alive.
    pub(crate) fn count_live(&mut self, log: LogId, alive: &RoaringTreemap) {
        let below = |number: u64| match number.checked_sub(1) {
            Some(last) => alive.rank(last),
            None => 0,
        };
        for part in self.parts.get_mut(&log).into_iter().flatten() {
            let live = alive.rank(part.index.last) - below(part.index.first);
            if let Some(segment) = self.segments.get_mut(&part.segment) {
                segment.live = segment.live - part.live + live;
            }
            part.live = live;
        }
    }

    /// Forgets the messages of a log.
    pub(crate) fn remove_log(&mut self, log: LogId) {
        for part in self.parts.remove(&log).into_iter().flatten() {
            if let Some(segment) = self.segments.get_mut(&part.segment) {
                segment.live -= part.live;
            }
        }
    }

    pub(crate) fn has_log(&self, log: LogId) -> bool {
        self.parts.contains_key(&log)
    }

    /// Takes the segments without a live message out of use.
    pub(crate) fn bury_dead(&mut self) {
        let dead: Vec<u64> = self.segments.iter().filter(|(_, segment)| segment.live == 0).map(|(id, _)| *id).collect();
        if dead.is_empty() {
            return;
        }
        for id in &dead {
            self.dead.extend(self.segments.remove(id));
        }
        self.parts.retain(|_, parts| {
            parts.retain(|part| self.segments.contains_key(&part.segment));
            !parts.is_empty()
        });
    }

    /// The segment with the first message of the log from `from` on.
    pub(crate) fn find(&self, log: LogId, from: u64) -> Option<(&Segment, &Part)> {
        let parts = self.parts.get(&log)?;
        let part = parts.get(parts.partition_point(|part| part.index.last < from))?;
        Some((&self.segments[&part.segment], part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Point;

    fn segment(id: u64) -> Segment {
        Segment {
            name: format!("s{id}").into(),
            identity: Identity::segment(0, 0, id),
            end: 0,
            length: 0,
            live: 0,
            pin: Arc::new(()),
        }
    }

    fn index(first: u64, last: u64) -> LogIndex {
        LogIndex {
            first,
            last,
            messages: last + 1 - first,
            bytes: 0,
            points: vec![Point { number: first, batch: 512, run: 0 }],
        }
    }

    #[test]
    fn a_segment_dies_with_its_last_live_message() {
        let mut store = Store::new();
        let [a, b] = [LogId(1), LogId(2)];
        store.add(1, segment(1), [(a, index(1, 10)), (b, index(1, 5))]);
        store.add(2, segment(2), [(a, index(11, 20))]);
        assert_eq!(store.segments[&1].live, 15);
        store.count_live(a, &(8..=12).collect());
        assert_eq!((store.segments[&1].live, store.segments[&2].live), (8, 2));
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
}
