//! An entry log that lost something: a placement without records isn't taken for a new one, an older tail gives way to what the store has,
//! and a read that nobody needs any more damages nothing.

mod entry_log;

use bytes::Bytes;
use entry_log::{A, B, bodies, entry, open, settle};
use leveret_log::{
    Bounds, ENTRY_BYTES_MAX, EntryError, EntryLog, Job, JobId, Lane, MemoryDisk, Next, PlacementId, Vote,
};

const FILE: &str = "raft-0000-0000000000000001";

fn vote(term: u64, replica: u64) -> Vote {
    Vote { term, replica, is_leader: false }
}

/// A log whose first records were destroyed together with all hints of what they were: the placements are gone.
fn log_without_records() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk);
    let mut now = 0;
    log.save_vote(A, vote(4, 2), now).unwrap();
    log.append(A, vec![entry(A, 0, 4, 100)], now).unwrap();
    settle(&mut log, &disk, &mut now).unwrap();
    log.close(now);
    settle(&mut log, &disk, &mut now).unwrap();
    let mut bytes = disk.content(FILE).unwrap();
    bytes[512..].fill(0);
    disk.put(FILE, bytes);
    disk
}

#[test]
fn a_placement_that_lost_all_its_records_isnt_a_new_one() {
    let disk = log_without_records();
    let (mut log, report) = open(&disk);
    assert!(!report.damaged.is_empty());
    let mut now = 0;
    for round in 0..2 {
        assert!(log.placements().all(|placement| placement == PlacementId::ANY), "nothing says that {A} was there");
        assert!(log.damage(A).is_some() && log.damage(B).is_some(), "round {round}");
        // It has voted for another in this term.
        assert!(matches!(log.save_vote(A, vote(4, 3), now).unwrap_err(), EntryError::Damaged { .. }));
        assert!(matches!(log.append(A, Vec::new(), now).unwrap_err(), EntryError::Damaged { .. }));
        assert!(matches!(log.applied(A, 0).unwrap_err(), EntryError::Damaged { .. }));
        assert!(matches!(log.read(A, 0..0).unwrap_err(), EntryError::Damaged { .. }));
        settle(&mut log, &disk, &mut now).unwrap();
        log = open(&disk).0;
    }
}

#[test]
fn a_forgotten_placement_is_known_to_be_new_after_damage_of_any() {
    let disk = log_without_records();
    let (mut log, _) = open(&disk);
    let mut now = 0;
    let position = log.forget(A, now);
    assert_eq!(log.damage(A), None);
    settle(&mut log, &disk, &mut now).unwrap();
    assert!(log.durable() >= position);
    let (mut log, _) = open(&disk);
    assert_eq!(log.damage(A), None, "a start knows it, too, before the placement has a record");
    assert!(log.damage(B).is_some());
    log.save_vote(A, vote(1, 3), now).unwrap();
    // The files come round: what is known of it is carried.
    for index in 0..200 {
        log.append(A, vec![entry(A, index, 1, 700)], now).unwrap();
        log.applied(A, index + 1).unwrap();
        log.purge(A, index + 1, 1, now).unwrap();
        settle(&mut log, &disk, &mut now).unwrap();
    }
    let (mut log, _) = open(&disk);
    assert!(log.damage(A).is_none() && log.damage(B).is_some());
    log.forget(PlacementId::ANY, now);
    settle(&mut log, &disk, &mut now).unwrap();
    let (mut log, _) = open(&disk);
    assert_eq!(log.damage(B), None);
    log.save_vote(B, vote(1, 3), now).unwrap();
}

#[test]
fn a_new_replica_isnt_hit_by_the_damage_of_the_old_one() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk);
    let mut now = 0;
    for placement in [A, B] {
        log.save_vote(placement, vote(4, 2), now).unwrap();
        for index in 0..4 {
            log.append(placement, vec![entry(placement, index, 4, 300)], now).unwrap();
            settle(&mut log, &disk, &mut now).unwrap();
        }
    }
    let mut bytes = disk.content(FILE).unwrap();
    // In the body of its second entry: entries of B stand behind it.
    let at = bytes.windows(300).position(|window| window.iter().all(|byte| *byte == 2)).unwrap();
    bytes[at + 7] ^= 1;
    disk.put(FILE, bytes);
    let (mut log, _) = open(&disk);
    assert!(log.damage(A).is_some() && log.damage(B).is_none());
    log.forget(A, now);
    log.save_vote(A, vote(1, 3), now).unwrap();
    settle(&mut log, &disk, &mut now).unwrap();
    for round in 0..2 {
        let (log, report) = open(&disk);
        assert_eq!(report.damaged.len(), 1, "it is still in the file, round {round}");
        assert_eq!((log.damage(A), log.vote(A)), (None, Some(vote(1, 3))), "round {round}");
    }
    // Damage behind it hits it as any.
    let (mut log, _) = open(&disk);
    log.append(A, vec![entry(A, 0, 1, 333)], now).unwrap();
    settle(&mut log, &disk, &mut now).unwrap();
    log.append(B, vec![entry(B, 4, 4, 10)], now).unwrap();
    settle(&mut log, &disk, &mut now).unwrap();
    let is_last = |name: &String| {
        let bytes = disk.content(name).unwrap();
        bytes.windows(333).rposition(|window| window.iter().all(|byte| *byte == 1)).map(|at| (name.clone(), at))
    };
    let names =
        leveret_log::files(&disk, &leveret_log::Options { node_id: 5, ..leveret_log::Options::default() }).unwrap();
    let (name, at) =
        names.iter().filter(|name| name.starts_with("raft-0000-")).filter_map(is_last).next_back().unwrap();
    let mut bytes = disk.content(&name).unwrap();
    bytes[at] ^= 1;
    disk.put(&name, bytes);
    assert!(open(&disk).0.damage(A).is_some());
}

/// A log with entries of these terms, of which the first is of index 0.
fn log_with(disk: &MemoryDisk, terms: &[u64]) -> EntryLog {
    let (mut log, _) = open(disk);
    let entries = (0..).zip(terms).map(|(index, term)| entry(A, index, *term, 50)).collect();
    log.append(A, entries, 0).unwrap();
    settle(&mut log, disk, &mut 0).unwrap();
    log
}

#[test]
fn an_older_tail_gives_way_to_what_the_store_has_applied() {
    // The store has applied the entries below 3, the last of them of term 2.
    for (terms, rest) in [
        (&[1, 1][..], &[][..]),
        (&[1, 1, 1], &[]),
        (&[1, 1, 1, 1, 1], &[]),
        (&[1, 1, 2], &[]),
        (&[1, 1, 2, 2, 3], &[2, 3]),
    ] {
        let disk = MemoryDisk::new();
        let mut log = log_with(&disk, terms);
        log.applied(A, 3).unwrap();
        log.purge(A, 3, 2, 0).unwrap();
        let last = rest.last().copied().unwrap_or(2);
        let bounds = Bounds { first: 3, purged_term: 2, end: 3 + rest.len() as u64, last_term: last };
        assert_eq!(log.bounds(A), bounds, "{terms:?}");
        settle(&mut log, &disk, &mut 0).unwrap();
        let (mut log, report) = open(&disk);
        assert_eq!((report.damaged, log.bounds(A)), (Vec::new(), bounds), "{terms:?}, after a start");
        log.append(A, vec![entry(A, 3, 4, 50)], 0).expect("it goes on");
    }
}

#[test]
fn a_newer_entry_never_gives_way_to_an_older_one() {
    let disk = MemoryDisk::new();
    let mut log = log_with(&disk, &[1, 1, 3]);
    log.applied(A, 3).unwrap();
    let error = EntryError::PurgesOther { placement: A, index: 3, found: 2, known: 3 };
    assert_eq!(log.purge(A, 3, 2, 0).unwrap_err(), error);
    assert_eq!(log.bounds(A).first, 0, "nothing was changed");
    log.purge(A, 3, 3, 0).unwrap();
    log.purge(A, 3, 3, 0).expect("it is done already");
    let error = EntryError::PurgesOther { placement: A, index: 3, found: 4, known: 3 };
    assert_eq!(log.purge(A, 3, 4, 0).unwrap_err(), error);
}

#[test]
fn too_long_entries_and_the_id_of_any_are_refused() {
    let (mut log, _) = open(&MemoryDisk::new());
    let mut long = entry(A, 0, 1, 0);
    long.body = Bytes::from(vec![0; ENTRY_BYTES_MAX]);
    let error = log.append(A, vec![long], 0).unwrap_err();
    assert!(error.to_string().contains("an entry has at most 537919488"), "{error}");
    assert_eq!(log.save_vote(PlacementId::ANY, vote(1, 1), 0).unwrap_err(), EntryError::NoPlacement);
    let none = log.append(PlacementId::ANY, vec![entry(PlacementId::ANY, 0, 1, 1)], 0).unwrap_err();
    assert_eq!(none, EntryError::NoPlacement);
    assert_eq!((log.appended(), log.placements().count()), (0, 0));
}

#[test]
fn the_highest_clock_is_found_again() {
    let disk = MemoryDisk::new();
    let mut log = log_with(&disk, &[1, 1, 1]);
    assert_eq!((log.clock(A), log.clock(B)), (1002, 0));
    log.cut(A, 1).unwrap();
    assert_eq!(open(&disk).0.clock(A), 1002, "a clock that was seen isn't taken back");
}

/// A log that reads entries of its oldest file to append them again, with the job.
fn carrying(disk: &MemoryDisk) -> (EntryLog, JobId, Job) {
    let (mut log, _) = open(disk);
    let mut now = 0;
    log.append(B, (0..4).map(|index| entry(B, index, 1, 300)).collect(), now).unwrap();
    for index in 0.. {
        log.append(A, vec![entry(A, index, 1, 700)], now).unwrap();
        log.applied(A, index + 1).unwrap();
        log.purge(A, index + 1, 1, now).unwrap();
        loop {
            now += 60_000_000;
            if let Next::Run(id, job) = log.next_job(Lane::Background, now) {
                if matches!(&job, Job::Carry(reads) if !reads.is_empty()) {
                    return (log, id, job);
                }
                log.complete(id, job.run(disk), now).unwrap();
            } else if let Next::Run(id, job) = log.next_job(Lane::Commit, now) {
                log.complete(id, job.run(disk), now).unwrap();
            } else {
                break;
            }
        }
        assert!(index < 500, "the ring never came round");
    }
    unreachable!()
}

/// Makes a file unreadable, and completes the job.
fn read_in_vain(disk: &MemoryDisk, log: &mut EntryLog, id: JobId, job: Job) -> usize {
    let whole = disk.content(FILE).unwrap();
    disk.put(FILE, vec![0; whole.len()]);
    let done = job.run(disk);
    disk.put(FILE, whole);
    log.complete(id, done, 0).unwrap().len()
}

#[test]
fn a_failed_read_of_an_entry_that_is_needed_is_damage() {
    let disk = MemoryDisk::new();
    let (mut log, id, job) = carrying(&disk);
    assert!(read_in_vain(&disk, &mut log, id, job) > 0);
    assert!(log.damage(B).is_some() && log.damage(A).is_none());
    assert!(matches!(log.read(B, 0..1).unwrap_err(), EntryError::Damaged { .. }));
}

#[test]
fn a_failed_read_damages_nothing_that_needs_it_no_more() {
    type Change = fn(&mut EntryLog);
    let changes: [(&str, Change); 4] = [
        ("purged", |log| {
            log.applied(B, 4).unwrap();
            log.purge(B, 4, 1, 0).unwrap();
        }),
        ("cut", |log| log.cut(B, 0).unwrap()),
        ("forgotten", |log| assert!(log.forget(B, 0) > 0)),
        ("forgotten and begun anew", |log| {
            log.forget(B, 0);
            log.append(B, (0..4).map(|index| entry(B, index, 1, 300)).collect(), 0).unwrap();
        }),
    ];
    for (name, change) in changes {
        let disk = MemoryDisk::new();
        let (mut log, id, job) = carrying(&disk);
        change(&mut log);
        let events = read_in_vain(&disk, &mut log, id, job);
        assert_eq!((events, log.damage(B)), (0, None), "{name}");
        settle(&mut log, &disk, &mut 0).unwrap();
        let (log, report) = open(&disk);
        assert_eq!((report.damaged, log.damage(B)), (Vec::new(), None), "{name}");
        let Bounds { first, end, .. } = log.bounds(B);
        assert_eq!(bodies(&log, &disk, B).len() as u64, end - first, "{name}");
        assert_eq!(end, if matches!(name, "purged" | "forgotten and begun anew") { 4 } else { 0 }, "{name}");
    }
}
