//! A small log with segments, a checkpoint and WAL files, closed cleanly, and the messages that must be read from it.

use std::ops::Range;

use bytes::Bytes;
use leveret_log::format::Identity;
use leveret_log::format::batch::BatchHeader;
use leveret_log::format::file_header::FILE_HEADER_BYTES;
use leveret_log::{Disk, LogId, MemoryDisk, Options, Wait, recover};

use crate::driver::{Driver, Ledgers, body};

pub(crate) const LOGS: [LogId; 2] = [LogId(1), LogId(2)];
/// A log of chunks.
pub(crate) const CHUNKS: LogId = LogId(3);
/// All logs with messages.
pub(crate) const ALL: [LogId; 3] = [LOGS[0], LOGS[1], CHUNKS];

pub(crate) fn tiny() -> Options {
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

/// Publishes and settles until two WAL files are retired; calls `step` after each step.
pub(crate) fn fill(driver: &mut Driver, mut step: impl FnMut(&Driver)) {
    driver.control(LogId::METADATA, 1, b"declare");
    let mut number = 0;
    while driver.log.statistics().retirements < 2 {
        number += 1;
        driver.publish(LOGS[0], &[body(LOGS[0], number, 700)], Wait::Confirm);
        driver.publish(LOGS[1], &[body(LOGS[1], number, 100)], Wait::Confirm);
        // Few messages stay, so that all bits of all files can be tried.
        if number % 4 != 0 {
            driver.settle(LOGS[0], number..=number);
        }
        if number % 7 != 0 {
            driver.settle(LOGS[1], number..=number);
        }
        if number % 5 == 0 {
            let first = driver.ledgers.0.get(&CHUNKS).map_or(0, |ledger| ledger.next);
            driver.publish_chunk(CHUNKS, 4, 60, Wait::Confirm);
            // Every third chunk stays, and with it its dead messages.
            let last = if number % 15 == 0 { first + 1 } else { first + 3 };
            driver.settle(CHUNKS, first..=last);
        }
        driver.settle_down();
        step(driver);
    }
}

pub(crate) fn closed() -> MemoryDisk {
    let mut driver = Driver::open(MemoryDisk::new(), tiny());
    fill(&mut driver, |_| ());
    driver.close()
}

/// A log of the same kind whose first WAL file became a segment, closed cleanly.
pub(crate) fn closed_with_a_kept_file() -> MemoryDisk {
    let mut driver = Driver::open(MemoryDisk::new(), tiny());
    for number in 1..100 {
        for (log, length) in LOGS.into_iter().zip([700, 100]) {
            driver.publish(log, &[body(log, number, length)], Wait::Confirm);
        }
        driver.publish_chunk(CHUNKS, 4, 60, Wait::Confirm);
        // In batches of several, because each is padded.
        if number % 5 == 0 {
            driver.settle_down();
        }
        if driver.log.statistics().files_kept > 0 {
            return driver.close();
        }
    }
    panic!("no file was kept: {:?}", driver.log.statistics());
}

/// The messages of [`closed`] and of logs filled by [`fill`].
pub(crate) fn expected() -> Vec<Vec<(u64, Bytes)>> {
    expected_in(closed())
}

/// The messages in a log that was closed.
pub(crate) fn expected_in(closed: MemoryDisk) -> Vec<Vec<(u64, Bytes)>> {
    let driver = Driver::open(closed, tiny());
    assert!(driver.report.clean, "{:?}", driver.report);
    ALL.iter().map(|log| driver.read(*log, 0, 4000)).collect()
}

/// The unsettled ones of these messages of [`ALL`]: dead messages may be in a file or not. A chunk is live with its last
/// message.
pub(crate) fn alive(driver: &Driver, messages: Vec<Vec<(u64, Bytes)>>) -> Vec<Vec<(u64, Bytes)>> {
    let live = |log: LogId, number: u64| {
        let last = if log == CHUNKS { number + 3 } else { number };
        driver.ledgers.0[&log].live.contains_key(&last)
    };
    ALL.into_iter()
        .zip(messages)
        .map(|(log, messages)| messages.into_iter().filter(|(number, _)| live(log, *number)).collect())
        .collect()
}

/// The bytes in use of each file: all except retired and spare files and bytes that no batch has reached.
pub(crate) fn used(disk: &MemoryDisk) -> Vec<(String, Range<usize>)> {
    let mut used = Vec::new();
    let mut left = Driver::open(disk.clone(), tiny()).report.removed;
    // It is never read.
    left.push("reserve-0000".to_owned());
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

/// The result of opening a log that isn't as written.
#[derive(Debug, PartialEq)]
pub(crate) enum OpenOutcome {
    /// The log isn't opened, with this text.
    Refused(String),
    /// The log is opened and reports the damage, or that it wasn't closed as far as it knows.
    Told,
    /// Reading a message reports the damage.
    ToldByReader,
    /// Nothing is reported, and all messages are there.
    Silent,
}

/// Opens the log and reads everything. Messages that are read must be as written.
pub(crate) fn start(disk: &MemoryDisk, expected: &[Vec<(u64, Bytes)>]) -> OpenOutcome {
    let disk = disk.clone();
    let mut ledgers = Ledgers::default();
    let (log, report) = match recover(&disk, tiny(), &mut ledgers, 0) {
        Ok(opened) => opened,
        Err(error) => return OpenOutcome::Refused(error.to_string()),
    };
    let mut outcome = if report.clean { OpenOutcome::Silent } else { OpenOutcome::Told };
    for (log_id, expected) in ALL.iter().zip(expected) {
        let mut messages = Vec::new();
        let mut from = 0;
        while let Some(plan) = log.plan_read(*log_id, from, 4000) {
            let Ok(found) = plan.run(&disk) else {
                if outcome == OpenOutcome::Silent {
                    outcome = OpenOutcome::ToldByReader;
                }
                // There may be more messages after unreadable ones.
                from += 1;
                continue;
            };
            from = found.last().unwrap().last() + 1;
            messages.extend(found.into_iter().map(|message| (message.number, message.payload)));
        }
        if outcome == OpenOutcome::Silent {
            assert_eq!(&messages, expected, "something else is read, and nothing said so");
        }
        for (number, payload) in messages {
            let length = payload.len() - 4;
            assert_eq!(payload[4..], body(*log_id, number, length), "log {log_id}, message {number}");
        }
    }
    outcome
}
