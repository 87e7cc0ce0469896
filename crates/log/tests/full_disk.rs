//! A full disk: publishers block, consumers and settles continue, and everything continues once there is space; also
//! after a crash.

#[allow(dead_code)]
mod driver;

use driver::{Driver, body, small};
use leveret_log::{
    Disk, DiskError, Event, Job, Lane, LogId, MemoryDisk, Nanos, Next, Operation, Options, StorageError, Wait,
};

const A: LogId = LogId(1);
const B: LogId = LogId(2);
const SECOND: Nanos = 1_000_000_000;

fn tiny() -> Options {
    let keep_live_percent = Options::default().keep_live_percent;
    Options { file_bytes: 16 << 10, mixed_below: 3 << 10, survey_interval: 100_000_000, keep_live_percent, ..small() }
}

/// Runs both lanes for this long.
fn work(driver: &mut Driver, time: Nanos) {
    let end = driver.now + time;
    while driver.now < end {
        if driver.step(Lane::Commit) | driver.step(Lane::Background) {
            continue;
        }
        let at = [Lane::Commit, Lane::Background].map(|lane| match driver.log.next_job(lane, driver.now) {
            Next::At(at) => at,
            Next::Idle => end,
            Next::Run(..) => unreachable!("nothing was left"),
        });
        driver.now = at[0].min(at[1]).min(end);
    }
}

fn publish_one(driver: &mut Driver, log: LogId, length: usize) -> u64 {
    let number = driver.ledgers.0.get(&log).map_or(1, |ledger| ledger.next.max(1));
    driver.publish(log, &[body(log, number, length)], Wait::Confirm);
    number
}

/// Publishes while there is room, for a while.
fn fill(driver: &mut Driver, rounds: usize) {
    for _ in 0..rounds {
        if !driver.log.room() {
            return;
        }
        publish_one(driver, A, 900);
        publish_one(driver, B, 200);
        work(driver, SECOND / 100);
    }
}

/// Asserts that all appended records become durable soon, although an operation may have to be retried.
fn assert_durable(driver: &mut Driver, what: &str) {
    let begin = driver.now;
    while driver.log.durable() < driver.log.appended() {
        work(driver, SECOND / 10);
        assert!(driver.now - begin < 3 * SECOND, "{what}: {} of {}", driver.log.durable(), driver.log.appended());
    }
}

/// Asserts that every live message is there, byte for byte.
fn check(driver: &Driver) {
    for (log, ledger) in &driver.ledgers.0 {
        let stored = driver.read(*log, 1, 5000);
        for number in ledger.live.keys() {
            let at = stored.binary_search_by_key(number, |(number, _)| *number);
            let found = &stored[at.unwrap_or_else(|_| panic!("{log}/{number} is alive"))].1;
            assert_eq!(found[4..], body(*log, *number, found.len() - 4)[..], "{log}/{number}");
        }
    }
}

/// Asserts that the same live messages are there after a crash, on a disk that is still full.
fn check_after_a_crash(driver: &Driver) {
    let reopened = Driver::open(driver.disk.clone(), tiny());
    assert!(reopened.report.damaged.is_empty(), "{:?}", reopened.report);
    for (log, ledger) in &driver.ledgers.0 {
        let found: Vec<u64> = reopened.ledgers.0[log].live.keys().copied().collect();
        assert_eq!(found, ledger.live.keys().copied().collect::<Vec<_>>(), "log {log}");
    }
    check(&reopened);
}

#[test]
fn settles_go_on_at_any_disk_size_and_publishes_with_space() {
    let (mut held, mut capacity) = (0, 64 << 10);
    while capacity < 400 << 10 {
        let mut driver = Driver::open(MemoryDisk::new(), tiny());
        work(&mut driver, SECOND / 10);
        driver.disk.limit(Some(capacity));
        fill(&mut driver, 250);
        let was_held = !driver.log.room();
        held += usize::from(was_held);
        assert_eq!(was_held, driver.log.is_out_of_space(), "{capacity}");
        let at = format!("{capacity} bytes, held: {was_held}");
        check(&driver);
        // Drains both queues message by message.
        for log in [A, B] {
            let live: Vec<u64> = driver.ledgers.0[&log].live.keys().copied().collect();
            for number in live {
                driver.settle(log, number..=number);
                assert_durable(&mut driver, &at);
            }
        }
        check_after_a_crash(&driver);
        driver.events.clear();
        driver.disk.limit(None);
        work(&mut driver, 5 * SECOND);
        assert!(driver.log.room(), "{at}");
        assert!(!was_held || !driver.log.is_out_of_space());
        fill(&mut driver, 30);
        assert_durable(&mut driver, &at);
        check_after_a_crash(&driver);
        capacity += 1900;
    }
    assert!(held > 20, "{held}");
}

/// Two queues with a backlog in segments, on a disk without a free byte.
fn full() -> Driver {
    let mut driver = Driver::open(MemoryDisk::new(), tiny());
    for _ in 0..200 {
        fill(&mut driver, 1);
    }
    assert!(driver.log.statistics().segments > 3);
    driver.disk.limit(Some(driver.disk.used()));
    fill(&mut driver, 400);
    assert!(driver.log.is_out_of_space() && !driver.log.room());
    driver
}

#[test]
fn not_a_byte_is_left_and_a_backlog_is_drained() {
    let mut driver = full();
    check(&driver);
    check_after_a_crash(&driver);
    let live: Vec<u64> = driver.ledgers.0[&A].live.keys().copied().collect();
    for number in live {
        driver.settle(A, number..=number);
        assert_durable(&mut driver, "a settle on a full disk");
    }
    check(&driver);
    // The reserve was used, and restored from the space that the backlog freed.
    assert!(driver.log.room(), "{:?}", driver.log.statistics());
    assert_eq!(driver.disk.len("reserve-0000").unwrap(), tiny().disk_reserve());
    check_after_a_crash(&driver);
}

#[test]
fn publishing_goes_on_within_seconds_of_space() {
    let mut driver = full();
    // Other programs take any space that is freed meanwhile.
    driver.disk.limit(Some(driver.disk.used()));
    work(&mut driver, 20 * SECOND);
    driver.disk.limit(Some(driver.disk.used()));
    work(&mut driver, 20 * SECOND);
    assert!(!driver.log.room());
    assert!(driver.log.statistics().out_of_space > 10, "it is looked every second");
    driver.events.clear();
    driver.disk.limit(None);
    let begin = driver.now;
    while !driver.log.room() {
        work(&mut driver, SECOND / 10);
        assert!(driver.now - begin < 5 * SECOND);
    }
    assert!(driver.events.iter().any(|event| matches!(event, Event::Room)));
    fill(&mut driver, 100);
    assert_durable(&mut driver, "a publish");
    check_after_a_crash(&driver);
    let names = driver.disk.list().unwrap();
    let wal = names.iter().filter(|name| name.starts_with("wal-")).count();
    assert!(wal <= 6, "{names:?}");
}

/// Simulates a file system that allocates new blocks for overwritten ones.
#[test]
fn without_space_for_zeros_the_next_file_is_used_as_it_is() {
    let mut driver = Driver::open(MemoryDisk::new(), Options { fill_after: 1 << 10, ..tiny() });
    publish_one(&mut driver, A, 2000);
    while driver.step(Lane::Commit) {}
    assert!(driver.step(Lane::Background), "the next file is made");
    let Next::Run(id, job) = driver.log.next_job(Lane::Background, driver.now) else { panic!("it is filled") };
    assert!(matches!(job, Job::Steps(_)), "{job:?}");
    let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let full = DiskError { file: "wal".into(), offset: 512, operation: Operation::Write, error };
    driver.log.complete(id, Err(full), driver.now).unwrap();
    assert!(driver.log.room() && !driver.log.is_out_of_space(), "nothing was lost by that");
    fill(&mut driver, 100);
    assert_durable(&mut driver, "a publish");
    check_after_a_crash(&driver);
}

#[test]
fn a_start_on_a_full_disk_uses_the_reserve_or_is_refused() {
    let mut driver = Driver::open(MemoryDisk::new(), tiny());
    fill(&mut driver, 20);
    // Other programs take the space that recovery frees, too.
    let disk = driver.disk.clone();
    Driver::open(driver.disk.clone(), tiny()).report.removed.iter().for_each(|name| disk.remove(name).unwrap());
    disk.limit(Some(disk.used()));
    let mut driver = Driver::open(disk, tiny());
    assert!(driver.log.is_out_of_space() && !driver.log.room());
    assert!(driver.disk.content("reserve-0000").is_none());
    driver.settle(A, 1..=1);
    work(&mut driver, SECOND);
    assert_durable(&mut driver, "a settle");
    driver.disk.limit(None);
    work(&mut driver, 3 * SECOND);
    assert!(driver.log.room());

    // Without the reserve a shorter file is enough; without any space the start says so and changes nothing.
    let disk = driver.disk.clone();
    disk.remove("reserve-0000").unwrap();
    let spare: Vec<String> = Driver::open(disk.clone(), tiny()).report.removed;
    spare.iter().for_each(|name| disk.remove(name).unwrap());
    disk.limit(Some(disk.used()));
    let before = disk.list().unwrap();
    let mut ledgers = driver::Ledgers::default();
    let error = leveret_log::recover(&disk, tiny(), &mut ledgers, 0).unwrap_err();
    assert!(matches!(error, StorageError::NoSpace { .. }));
    assert!(error.to_string().contains("16384 bytes"), "{error}");
    assert_eq!(disk.list().unwrap(), before);
    disk.limit(Some(disk.used() + (20 << 10)));
    let larger = Options { file_bytes: 64 << 10, ..tiny() };
    let driver = Driver::open(disk, larger);
    assert!(driver.log.is_out_of_space());
    check(&driver);
}

#[test]
fn a_write_without_space_in_a_file_that_has_it_is_fatal() {
    let mut driver = Driver::open(MemoryDisk::new(), tiny());
    publish_one(&mut driver, A, 100);
    let Next::Run(id, _) = driver.log.next_job(Lane::Commit, driver.now) else {
        panic!("a write is due");
    };
    let error = leveret_log::DiskError {
        file: "wal-0000-0000000000000001".into(),
        offset: 512,
        operation: leveret_log::Operation::Write,
        error: std::io::Error::from_raw_os_error(28),
    };
    let error = driver.log.complete(id, Err(error), driver.now).unwrap_err();
    assert!(error.to_string().contains("write wal-0000-0000000000000001 at byte 512"), "{error}");
}
