//! WAL files that are mostly live become segments as they are.

#[allow(dead_code)]
mod driver;

use std::collections::BTreeMap;

use driver::copies::Copies;
use driver::watched::Watched;
use driver::{Driver, body, check, small};
use leveret_log::{Disk, Hit, LogId, MemoryDisk, Options, Skim, Wait, repair, verify};

const A: LogId = LogId(1);
const B: LogId = LogId(2);
/// A log of chunks.
const C: LogId = LogId(3);

fn keeping() -> Options {
    Options { keep_live_percent: 75, ..small() }
}

/// Publishes to all logs until this many files became segments.
fn fill(driver: &mut Driver, files: u64) {
    let until = driver.log.statistics().files_kept + files;
    for round in 0.. {
        for (log, length) in [(A, 900), (B, 100)] {
            let number = driver.ledgers.0.get(&log).map_or(1, |ledger| ledger.next.max(1));
            driver.publish(log, &[body(log, number, length)], Wait::Confirm);
        }
        driver.publish_chunk(C, 5, 2000, Wait::Confirm);
        driver.settle_down();
        if driver.log.statistics().files_kept >= until {
            return;
        }
        assert!(round < 1000, "{:?}", driver.log.statistics());
    }
}

fn kept() -> Driver {
    let mut driver = Driver::open(MemoryDisk::new(), keeping());
    fill(&mut driver, 4);
    driver
}

fn names(disk: &MemoryDisk, start: &str) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.starts_with(start));
    names.sort_unstable();
    names
}

/// Asserts that every live message is read, byte for byte.
fn assert_all_live(driver: &Driver) {
    for (log, ledger) in &driver.ledgers.0 {
        let mut found = Vec::new();
        for stored in driver.read_stored(*log, 0, 5000) {
            assert_eq!(stored.payload[4..], body(*log, stored.number, stored.payload.len() - 4)[..]);
            found.extend((stored.number..=stored.last()).filter(|number| ledger.live.contains_key(number)));
        }
        assert_eq!(found, ledger.live.keys().copied().collect::<Vec<_>>(), "{log}");
    }
}

#[test]
fn messages_of_a_backlog_are_written_once() {
    let driver = kept();
    let statistics = driver.log.statistics();
    assert_eq!((statistics.files_kept, statistics.bytes_copied), (statistics.retirements, 0), "{statistics:?}");
    assert_eq!(statistics.segments, statistics.files_kept);
    let indexes = names(&driver.disk, "segment-");
    assert_eq!(indexes.len() as u64, statistics.files_kept);
    for name in indexes {
        assert!(driver.disk.len(&name).unwrap() < 2000, "an index only");
    }
    assert_all_live(&driver);
}

#[test]
fn they_are_there_after_a_clean_stop_and_after_a_kill() {
    let driver = kept();
    let live = |driver: &Driver| -> BTreeMap<LogId, Vec<u64>> {
        driver.ledgers.0.iter().map(|(log, ledger)| (*log, ledger.live.keys().copied().collect())).collect()
    };
    let (before, killed) = (live(&driver), driver.disk.clone());
    for disk in [killed, driver.close()] {
        assert!(check(&disk, &keeping()).unwrap().is_sound());
        let mut driver = Driver::open(disk, keeping());
        assert!(driver.report.damaged.is_empty(), "{:?}", driver.report);
        assert_eq!(live(&driver), before);
        assert_all_live(&driver);
        // They outlive further checkpoints and starts.
        fill(&mut driver, 2);
        let mut driver = Driver::open(driver.close(), keeping());
        assert!(driver.report.clean, "{:?}", driver.report);
        assert_all_live(&driver);
        driver.settle_down();
    }
}

#[test]
fn a_file_with_too_little_left_is_copied() {
    let mut driver = Driver::open(MemoryDisk::new(), keeping());
    for number in 1..=400 {
        driver.publish(A, &[body(A, number, 900)], Wait::Confirm);
        if number % 3 == 0 {
            driver.settle(A, number..=number);
        }
        driver.settle_down();
    }
    let statistics = driver.log.statistics();
    assert!(statistics.retirements > 2 && statistics.bytes_copied > 0, "{statistics:?}");
    assert_eq!(statistics.files_kept, 0);
    assert_all_live(&driver);
}

#[test]
fn settled_ones_go_with_their_files() {
    let mut driver = kept();
    let (files, numbers) = (names(&driver.disk, "wal-").len(), driver.ledgers.0[&A].next);
    // Hardly anything is left in the first files: they are rewritten. Nothing is in the next ones.
    for log in [A, B, C] {
        let last = driver.ledgers.0[&log].next - 1;
        for number in 0..last {
            if !(log == A && number < numbers / 3 && number % 10 == 1) {
                driver.settle(log, number..=number);
            }
        }
    }
    driver.settle_down();
    let statistics = driver.log.statistics();
    assert!(statistics.rewrites > 0 && statistics.bytes_copied > 0, "{statistics:?}");
    // One of them is used again for the log.
    assert!(names(&driver.disk, "wal-").len() + 2 < files, "{:?}", driver.disk.list());
    assert_eq!(names(&driver.disk, "segment-").len() as u64, statistics.segments);
    assert_all_live(&driver);
    let disk = driver.close();
    assert!(check(&disk, &keeping()).unwrap().is_sound());
    assert_all_live(&Driver::open(disk, keeping()));
}

/// A stream whose beginning is removed: the log goes on in files that were segments, and creates few.
#[test]
fn files_without_a_live_message_are_used_again() {
    let mut driver = Driver::open(MemoryDisk::new(), keeping());
    for round in 0..600 {
        driver.publish_chunk(C, 5, 2000, Wait::Confirm);
        if round >= 100 {
            let first = *driver.ledgers.0[&C].live.keys().next().unwrap();
            driver.settle(C, first..=first + 4);
        }
        driver.settle_down();
    }
    assert!(driver.log.statistics().files_kept > 10, "{:?}", driver.log.statistics());
    assert!(names(&driver.disk, "wal-").len() < 12, "{:?}", driver.disk.list());
    assert_all_live(&driver);
    let disk = driver.close();
    assert!(check(&disk, &keeping()).unwrap().is_sound());
    assert_all_live(&Driver::open(disk, keeping()));
}

#[test]
fn a_deleted_log_leaves_nothing() {
    let mut driver = kept();
    for log in [A, B, C] {
        driver.delete(log);
    }
    for _ in 0..20 {
        driver.control(LogId::METADATA, 1, &[7; 8000]);
        driver.settle_down();
    }
    assert_eq!(driver.log.statistics().segments, 0);
    assert_eq!(names(&driver.disk, "segment-"), [""; 0]);
    assert!(names(&driver.disk, "wal-").len() <= 5, "{:?}", driver.disk.list());
}

/// A chunk that is sent out of its file is never overwritten.
#[test]
fn chunks_are_lent_out_of_a_kept_file() {
    let driver = kept();
    let disk = Watched::new(&driver.disk);
    let plan = driver.log.plan_read(C, 0, 10_000).unwrap();
    let (found, _) = plan.skim(&disk, 10, |_| Skim::Lend).unwrap();
    assert!(found.iter().all(|stored| stored.lent.is_some()), "{found:?}");
    let before = driver.disk.content("wal-0000-0000000000000001").unwrap();
    let mut driver = driver;
    fill(&mut driver, 3);
    assert_eq!(driver.disk.content("wal-0000-0000000000000001").unwrap(), before);
}

/// Without its index, a kept file still has all messages: a start reports them and leaves both files, a repaired copy has them.
#[test]
fn messages_survive_the_loss_of_an_index() {
    let driver = kept();
    let before = driver.ledgers.0.clone();
    let index = names(&driver.disk, "segment-").remove(1);
    for at in [10, 700] {
        let disk = driver.disk.clone();
        let mut content = disk.content(&index).unwrap();
        content[at] ^= 1;
        disk.put(&index, content);
        let mut copies = Copies::default();
        let verified = verify(&disk, &keeping(), &mut copies.ledgers).unwrap();
        assert!(!verified.is_sound());
        let copy = MemoryDisk::new();
        repair(&disk, &copy, &keeping(), &verified, &mut copies).unwrap();
        assert!(check(&copy, &keeping()).unwrap().is_sound());
        let repaired = Driver::open(copy, keeping());
        assert_all_live(&repaired);
        for (log, ledger) in &before {
            assert!(repaired.ledgers.0[log].live.keys().eq(ledger.live.keys()), "{log}");
        }
        let reopened = Driver::open(disk, keeping());
        let hit: Vec<&Hit> = reopened.report.damaged.iter().map(|damage| &damage.logs).collect();
        assert_eq!(hit, [A, B, C].map(|log| Hit::Logs(vec![log])).iter().collect::<Vec<_>>());
        let again = Driver::open(reopened.disk.clone(), keeping());
        assert_eq!(again.report.damaged.len(), 3);
        // Both files stay where they are, and are used once the bytes are right again.
        let mut content = again.disk.content(&index).unwrap();
        content[at] ^= 1;
        again.disk.put(&index, content);
        let mended = Driver::open(again.disk.clone(), keeping());
        assert!(mended.report.damaged.is_empty(), "{:?}", mended.report.damaged);
        assert_all_live(&mended);
    }
}

#[test]
fn a_kept_file_that_is_gone_or_shorter_is_reported() {
    for is_gone in [true, false] {
        let driver = kept();
        let file = "wal-0000-0000000000000002";
        match is_gone {
            true => driver.disk.remove(file).unwrap(),
            false => driver.disk.put(file, driver.disk.content(file).unwrap()[..40_000].to_vec()),
        }
        assert!(!check(&driver.disk, &keeping()).unwrap().is_sound());
        let reopened = Driver::open(driver.disk.clone(), keeping());
        let damaged = &reopened.report.damaged;
        assert_eq!(damaged.len(), 3, "{damaged:?}");
        assert!(damaged.iter().all(|damage| damage.reason.contains(file)), "{damaged:?}");
    }
}
