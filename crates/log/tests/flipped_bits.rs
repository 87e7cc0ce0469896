//! A flipped bit in any byte that a cleanly closed log uses is found, either by the start or by the read of the
//! message.

#[allow(dead_code)]
mod driver;
#[allow(dead_code)]
mod small_log;

use std::io;
use std::ops::Range;

use bytes::Bytes;
use driver::{Driver, Ledgers, body, check};
use leveret_log::format::file_header::FILE_HEADER_BYTES;
use leveret_log::format::{Identity, batch_check};
use leveret_log::{Damage, Disk, Event, Hit, MemoryDisk, StorageError, Wait, recover, verify};
use small_log::{CHUNKS, LOGS, OpenOutcome, closed, closed_with_a_kept_file, expected, expected_in, start, tiny, used};

const FIRST_FILE: &str = "wal-0000-0000000000000001";

/// A disk on which one bit of one file is read wrong.
struct FlippedDisk<'a> {
    disk: &'a MemoryDisk,
    file: &'a str,
    bit: u64,
}

impl Disk for FlippedDisk<'_> {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.disk.read_at(name, offset, buffer)?;
        if name == self.file && (offset..offset + count as u64).contains(&(self.bit / 8)) {
            buffer[(self.bit / 8 - offset) as usize] ^= 1 << (self.bit % 8);
        }
        Ok(count)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.disk.len(name)
    }

    fn create(&self, _: &str, _: u64) -> io::Result<()> {
        unreachable!("a check changes nothing")
    }

    fn write_at(&self, _: &str, _: u64, _: &[&[u8]]) -> io::Result<()> {
        unreachable!("a check changes nothing")
    }

    fn sync(&self, _: &str) -> io::Result<()> {
        unreachable!("a check changes nothing")
    }

    fn sync_directory(&self) -> io::Result<()> {
        unreachable!("a check changes nothing")
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        unreachable!("a check changes nothing")
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        unreachable!("a check changes nothing")
    }
}

#[test]
fn every_flipped_bit_is_found_by_a_check_that_names_its_file() {
    let disk = closed();
    let used = used(&disk);
    for kind in ["wal-", "segment-", "checkpoint-", "closed-"] {
        assert!(used.iter().any(|(name, _)| name.starts_with(kind)), "{used:?}");
    }
    let chunk = body(CHUNKS, 8, 60);
    let has_chunk = |name: &str| disk.content(name).unwrap().windows(60).any(|bytes| *bytes == chunk[..]);
    assert!(used.iter().any(|(name, _)| name.starts_with("segment-") && has_chunk(name)), "no chunk was copied");
    assert_check_finds_each(&disk, &used);
}

#[test]
fn a_check_finds_every_flipped_bit_of_a_kept_file_and_its_index() {
    let disk = closed_with_a_kept_file();
    let mut used = used(&disk);
    used.retain(|(name, _)| name.starts_with("segment-") || *name == FIRST_FILE);
    assert_eq!(used.len(), 2, "{used:?}");
    assert_check_finds_each(&disk, &used);
}

/// Asserts that a check finds every flipped bit in these bytes.
fn assert_check_finds_each(disk: &MemoryDisk, used: &[(String, Range<usize>)]) {
    assert!(check(disk, &tiny()).unwrap().is_sound());
    let mut bits = 0;
    for (name, range) in used {
        for bit in range.start as u64 * 8..range.end as u64 * 8 {
            let flipped = FlippedDisk { disk, file: name, bit };
            let found = verify(&flipped, &tiny(), &mut Ledgers::default());
            match found {
                Ok(found) => {
                    let named = |damage: &Damage| damage.file == *name && damage.range.contains(&(bit / 8));
                    assert!(found.torn.is_none(), "{name}, bit {bit}: a clean stop tore nothing");
                    assert!(found.damaged.iter().any(named), "{name}, bit {bit}: {found:?}");
                }
                Err(error) => panic!("{name}, bit {bit}: {error}"),
            }
            bits += 1;
        }
    }
    println!("{bits} bits of {} files", used.len());
}

#[test]
fn a_start_or_a_read_finds_every_flipped_bit() {
    let disk = closed();
    assert_start_or_read_finds_each(&disk, &expected(), |name| name.starts_with("segment-"));
}

#[test]
fn a_start_or_a_read_finds_every_flipped_bit_of_a_kept_file() {
    let disk = closed_with_a_kept_file();
    // Without a checkpoint, a start replays all files, since none is gone.
    let is_only_read =
        |name: &str| name.starts_with("segment-") || name.starts_with("checkpoint-") || name == FIRST_FILE;
    assert_start_or_read_finds_each(&disk, &expected_in(disk.clone()), is_only_read);
}

/// Asserts that no flipped bit changes what is read without a word. Those of some files are only found by reads.
fn assert_start_or_read_finds_each(
    disk: &MemoryDisk,
    expected: &[Vec<(u64, Bytes)>],
    is_only_read: impl Fn(&str) -> bool,
) {
    assert_eq!(start(disk, expected), OpenOutcome::Silent);
    for (name, range) in used(disk) {
        let content = disk.content(&name).unwrap();
        for at in range {
            let flipped = disk.clone();
            let mut content = content.clone();
            content[at] ^= 1 << (at % 8);
            flipped.put(&name, content);
            let outcome = start(&flipped, expected);
            assert!(
                outcome != OpenOutcome::Silent || is_only_read(&name),
                "{name}, byte {at}: nothing was said at the start"
            );
        }
    }
}

#[test]
fn a_crash_image_tells_bits_of_the_last_batch_from_others() {
    let (disk, name, batches) = killed();
    assert!(check(&disk, &tiny()).unwrap().is_sound());
    for at in 0..batches[2].end {
        let flipped = FlippedDisk { disk: &disk, file: &name, bit: at as u64 * 8 + at as u64 % 8 };
        let found = verify(&flipped, &tiny(), &mut Ledgers::default()).unwrap();
        let last = batches[2].contains(&at);
        assert_eq!((found.damaged.is_empty(), found.torn.is_some()), (last, last), "byte {at}: {found:?}");
    }
}

/// A log after a kill: three batches in one file.
fn killed() -> (MemoryDisk, String, Vec<Range<usize>>) {
    let mut driver = Driver::open(MemoryDisk::new(), tiny());
    for number in 1..=3 {
        for log in LOGS {
            driver.publish(log, &[body(log, number, 300)], Wait::Lazy);
        }
        driver.settle_down();
    }
    let name = FIRST_FILE.to_owned();
    let content = driver.disk.content(&name).unwrap();
    let identity = Identity::wal(5, 0, 1);
    let mut batches = Vec::new();
    let mut at = FILE_HEADER_BYTES as usize;
    while let Some(batch) = batch_check::check(&content[at..], &identity) {
        let end = at + batch.header.padded_bytes() as usize;
        batches.push(at..end);
        at = end;
    }
    assert_eq!(batches.len(), 3);
    (driver.disk, name, batches)
}

fn reopen_with(disk: &MemoryDisk, name: &str, at: usize) -> Driver {
    let disk = disk.clone();
    let mut content = disk.content(name).unwrap();
    content[at] ^= 1;
    disk.put(name, content);
    Driver::open(disk, tiny())
}

#[test]
fn a_bad_last_batch_is_cut_and_put_aside_once() {
    let (disk, name, batches) = killed();
    for at in [batches[2].start, batches[2].start + 100, batches[2].end - 300] {
        let mut driver = reopen_with(&disk, &name, at);
        let cut = driver.report.cut.clone().expect("it was cut");
        assert_eq!((&cut.file, cut.range.start), (&name, batches[2].start as u64));
        assert!(driver.disk.content(&cut.kept).is_some());
        assert!(driver.report.damaged.is_empty());
        assert_eq!(driver.report.position, 4);
        driver.publish(LOGS[0], &[body(LOGS[0], 3, 50)], Wait::Confirm);
        driver.settle_down();
        let driver = Driver::open(driver.disk, tiny());
        assert_eq!(driver.report.cut, None);
        assert!(driver.report.damaged.is_empty(), "{:?}", driver.report);
        assert_eq!(driver.report.position, 5);
    }
}

#[test]
fn a_bad_batch_before_the_last_stops_only_the_logs_it_hit() {
    let (disk, name, batches) = killed();
    // In the record of the second log.
    let driver = reopen_with(&disk, &name, batches[1].end - 250);
    let [damage] = &driver.report.damaged[..] else {
        panic!("{:?}", driver.report);
    };
    assert_eq!(damage.logs, Hit::Logs(vec![LOGS[1]]));
    assert_eq!(driver.read(LOGS[0], 1, 4000).len(), 3);
    let [plan, later] = [2, 3].map(|from| driver.log.plan_read(LOGS[1], from, 4000).unwrap());
    assert_eq!(plan.run(&driver.disk).unwrap_err().log, LOGS[1]);
    assert_eq!(later.run(&driver.disk).unwrap()[0].number, 3);
    // In the header: the run table still names the logs.
    let driver = reopen_with(&disk, &name, batches[1].start + 1);
    let [damage] = &driver.report.damaged[..] else {
        panic!("{:?}", driver.report);
    };
    assert_eq!(damage.logs, Hit::Logs(LOGS.to_vec()));
    assert_eq!(damage.range, batches[1].start as u64..batches[1].end as u64);
    let numbers: Vec<u64> = driver.read(LOGS[0], 1, 4000).iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 3]);
    // In a row of the table: any log may be hit, but the other run is found.
    let driver = reopen_with(&disk, &name, batches[1].start + 100);
    assert!(driver.report.damaged.iter().any(|damage| damage.logs == Hit::Any));
    assert_eq!(driver.report.position, 6);
    assert_eq!(driver.read(LOGS[1], 1, 4000).len(), 3);
}

#[test]
fn sound_messages_survive_retirement_and_the_bad_file_is_kept() {
    for at in [1, 100, 400] {
        let (disk, name, batches) = killed();
        let mut driver = reopen_with(&disk, &name, batches[1].start + at);
        let mut number = 3;
        while driver.log.statistics().retirements < 1 {
            number += 1;
            driver.publish(LOGS[0], &[body(LOGS[0], number, 700)], Wait::Confirm);
            driver.settle_down();
        }
        let found = driver.events.iter().any(|event| matches!(event, Event::Damaged(_)));
        assert!(found || at == 400, "a message that recovery didn't find isn't looked for");
        assert!(driver.disk.content(&format!("damaged-{name}")).is_some());
        let numbers: Vec<u64> = driver.read(LOGS[1], 1, 4000).iter().map(|(number, _)| *number).collect();
        assert!(numbers.starts_with(&[1]) && numbers.ends_with(&[3]), "{numbers:?}");
    }
}

#[test]
fn a_lost_checkpoint_is_refused() {
    let disk = closed();
    let name = disk.list().unwrap().into_iter().find(|name| name.starts_with("checkpoint-")).unwrap();
    let mut content = disk.content(&name).unwrap();
    content[3] ^= 1;
    let damaged = disk.clone();
    damaged.put(&name, content);
    let error = recover(&damaged, tiny(), &mut Ledgers::default(), 0).unwrap_err();
    assert!(matches!(error, StorageError::Checkpoint { .. }), "{error}");
    disk.remove(&name).unwrap();
    let error = recover(&disk, tiny(), &mut Ledgers::default(), 0).unwrap_err();
    assert!(matches!(error, StorageError::Missing { .. }), "{error}");
}
