//! A refusal, and a report of damage, name the bytes that are wrong and no others.

#[allow(dead_code)]
mod driver;

use std::ops::{ControlFlow, Range};

use driver::{Driver, Ledgers, body, check, small};
use leveret_log::{Damage, Disk, Dumped, LogId, MemoryDisk, Wait, dump, recover};

const A: LogId = LogId(5);

fn files(disk: &MemoryDisk, kind: &str) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.starts_with(kind)).collect()
}

/// The batches of a file.
fn batches(disk: &MemoryDisk, name: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut visit = |dumped: Dumped<'_>| {
        if let Dumped::Batch { offset, header, .. } = dumped {
            found.push(offset as usize..(offset + header.padded_bytes()) as usize);
        }
        ControlFlow::Continue(())
    };
    dump(disk, &small(), name, &mut visit).unwrap();
    found
}

fn with_metadata(rounds: u64) -> Driver {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for round in 0..rounds {
        driver.control(LogId::METADATA, 1, format!("declare {round}").as_bytes());
        driver.publish(A, &[body(A, round + 1, 700)], Wait::Confirm);
        driver.settle_down();
    }
    driver
}

fn overwrite(disk: &MemoryDisk, name: &str, range: Range<usize>) {
    let mut bytes = disk.content(name).unwrap();
    bytes[range].fill(0xff);
    disk.put(name, bytes);
}

fn error(disk: &MemoryDisk) -> String {
    recover(disk, small(), &mut Ledgers::default(), 0).map(drop).unwrap_err().to_string()
}

#[test]
fn a_refusal_names_the_range_of_the_lost_batches() {
    let driver = with_metadata(4);
    let [name] = &files(&driver.disk, "wal-")[..] else { panic!("one file") };
    let batches = batches(&driver.disk, name);
    let mut refused = 0;
    for first in 0..batches.len() {
        for last in first..batches.len() - 1 {
            let disk = driver.disk.clone();
            let lost = batches[first].start..batches[last].end;
            overwrite(&disk, name, lost.clone());
            let Err(error) = recover(&disk, small(), &mut Ledgers::default(), 0) else { continue };
            let text = error.to_string();
            let place = format!("{name}, bytes {} to {}: ", lost.start, lost.end);
            assert!(text.contains(&place) && text.contains("--repair-to"), "{place}: {text}");
            let named: Vec<&str> = text.matches(", bytes ").collect();
            assert_eq!(named.len(), 1, "{place}: {text}");
            let verified = check(&disk, &small()).unwrap();
            let is_named =
                |damage: &Damage| damage.range == (lost.start as u64..lost.end as u64) && damage.file == *name;
            assert!(verified.damaged.iter().any(is_named), "{place}: {:?}", verified.damaged);
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_refusal_names_the_places_of_both_copies() {
    let driver = with_metadata(5);
    let [name] = &files(&driver.disk, "wal-")[..] else { panic!("one file") };
    let content = driver.disk.content(name).unwrap();
    let copies: Vec<usize> = (0..content.len()).filter(|at| content[*at..].starts_with(b"declare 2")).collect();
    let disk = driver.disk.clone();
    let mut places = Vec::new();
    for at in copies {
        let batch = batches(&driver.disk, name).into_iter().find(|batch| batch.contains(&at)).unwrap();
        overwrite(&disk, name, batch.clone());
        places.push(format!("{name}, bytes {} to {}: ", batch.start, batch.end));
    }
    let text = error(&disk);
    assert_eq!(places.len(), 2);
    assert!(places.iter().all(|place| text.contains(place)), "{places:?}: {text}");
}

#[test]
fn a_missing_checkpoint_is_named_whatever_else_is_damaged() {
    let driver = with_metadata(150);
    let disk = driver.disk.clone();
    disk.remove(&files(&disk, "checkpoint-")[0]).unwrap();
    let text = error(&disk);
    assert!(text.starts_with("storage is damaged: the checkpoint is missing (the log begins with batch "), "{text}");
    assert!(!text.contains("also damaged"), "{text}");
    let name = files(&disk, "wal-").into_iter().find(|name| batches(&disk, name).len() > 4).unwrap();
    let [_, lost, _, faulty, ..] = &batches(&disk, &name)[..] else { panic!("too few batches") };
    overwrite(&disk, &name, lost.clone());
    overwrite(&disk, &name, faulty.start + 200..faulty.start + 210);
    let text = error(&disk);
    assert!(text.starts_with("storage is damaged: the checkpoint is missing (the log begins with batch "), "{text}");
    let place = format!("also damaged: {name}, bytes {} to {}: ", lost.start, lost.end);
    assert!(text.contains(&place) && text.contains(&format!("; {name}, bytes ")), "{place}: {text}");
}

#[test]
fn a_lost_tail_names_the_place_where_the_log_ends() {
    let driver = with_metadata(3);
    let disk = driver.close();
    let [name] = &files(&disk, "wal-")[..] else { panic!("one file") };
    let batches = batches(&disk, name);
    let length = disk.content(name).unwrap().len();
    let last = batches.len();
    for lost in 1..3 {
        let disk = disk.clone();
        let end = batches[last - lost].start;
        let mut bytes = disk.content(name).unwrap();
        bytes[end..].fill(0);
        disk.put(name, bytes);
        let reopened = Driver::open(disk, small());
        let [damage] = &reopened.report.damaged[..] else { panic!("{:?}", reopened.report.damaged) };
        let text = damage.to_string();
        let begins = format!(
            "{name}, bytes {end} to {length}: batches {} to {last} are missing: the log ends here",
            last - lost + 1
        );
        assert!(
            text.starts_with(&begins) && text.contains(&format!("the last clean stop left batch {last} with record ")),
            "{text}"
        );
    }
}

#[test]
fn a_missing_last_file_is_named_after_a_clean_stop() {
    let mut driver = with_metadata(3);
    driver.settle_down();
    // Each start begins a file.
    let mut driver = Driver::open(driver.close(), small());
    driver.publish(A, &[body(A, 4, 700)], Wait::Confirm);
    driver.settle_down();
    let disk = driver.close();
    let names = files(&disk, "wal-");
    assert_eq!(names.len(), 2);
    let end = batches(&disk, &names[0]).last().unwrap().end;
    disk.remove(&names[1]).unwrap();
    let reopened = Driver::open(disk, small());
    let text = reopened.report.damaged[0].to_string();
    let (begins, missing) =
        (format!("{}, bytes {end} to ", names[0]), format!("at the end of {}, which is missing", names[1]));
    assert!(text.starts_with(&begins) && text.contains(&missing), "{text}");
}

/// A log that was killed in its second file, of which more than half is used, so that the third one is prepared.
fn killed_in_the_second_file() -> (MemoryDisk, [String; 3]) {
    let mut driver = with_metadata(3);
    let mut number = 3;
    while files(&driver.disk, "wal-").len() < 3 {
        number += 1;
        driver.publish(A, &[body(A, number, 2000)], Wait::Confirm);
        driver.settle_down();
    }
    let names = files(&driver.disk, "wal-");
    assert!(batches(&driver.disk, &names[2]).is_empty());
    (driver.disk, names.try_into().unwrap())
}

#[test]
fn a_missing_last_file_is_named_after_a_kill() {
    let (disk, names) = killed_in_the_second_file();
    let whole = disk.clone();
    disk.remove(&names[1]).unwrap();
    let text = error(&disk);
    let begins = format!(
        "storage is damaged: {} is missing (it isn't there, although the log had durable batches in it",
        names[1]
    );
    assert!(text.starts_with(&begins) && text.contains(&format!("when {} was prepared", names[2])), "{text}");
    let verified = check(&disk, &small()).unwrap();
    assert_eq!(verified.refused.as_deref(), Some(&*text));
    // Nothing was changed, so it can come back.
    disk.put(&names[1], whole.content(&names[1]).unwrap());
    assert!(Driver::open(disk, small()).report.damaged.is_empty());
}

#[test]
fn a_last_file_without_its_batches_is_named_after_a_kill() {
    let (disk, names) = killed_in_the_second_file();
    let mut bytes = disk.content(&names[1]).unwrap();
    bytes[512..].fill(0);
    disk.put(&names[1], bytes);
    let text = error(&disk);
    let begins = format!("storage is damaged: {} is missing (it has no batch any more", names[1]);
    assert!(text.starts_with(&begins), "{text}");
}

#[test]
fn a_file_that_a_start_found_is_missed_by_the_next_one() {
    let mut driver = with_metadata(3);
    driver.settle_down();
    let disk = driver.disk;
    let name = files(&disk, "wal-").remove(0);
    let disk = Driver::open(disk, small()).disk;
    disk.remove(&name).unwrap();
    assert!(error(&disk).contains(&format!("{name} is missing (it isn't there")));
}

#[test]
fn a_place_without_bytes_is_no_range() {
    let damage = |range| Damage {
        file: "wal-0".into(),
        range,
        logs: leveret_log::Hit::Any,
        messages: Vec::new(),
        unknown: 0,
        reason: "wrong".into(),
    };
    let texts = [0..0, 512..512, 0..512].map(|range| damage(range).to_string());
    assert_eq!(texts, ["wal-0: wrong", "wal-0, at byte 512: wrong", "wal-0, bytes 0 to 512: wrong"]);
}
