//! Corrupted or unreadable bytes stop the logs they belong to and nothing else.

#[allow(dead_code)]
mod driver;

use driver::copies::Copies;
use driver::{Driver, body, small};
use leveret_log::{Disk, Event, Hit, LogId, MemoryDisk, Numbers, Options, SetAside, Wait, recover, verify};

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

/// Appends and settles messages of the third log until this damaged file is retired; the name under which it is put aside.
fn until_retired(driver: &mut Driver, name: &str) -> String {
    for number in 1..=300 {
        driver.publish(LOGS[2], &[body(LOGS[2], number, 900)], Wait::Confirm);
        driver.settle(LOGS[2], number..=number);
        driver.settle_down();
    }
    let aside = format!("damaged-{name}");
    assert!(driver.disk.list().unwrap().contains(&aside), "the file was retired");
    aside
}

fn segments(driver: &Driver) -> Vec<String> {
    segments_of(&driver.disk)
}

fn segments_of(disk: &MemoryDisk) -> Vec<String> {
    let mut names = disk.list().unwrap();
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
        let [flipped, cut, gone] = [(); 3].map(|()| driver.disk.clone());
        let mut bytes = content.clone();
        bytes[content.len() - 5] ^= 1;
        flipped.put(&name, bytes);
        cut.put(&name, content[..content.len() / 2].to_vec());
        gone.remove(&name).unwrap();
        let before = LOGS.map(|log| numbers(&driver, log));
        for disk in [flipped, cut, gone] {
            let is_there = disk.content(&name).is_some();
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
                    let text =
                        format!("{} live messages between the numbers {first} and {end} are in no file", lost.len());
                    let of_log = |damage: &&leveret_log::Damage| damage.logs == Hit::Logs(vec![log]);
                    let damage = reopened.report.damaged.iter().find(of_log).unwrap();
                    assert!(damage.reason.contains(&text), "{damage:?}, expected {text}");
                }
            }
            assert!(!hit.is_empty());
            assert_eq!(reopened.disk.content(&name).is_some(), is_there, "it stays where it is");
            // The next start reports the same; the other logs continue.
            let again = Driver::open(reopened.disk.clone(), small());
            assert_eq!(again.report.damaged.len(), reopened.report.damaged.len(), "{:?}", again.report.damaged);
            let mut again = again;
            again.publish(LOGS[1], &[body(LOGS[1], 500, 10)], Wait::Confirm);
            again.settle_down();
            assert_eq!(again.log.durable(), again.log.appended());
            // Many checkpoints later, and with the right bytes again, nothing is missing.
            for number in 501..=700 {
                again.publish(LOGS[1], &[body(LOGS[1], number, 900)], Wait::Confirm);
                again.settle(LOGS[1], number..=number);
                again.settle_down();
            }
            assert!(again.log.statistics().checkpoints > 1);
            again.disk.put(&name, content.clone());
            let mended = Driver::open(again.disk, small());
            assert!(mended.report.damaged.is_empty(), "{:?}", mended.report.damaged);
            for (log, before) in LOGS.into_iter().zip(&before) {
                let after = numbers(&mended, log);
                assert!(before.iter().all(|number| after.contains(number)), "{name}, log {log}");
            }
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
fn a_start_that_cannot_read_something_changes_nothing() {
    let mut driver = with_segments();
    driver.control(LogId::METADATA, 1, b"declare");
    driver.settle_down();
    driver.publish(LOGS[2], &[body(LOGS[2], 221, 300)], Wait::Confirm);
    driver.settle_down();
    let before = LOGS.map(|log| numbers(&driver, log));
    let content = |disk: &MemoryDisk| {
        let names = disk.list().unwrap();
        names.into_iter().map(|name| (disk.content(&name).unwrap(), name)).collect::<Vec<_>>()
    };
    let mut refused = 0;
    for (bytes, name) in content(&driver.disk) {
        for at in [0, 512, bytes.len() / 2, bytes.len() - 1] {
            let disk = driver.disk.clone();
            let kept = content(&disk);
            disk.spoil(&name, at as u64..at as u64 + 1);
            match leveret_log::recover(&disk, small(), &mut driver::Ledgers::default(), 0) {
                Err(error) => {
                    refused += 1;
                    let text = error.to_string();
                    let is_told = text.starts_with("storage can't be read: ") && text.contains(&name);
                    assert!(is_told && text.contains("nothing was changed"), "{text}");
                    disk.mend();
                    assert_eq!(content(&disk), kept, "{name}");
                }
                // It needs none of these bytes now.
                Ok((_, report)) => assert!(report.damaged.is_empty(), "{name} {at}: {:?}", report.damaged),
            }
            disk.mend();
            let reopened = Driver::open(disk, small());
            assert!(reopened.report.damaged.is_empty(), "{name} {at}: {:?}", reopened.report.damaged);
            assert_eq!(LOGS.map(|log| numbers(&reopened, log)), before, "{name} {at}");
        }
    }
    assert!(refused >= 10, "{refused}");
}

#[test]
fn a_file_that_cannot_be_read_when_it_is_retired_stays() {
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
    assert!(driver.events.iter().any(|event| matches!(event, Event::Unreadable(error) if error.file == name)));
    assert!(driver.events.iter().all(|event| !matches!(event, Event::Damaged(_))), "nothing is lost");
    assert_eq!(driver.log.statistics().files_kept, 1);
    driver.disk.mend();
    let reopened = Driver::open(driver.disk.clone(), small());
    assert!(reopened.report.damaged.is_empty(), "{:?}", reopened.report.damaged);
    for driver in [&driver, &reopened] {
        assert_eq!(LOGS.map(|log| numbers(driver, log)[0]), [1; 3]);
    }
}

#[test]
fn messages_behind_a_damaged_one_can_be_read_without_it() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let log = LOGS[0];
    driver.publish(log, &[body(log, 1, 300), body(log, 2, 300), body(log, 3, 300)], Wait::Confirm);
    driver.settle_down();
    let name = "wal-0000-0000000000000001";
    let mut content = driver.disk.content(name).unwrap();
    let wanted = body(log, 2, 300);
    let at = content.windows(300).position(|bytes| *bytes == wanted[..]).unwrap();
    content[at] ^= 1;
    driver.disk.put(name, content);
    let read = |from| driver.log.plan_read(log, from, 100_000).unwrap().run(&driver.disk);
    let found: Vec<u64> = read(3).unwrap().iter().map(|stored| stored.number).collect();
    assert_eq!(found, [3]);
    assert!(read(2).unwrap_err().to_string().contains("checksum is wrong"));
}

/// A log whose state in the checkpoint is damaged keeps everything, whatever the node does meanwhile.
#[test]
fn a_log_without_its_state_keeps_all_messages() {
    // In the live set of the second log's entry.
    keeps_all_messages(70);
}

/// As with a damaged state: entries around it have sums of their own.
#[test]
fn a_log_whose_entry_has_a_wrong_head_keeps_all_messages() {
    for at in [0, 33, 61] {
        keeps_all_messages(at);
    }
}

/// Damages the second log's entry in the checkpoint, this many bytes behind its beginning.
fn keeps_all_messages(wrong: usize) {
    let mut driver = with_segments();
    driver.control(LogId::METADATA, 1, b"declare");
    driver.settle_down();
    let name = driver.disk.list().unwrap().into_iter().find(|name| name.starts_with("checkpoint-")).unwrap();
    let disk = driver.disk.clone();
    let before = numbers(&driver, LOGS[1]);
    let content = disk.content(&name).unwrap();
    // Entries are in order of logs.
    let head = [&LOGS[1].0.to_le_bytes()[..]].concat();
    let entry = (0..content.len() - 64).find(|at| {
        content[*at..].starts_with(&head)
            && crc32c::crc32c(&content[*at..at + 60]).to_le_bytes() == content[at + 60..at + 64]
    });
    let mut damaged = content.clone();
    damaged[entry.unwrap() + wrong..][..2].iter_mut().for_each(|byte| *byte ^= 1);
    disk.put(&name, damaged);
    let others = [LOGS[0], LOGS[2]].map(|log| numbers(&driver, log));
    let mut reopened = Driver::open(disk, small());
    let hits: Vec<&Hit> = reopened.report.damaged.iter().map(|damage| &damage.logs).collect();
    assert_eq!(hits, [&Hit::Logs(vec![LOGS[1]])], "{wrong}");
    assert_eq!([LOGS[0], LOGS[2]].map(|log| numbers(&reopened, log)), others, "{wrong}: the others have all");
    // Its owner knows of the messages in the WAL only.
    for round in 0..3 {
        for number in 300..=500 {
            reopened.publish(LOGS[0], &[body(LOGS[0], number + round * 300, 900)], Wait::Confirm);
            reopened.settle(LOGS[0], number + round * 300..=number + round * 300);
            reopened.settle_down();
        }
        assert!(reopened.log.statistics().checkpoints > 1);
        let found = numbers(&reopened, LOGS[1]);
        assert!(before.iter().all(|number| found.contains(number)), "round {round}: {found:?}");
        reopened = Driver::open(reopened.disk, small());
        assert!(reopened.report.damaged.iter().any(|damage| damage.logs == Hit::Logs(vec![LOGS[1]])));
    }
}

/// Batches that a start put aside never count again.
#[test]
fn a_tail_that_was_put_aside_does_not_hide_what_came_later() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for number in 1..=5 {
        driver.publish(LOGS[0], &[body(LOGS[0], number, 300)], Wait::Confirm);
        driver.settle_down();
    }
    let name = "wal-0000-0000000000000001";
    let disk = driver.disk.clone();
    let content = disk.content(name).unwrap();
    let wanted = body(LOGS[0], 5, 300);
    let at = content.windows(300).position(|bytes| *bytes == wanted[..]).unwrap();
    let mut wrong = content.clone();
    wrong[at] ^= 1;
    disk.put(name, wrong);
    let mut reopened = Driver::open(disk, small());
    assert!(reopened.report.cut.is_some());
    for number in 1..=3 {
        reopened.publish(LOGS[1], &[body(LOGS[1], number, 300)], Wait::Confirm);
        reopened.settle_down();
    }
    // The bytes are right again.
    let disk = reopened.disk.clone();
    disk.put(name, content);
    let mut again = Driver::open(disk, small());
    assert!(again.report.damaged.is_empty(), "{:?}", again.report.damaged);
    assert_eq!((numbers(&again, LOGS[0]), numbers(&again, LOGS[1])), (vec![1, 2, 3, 4], vec![1, 2, 3]));
    again.publish(LOGS[1], &[body(LOGS[1], 4, 300)], Wait::Confirm);
    again.settle_down();
    let last = Driver::open(again.close(), small());
    assert!(last.report.clean, "{:?}", last.report);
    assert_eq!(numbers(&last, LOGS[1]), [1, 2, 3, 4]);
}

/// A run with a damaged message was never in its owner's state, so nothing but the list of faults tells that it is missing once
/// its file is retired.
#[test]
fn damage_in_a_retired_file_is_told_by_each_start() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let messages = [1, 2, 3].map(|number| body(LOGS[0], number, 300));
    driver.publish(LOGS[0], &messages, Wait::Confirm);
    driver.settle_down();
    driver.publish(LOGS[1], &[body(LOGS[1], 1, 300)], Wait::Confirm);
    driver.settle_down();
    let name = "wal-0000-0000000000000001";
    let disk = driver.disk.clone();
    let content = disk.content(name).unwrap();
    let at = content.windows(300).position(|bytes| *bytes == messages[1][..]).unwrap();
    let mut wrong = content.clone();
    wrong[at] ^= 1;
    disk.put(name, wrong);
    let mut driver = Driver::open(disk, small());
    let told = driver.report.damaged.clone();
    assert_eq!(told.len(), 1);
    let aside = until_retired(&mut driver, name);
    for _ in 0..2 {
        driver = Driver::open(driver.close(), small());
        assert_eq!(driver.report.damaged, told);
        assert!(told[0].messages == [Numbers { log: LOGS[0], first: 1, last: 3 }], "{told:?}");
    }
    let disk = driver.close();
    let verified = |expected| {
        let mut copies = Copies::default();
        let verified = verify(&disk, &small(), &mut copies.ledgers).unwrap();
        assert_eq!(verified.damaged.iter().map(|damage| &damage.logs).collect::<Vec<_>>(), [&told[0].logs]);
        assert!((1..=3).all(|number| Numbers::have(&verified.untaken, LOGS[0], number)));
        let expected = [SetAside { file: aside.clone(), messages: expected }];
        assert_eq!(verified.set_aside, expected);
    };
    verified(2);
    disk.put(&aside, content);
    verified(3);
    // The list itself is damaged: nobody knows what it said.
    let list = "faults-0000";
    let mut bytes = disk.content(list).unwrap();
    bytes[30] ^= 1;
    disk.put(list, bytes);
    for _ in 0..2 {
        let reopened = Driver::open(disk.clone(), small());
        assert_eq!(reopened.report.damaged.iter().map(|damage| &damage.logs).collect::<Vec<_>>(), [&Hit::Any]);
    }
}

/// No start knew which messages were in it.
#[test]
fn a_batch_that_heals_after_it_was_put_aside_is_taken_back() {
    // The header alone, the header and a part of the table, everything.
    for lost in [96, 128, 1536] {
        let mut driver = Driver::open(MemoryDisk::new(), small());
        let messages = [1, 2, 3].map(|number| body(LOGS[0], number, 300));
        driver.publish(LOGS[0], &messages, Wait::Confirm);
        driver.publish(LOGS[1], &[body(LOGS[1], 1, 300)], Wait::Confirm);
        driver.settle_down();
        driver.publish(LOGS[1], &[body(LOGS[1], 2, 300)], Wait::Confirm);
        driver.settle_down();
        let name = "wal-0000-0000000000000001";
        let content = driver.disk.content(name).unwrap();
        let mut wrong = content.clone();
        wrong[512..512 + lost].fill(0xff);
        driver.disk.put(name, wrong);
        let mut driver = Driver::open(driver.disk.clone(), small());
        assert!(!driver.report.damaged.is_empty());
        let aside = until_retired(&mut driver, name);
        let disk = driver.close();
        disk.put(&aside, content);
        let mut copies = Copies::default();
        let verified = verify(&disk, &small(), &mut copies.ledgers).unwrap();
        assert_eq!(verified.set_aside, [SetAside { file: aside, messages: 4 }], "{lost} bytes lost");
        let has = |log, number| Numbers::have(&verified.untaken, log, number);
        assert!((1..=3).all(|number| has(LOGS[0], number)) && has(LOGS[1], 1) && !has(LOGS[1], 2));
    }
}

/// A WAL file that became a segment is named by its index only.
#[test]
fn a_file_whose_index_is_missing_stays() {
    let options = || Options { keep_live_percent: 75, ..small() };
    let mut driver = Driver::open(MemoryDisk::new(), options());
    let mut published = 0;
    while driver.log.statistics().files_kept == 0 {
        published += 1;
        assert!(published < 1000, "{:?}", driver.log.statistics());
        driver.publish(LOGS[0], &[body(LOGS[0], published, 5000)], Wait::Confirm);
        driver.settle_down();
    }
    let disk = driver.close();
    let index = segments_of(&disk).remove(0);
    let content = disk.content(&index).unwrap();
    disk.remove(&index).unwrap();
    let reopened = Driver::open(disk, options());
    assert!(!reopened.report.damaged.is_empty());
    let disk = reopened.close();
    disk.put(&index, content);
    let again = Driver::open(disk, options());
    assert_eq!(numbers(&again, LOGS[0]), (1..=published).collect::<Vec<u64>>());
}

/// Records that states reflect were durable.
#[test]
fn a_log_that_ends_before_its_states_has_lost_something() {
    let mut driver = with_segments();
    driver.settle_down();
    let disk = driver.disk.clone();
    let mut files = disk.list().unwrap();
    files.retain(|name| name.starts_with("wal-"));
    files.sort_unstable();
    for at in 0..files.len() {
        let disk = disk.clone();
        let copy = MemoryDisk::new();
        for name in disk.list().unwrap() {
            copy.put(&name, disk.content(&name).unwrap());
        }
        files[at..].iter().for_each(|name| copy.remove(name).unwrap());
        let mut ledgers = driver::Ledgers::default();
        let Ok((log, report)) = recover(&copy, small(), &mut ledgers, 0) else { continue };
        let reached = report.position;
        drop(log);
        let mut reopened = Driver::open(copy, small());
        reopened.control(LogId::METADATA, 1, b"declare");
        reopened.settle_down();
        let last = Driver::open(reopened.disk, small());
        assert!(last.report.position > reached, "the new record counts");
        assert!(last.report.damaged.iter().all(|damage| !damage.reason.contains("header")), "{:?}", last.report);
    }
}
