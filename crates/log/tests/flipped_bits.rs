//! A bit flipped in any byte that a cleanly closed log uses is found: when it is opened, or when the message is read.

#[allow(dead_code)]
mod driver;

use std::ops::Range;

use bytes::Bytes;
use driver::{Driver, Ledgers, body, check};
use leveret_log::format::batch::BatchHeader;
use leveret_log::format::file_header::FILE_HEADER_BYTES;
use leveret_log::format::{Identity, batch_check};
use leveret_log::{Disk, Event, Hit, LogId, MemoryDisk, Options, StorageError, Wait, recover};

const LOGS: [LogId; 2] = [LogId(1), LogId(2)];

fn tiny() -> Options {
    Options {
        file_bytes: 16 << 10,
        buffer_bytes: 32 << 10,
        reserve_bytes: 1 << 10,
        mixed_below: 3 << 10,
        unretired_max: 2,
        node_id: 5,
        ..Options::default()
    }
}

/// A small log with segments, a checkpoint and two WAL files.
fn closed() -> MemoryDisk {
    let mut driver = Driver::open(MemoryDisk::new(), tiny());
    driver.control(LogId::METADATA, 1, b"declare");
    let mut number = 0;
    while driver.log.statistics().retirements < 2 {
        number += 1;
        driver.publish(LOGS[0], &[body(LOGS[0], number, 700)], Wait::Confirm);
        driver.publish(LOGS[1], &[body(LOGS[1], number, 100)], Wait::Confirm);
        if number % 3 != 0 {
            driver.settle(LOGS[0], number..=number);
        }
        driver.settle_down();
    }
    driver.close()
}

/// The bytes of each file that are in use: all but retired and spare files and what no batch has reached.
fn used(disk: &MemoryDisk) -> Vec<(String, Range<usize>)> {
    let mut used = Vec::new();
    let left = Driver::open(disk.clone(), tiny()).report.removed;
    for name in disk.list().unwrap().into_iter().filter(|name| !left.contains(name)) {
        let content = disk.content(&name).unwrap();
        let Some(number) = name.strip_prefix("wal-0000-") else {
            used.push((name, 0..content.len()));
            continue;
        };
        let identity = Identity::wal(5, 0, u64::from_str_radix(number, 16).unwrap());
        let mut end = FILE_HEADER_BYTES as usize;
        while let Some(header) = BatchHeader::decode(&content[end..], &identity, (content.len() - end) as u64) {
            end += header.padded_bytes() as usize;
        }
        if end > FILE_HEADER_BYTES as usize {
            used.push((name, 0..end));
        }
    }
    used
}

/// Whether opening the log or reading it says that something is wrong. Reading must not return anything else than
/// what was written.
fn is_found(disk: &MemoryDisk, expected: &[Vec<(u64, Bytes)>]) -> bool {
    let mut ledgers = Ledgers::default();
    let Ok((log, report)) = recover(disk, tiny(), &mut ledgers, 0) else {
        return true;
    };
    if !report.clean {
        return true;
    }
    for (log_id, expected) in LOGS.iter().zip(expected) {
        let mut messages = Vec::new();
        let mut from = 1;
        while let Some(plan) = log.plan_read(*log_id, from, 4000) {
            let Ok(found) = plan.run(disk) else {
                return true;
            };
            from = found.last().unwrap().number + 1;
            messages.extend(found.into_iter().map(|message| (message.number, message.payload)));
        }
        assert_eq!(&messages, expected, "a flipped bit changed what is read, and nothing said so");
    }
    false
}

#[test]
fn every_flipped_bit_is_found() {
    let disk = closed();
    let used = used(&disk);
    for kind in ["wal-", "segment-", "checkpoint-"] {
        assert!(used.iter().any(|(name, _)| name.starts_with(kind)), "{used:?}");
    }
    let expected = {
        let driver = Driver::open(disk.clone(), tiny());
        assert!(driver.report.clean, "{:?}", driver.report);
        LOGS.map(|log| driver.read(log, 1, 4000))
    };
    assert!(check(&disk, &tiny()).unwrap().is_sound());
    assert!(!is_found(&disk.clone(), &expected));
    for (name, range) in used {
        let content = disk.content(&name).unwrap();
        for at in range {
            let flipped = disk.clone();
            let mut content = content.clone();
            content[at] ^= 1 << (at % 8);
            flipped.put(&name, content);
            assert!(!check(&flipped, &tiny()).is_ok_and(|found| found.is_sound()), "{name}, byte {at}");
            let opened = is_found(&flipped, &expected);
            assert!(opened || name.starts_with("segment-"), "{name}, byte {at}: nothing was said at the start");
        }
    }
}

/// A log after a kill: three batches in one file.
fn killed() -> (MemoryDisk, String, Vec<Range<usize>>) {
    let mut driver = Driver::open(MemoryDisk::new(), tiny());
    for number in 1..=3 {
        for log in LOGS {
            driver.publish(log, &[body(log, number, 300)], Wait::Lazy);
        }
        driver.settle_down();
    }
    let name = driver.disk.list().unwrap().remove(0);
    let content = driver.disk.content(&name).unwrap();
    let identity = Identity::wal(5, 0, 1);
    let mut batches = Vec::new();
    let mut at = FILE_HEADER_BYTES as usize;
    while let Some(batch) = batch_check::check(&content[at..], &identity) {
        let end = at + batch.header.padded_bytes() as usize;
        batches.push(at..end);
        at = end;
    }
    assert_eq!(batches.len(), 3);
    (driver.disk, name, batches)
}

fn reopen_with(disk: &MemoryDisk, name: &str, at: usize) -> Driver {
    let disk = disk.clone();
    let mut content = disk.content(name).unwrap();
    content[at] ^= 1;
    disk.put(name, content);
    Driver::open(disk, tiny())
}

#[test]
fn a_bad_last_batch_is_cut_kept_aside_and_forgotten_by_the_next_start() {
    let (disk, name, batches) = killed();
    for at in [batches[2].start, batches[2].start + 100, batches[2].end - 300] {
        let mut driver = reopen_with(&disk, &name, at);
        let cut = driver.report.cut.clone().expect("it was cut");
        assert_eq!((&cut.file, cut.range.start), (&name, batches[2].start as u64));
        assert!(driver.disk.content(&cut.kept).is_some());
        assert!(driver.report.damaged.is_empty());
        assert_eq!(driver.report.position, 4);
        driver.publish(LOGS[0], &[body(LOGS[0], 3, 50)], Wait::Confirm);
        driver.settle_down();
        let driver = Driver::open(driver.disk, tiny());
        assert_eq!(driver.report.cut, None);
        assert!(driver.report.damaged.is_empty(), "{:?}", driver.report);
        assert_eq!(driver.report.position, 5);
    }
}

#[test]
fn a_bad_batch_before_the_last_names_the_logs_it_hit_and_spares_the_others() {
    let (disk, name, batches) = killed();
    // In the record of the second log.
    let driver = reopen_with(&disk, &name, batches[1].end - 250);
    let [damage] = &driver.report.damaged[..] else {
        panic!("{:?}", driver.report);
    };
    assert_eq!(damage.logs, Hit::Logs(vec![LOGS[1]]));
    assert_eq!(driver.read(LOGS[0], 1, 4000).len(), 3);
    let [plan, later] = [2, 3].map(|from| driver.log.plan_read(LOGS[1], from, 4000).unwrap());
    assert_eq!(plan.run(&driver.disk).unwrap_err().log, LOGS[1]);
    assert_eq!(later.run(&driver.disk).unwrap()[0].number, 3);
    // In the header: the run table still tells.
    let driver = reopen_with(&disk, &name, batches[1].start + 1);
    let [damage] = &driver.report.damaged[..] else {
        panic!("{:?}", driver.report);
    };
    assert_eq!(damage.logs, Hit::Logs(LOGS.to_vec()));
    assert_eq!(damage.range, batches[1].start as u64..batches[1].end as u64);
    let numbers: Vec<u64> = driver.read(LOGS[0], 1, 4000).iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 3]);
    // In a row of the table: any log could be hit, the other run is there.
    let driver = reopen_with(&disk, &name, batches[1].start + 100);
    assert!(driver.report.damaged.iter().any(|damage| damage.logs == Hit::Any));
    assert_eq!(driver.report.position, 6);
    assert_eq!(driver.read(LOGS[1], 1, 4000).len(), 3);
}

#[test]
fn what_isnt_damaged_survives_retirement_and_the_bad_file_is_kept() {
    for at in [1, 100, 400] {
        let (disk, name, batches) = killed();
        let mut driver = reopen_with(&disk, &name, batches[1].start + at);
        let mut number = 3;
        while driver.log.statistics().retirements < 1 {
            number += 1;
            driver.publish(LOGS[0], &[body(LOGS[0], number, 700)], Wait::Confirm);
            driver.settle_down();
        }
        let found = driver.events.iter().any(|event| matches!(event, Event::Damaged(_)));
        assert!(found || at == 400, "a message that recovery didn't find isn't looked for");
        assert!(driver.disk.content(&format!("damaged-{name}")).is_some());
        let numbers: Vec<u64> = driver.read(LOGS[1], 1, 4000).iter().map(|(number, _)| *number).collect();
        assert!(numbers.starts_with(&[1]) && numbers.ends_with(&[3]), "{numbers:?}");
    }
}

#[test]
fn a_lost_checkpoint_is_refused() {
    let disk = closed();
    let name = disk.list().unwrap().into_iter().find(|name| name.starts_with("checkpoint-")).unwrap();
    let mut content = disk.content(&name).unwrap();
    content[3] ^= 1;
    let damaged = disk.clone();
    damaged.put(&name, content);
    let error = recover(&damaged, tiny(), &mut Ledgers::default(), 0).unwrap_err();
    assert!(matches!(error, StorageError::Checkpoint { .. }), "{error}");
    disk.remove(&name).unwrap();
    let error = recover(&disk, tiny(), &mut Ledgers::default(), 0).unwrap_err();
    assert!(matches!(error, StorageError::Missing { .. }), "{error}");
}
