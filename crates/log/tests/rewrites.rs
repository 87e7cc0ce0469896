//! Rewrites of sparse segments: dead messages are dropped, live ones stay in order, and small segments are merged.

#[allow(dead_code)]
mod driver;

use driver::{Driver, body, small};
use leveret_log::{Disk, Event, Lane, LogId, MemoryDisk, Next, Options, Wait};

const A: LogId = LogId(1);
const B: LogId = LogId(2);

/// A stream of random bits.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

/// Logs with these ids have chunks.
fn has_chunks(log: LogId) -> bool {
    log.0.is_multiple_of(2)
}

fn publish_one(driver: &mut Driver, log: LogId, length: usize) -> u64 {
    let number = driver.ledgers.0.get(&log).map_or(1, |ledger| ledger.next.max(1));
    driver.publish(log, &[body(log, number, length)], Wait::Confirm);
    number
}

/// Asserts that every live message is there, byte for byte, and that reads return them in order.
fn check(driver: &Driver) {
    for (log, ledger) in &driver.ledgers.0 {
        let stored = driver.read_stored(*log, 0, 5000);
        for number in ledger.live.keys() {
            let found = stored.get(stored.partition_point(|stored| stored.last() < *number));
            let found = found.filter(|found| found.number <= *number);
            let found = found.unwrap_or_else(|| panic!("{log}/{number} is alive"));
            let length = found.payload.len() - 4;
            assert_eq!(found.payload[4..], body(*log, found.number, length)[..], "{log}/{number}");
        }
    }
}

fn segment_bytes(driver: &Driver) -> u64 {
    let names = driver.disk.list().unwrap();
    let segments = names.iter().filter(|name| name.starts_with("segment-"));
    segments.map(|name| driver.disk.len(name).unwrap()).sum()
}

fn live_bytes(driver: &Driver) -> u64 {
    driver.ledgers.0.values().flat_map(|ledger| ledger.live.values()).sum()
}

#[test]
fn a_few_old_messages_retain_no_more_space_than_their_own() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    // A lag large enough that every message reaches a segment before it is settled.
    let lag = 500;
    for round in 1..=4000u64 {
        for (log, length) in [(A, 900), (B, 150)] {
            publish_one(&mut driver, log, length);
            let settled = round.saturating_sub(lag);
            if settled > 0 && settled % 40 != 0 {
                driver.settle(log, settled..=settled);
            }
        }
        if round % 10 == 0 {
            driver.settle_down();
            let bound = 2 * live_bytes(&driver) + (8 << 10);
            assert!(segment_bytes(&driver) <= bound, "{} of {bound}", segment_bytes(&driver));
        }
    }
    let statistics = driver.log.statistics().clone();
    assert!(statistics.rewrites > 5 && statistics.bytes_reclaimed > 1_000_000, "{statistics:?}");
    assert!(statistics.messages_copied < 3 * 8000, "messages are copied over and over: {statistics:?}");
    check(&driver);
    let reopened = Driver::open(driver.disk.clone(), small());
    assert!(reopened.report.damaged.is_empty(), "{:?}", reopened.report);
    assert_eq!(reopened.log.statistics().segment_bytes, segment_bytes(&reopened));
    check(&reopened);
}

#[test]
fn a_thousand_files_with_one_live_message_become_few_segments() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let mut kept = 0;
    while driver.log.statistics().retirements < 1000 {
        kept += 1;
        publish_one(&mut driver, LogId(10 + kept % 7), 100);
        let passing = body(B, 1, 30_000);
        driver.publish(A, &[passing.clone(), passing], Wait::Confirm);
        let last = driver.ledgers.0[&A].next - 1;
        driver.settle(A, last - 1..=last);
        driver.settle_down();
        assert!(driver.log.statistics().segments <= 24, "{:?}", driver.log.statistics());
    }
    let statistics = driver.log.statistics().clone();
    assert!(statistics.bytes_copied < statistics.bytes_written / 20, "{statistics:?}");
    check(&driver);
    check(&Driver::open(driver.disk.clone(), small()));
}

#[test]
fn a_drained_backlog_leaves_no_files_without_more_retirements() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for _ in 0..1000 {
        publish_one(&mut driver, A, 900);
        driver.settle_down();
    }
    assert!(driver.log.statistics().segments > 5);
    let retirements = driver.log.statistics().retirements;
    driver.settle(A, 1..=1000);
    driver.settle_down();
    assert_eq!(driver.log.statistics().retirements, retirements);
    assert_eq!(segment_bytes(&driver), 0);
    assert!(matches!(driver.log.next_job(Lane::Background, driver.now), Next::Idle), "an idle log doesn't wake");
    assert!(!driver.log.background_waiting());
    let reopened = Driver::open(driver.disk.clone(), small());
    assert!(reopened.report.damaged.is_empty());
    assert!(reopened.ledgers.0[&A].live.is_empty());
}

#[test]
fn a_survey_follows_settles_after_a_while_and_none_without() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for _ in 0..600 {
        publish_one(&mut driver, A, 900);
        driver.settle_down();
    }
    driver.settle(A, 5..=5);
    while driver.step(Lane::Commit) {}
    driver.now += 60_000_000;
    while driver.step(Lane::Commit) {}
    assert!(driver.log.background_waiting(), "the lane has to be told");
    let Next::At(at) = driver.log.next_job(Lane::Background, driver.now) else {
        panic!("not at once");
    };
    assert!(at > driver.now && at <= driver.now + Options::default().survey_interval);
    assert!(!driver.log.background_waiting(), "it knows");
    driver.now = at;
    assert!(driver.step(Lane::Background));
    while driver.step(Lane::Background) {}
    driver.now += 3_600_000_000_000;
    assert!(matches!(driver.log.next_job(Lane::Background, driver.now), Next::Idle));
}

/// Random work, with jobs of both lanes between any two steps.
fn jumble(seed: u64, disk: MemoryDisk) -> Driver {
    let options = Options { file_bytes: 16 << 10, mixed_below: 3 << 10, survey_interval: 1_000_000, ..small() };
    let mut driver = Driver::open(disk, options);
    let mut dice = Dice(seed);
    // Ids of logs aren't reused.
    let mut logs = [1, 2, 3, 4, 5].map(LogId);
    for round in 0..4000 {
        let place = dice.below(5) as usize;
        let log = logs[place];
        match dice.below(100) {
            0 if place > 2 && driver.ledgers.0.contains_key(&log) => {
                driver.delete(log);
                logs[place] = LogId(10 + round);
            }
            0..50 if has_chunks(log) => {
                let (messages, length) =
                    (1 + dice.below(6) as u16, [20, 200, 1500, 70_000][dice.below(40) as usize / 13]);
                driver.publish_chunk(log, messages, length, Wait::Confirm);
            }
            0..50 => {
                publish_one(&mut driver, log, [20, 200, 1500][dice.below(3) as usize]);
            }
            _ => {
                let live: Vec<u64> =
                    driver.ledgers.0.get(&log).map(|l| l.live.keys().copied().collect()).unwrap_or_default();
                if live.len() > 20 {
                    let number = live[dice.below(live.len() as u64) as usize];
                    driver.settle(log, number..=number);
                }
            }
        }
        for _ in 0..dice.below(4) {
            driver.now += 500_000;
            driver.step(if dice.below(3) == 0 { Lane::Background } else { Lane::Commit });
        }
    }
    driver
}

#[test]
fn rewrites_between_everything_else_lose_nothing() {
    let (mut rewrites, mut retired_meanwhile) = (0, false);
    for seed in 1..=12 {
        let mut driver = jumble(seed, MemoryDisk::new());
        rewrites += driver.log.statistics().rewrites;
        retired_meanwhile |= driver.log.statistics().retirements > 0;
        while driver.step(Lane::Commit) || driver.log.durable() < driver.log.appended() {
            driver.now += 1_000_000;
            driver.step(Lane::Background);
        }
        check(&driver);
        let before = driver.ledgers.0.clone();
        let reopened = Driver::open(driver.disk.clone(), Options { file_bytes: 16 << 10, ..small() });
        assert!(reopened.report.damaged.is_empty(), "{:?}", reopened.report);
        for (log, ledger) in before.iter().filter(|(log, _)| **log != LogId::METADATA) {
            let found: Vec<u64> = reopened.ledgers.0[log].live.keys().copied().collect();
            assert_eq!(found, ledger.live.keys().copied().collect::<Vec<_>>(), "seed {seed}, log {log}");
        }
        driver.settle_down();
        check(&driver);
    }
    assert!(rewrites > 20 && retired_meanwhile, "{rewrites}");
}

/// Segments of `A` and `B`, both half settled, just before a rewrite of them.
fn before_a_rewrite() -> Driver {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for _ in 0..400 {
        publish_one(&mut driver, A, 900);
        publish_one(&mut driver, B, 100);
        driver.settle_down();
    }
    for number in 1..=350 {
        if number % 8 != 0 {
            driver.settle(A, number..=number);
            driver.settle(B, number..=number);
        }
    }
    while driver.log.durable() < driver.log.appended() {
        driver.now += 60_000_000;
        driver.step(Lane::Commit);
    }
    driver
}

#[test]
fn a_plan_outlives_the_rewrite_of_its_segment() {
    let mut driver = before_a_rewrite();
    let plan = driver.log.plan_read(A, 1, 1).unwrap();
    driver.settle_down();
    assert_eq!(driver.log.statistics().rewrites, 1);
    assert_eq!(plan.run(&driver.disk).unwrap()[0].number, 1);
    let before = segment_bytes(&driver);
    drop(plan);
    driver.settle_down();
    assert!(segment_bytes(&driver) < before, "the file goes when nobody reads it");
    assert_eq!(driver.log.statistics().segment_bytes, segment_bytes(&driver));
}

#[test]
fn damage_met_by_a_rewrite_stops_its_logs_and_keeps_the_file() {
    let mut driver = before_a_rewrite();
    // In a live message of the second log.
    let wanted = body(B, 16, 100);
    let place = |name: &String| {
        let content = driver.disk.content(name).unwrap();
        content.windows(wanted.len()).position(|bytes| *bytes == wanted[..])
    };
    let names = driver.disk.list().unwrap().into_iter().filter(|name| name.starts_with("segment-"));
    let (name, at) = names.filter_map(|name| place(&name).map(|at| (name, at))).next().unwrap();
    let content = driver.disk.content(&name).unwrap();
    let mut wrong = content.clone();
    wrong[at] ^= 1;
    driver.disk.put(&name, wrong);
    driver.settle_down();
    assert_eq!(driver.log.statistics().rewrites, 1);
    let damaged = driver.events.iter().filter_map(|event| match event {
        Event::Damaged(error) => Some(error),
        _ => None,
    });
    let [error] = &damaged.collect::<Vec<_>>()[..] else {
        panic!("one log was hit: {:?}", driver.events);
    };
    assert_eq!((error.log, &error.file), (B, &name));
    assert!(error.range.contains(&(at as u64)), "{error}");
    // Messages after it in the same run can't be told apart.
    assert!(error.to_string().contains("4 messages between the numbers 16 and 40"), "{error}");
    let kept = driver.disk.content(&format!("damaged-{name}"));
    assert_eq!(kept.map(|bytes| bytes.len()), Some(content.len()));
    // The other log is unchanged.
    driver.ledgers.0.remove(&B);
    check(&driver);
    let reopened = Driver::open(driver.disk.clone(), small());
    assert!(reopened.report.damaged.is_empty(), "{:?}", reopened.report);
    assert!(reopened.disk.content(&format!("damaged-{name}")).is_some());
}

#[test]
fn segments_that_cannot_be_read_are_not_rewritten() {
    let mut driver = before_a_rewrite();
    let wanted = body(B, 16, 100);
    let names = driver.disk.list().unwrap().into_iter().filter(|name| name.starts_with("segment-"));
    let place = |name: &String| driver.disk.content(name).unwrap().windows(100).position(|bytes| *bytes == wanted[..]);
    let (name, at) = names.filter_map(|name| place(&name).map(|at| (name, at))).next().unwrap();
    driver.disk.spoil(&name, at as u64..at as u64 + 1);
    driver.settle_down();
    assert!(driver.events.iter().any(|event| matches!(event, Event::Unreadable(error) if error.file == name)));
    assert!(driver.events.iter().all(|event| !matches!(event, Event::Damaged(_))));
    driver.disk.mend();
    check(&driver);
    // The next process tries again.
    let mut reopened = Driver::open(driver.disk.clone(), small());
    assert!(reopened.report.damaged.is_empty(), "{:?}", reopened.report);
    check(&reopened);
    let live: Vec<u64> = reopened.ledgers.0[&A].live.keys().copied().take(1).collect();
    reopened.settle(A, live[0]..=live[0]);
    reopened.settle_down();
    reopened.now += 60_000_000_000;
    reopened.settle_down();
    assert!(reopened.log.statistics().rewrites >= 1);
    check(&reopened);
}

#[test]
fn a_log_deleted_during_a_rewrite_leaves_nothing() {
    let mut driver = before_a_rewrite();
    driver.now += 4_000_000_000;
    while driver.log.statistics().messages_copied < 200 && driver.step(Lane::Background) {}
    driver.delete(B);
    driver.settle_down();
    assert!(driver.log.statistics().rewrites >= 1);
    driver.settle(A, 1..=400);
    driver.settle_down();
    assert_eq!(segment_bytes(&driver), 0, "nothing but the deleted log was left");
    check(&driver);
    let mut reopened = Driver::open(driver.disk.clone(), small());
    reopened.settle_down();
    assert_eq!(segment_bytes(&reopened), 0);
}
