//! Records are durable when the log says so, and are there after a restart.

#[allow(dead_code)]
mod driver;

use bytes::Bytes;
use driver::{Driver, body, small};
use leveret_log::{Event, Job, Lane, LogId, MemoryDisk, Next, Options, StorageError, Wait};

const A: LogId = LogId(1);
const B: LogId = LogId(2);

#[test]
fn an_empty_directory_is_a_new_log() {
    let driver = Driver::open(MemoryDisk::new(), Options::default());
    assert!(driver.report.clean);
    assert_eq!((driver.log.appended(), driver.log.durable()), (0, 0));
    assert!(driver.log.plan_read(A, 1, 100).is_none());
}

#[test]
fn records_are_durable_after_the_sync_and_there_after_a_restart() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.control(LogId::METADATA, 1, b"declare");
    let position = driver.publish(A, &[body(A, 1, 60), body(A, 2, 9000)], Wait::Confirm);
    assert_eq!(position, 3);
    assert!(driver.log.commit_waiting());
    assert!(driver.log.plan_read(A, 1, 100).is_none());
    assert!(driver.step(Lane::Commit), "write");
    assert_eq!(driver.log.durable(), 0);
    assert!(matches!(driver.events[..], [Event::Written(3)]));
    assert_eq!(driver.read(A, 1, 100)[0].1[4..], body(A, 1, 60)[..], "what is written can be read");
    assert!(driver.step(Lane::Commit), "sync");
    assert_eq!(driver.log.durable(), 3);
    assert!(matches!(driver.events[..], [Event::Written(3), Event::Durable(3)]));
    driver.settle(A, 1..=1);
    driver.settle_down();
    assert_eq!(driver.log.durable(), 6, "with the second copy of the metadata, and a filler before it");
    let read = driver.read(A, 1, 100);
    assert_eq!(read[0].1[4..], body(A, 1, 60)[..]);
    assert_eq!(read[1].1[4..], body(A, 2, 9000)[..]);
    let before = driver.ledgers.0.clone();

    // As after a kill.
    let mut driver = Driver::open(driver.disk.clone(), small());
    assert!(!driver.report.clean);
    assert_eq!(driver.report.position, 6);
    assert_eq!(driver.ledgers.0[&A].live, before[&A].live);
    assert_eq!(driver.ledgers.0[&LogId::METADATA].controls, [(1, b"declare".to_vec())]);
    assert_eq!(driver.read(A, 2, 1).len(), 1);
    driver.publish(A, &[body(A, 3, 10)], Wait::Confirm);
    driver.settle_down();

    let disk = driver.close();
    let driver = Driver::open(disk, small());
    assert!(driver.report.clean, "{:?}", driver.report);
    assert_eq!(driver.report.position, 8, "with the closing record");
    assert_eq!(driver.ledgers.0[&A].next, 4);
}

#[test]
fn a_backlog_passes_retirement_in_order() {
    retire_a_backlog(&small());
}

#[test]
fn a_backlog_goes_through_files_filled_with_zeros() {
    for fill_after in [1 << 10, 8 << 10] {
        retire_a_backlog(&Options { fill_after, ..small() });
    }
}

#[test]
fn a_file_that_was_never_written_is_soon_left_for_the_next() {
    let options = Options { fill_after: 8 << 10, unretired_max: 4, ..small() };
    let mut driver = Driver::open(MemoryDisk::new(), options.clone());
    let first = names(&driver);
    for number in 1..=14 {
        driver.publish(A, &[body(A, number, 900)], Wait::Confirm);
        driver.settle_down();
    }
    let second = names(&driver);
    assert_eq!((first.len(), second.len()), (1, 2), "{second:?}");
    let content = driver.disk.content(&second[0]).unwrap();
    assert!(content[16 << 10..].iter().all(|byte| *byte == 0), "the first one was left");
    driver.publish(A, &[body(A, 15, 900)], Wait::Confirm);
    driver.settle_down();
    assert_eq!(names(&driver), second, "the second one isn't");
    let reopened = Driver::open(driver.disk, options);
    assert!(reopened.report.damaged.is_empty() && reopened.report.cut.is_none(), "{:?}", reopened.report);
    assert_eq!(reopened.ledgers.0[&A].live.len(), 15);
}

/// Names of the WAL files.
fn names(driver: &Driver) -> Vec<String> {
    let mut names = leveret_log::Disk::list(&driver.disk).unwrap();
    names.retain(|name| name.starts_with("wal-"));
    names.sort();
    names
}

fn retire_a_backlog(options: &Options) {
    let mut driver = Driver::open(MemoryDisk::new(), options.clone());
    let mut large = 0;
    for i in 0..300u64 {
        let log = if i % 7 == 0 { B } else { A };
        let next = driver.ledgers.0.get(&log).map_or(1, |ledger| ledger.next.max(1));
        let length = if i % 50 == 49 { 30_000 } else { 900 };
        large += usize::from(length > 900);
        let bodies: Vec<Bytes> = (next..next + 3).map(|n| body(log, n, length)).collect();
        driver.publish(log, &bodies, Wait::Confirm);
        if i % 5 == 4 {
            driver.settle(A, next / 2..=next / 2);
        }
        driver.settle_down();
        assert!(driver.log.statistics().unretired_files <= 5);
    }
    assert!(large > 0);
    let statistics = driver.log.statistics();
    assert!(statistics.retirements > 5, "{statistics:?}");
    assert!(statistics.segments > 0);
    assert!(statistics.messages_copied > 100);
    for log in [A, B] {
        let stored = driver.read(log, 1, 10_000);
        let numbers: Vec<u64> = stored.iter().map(|(number, _)| *number).collect();
        for live in driver.ledgers.0[&log].live.keys() {
            let at = numbers.binary_search(live).expect("it is alive");
            let found = &stored[at].1;
            assert_eq!(found[4..], body(log, *live, found.len() - 4)[..]);
        }
    }
    let before = driver.ledgers.0.clone();
    let driver = Driver::open(driver.disk.clone(), options.clone());
    assert!(driver.report.damaged.is_empty(), "{:?}", driver.report);
    for log in [A, B] {
        assert_eq!(driver.ledgers.0[&log].next, before[&log].next);
        let live = |ledger: &driver::OwnedLog| ledger.live.keys().copied().collect::<Vec<_>>();
        assert_eq!(live(&driver.ledgers.0[&log]), live(&before[&log]));
        let stored = driver.read(log, 1, 1 << 20);
        let numbers: Vec<u64> = stored.iter().map(|(number, _)| *number).collect();
        for live in before[&log].live.keys() {
            let at = numbers.binary_search(live).expect("it is alive");
            let found = &stored[at].1;
            assert_eq!(found[4..], body(log, *live, found.len() - 4)[..]);
        }
    }
}

#[test]
fn a_crash_after_retirement_of_everything_is_no_clean_stop() {
    let options = Options { unretired_max: 2, ..small() };
    let mut driver = Driver::open(MemoryDisk::new(), options.clone());
    assert!(driver.report.clean, "an empty directory is one");
    driver.publish(LogId(1), &[body(LogId(1), 1, 100)], Wait::Confirm);
    driver.settle_down();
    let mut driver = Driver::open(driver.disk, options.clone());
    assert!(!driver.report.clean);
    driver.settle_down();
    assert_eq!(driver.log.statistics().retirements, 1);
    let driver = Driver::open(driver.disk, options);
    assert_eq!(driver.report.replayed, 0, "nothing is left in the WAL");
    assert!(!driver.report.clean);
}

#[test]
fn messages_settled_in_time_are_never_copied() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for i in 1..=2000u64 {
        driver.publish(A, &[body(A, i, 500)], Wait::Confirm);
        driver.settle(A, i..=i);
        driver.settle_down();
    }
    let statistics = driver.log.statistics();
    assert!(statistics.retirements > 10);
    assert_eq!((statistics.messages_copied, statistics.segments), (0, 0));
    let names = leveret_log::Disk::list(&driver.disk).unwrap();
    assert!(names.len() <= 8, "{names:?}");
}

#[test]
fn segments_go_with_their_last_message_and_with_their_log() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for i in 1..=400u64 {
        driver.publish(A, &[body(A, i, 900)], Wait::Confirm);
        driver.publish(B, &[body(B, i, 900)], Wait::Confirm);
        driver.settle_down();
    }
    assert!(driver.log.statistics().segments > 2);
    driver.delete(B);
    assert!(driver.log.plan_read(B, 1, 100).is_none());
    driver.settle_down();
    driver.settle(A, 1..=400);
    for i in 401..=900u64 {
        driver.publish(A, &[body(A, i, 900)], Wait::Confirm);
        driver.settle(A, i..=i);
        driver.settle_down();
    }
    assert_eq!(driver.log.statistics().segments, 0);
    let names = leveret_log::Disk::list(&driver.disk).unwrap();
    assert!(names.iter().all(|name| !name.starts_with("segment-")), "{names:?}");
    let driver = Driver::open(driver.disk.clone(), small());
    assert!(!driver.ledgers.0.contains_key(&B));
    assert!(driver.ledgers.0[&A].live.is_empty());
}

#[test]
fn a_body_larger_than_a_file_passes() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 100)], Wait::Confirm);
    driver.settle_down();
    driver.publish(A, &[body(A, 2, 300_000), body(A, 3, 10)], Wait::Confirm);
    driver.settle_down();
    assert_eq!(driver.log.durable(), 3);
    let driver = Driver::open(driver.disk.clone(), small());
    let read = driver.read(A, 1, 1);
    assert_eq!(read.len(), 3);
    assert_eq!(read[1].1[4..], body(A, 2, 300_000)[..]);
}

#[test]
fn without_room_publishes_wait_for_the_disk() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let mut next = 1;
    while driver.log.room() {
        driver.publish(A, &[body(A, next, 3000)], Wait::Confirm);
        next += 1;
    }
    driver.settle(A, 1..=1);
    driver.settle_down();
    assert!(driver.log.room());
    assert!(driver.events.iter().any(|event| matches!(event, Event::Room)));
    assert_eq!(driver.log.durable(), driver.log.appended());
}

#[test]
fn a_batch_for_a_new_file_doesnt_wait_for_the_background_lane() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 20_000)], Wait::Confirm);
    assert!(driver.step(Lane::Commit) && driver.step(Lane::Commit));
    // Less than half of the file is used, so the next one isn't prepared; this batch doesn't fit into the rest.
    let bodies: Vec<Bytes> = (2..=4).map(|number| body(A, number, 19_000)).collect();
    driver.publish(A, &bodies, Wait::Confirm);
    driver.now += 2_000_000;
    while driver.step(Lane::Commit) {}
    assert_eq!(driver.log.durable(), driver.log.appended());
}

#[test]
fn retirement_holds_commits_back_when_it_is_behind() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let mut next = 1;
    // The background lane only prepares files; it doesn't get the states of the logs.
    while driver.log.room() && next < 1000 {
        driver.publish(A, &[body(A, next, 3000)], Wait::Confirm);
        next += 1;
        driver.now += 2_000_000;
        while driver.step(Lane::Commit) {}
        if driver.log.statistics().unretired_files < 4 {
            driver.step(Lane::Background);
        }
    }
    assert!(!driver.log.room());
    assert!(!driver.log.commit_waiting());
    assert_eq!(driver.log.statistics().unretired_files, 4);
    driver.settle_down();
    assert!(driver.log.room());
    assert_eq!(driver.log.durable(), driver.log.appended());
}

/// Runs one due sync, which takes `took`; `meanwhile` runs during it.
fn sync(driver: &mut Driver, took: u64, meanwhile: impl FnOnce(&mut Driver)) {
    assert!(driver.step(Lane::Commit), "the write");
    let Next::Run(id, job) = driver.log.next_job(Lane::Commit, driver.now) else { panic!("a sync is due") };
    assert!(matches!(job, Job::Sync { .. }));
    driver.now += took;
    meanwhile(driver);
    let done = job.run(&driver.disk).unwrap();
    driver.log.complete(id, Ok(done), driver.now).unwrap();
}

/// How long the waiting records are delayed.
fn kept_back(driver: &mut Driver) -> u64 {
    let Next::At(at) = driver.log.next_job(Lane::Commit, driver.now) else { panic!("it has to wait") };
    at - driver.now
}

/// Publishes this many messages of ten bytes, numbered after `number`.
fn publish(driver: &mut Driver, number: &mut u64, count: u64) {
    let bodies: Vec<Bytes> = (*number + 1..=*number + count).map(|n| body(A, n, 10)).collect();
    *number += count;
    driver.publish(A, &bodies, Wait::Confirm);
}

#[test]
fn group_commit_waits_only_as_long_as_it_should() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let mut number = 0;
    // The last sync is long ago: written at once. So is a record of a publisher that always waits for its confirm.
    publish(&mut driver, &mut number, 1);
    sync(&mut driver, 300_000, |_| {});
    publish(&mut driver, &mut number, 1);
    sync(&mut driver, 300_000, |driver| publish(driver, &mut number, 2));
    // One record was confirmed and two came meanwhile: three may come again.
    assert_eq!(kept_back(&mut driver), 200_000, "but they are not waited for long");
    publish(&mut driver, &mut number, 1);
    assert!(driver.log.commit_waiting(), "all are there");
    // The delay counts from the time at which they could have been written.
    sync(&mut driver, 5_000_000, |driver| {
        driver.now -= 4_000_000;
        publish(driver, &mut number, 1);
        driver.now += 4_000_000;
    });
    assert_eq!(kept_back(&mut driver), 200_000);
    assert!(!driver.log.commit_waiting(), "the lane knows");
    driver.now += 200_000;
    sync(&mut driver, 50_000, |driver| publish(driver, &mut number, 2));
    assert_eq!(kept_back(&mut driver), 50_000, "no longer than a sync takes");
    driver.now += 50_000;
    sync(&mut driver, 300_000, |_| {});
    // Lazy records wait 50 ms.
    driver.settle(A, 1..=1);
    assert_eq!(kept_back(&mut driver), 50_000_000);
}

/// Publishers with full windows send as much again as was confirmed. If the half that came during a sync didn't wait
/// for the other half, each window would take two syncs forever.
/// for the other half, each window would take two syncs for good.
#[test]
fn the_halves_of_a_window_come_together() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let mut number = 0;
    publish(&mut driver, &mut number, 100);
    sync(&mut driver, 100_000, |driver| publish(driver, &mut number, 80));
    assert_eq!(kept_back(&mut driver), 100_000, "the other half is waited for as long as the sync took");
    driver.now += 20_000;
    publish(&mut driver, &mut number, 100);
    assert!(driver.log.commit_waiting(), "all are there");
    sync(&mut driver, 100_000, |_| {});
    publish(&mut driver, &mut number, 180);
    sync(&mut driver, 100_000, |_| {});
    // A publisher that has gone is waited for once.
    publish(&mut driver, &mut number, 70);
    driver.now += kept_back(&mut driver);
    sync(&mut driver, 100_000, |_| {});
    publish(&mut driver, &mut number, 70);
    sync(&mut driver, 100_000, |_| {});
}

#[test]
fn a_failed_sync_is_fatal_and_says_where() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 10)], Wait::Confirm);
    driver.step(Lane::Commit);
    let Next::Run(id, Job::Sync { file }) = driver.log.next_job(Lane::Commit, driver.now) else {
        panic!("a sync is due");
    };
    let error = leveret_log::DiskError {
        file: file.to_string(),
        offset: 0,
        operation: leveret_log::Operation::Sync,
        error: std::io::Error::from_raw_os_error(5),
    };
    let error = driver.log.complete(id, Err(error), driver.now).unwrap_err();
    assert!(matches!(error, StorageError::Disk(_)));
    let text = error.to_string();
    assert!(text.contains("wal-0000-0000000000000001"), "{text}");
    assert!(text.contains("sync"), "{text}");
}

#[test]
fn another_nodes_directory_is_refused_untouched() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 10)], Wait::Confirm);
    driver.settle_down();
    let disk = driver.close();
    let before = leveret_log::Disk::list(&disk).unwrap();
    let options = Options { node_id: 78, ..small() };
    let mut ledgers = driver::Ledgers::default();
    let error = leveret_log::recover(&disk, options, &mut ledgers, 0).unwrap_err();
    assert!(matches!(error, StorageError::WrongNode { found: 77, expected: 78 }));
    assert_eq!(leveret_log::Disk::list(&disk).unwrap(), before);
}

#[test]
fn a_plan_pins_its_file() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 2000)], Wait::Confirm);
    driver.settle_down();
    let plan = driver.log.plan_read(A, 1, 1).unwrap();
    for i in 2..=300u64 {
        driver.publish(A, &[body(A, i, 2000)], Wait::Confirm);
        driver.settle(A, i - 1..=i - 1);
        driver.settle_down();
    }
    assert!(driver.log.statistics().retirements > 2);
    assert_eq!(plan.run(&driver.disk).unwrap()[0].number, 1);
}
