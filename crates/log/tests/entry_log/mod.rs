//! A small entry log, and what runs it.

use bytes::Bytes;
use leveret_log::{
    Bounds, Entry, EntryKind, EntryLog, EntryOptions, EntryReport, FoundEntry, Lane, MemoryDisk, Next, PlacementId,
    StorageError, recover_entries,
};

pub(crate) const A: PlacementId = PlacementId(1);
pub(crate) const B: PlacementId = PlacementId(2);

pub(crate) fn options() -> EntryOptions {
    EntryOptions {
        file_bytes: 16 << 10,
        buffer_bytes: 64 << 10,
        cached_bytes: 0,
        disk_reserve: Some(0),
        node_id: 5,
        ..EntryOptions::default()
    }
}

pub(crate) fn entry(placement: PlacementId, index: u64, term: u64, length: usize) -> Entry {
    let body = Bytes::from(vec![(index % 251) as u8 + 1; length]);
    Entry { kind: EntryKind::Commands, placement, index, term, led_by: 9, clock: 1000 + index, committed: index, body }
}

pub(crate) fn open(disk: &MemoryDisk) -> (EntryLog, EntryReport) {
    recover_entries(disk, &options(), 0).expect("it opens")
}

/// Runs both lanes until nothing is due.
pub(crate) fn settle(log: &mut EntryLog, disk: &MemoryDisk, now: &mut u64) -> Result<(), StorageError> {
    let mut rounds = 0;
    loop {
        rounds += 1;
        assert!(rounds < 10_000, "the lanes never come to rest");
        *now += 60_000_000;
        let mut is_idle = true;
        for lane in [Lane::Commit, Lane::Background] {
            if let Next::Run(id, job) = log.next_job(lane, *now) {
                log.complete(id, job.run(disk), *now)?;
                is_idle = false;
            }
        }
        if is_idle {
            return Ok(());
        }
    }
}

pub(crate) fn bodies(log: &EntryLog, disk: &MemoryDisk, placement: PlacementId) -> Vec<Entry> {
    let Bounds { first, end, .. } = log.bounds(placement);
    let found = log.read(placement, first..end).expect("they are there");
    let entry = |found| match found {
        FoundEntry::Here(entry) => entry,
        FoundEntry::OnDisk(read) => read.run(disk).expect("it can be read"),
    };
    found.into_iter().map(entry).collect()
}
