//! An entry log whose file has wrong bytes: no panic, and a placement that isn't reported as damaged has what it had. And any bytes as a
//! record of it.

#![no_main]

use bytes::Bytes;
use leveret_log::{
    Entry, EntryKind, EntryLog, EntryOptions, EntryRecord, FoundEntry, Lane, MemoryDisk, Next, PlacementId, Vote,
    recover_entries, verify_entries,
};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const FILE: &str = "raft-0000-0000000000000001";
const PLACEMENTS: u32 = 3;
const ENTRIES: u64 = 4;
static LOG: LazyLock<MemoryDisk> = LazyLock::new(written);

fn options() -> EntryOptions {
    EntryOptions {
        file_bytes: 16 << 10,
        buffer_bytes: 64 << 10,
        cached_bytes: 0,
        disk_reserve: Some(0),
        ..EntryOptions::default()
    }
}

fn entry(placement: PlacementId, index: u64) -> Entry {
    let body = Bytes::from(vec![index as u8; 40]);
    Entry { kind: EntryKind::Commands, placement, index, term: 2, led_by: 1, clock: index, committed: 0, body }
}

/// Runs both lanes until nothing is due.
fn settle(log: &mut EntryLog, disk: &MemoryDisk) {
    let mut now = 0;
    loop {
        now += 60_000_000;
        let mut is_idle = true;
        for lane in [Lane::Commit, Lane::Background] {
            if let Next::Run(id, job) = log.next_job(lane, now) {
                log.complete(id, job.run(disk), now).expect("the disk is sound");
                is_idle = false;
            }
        }
        if is_idle {
            return;
        }
    }
}

/// A log of three placements, closed by a clean stop: a wrong last batch couldn't be told from a torn one otherwise.
fn written() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (mut log, _) = recover_entries(&disk, &options(), 0).expect("an empty disk is a new log");
    for placement in (0..PLACEMENTS).map(PlacementId) {
        log.save_vote(placement, Vote { term: 2, replica: 1, is_leader: true }, 0).expect("it is the first");
        for index in 0..ENTRIES {
            log.append(placement, vec![entry(placement, index)], 0).expect("it follows");
            settle(&mut log, &disk);
        }
    }
    log.close(0);
    settle(&mut log, &disk);
    disk
}

fuzz_target!(|data: &[u8]| {
    for detail in 0..5 {
        let _ = EntryRecord::decode(PlacementId(1), detail, &Bytes::copy_from_slice(data));
    }
    let disk = LOG.clone();
    let whole = disk.content(FILE).expect("it is there");
    let mut bytes = whole.clone();
    let used = whole.iter().rposition(|byte| *byte != 0).expect("it has records") + 1;
    // Behind the header: a file of another node isn't opened.
    for change in data.chunks_exact(3) {
        let at = 512 + usize::from(u16::from_le_bytes([change[0], change[1]])) % (used - 512);
        bytes[at] ^= change[2];
    }
    let is_changed = bytes != whole;
    disk.put(FILE, bytes);
    let checked = verify_entries(&disk, &options());
    let Ok((log, report)) = recover_entries(&disk, &options(), 0) else { return };
    let checked = checked.expect("it was opened");
    assert_eq!(checked.damaged, report.damaged);
    assert_eq!(is_changed, !report.damaged.is_empty() || !report.clean, "{report:?}");
    for placement in (0..PLACEMENTS).map(PlacementId).filter(|placement| log.damage(*placement).is_none()) {
        assert!(log.vote(placement).is_some());
        let found = log.read(placement, 0..ENTRIES).expect("they are there").into_iter();
        let found = found.map(|found| match found {
            FoundEntry::Here(entry) => entry,
            FoundEntry::OnDisk(read) => read.run(&disk).expect("it can be read"),
        });
        assert!(found.eq((0..ENTRIES).map(|index| entry(placement, index))));
    }
});
