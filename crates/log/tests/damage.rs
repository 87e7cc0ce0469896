//! Corrupted or unreadable bytes stop the logs they belong to and nothing else.

#[allow(dead_code)]
mod driver;

use driver::{Driver, body, small};
use leveret_log::{Disk, Event, Hit, LogId, MemoryDisk, Wait};

const LOGS: [LogId; 3] = [LogId(1), LogId(2), LogId(3)];

/// Segments with messages of three logs: each retirement leaves one segment of the first log only; the others share
/// one.
fn with_segments() -> Driver {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for round in 1..=220 {
        for (log, length) in LOGS.into_iter().zip([900, 30, 30]) {
            // The third log has none in the first segments.
            if log != LOGS[2] || round > 150 {
                let number = driver.ledgers.0.get(&log).map_or(1, |ledger| ledger.next.max(1));
                driver.publish(log, &[body(log, number, length)], Wait::Confirm);
            }
        }
        driver.settle_down();
    }
    assert!(driver.log.statistics().segments >= 4);
    driver
}

fn segments(driver: &Driver) -> Vec<String> {
    let mut names = driver.disk.list().unwrap();
    names.retain(|name| name.starts_with("segment-"));
    names
}

fn numbers(driver: &Driver, log: LogId) -> Vec<u64> {
    driver.read(log, 1, 5000).into_iter().map(|(number, _)| number).collect()
}

#[test]
fn an_unloadable_segment_stops_the_logs_with_messages_in_it() {
    let driver = with_segments();
    for name in segments(&driver) {
        let content = driver.disk.content(&name).unwrap();
        let last = content.len() as u64;
        let [flipped, unreadable, cut, gone] = [(); 4].map(|()| driver.disk.clone());
        let mut bytes = content.clone();
        bytes[content.len() - 5] ^= 1;
        flipped.put(&name, bytes);
        unreadable.spoil(&name, last - 1..last);
        cut.put(&name, content[..content.len() / 2].to_vec());
        gone.remove(&name).unwrap();
        let before = LOGS.map(|log| numbers(&driver, log));
        for (disk, is_there) in [(flipped, true), (unreadable, true), (cut, true), (gone, false)] {
            let reopened = Driver::open(disk, small());
            let mut hit = Vec::new();
            for damage in &reopened.report.damaged {
                let Hit::Logs(logs) = &damage.logs else {
                    panic!("it can be told whose messages these were: {damage:?}");
                };
                assert_eq!((damage.file.as_str(), damage.range.clone()), (name.as_str(), 0..last), "{damage:?}");
                hit.extend(logs.clone());
            }
            for (log, before) in LOGS.into_iter().zip(&before) {
                let after = numbers(&reopened, log);
                let lost: Vec<u64> = before.iter().copied().filter(|number| !after.contains(number)).collect();
                assert_eq!(hit.contains(&log), !lost.is_empty(), "{name}, log {log}: {:?}", reopened.report.damaged);
                if let (Some(first), Some(end)) = (lost.first(), lost.last()) {
                    let text = format!("{} messages between the numbers {first} and {end} are lost", lost.len());
                    let of_log = |damage: &&leveret_log::Damage| damage.logs == Hit::Logs(vec![log]);
                    let damage = reopened.report.damaged.iter().find(of_log).unwrap();
                    assert!(damage.reason.contains(&text), "{damage:?}, expected {text}");
                }
            }
            assert!(!hit.is_empty());
            assert_eq!(reopened.disk.content(&format!("damaged-{name}")).is_some(), is_there);
            // The next start reports the same; the other logs continue.
            let again = Driver::open(reopened.disk.clone(), small());
            assert_eq!(again.report.damaged.len(), reopened.report.damaged.len(), "{:?}", again.report.damaged);
            let mut again = again;
            again.publish(LOGS[1], &[body(LOGS[1], 500, 10)], Wait::Confirm);
            again.settle_down();
            assert_eq!(again.log.durable(), again.log.appended());
        }
    }
}

#[test]
fn a_checkpoint_that_cant_be_read_is_as_good_as_a_damaged_one() {
    let driver = with_segments();
    let disk = driver.disk.clone();
    let name = disk.list().unwrap().into_iter().find(|name| name.starts_with("checkpoint-")).unwrap();
    disk.spoil(&name, 0..1);
    let error = leveret_log::recover(&disk, small(), &mut driver::Ledgers::default(), 0).unwrap_err();
    assert!(error.to_string().contains(&name) && error.to_string().contains("os error 5"), "{error}");
}

#[test]
fn a_damaged_checkpoint_is_written_anew_from_the_owners_states() {
    for rewrite in [false, true] {
        let mut driver = with_segments();
        driver.control(LOGS[2], 7, b"kept");
        driver.settle_down();
        let name = driver.disk.list().unwrap().into_iter().find(|name| name.starts_with("checkpoint-")).unwrap();
        driver.disk.spoil(&name, 0..1 << 20);
        let before = driver.log.statistics().clone();
        if rewrite {
            driver.settle(LOGS[0], 1..=100);
            driver.settle_down();
            assert!(driver.log.statistics().rewrites > before.rewrites);
            assert_eq!(driver.log.statistics().retirements, before.retirements);
        } else {
            // The third log has no records in the retired file.
            for number in 221..=500 {
                driver.publish(LOGS[0], &[body(LOGS[0], number, 900)], Wait::Confirm);
                driver.settle(LOGS[0], number..=number);
                driver.settle_down();
            }
            assert!(driver.log.statistics().retirements > before.retirements + 1);
        }
        let reopened = Driver::open(driver.disk.clone(), small());
        assert!(reopened.report.damaged.is_empty(), "{:?}", reopened.report);
        for log in LOGS {
            let live = |driver: &Driver| driver.ledgers.0[&log].live.keys().copied().collect::<Vec<_>>();
            assert_eq!(live(&reopened), live(&driver), "log {log}");
            assert!(live(&driver).iter().all(|number| numbers(&reopened, log).contains(number)));
        }
        assert_eq!(reopened.ledgers.0[&LOGS[2]].controls, [(7, b"kept".to_vec())]);
    }
}

#[test]
fn unreadable_bytes_of_the_wal_are_damage_and_not_fatal() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for number in 1..=3 {
        for log in LOGS {
            driver.publish(log, &[body(log, number, 300)], Wait::Confirm);
        }
        driver.settle_down();
    }
    let name = "wal-0000-0000000000000001";
    let content = driver.disk.content(name).unwrap();
    let place = |log: LogId, number| {
        let wanted = body(log, number, 300);
        content.windows(300).position(|bytes| *bytes == wanted[..]).unwrap() as u64
    };
    // In the middle: the records in the piece of 4 KiB are lost, and reported.
    let disk = driver.disk.clone();
    disk.spoil(name, place(LOGS[1], 1)..place(LOGS[1], 1) + 1);
    let reopened = Driver::open(disk, small());
    assert!(!reopened.report.damaged.is_empty());
    // At the end: the lost records may have been confirmed.
    let disk = driver.disk.clone();
    disk.spoil(name, place(LOGS[0], 3) - 200..place(LOGS[0], 3));
    let reopened = Driver::open(disk, small());
    let damage = reopened.report.damaged.last().expect("it is reported");
    assert_eq!(damage.logs, Hit::Any, "{damage:?}");
}

#[test]
fn an_unreadable_message_met_by_a_retirement_stops_its_log_only() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for log in LOGS {
        driver.publish(log, &[body(log, 1, 6000)], Wait::Confirm);
        driver.settle_down();
    }
    let name = "wal-0000-0000000000000001";
    let content = driver.disk.content(name).unwrap();
    let wanted = body(LOGS[1], 1, 6000);
    let at = content.windows(6000).position(|bytes| *bytes == wanted[..]).unwrap() as u64;
    driver.disk.spoil(name, at + 3000..at + 3001);
    for number in 2..=60 {
        driver.publish(LOGS[0], &[body(LOGS[0], number, 5000)], Wait::Confirm);
        driver.settle(LOGS[0], number..=number);
        driver.settle_down();
    }
    assert!(driver.log.statistics().retirements > 1);
    let damaged = driver.events.iter().filter_map(|event| match event {
        Event::Damaged(error) => Some(error),
        _ => None,
    });
    let [error] = &damaged.collect::<Vec<_>>()[..] else {
        panic!("one log was hit: {:?}", driver.events);
    };
    assert_eq!((error.log, error.file.as_str()), (LOGS[1], name));
    assert!(error.range.contains(&(at + 3000)), "{error}");
    assert!(error.to_string().contains("1 messages between the numbers 1 and 1 are lost"), "{error}");
    assert!(driver.disk.content(&format!("damaged-{name}")).is_some());
    assert_eq!(numbers(&driver, LOGS[0])[0], 1);
    assert_eq!(numbers(&driver, LOGS[2]), [1]);
}
