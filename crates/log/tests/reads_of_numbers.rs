//! Reads that name the numbers they are for.

#[allow(dead_code)]
mod driver;

use std::sync::atomic::Ordering;

use driver::watched::Watched;
use driver::{Driver, body, small};
use leveret_log::{Disk, LogId, MemoryDisk, Options, StoredMessage, Wait};
use proptest::prelude::*;

const A: LogId = LogId(1);
const B: LogId = LogId(2);

fn read(driver: &Driver, log: LogId, numbers: &[(u64, u64)]) -> Vec<StoredMessage> {
    let plans = driver.log.plan_reads_of(log, numbers, usize::MAX);
    plans.iter().flat_map(|plan| plan.run(&driver.disk).unwrap()).collect()
}

/// Checks that such a read finds what a read of everything finds.
fn check(driver: &Driver, log: LogId, numbers: &[(u64, u64)]) {
    let all = driver.read_stored(log, 0, 1 << 20);
    let in_range = |(first, last): &(u64, u64)| {
        let (first, last) = (*first, *last);
        all.iter().filter(move |message| message.number <= last && first <= message.last())
    };
    let expected: Vec<&StoredMessage> = numbers.iter().flat_map(in_range).collect();
    let found = read(driver, log, numbers);
    assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{log}: {numbers:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn it_finds_what_a_read_of_everything_finds(
        steps in prop::collection::vec((0..6u8, 1..60u64, 0..3usize), 1..60),
        wanted in prop::collection::vec((0..2_500u64, 0..40u64), 1..60),
    ) {
        let mut driver = Driver::open(MemoryDisk::new(), small());
        for (kind, count, length) in steps {
            let log = if kind % 2 == 0 { A } else { B };
            if kind < 4 {
                let next = driver.ledgers.0.get(&log).map_or(1, |ledger| ledger.next);
                // One size for all, or a size of its own for each.
                let size = |at: u64| [60, (at * 37 % 900) as usize, 4_000][length];
                let bodies: Vec<_> = (next..next + count).map(|number| body(log, number, size(number))).collect();
                driver.publish(log, &bodies, Wait::Confirm);
            } else if let Some(ledger) = driver.ledgers.0.get(&log) {
                let live: Vec<u64> = ledger.live.keys().copied().filter(|number| number % count < 2).collect();
                live.iter().for_each(|number| _ = driver.settle(log, *number..=*number));
            }
            if length != 1 {
                driver.settle_down();
            }
        }
        driver.settle_down();
        let mut numbers: Vec<(u64, u64)> = Vec::new();
        for (first, more) in &wanted {
            let is_apart = numbers.iter().all(|(start, end)| first + more < *start || end < first);
            if is_apart {
                numbers.push((*first, first + more));
            }
        }
        for log in [A, B] {
            check(&driver, log, &numbers);
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            check(&driver, log, &sorted);
        }
        let again = Driver::open(driver.disk.clone(), small());
        check(&again, A, &numbers);
    }
}

#[test]
fn a_message_is_read_without_most_of_its_neighbours() {
    let mut driver = Driver::open(MemoryDisk::new(), Options::default());
    for _ in 0..20 {
        let bodies: Vec<_> = (0..5_000).map(|_| body(A, 7, 80)).collect();
        driver.publish(A, &bodies, Wait::Confirm);
        driver.settle_down();
    }
    let disk = Watched::new(&driver.disk);
    let numbers: Vec<(u64, u64)> = (0..200).map(|at| (1 + at * 7_919 % 100_000, 1 + at * 7_919 % 100_000)).collect();
    let mut found = 0;
    for plan in driver.log.plan_reads_of(A, &numbers, usize::MAX) {
        found += plan.run(&disk).unwrap().len();
    }
    assert_eq!(found, 200);
    let each = disk.bytes_read.load(Ordering::Relaxed) / 200;
    assert!(each <= 48 << 10, "{each} bytes are read for each");

    // Neighbours are read together.
    disk.bytes_read.store(0, Ordering::Relaxed);
    let numbers: Vec<(u64, u64)> = (10_000..12_000).step_by(4).map(|number| (number, number + 1)).collect();
    let [plan] = &driver.log.plan_reads_of(A, &numbers, usize::MAX)[..] else { panic!("one file") };
    assert_eq!(plan.run(&disk).unwrap().len(), 1_000);
    let all = disk.bytes_read.load(Ordering::Relaxed);
    assert!(all <= 2_000 * 96 + (80 << 10), "{all} bytes are read");
}

#[test]
fn a_read_ends_after_as_many_bytes_as_asked_for() {
    let mut driver = Driver::open(MemoryDisk::new(), Options::default());
    let bodies: Vec<_> = (1..=1_000).map(|number| body(A, number, 100)).collect();
    driver.publish(A, &bodies, Wait::Confirm);
    driver.settle_down();
    let numbers: Vec<(u64, u64)> = [500, 700, 900, 100, 300].map(|number| (number, number + 9)).to_vec();
    let plans = driver.log.plan_reads_of(A, &numbers, 1_500);
    let found: Vec<Vec<u64>> = plans
        .iter()
        .map(|plan| plan.run(&driver.disk).unwrap().iter().map(|message| message.number).collect())
        .collect();
    let [higher, lower] = &found[..] else { panic!("the lower ones have a plan of their own: {found:?}") };
    assert_eq!(higher[..], [(500..510).collect::<Vec<_>>(), (700..705).collect()].concat());
    assert_eq!(lower[..], [(100..110).collect::<Vec<_>>(), (300..305).collect()].concat());
}

#[test]
fn wrong_bytes_before_a_message_are_noticed() {
    let mut driver = Driver::open(MemoryDisk::new(), Options::default());
    let bodies: Vec<_> = (1..=100).map(|number| body(A, number, 100)).collect();
    driver.publish(A, &bodies, Wait::Confirm);
    driver.settle_down();
    let name = driver.disk.list().unwrap().into_iter().find(|name| {
        driver.disk.content(name).is_some_and(|content| content.windows(100).any(|bytes| *bytes == bodies[49][..]))
    });
    let name = name.expect("a file with the message");
    let mut content = driver.disk.content(&name).unwrap();
    let at = content.windows(100).position(|bytes| *bytes == bodies[49][..]).unwrap();
    let sound = content.clone();
    content[at + 50] ^= 1;
    driver.disk.put(&name, content);
    let numbers = |numbers: &[(u64, u64)]| {
        driver.log.plan_reads_of(A, numbers, 1 << 20)[0].run(&driver.disk).map(|found| found.len()).ok()
    };
    assert_eq!(numbers(&[(49, 49)]), Some(1));
    assert_eq!(numbers(&[(50, 50)]), None);
    assert_eq!(numbers(&[(80, 80)]), Some(1), "it is found by the lengths of those before it, which add up");
    assert_eq!(numbers(&[(20, 20), (50, 50)]), Some(1), "what was found before is good");
    // A wrong length, as if the record were as long as two. 12 bytes of header and 4 of a head come before a body.
    let mut content = sound;
    let length = (at - 4 - 12 + 4)..(at - 4 - 12 + 8);
    content[length].copy_from_slice(&(104 + 116u32).to_le_bytes());
    driver.disk.put(&name, content);
    assert_eq!(numbers(&[(49, 49)]), Some(1));
    assert_eq!(numbers(&[(80, 80)]), None, "it could be another message");
}
