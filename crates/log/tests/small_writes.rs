//! A small batch that only has to be written is written by the appending thread, and the commit lane sleeps on.

#[allow(dead_code)]
mod driver;

use driver::{Driver, body, small};
use leveret_log::{Event, Job, JobId, Lane, LogId, MemoryDisk, Next, Options, Wait};

const A: LogId = LogId(1);
const MILLISECOND: u64 = 1_000_000;

/// A log in which one message is durable, and nothing has happened for a while.
fn quiet() -> Driver {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 700)], Wait::Confirm);
    driver.settle_down();
    driver.now += 10 * MILLISECOND;
    assert!(matches!(driver.log.next_job(Lane::Commit, driver.now), Next::Idle));
    driver
}

fn take(driver: &mut Driver) -> Option<(JobId, Job)> {
    driver.log.next_small_write(driver.now)
}

/// Asserts that the due work isn't a small write for a core.
fn is_for_the_lane(driver: &Driver) -> bool {
    !driver.log.small_write_waiting(driver.now)
}

fn complete(driver: &mut Driver, (id, job): (JobId, Job)) -> Vec<Event> {
    let done = job.run(&driver.disk);
    drop(job);
    driver.log.complete(id, done, driver.now).expect("the disk works")
}

#[test]
fn the_appending_thread_writes_and_wakes_the_lane_for_the_sync() {
    let mut driver = quiet();
    for number in 2..=5 {
        driver.publish(A, &[body(A, number, 700)], Wait::Written);
        assert!(driver.log.commit_waiting());
        let job = take(&mut driver).expect("a small write");
        assert!(matches!(job.1, Job::Write(_)));
        assert!(!driver.log.commit_waiting() && take(&mut driver).is_none(), "one at a time");
        let events = complete(&mut driver, job);
        assert!(matches!(events[..], [Event::Written(written)] if written == number), "{events:?}");
        assert_eq!(driver.log.commit_waiting(), number == 2, "it learns once when the sync is due");
        assert!(is_for_the_lane(&driver));
        if number == 2 {
            assert!(matches!(driver.log.next_job(Lane::Commit, driver.now), Next::At(_)));
        }
        driver.now += MILLISECOND;
    }
    assert_eq!(driver.log.durable(), 1);
    let Next::At(at) = driver.log.next_job(Lane::Commit, driver.now) else { panic!("a sync is due") };
    driver.now = at;
    assert!(driver.step(Lane::Commit), "the sync");
    assert_eq!((driver.log.durable(), driver.log.appended()), (5, 5));
}

#[test]
fn the_lane_that_finds_a_write_on_its_way_is_woken_after_it() {
    let mut driver = quiet();
    driver.publish(A, &[body(A, 2, 700)], Wait::Written);
    let job = take(&mut driver).expect("a small write");
    complete(&mut driver, job);
    let Next::At(due) = driver.log.next_job(Lane::Commit, driver.now) else { panic!("a sync is due") };
    driver.now = due - 1;
    driver.publish(A, &[body(A, 3, 700)], Wait::Written);
    let job = take(&mut driver).expect("a small write");
    driver.now = due;
    assert!(matches!(driver.log.next_job(Lane::Commit, driver.now), Next::Idle), "the sync's turn, but not yet");
    complete(&mut driver, job);
    assert!(driver.log.commit_waiting() && is_for_the_lane(&driver), "now");
    assert!(driver.step(Lane::Commit));
    assert_eq!(driver.log.durable(), 3);
}

#[test]
fn records_that_have_to_be_durable_are_for_the_lane() {
    let mut driver = quiet();
    driver.publish(A, &[body(A, 2, 700)], Wait::Written);
    driver.publish(A, &[body(A, 3, 700)], Wait::Confirm);
    assert!(driver.log.commit_waiting() && take(&mut driver).is_none());
    driver.settle_down();
    // So are records written before, once a caller wants them durable.
    driver.publish(A, &[body(A, 4, 700)], Wait::Written);
    let job = take(&mut driver).expect("a small write");
    complete(&mut driver, job);
    driver.log.hurry(4);
    driver.publish(A, &[body(A, 5, 700)], Wait::Written);
    assert!(driver.log.commit_waiting() && take(&mut driver).is_none());
    // So are records that no caller waits for at all.
    let mut driver = quiet();
    driver.settle(A, 1..=1);
    assert!(take(&mut driver).is_none());
}

#[test]
fn large_batches_and_those_for_the_next_file_are_for_the_lane() {
    let mut driver = Driver::open(MemoryDisk::new(), Options { small_write_bytes_max: 8 << 10, ..small() });
    driver.publish(A, &[body(A, 1, 7000)], Wait::Written);
    let job = take(&mut driver).expect("less than 8 KiB");
    complete(&mut driver, job);
    driver.publish(A, &[body(A, 2, 9000)], Wait::Written);
    assert!(driver.log.commit_waiting() && take(&mut driver).is_none());
    driver.settle_down();
    // A batch that doesn't fit into the file: all before the next file has to be durable.
    let mut number = 3;
    loop {
        driver.publish(A, &[body(A, number, 7000)], Wait::Written);
        let Some(job) = take(&mut driver) else { break };
        complete(&mut driver, job);
        number += 1;
    }
    assert!(number > 5, "{number}");
    assert!(driver.log.commit_waiting());
    driver.settle_down();
    assert_eq!(driver.log.durable(), number);
}
