//! A bit that is misread once is no damage: a retirement that meets it reads again, and copies the bytes that it
//! checked.

#[allow(dead_code)]
mod driver;

use driver::{Driver, body, small};
use leveret_log::{Disk, Event, Lane, LogId, MemoryDisk, Wait};

/// With this many runs, the table of a batch now and then begins in one read of a retirement and ends in the next.
const LOGS: u64 = 40;

/// A log with enough records for a retirement, which has not begun.
fn before_a_retirement(body_bytes: usize) -> Driver {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for number in 1..=60 {
        for log in (1..=LOGS).map(LogId) {
            driver.publish(log, &[body(log, number, body_bytes)], Wait::Confirm);
            if number % 3 == 0 {
                driver.settle(log, number..=number);
            }
        }
        driver.now += 1_000_000;
        while driver.step(Lane::Commit) {}
    }
    driver
}

/// Runs a retirement with a misread after this many other reads. Returns false if there were no more reads.
fn misread(body_bytes: usize, reads: u64) -> bool {
    let mut driver = before_a_retirement(body_bytes);
    driver.disk.misread(reads);
    driver.settle_down();
    assert!(driver.log.statistics().retirements > 0, "{:?}", driver.log.statistics());
    if driver.disk.misreads() {
        return false;
    }
    let damage: Vec<&Event> = driver.events.iter().filter(|event| matches!(event, Event::Damaged(_))).collect();
    assert!(damage.is_empty(), "bodies of {body_bytes}, read {reads}: {damage:?}");
    for (log, ledger) in &driver.ledgers.0 {
        let stored = driver.read(*log, 1, 50_000);
        for number in ledger.live.keys() {
            let found = stored.iter().find(|(other, _)| other == number);
            let (_, payload) = found.unwrap_or_else(|| panic!("read {reads}: {log}/{number} is alive"));
            assert_eq!(payload[4..], body(*log, *number, body_bytes)[..], "read {reads}: {log}/{number}");
        }
    }
    true
}

#[test]
fn a_bit_that_a_retirement_reads_wrong_once_stops_nothing() {
    let mut met = 0;
    for body_bytes in (20..100).step_by(12) {
        met += (0..).take_while(|reads| misread(body_bytes, *reads)).count();
    }
    assert!(met > 30, "{met} reads");
}

/// Wrong bytes in a cache are the same at each read, until they are read from the device again.
#[test]
fn bytes_that_are_wrong_in_a_cache_are_no_damage() {
    let driver = before_a_retirement(90);
    let disk = driver.disk.clone();
    let mut files: Vec<String> = disk.list().unwrap();
    files.retain(|name| name.starts_with("wal-"));
    for (at, name) in (0..).zip(&files) {
        let end = disk.content(name).unwrap().iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64;
        for offset in (0..end).step_by(701) {
            // Readers, then a retirement.
            let mut driver = before_a_retirement(90);
            let count = |driver: &Driver| (1..=LOGS).map(|log| driver.read(LogId(log), 1, 50_000).len()).sum::<usize>();
            let expected = count(&driver);
            driver.disk.stale(name, offset);
            assert_eq!(count(&driver), expected, "{name} {offset}");
            driver.disk.stale(name, offset);
            driver.settle_down();
            assert!(driver.events.iter().all(|event| !matches!(event, Event::Damaged(_))), "{name} {offset}");
            assert!(at > 0 || driver.log.statistics().retirements > 0);
        }
    }
}

#[test]
fn a_start_reads_again_what_is_wrong_in_a_cache() {
    let mut driver = before_a_retirement(90);
    driver.control(LogId::METADATA, 1, b"declare");
    driver.settle_down();
    let disk = driver.disk.clone();
    for name in disk.list().unwrap() {
        let content = disk.content(&name).unwrap();
        let end = content.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64;
        for offset in (0..end).step_by(499) {
            let disk = disk.clone();
            disk.stale(&name, offset);
            let reopened = Driver::open(disk, small());
            let report = &reopened.report;
            assert!(report.damaged.is_empty() && report.cut.is_none(), "{name} {offset}: {report:?}");
        }
    }
}
