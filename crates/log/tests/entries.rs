//! The entry log: what it refuses, what one sync covers, full disks, failed syncs, and wrong bytes.

use bytes::Bytes;
use leveret_log::{
    Bounds, DiskError, Dumped, Entry, EntryError, EntryOptions, EntryRecord, Lane, MemoryDisk, Next, Operation,
    PlacementId, Vote, dump, recover_entries, verify_entries,
};
use std::ops::ControlFlow;

mod entry_log;

use entry_log::{A, B, bodies, entry, open, options, settle};

#[test]
fn one_sync_covers_the_records_of_all_placements() {
    let disk = MemoryDisk::new();
    let (mut log, report) = open(&disk);
    assert!(!report.clean || report.replayed == 0);
    for placement in (0..20).map(PlacementId) {
        log.save_vote(placement, Vote { term: 1, replica: 3, is_leader: true }, 0).unwrap();
        log.append(placement, vec![entry(placement, 0, 1, 100), entry(placement, 1, 1, 5000)], 0).unwrap();
    }
    assert_eq!(log.durable(), 0);
    let mut now = 0;
    settle(&mut log, &disk, &mut now).unwrap();
    assert_eq!(log.durable(), log.appended());
    let syncs = log.statistics().syncs;
    assert!(syncs < 20, "{syncs} syncs for 60 records of 20 placements, in files of 16 KiB");
    for placement in (0..20).map(PlacementId) {
        assert_eq!(bodies(&log, &disk, placement), [entry(placement, 0, 1, 100), entry(placement, 1, 1, 5000)]);
    }
}

#[test]
fn calls_that_would_break_a_log_are_refused_and_change_nothing() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk);
    log.append(A, vec![entry(A, 0, 2, 10), entry(A, 1, 3, 10)], 0).unwrap();
    log.applied(A, 1).unwrap();
    log.save_vote(A, Vote { term: 5, replica: 1, is_leader: true }, 0).unwrap();
    let (bounds, appended) = (log.bounds(A), log.appended());
    assert_eq!(bounds, Bounds { first: 0, purged_term: 0, end: 2, last_term: 3 });
    let gap = log.append(A, vec![entry(A, 3, 3, 10)], 0).unwrap_err();
    assert_eq!(gap, EntryError::Gap { placement: A, first: 0, end: 2, found: 3 });
    let hole = log.append(A, vec![entry(A, 2, 3, 10), entry(A, 4, 3, 10)], 0).unwrap_err();
    assert_eq!(hole, EntryError::Gap { placement: A, first: 0, end: 3, found: 4 });
    let falls = log.append(A, vec![entry(A, 2, 2, 10)], 0).unwrap_err();
    assert_eq!(falls, EntryError::TermFalls { placement: A, index: 2, found: 2, last: 3 });
    let other = log.append(A, vec![entry(B, 2, 3, 10)], 0).unwrap_err();
    assert!(matches!(other, EntryError::Gap { .. }), "{other}");
    log.append(A, vec![entry(A, 0, 2, 10), entry(A, 1, 3, 10)], 0).expect("they are there already");
    let cuts = EntryError::CutsApplied { placement: A, index: 0, applied: 1 };
    assert_eq!(log.append(A, vec![entry(A, 0, 4, 10)], 0).unwrap_err(), cuts);
    assert_eq!(log.cut(A, 0).unwrap_err(), cuts);
    let purges = log.purge(A, 2, 3, 0).unwrap_err();
    assert_eq!(purges, EntryError::PurgesUnapplied { placement: A, index: 2, applied: 1 });
    assert!(matches!(log.applied(A, 0).unwrap_err(), EntryError::AppliedFalls { .. }));
    assert!(matches!(log.read(A, 1..3).unwrap_err(), EntryError::NotThere { .. }));
    for vote in [(4, 1, true), (5, 2, true), (5, 1, false)] {
        let vote = Vote { term: vote.0, replica: vote.1, is_leader: vote.2 };
        let error = log.save_vote(A, vote, 0).unwrap_err();
        assert!(error.to_string().contains("placement 1 stops: the vote"), "{error}");
    }
    assert_eq!((log.bounds(A), log.appended()), (bounds, appended));
}

#[test]
fn a_follower_that_got_a_difference_goes_on_behind_it() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk);
    log.append(A, vec![entry(A, 0, 1, 10)], 0).unwrap();
    log.applied(A, 100).unwrap();
    log.purge(A, 100, 7, 0).unwrap();
    assert_eq!(log.bounds(A), Bounds { first: 100, purged_term: 7, end: 100, last_term: 7 });
    log.append(A, vec![entry(A, 100, 7, 10)], 0).unwrap();
    settle(&mut log, &disk, &mut 0).unwrap();
    let (log, report) = open(&disk);
    assert_eq!(report.damaged, []);
    assert_eq!(log.bounds(A), Bounds { first: 100, purged_term: 7, end: 101, last_term: 7 });
}

#[test]
fn a_forgotten_placement_begins_anew() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk);
    log.save_vote(A, Vote { term: 9, replica: 1, is_leader: false }, 0).unwrap();
    log.append(A, vec![entry(A, 0, 9, 10)], 0).unwrap();
    log.forget(A, 0);
    log.save_vote(A, Vote { term: 1, replica: 2, is_leader: false }, 0).unwrap();
    settle(&mut log, &disk, &mut 0).unwrap();
    let (log, _) = open(&disk);
    assert_eq!(log.vote(A), Some(Vote { term: 1, replica: 2, is_leader: false }));
    assert_eq!(log.bounds(A), Bounds::default());
}

#[test]
fn the_files_of_the_ring_are_used_again_and_no_other_is_made() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk);
    let (mut now, size) = (0, disk.used());
    assert!(size >= 4 * (16 << 10), "all files are allocated at once");
    log.save_vote(B, Vote { term: 3, replica: 1, is_leader: false }, 0).unwrap();
    log.append(B, vec![entry(B, 0, 3, 300)], 0).unwrap();
    for index in 0..400 {
        log.append(A, vec![entry(A, index, 1, 700)], now).unwrap();
        log.applied(A, index + 1).unwrap();
        log.purge(A, index + 1, 1, now).unwrap();
        settle(&mut log, &disk, &mut now).unwrap();
    }
    assert_eq!(disk.used(), size, "{} files are in use", log.files_in_use());
    assert_eq!(bodies(&log, &disk, B), [entry(B, 0, 3, 300)]);
    let (log, report) = open(&disk);
    assert_eq!(report.damaged, []);
    assert_eq!(log.vote(B), Some(Vote { term: 3, replica: 1, is_leader: false }), "it was carried");
    assert_eq!(bodies(&log, &disk, B), [entry(B, 0, 3, 300)]);
    assert_eq!(log.bounds(A).first, 400);
}

#[test]
fn records_before_the_gate_of_an_empty_file_get_a_file() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk);
    let mut now = 0;
    // More than the ring may have in use waits at once, and nothing of it is needed any more.
    log.append(A, (0..80).map(|index| entry(A, index, 1, 700)).collect(), now).unwrap();
    log.applied(A, 80).unwrap();
    log.purge(A, 80, 1, now).unwrap();
    settle(&mut log, &disk, &mut now).unwrap();
    assert_eq!(log.durable(), log.appended());
}

#[test]
fn a_full_disk_stops_entries_and_lets_votes_and_purges_pass() {
    let disk = MemoryDisk::new();
    let options = EntryOptions { disk_reserve: None, ..options() };
    let (mut log, _) = recover_entries(&disk, &options, 0).unwrap();
    let (mut now, mut index) = (0, 0);
    settle(&mut log, &disk, &mut now).unwrap();
    disk.limit(Some(disk.used()));
    // A follower is behind, so nothing may be purged.
    while log.room() && index < 1000 {
        log.append(A, vec![entry(A, index, 1, 700)], now).unwrap();
        index += 1;
        log.applied(A, index).unwrap();
        settle(&mut log, &disk, &mut now).unwrap();
    }
    assert!(log.is_out_of_space() && index > 40, "{index} entries");
    let position = log.save_vote(B, Vote { term: 3, replica: 1, is_leader: false }, now).unwrap();
    settle(&mut log, &disk, &mut now).unwrap();
    assert!(log.durable() >= position, "the vote is durable");
    log.purge(A, index, 1, now).unwrap();
    for _ in 0..50 {
        now += 2_000_000_000;
        settle(&mut log, &disk, &mut now).unwrap();
    }
    assert!(log.room() && !log.is_out_of_space());
    log.append(A, vec![entry(A, index, 1, 700)], now).unwrap();
    settle(&mut log, &disk, &mut now).unwrap();
    assert_eq!(log.durable(), log.appended());
}

#[test]
fn a_failed_sync_ends_the_log_with_its_text() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk);
    log.append(A, vec![entry(A, 0, 1, 10)], 0).unwrap();
    let Next::Run(id, job) = log.next_job(Lane::Commit, 1) else { panic!("a write is due") };
    log.complete(id, job.run(&disk), 1).unwrap();
    let Next::Run(id, _) = log.next_job(Lane::Commit, 2) else { panic!("a sync is due") };
    let error = std::io::Error::from_raw_os_error(5);
    let failed = DiskError { file: "raft-0000-0000000000000001".into(), offset: 0, operation: Operation::Sync, error };
    let error = log.complete(id, Err(failed), 2).unwrap_err().to_string();
    assert!(error.contains("could not sync raft-0000-0000000000000001"), "{error}");
    assert_eq!(log.durable(), 0);
}

/// A log with three placements, closed by a clean stop.
fn closed_log() -> (MemoryDisk, Vec<Vec<Entry>>) {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk);
    let mut now = 0;
    for placement in (0..3).map(PlacementId) {
        log.save_vote(placement, Vote { term: 2, replica: 7, is_leader: true }, now).unwrap();
        for index in 0..4 {
            log.append(placement, vec![entry(placement, index, 2, 120)], now).unwrap();
            settle(&mut log, &disk, &mut now).unwrap();
        }
    }
    log.close(now);
    settle(&mut log, &disk, &mut now).unwrap();
    let entries = (0..3).map(|id| bodies(&log, &disk, PlacementId(id))).collect();
    (disk, entries)
}

#[test]
fn a_clean_stop_is_known_and_an_older_end_is_damage() {
    let (disk, _) = closed_log();
    assert!(open(&disk.clone()).1.clean);
    let name = "raft-0000-0000000000000001";
    let mut bytes = disk.content(name).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 512 * 512;
    bytes[last..].fill(0);
    disk.put(name, bytes);
    let (log, report) = open(&disk);
    assert!(!report.damaged.is_empty() && !report.clean);
    assert!(log.damage(PlacementId::ANY).is_some(), "any placement may have lost something");
}

#[test]
fn every_flipped_bit_is_damage_of_the_placements_it_hit() {
    let (disk, entries) = closed_log();
    let name = "raft-0000-0000000000000001";
    let whole = disk.content(name).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let (mut hit_one, mut hit_all) = (0, 0);
    for bit in (0..used * 8).step_by(61) {
        let disk = disk.clone();
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        disk.put(name, bytes);
        let checked = verify_entries(&disk, &options()).unwrap();
        assert!(!checked.damaged.is_empty(), "bit {bit} isn't found");
        let (mut log, report) = open(&disk);
        assert_eq!(report.damaged, checked.damaged, "bit {bit}");
        let damaged: Vec<u32> = (0..3).filter(|id| log.damage(PlacementId(*id)).is_some()).collect();
        for id in (0..3).filter(|id| !damaged.contains(id)) {
            assert_eq!(bodies(&log, &disk, PlacementId(id)), entries[id as usize], "bit {bit}");
            assert!(log.vote(PlacementId(id)).is_some(), "bit {bit}");
        }
        hit_one += usize::from(damaged.len() == 1);
        hit_all += usize::from(damaged.len() == 3);
        // It stays known when the damaged file is gone, until the placement is forgotten.
        let mut now = 0;
        settle(&mut log, &disk, &mut now).unwrap();
        disk.put(name, whole.clone());
        let (mut log, _) = open(&disk);
        for id in damaged {
            let placement = PlacementId(id);
            assert!(
                matches!(log.append(placement, Vec::new(), 0).unwrap_err(), EntryError::Damaged { .. }),
                "bit {bit}"
            );
            log.forget(placement, 0);
            assert_eq!(log.append(placement, vec![entry(placement, 0, 1, 10)], 0).map(|_| ()), Ok(()));
        }
    }
    assert!(hit_one > 100 && hit_all > 10, "{hit_one} hit one placement, {hit_all} all");
}

#[test]
fn a_dump_shows_entries_votes_and_marks() {
    let (disk, _) = closed_log();
    let options = leveret_log::Options { node_id: 5, ..leveret_log::Options::default() };
    let files = leveret_log::files(&disk, &options).unwrap();
    assert_eq!(files.iter().filter(|file| file.starts_with("raft-")).count(), 4);
    let (mut entries, mut votes) = (0, 0);
    for file in files.iter().filter(|file| file.starts_with("raft-")) {
        let mut visit = |found: Dumped<'_>| {
            if let Dumped::Record { log, record, .. } = found
                && let Some(placement) = PlacementId::of_log(log)
            {
                match EntryRecord::decode(placement, record.detail, &Bytes::copy_from_slice(record.payload)) {
                    Ok(EntryRecord::Entry(..)) => entries += 1,
                    Ok(EntryRecord::Vote(..)) => votes += 1,
                    other => panic!("{other:?}"),
                }
            }
            ControlFlow::Continue(())
        };
        dump(&disk, &options, file, &mut visit).unwrap();
    }
    assert_eq!((entries, votes), (12, 3));
}
