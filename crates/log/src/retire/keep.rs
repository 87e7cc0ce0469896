//! A WAL file of which most is live becomes a segment as it is: its messages are written once, and the log goes on in
//! another file.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::format::segment_index::LogIndex;
use crate::live_state::LiveState;
use crate::segment::KeptFile;
use crate::store::Segment;
use crate::types::LogId;
use crate::wal::WalFile;

/// A WAL file that may be kept.
#[derive(Debug)]
pub(crate) struct Keep {
    file: KeptFile,
    parts: Vec<Part>,
    /// Bytes that have to be live.
    bytes_min: u64,
}

/// The messages of a log.
#[derive(Debug)]
struct Part {
    log: LogId,
    index: LogIndex,
    /// Bytes of their records.
    length: u64,
    /// It isn't known which of them are live.
    is_frozen: bool,
}

impl Keep {
    /// The file, if messages of the wanted logs are enough of it, and none of it is damaged.
    pub(crate) fn new(file: &WalFile, live_percent: u64, is_wanted: impl Fn(LogId) -> bool) -> Option<Keep> {
        let with_messages = file.index.messages().filter(|(log, ..)| is_wanted(*log));
        let bytes_min = file.length * live_percent / 100;
        let bytes: u64 = with_messages.map(|(.., length)| length).sum();
        let is_enough = bytes >= bytes_min && file.known.is_empty();
        is_enough.then(|| Keep { bytes_min, ..Keep::unread(file, is_wanted, |_| false) })
    }

    /// The file, however little of it is live: it can't be read, while its index is in memory, or some of its logs are frozen.
    pub(crate) fn unread(file: &WalFile, is_wanted: impl Fn(LogId) -> bool, is_frozen: impl Fn(LogId) -> bool) -> Keep {
        let with_messages = file.index.messages().filter(|(log, ..)| is_wanted(*log));
        let mut segment = Segment::new(file.name.clone(), file.identity, file.end, file.length);
        segment.pin = file.pin.clone();
        Keep {
            file: KeptFile { sequence: file.sequence, segment, gone: FxHashMap::default() },
            parts: with_messages
                .map(|(log, index, length)| Part { log, index: index.clone(), length, is_frozen: is_frozen(log) })
                .collect(),
            bytes_min: 0,
        }
    }

    /// The file and its parts with live messages, if enough of it is live by these states.
    pub(crate) fn decide(self, states: &BTreeMap<LogId, LiveState>) -> Option<(KeptFile, Vec<(LogId, LogIndex)>)> {
        let (mut bytes, mut kept) = (0, Vec::new());
        let Keep { mut file, parts, bytes_min } = self;
        for Part { log, index, length, is_frozen } in parts {
            if is_frozen {
                kept.push((log, index));
                continue;
            }
            let Some(state) = states.get(&log) else { continue };
            let live = state.stored_here().range_cardinality(index.first..=index.last).min(index.messages);
            // As if all were of the same length.
            bytes += (u128::from(length) * u128::from(live) / u128::from(index.messages)) as u64;
            if live > 0 {
                file.gone.insert(log, index.messages - live);
                kept.push((log, index));
            }
        }
        (bytes >= bytes_min).then_some((file, kept))
    }
}
