//! Metadata is written twice: whatever bit goes wrong, a start has all of it or is refused.

#[allow(dead_code)]
mod driver;

use driver::{Driver, Ledgers, body, check, small};
use leveret_log::{Disk, Lane, LogId, MemoryDisk, Wait, recover};

const A: LogId = LogId(5);

/// Metadata records among messages, the last ones not retired; a checkpoint has the others.
fn with_metadata(rounds: u64) -> Driver {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for round in 0..rounds {
        driver.control(LogId::METADATA, 1, format!("declare {round}").as_bytes());
        if round % 3 == 0 {
            driver.control(LogId::METADATA, 1, format!("bind {round}").as_bytes());
        }
        let number = driver.ledgers.0.get(&A).map_or(1, |ledger| ledger.next.max(1));
        driver.publish(A, &[body(A, number, 700)], Wait::Confirm);
        driver.settle_down();
    }
    driver
}

fn metadata(ledgers: &Ledgers) -> &[(u8, Vec<u8>)] {
    &ledgers.0[&LogId::METADATA].controls
}

fn files(disk: &MemoryDisk, kind: &str) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.starts_with(kind)).collect()
}

/// Opens a directory with one wrong bit. Returns whether it was refused.
fn holds_all(disk: &MemoryDisk, expected: &[(u8, Vec<u8>)], place: &str) -> bool {
    let mut ledgers = Ledgers::default();
    match recover(disk, small(), &mut ledgers, 0) {
        Ok(_) => {
            assert_eq!(metadata(&ledgers), expected, "{place}");
            false
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("storage is damaged: "), "{place}: {text}");
            true
        }
    }
}

#[test]
fn no_wrong_bit_in_the_wal_makes_other_metadata() {
    for closes in [true, false] {
        let driver = with_metadata(6);
        let expected = metadata(&driver.ledgers).to_vec();
        let disk = if closes { driver.close() } else { driver.disk.clone() };
        let [name] = &files(&disk, "wal-")[..] else { panic!("one file") };
        let content = disk.content(name).unwrap();
        let end = content.iter().rposition(|byte| *byte != 0).unwrap();
        for at in 512..=end {
            let disk = disk.clone();
            let mut bytes = content.clone();
            bytes[at] ^= 1 << (at % 8);
            disk.put(name, bytes);
            let place = format!("{name} byte {at} of {end}, closed {closes}");
            assert!(!holds_all(&disk, &expected, &place), "{place}: a copy is whole");
        }
    }
}

#[test]
fn no_wrong_bit_in_a_checkpoint_makes_other_metadata() {
    let driver = with_metadata(150);
    let expected = metadata(&driver.ledgers).to_vec();
    assert!(driver.log.statistics().checkpoints > 0);
    let (mut started, mut refused) = (0, 0);
    for kind in ["checkpoint-", "metadata-"] {
        let [name] = &files(&driver.disk, kind)[..] else { panic!("one {kind}") };
        let content = driver.disk.content(name).unwrap();
        for at in 0..content.len() {
            let disk = driver.disk.clone();
            let mut bytes = content.clone();
            bytes[at] ^= 1 << (at % 8);
            disk.put(name, bytes);
            let place = format!("{name} byte {at}");
            let verified = check(&disk, &small()).unwrap();
            assert!(!verified.is_sound(), "{place}");
            match holds_all(&disk, &expected, &place) {
                true => refused += 1,
                false => started += 1,
            }
        }
    }
    assert!(started > 2 * refused, "{started} {refused}");
}

#[test]
fn a_start_mends_the_copy_that_is_damaged() {
    let driver = with_metadata(150);
    let expected = metadata(&driver.ledgers).to_vec();
    for (kind, place) in [("checkpoint-", "declare 3"), ("metadata-", "declare 3"), ("metadata-", "")] {
        let disk = driver.disk.clone();
        let name = files(&disk, kind).remove(0);
        let mut bytes = disk.content(&name).unwrap();
        match bytes.windows(place.len().max(1)).position(|part| part == place.as_bytes()) {
            Some(at) => {
                bytes[at] ^= 1;
                disk.put(&name, bytes);
            }
            None => disk.remove(&name).unwrap(),
        }
        let mut reopened = Driver::open(disk, small());
        let text = reopened.report.damaged[0].to_string();
        assert!(text.contains("copy") && text.contains(&name), "{text}");
        reopened.settle_down();
        let disk = reopened.close();
        assert!(check(&disk, &small()).unwrap().is_sound(), "{name}: both copies are written anew");
        let again = Driver::open(disk, small());
        assert!(again.report.damaged.is_empty(), "{:?}", again.report.damaged);
        assert_eq!(metadata(&again.ledgers), expected);
    }
}

#[test]
fn a_start_without_any_copy_is_refused_and_changes_nothing() {
    let driver = with_metadata(150);
    let disk = driver.disk.clone();
    let mut places = Vec::new();
    for kind in ["checkpoint-", "metadata-"] {
        let name = files(&disk, kind).remove(0);
        let mut bytes = disk.content(&name).unwrap();
        let at = bytes.windows(9).position(|part| part == b"declare 3").unwrap();
        bytes[at] ^= 1;
        disk.put(&name, bytes);
        places.push(name);
    }
    refuses_with(&disk, &places);

    // In the WAL.
    let driver = with_metadata(5);
    let disk = driver.disk.clone();
    let name = files(&disk, "wal-").remove(0);
    let mut bytes = disk.content(&name).unwrap();
    let copies: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"declare 2")).collect();
    assert_eq!(copies.len(), 2);
    assert!(copies[1] - copies[0] >= 512, "they are in different sectors");
    copies.iter().for_each(|at| bytes[*at] ^= 1);
    disk.put(&name, bytes);
    refuses_with(&disk, &[name]);
}

fn refuses_with(disk: &MemoryDisk, places: &[String]) {
    let content =
        |disk: &MemoryDisk| disk.list().unwrap().into_iter().map(|name| disk.content(&name)).collect::<Vec<_>>();
    let before = content(disk);
    let error = recover(disk, small(), &mut Ledgers::default(), 0).unwrap_err().to_string();
    assert!(error.contains("metadata") && error.contains("--repair-to"), "{error}");
    assert!(places.iter().all(|place| error.contains(place)), "{error}");
    assert!(content(disk) == before);
    let verified = check(disk, &small()).unwrap();
    assert_eq!(verified.refused.as_deref(), Some(&*error));
}

#[test]
fn a_batch_of_messages_alone_may_be_lost_without_metadata() {
    let mut driver = with_metadata(3);
    driver.publish(A, &[body(A, 4, 300)], Wait::Confirm);
    driver.settle_down();
    driver.publish(A, &[body(A, 5, 300)], Wait::Confirm);
    driver.settle_down();
    let expected = metadata(&driver.ledgers).to_vec();
    let name = files(&driver.disk, "wal-").remove(0);
    let mut bytes = driver.disk.content(&name).unwrap();
    let wanted = body(A, 4, 300);
    let at = bytes.windows(300).position(|part| *part == wanted[..]).unwrap() / 512 * 512;
    bytes[at..at + 512].fill(0);
    driver.disk.put(&name, bytes);
    let reopened = Driver::open(driver.disk.clone(), small());
    assert!(!reopened.report.damaged.is_empty());
    assert_eq!(metadata(&reopened.ledgers), expected);
}

#[test]
fn records_without_a_second_copy_are_copied_by_the_next_start() {
    let mut driver = with_metadata(2);
    driver.control(LogId::METADATA, 1, b"declare the last");
    // Its write and its sync.
    assert!(driver.step(Lane::Commit) && driver.step(Lane::Commit));
    let count = |disk: &MemoryDisk| {
        let bytes: Vec<u8> = files(disk, "wal-").iter().flat_map(|name| disk.content(name).unwrap()).collect();
        bytes.windows(16).filter(|part| *part == b"declare the last").count()
    };
    // Killed before the second copy.
    let disk = driver.disk.clone();
    assert_eq!(count(&disk), 1);
    let mut reopened = Driver::open(disk, small());
    reopened.settle_down();
    assert_eq!(count(&reopened.disk), 2);
    let again = Driver::open(reopened.disk.clone(), small());
    assert_eq!(count(&again.disk), 2, "and only once");
    assert_eq!(metadata(&again.ledgers).len(), metadata(&driver.ledgers).len());
}
