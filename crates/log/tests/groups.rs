//! The records of a group take effect together or not at all.

#[allow(dead_code)]
mod driver;

use driver::{Driver, body, check, small};
use leveret_log::{GroupId, Lane, LogId, MemoryDisk, Options, Payload, Position, SettleRange, SettleReason, Wait};

const A: LogId = LogId(1);
const B: LogId = LogId(2);

/// The first half of a move: message `number` leaves a log.
fn take_away(driver: &mut Driver, group: GroupId, log: LogId, number: u64) {
    let ledger = driver.ledgers.0.get_mut(&log).unwrap();
    let bytes = ledger.live.remove(&number).unwrap();
    let range = SettleRange { first: number, last: number, bytes };
    ledger.position = driver.log.append_settle_in(group, log, SettleReason::DeadLettered, &[range], driver.now);
}

/// The second half; the owner of the log counts the message once the group is durable.
fn put(driver: &mut Driver, group: GroupId, log: LogId, number: u64, length: usize) -> Position {
    let moved = body(log, number, length);
    let payload = Payload { head: &[], body: Some(&moved) };
    driver.log.append_messages_in(group, log, number, [payload].into_iter(), driver.now)
}

fn live(driver: &Driver, log: LogId) -> Vec<u64> {
    driver.ledgers.0.get(&log).map(|ledger| ledger.live.keys().copied().collect()).unwrap_or_default()
}

#[test]
fn a_committed_group_holds_after_a_crash() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 60), body(A, 2, 60)], Wait::Confirm);
    let group = driver.log.begin_group();
    take_away(&mut driver, group, A, 1);
    // A record of another log, and the end of a batch, in between.
    driver.publish(A, &[body(A, 3, 60)], Wait::Confirm);
    driver.settle_down();
    put(&mut driver, group, B, 1, 5000);
    let position = driver.log.commit_group(group, Wait::Confirm, driver.now).unwrap();
    driver.settle_down();
    assert_eq!(driver.log.durable(), position);

    let driver = Driver::open(driver.disk.clone(), small());
    assert_eq!((live(&driver, A), live(&driver, B)), (vec![2, 3], vec![1]));
    assert_eq!(driver.report.withdrawn, 0);
    assert_eq!(driver.read(B, 1, 100)[0].1, body(B, 1, 5000));
}

#[test]
fn a_group_without_its_commit_record_never_was() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 60), body(A, 2, 60)], Wait::Confirm);
    let group = driver.log.begin_group();
    take_away(&mut driver, group, A, 1);
    put(&mut driver, group, B, 1, 60);
    // Other records follow it.
    driver.ledgers.0.entry(B).or_default().next = 2;
    driver.publish(B, &[body(B, 2, 60)], Wait::Confirm);
    driver.settle_down();
    assert_eq!(driver.log.durable(), driver.log.appended());

    let mut driver = Driver::open(driver.disk.clone(), small());
    assert_eq!((live(&driver, A), live(&driver, B)), (vec![1, 2], vec![2]));
    assert_eq!(driver.report.withdrawn, 2);
    assert!(driver.report.damaged.is_empty());
    assert_eq!(driver.ledgers.0[&B].next, 3, "its number stays used");
    assert!(check(&driver.disk, &small()).unwrap().is_sound(), "a crash may leave that");

    // After the restart the slot is reused, and committed.
    let group = driver.log.begin_group();
    take_away(&mut driver, group, A, 2);
    put(&mut driver, group, B, 3, 60);
    driver.log.commit_group(group, Wait::Confirm, driver.now).unwrap();
    driver.settle_down();
    let driver = Driver::open(driver.disk.clone(), small());
    assert_eq!((live(&driver, A), live(&driver, B)), (vec![1], vec![2, 3]));
    assert_eq!(driver.report.withdrawn, 2);
}

#[test]
fn an_empty_group_leaves_no_record() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let group = driver.log.begin_group();
    assert_eq!(driver.log.commit_group(group, Wait::Confirm, driver.now), None);
    assert_eq!(driver.log.appended(), 0);
    let next = driver.log.begin_group();
    assert_ne!(group, next);
    driver.publish(A, &[body(A, 1, 60)], Wait::Confirm);
    take_away(&mut driver, next, A, 1);
    assert!(driver.log.commit_group(next, Wait::Confirm, driver.now).is_some());
}

/// A checkpoint with half of a group would remove the message from one log without ever adding it to the other.
#[test]
fn no_checkpoint_is_written_while_a_reflected_group_is_open() {
    let options = Options { unretired_max: 2, ..small() };
    let mut driver = Driver::open(MemoryDisk::new(), options.clone());
    driver.publish(B, &[body(B, 1, 60)], Wait::Confirm);
    let group = driver.log.begin_group();
    take_away(&mut driver, group, B, 1);
    let mut number = 0;
    while driver.log.statistics().unretired_files < 2 {
        number += 1;
        driver.publish(A, &[body(A, number, 3000)], Wait::Confirm);
        driver.settle(A, number..=number);
        while driver.step(Lane::Commit) || driver.step(Lane::Background) {}
        driver.now += 60_000_000;
    }
    for _ in 0..100 {
        driver.now += 60_000_000;
        while driver.step(Lane::Commit) || driver.step(Lane::Background) {}
    }
    assert_eq!(driver.log.durable(), driver.log.appended(), "commits go on");
    assert_eq!(driver.log.statistics().checkpoints, 0);
    let crashed = Driver::open(driver.disk.clone(), options.clone());
    assert_eq!(live(&crashed, B), [1]);

    driver.log.commit_group(group, Wait::Confirm, driver.now);
    driver.settle_down();
    assert_eq!(driver.log.statistics().checkpoints, 1);
    let crashed = Driver::open(driver.disk.clone(), options);
    assert_eq!(live(&crashed, B), [0u64; 0]);
}

/// Clients are told nothing behind the first record of a group before its last one is durable.
#[test]
fn durable_records_behind_an_open_group_are_not_announced() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 60), body(A, 2, 60)], Wait::Confirm);
    let group = driver.log.begin_group();
    driver.settle_down();
    assert_eq!(driver.log.durable_as_a_whole(), 2, "the group has no record");
    take_away(&mut driver, group, A, 1);
    driver.publish(A, &[body(A, 3, 60)], Wait::Confirm);
    driver.settle_down();
    assert_eq!((driver.log.durable(), driver.log.durable_as_a_whole()), (4, 2));
    // The commit record is appended, and nothing else is durable.
    let commit = driver.log.commit_group(group, Wait::Confirm, driver.now).unwrap();
    assert_eq!(driver.log.durable_as_a_whole(), 2);
    driver.settle_down();
    assert_eq!((commit, driver.log.durable_as_a_whole()), (5, 5));
}

#[test]
fn the_oldest_of_two_open_groups_is_the_end() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 60), body(A, 2, 60)], Wait::Confirm);
    let (first, second) = (driver.log.begin_group(), driver.log.begin_group());
    take_away(&mut driver, second, A, 1);
    take_away(&mut driver, first, A, 2);
    driver.publish(A, &[body(A, 3, 60)], Wait::Confirm);
    driver.log.commit_group(first, Wait::Confirm, driver.now);
    driver.settle_down();
    assert_eq!((driver.log.durable(), driver.log.durable_as_a_whole()), (6, 2));
    driver.log.commit_group(second, Wait::Lazy, driver.now);
    assert_eq!(driver.log.durable_as_a_whole(), 2);
    driver.settle_down();
    assert_eq!(driver.log.durable_as_a_whole(), 7);
    // A later one only holds back what follows it.
    let third = driver.log.begin_group();
    driver.publish(A, &[body(A, 4, 60)], Wait::Confirm);
    take_away(&mut driver, third, A, 3);
    driver.settle_down();
    assert_eq!((driver.log.durable(), driver.log.durable_as_a_whole()), (9, 8));
}
