//! Batches that only have to be written share a sync, and recovery knows how a power cut may have torn them.

#[allow(dead_code)]
mod driver;

use std::io;
use std::sync::Mutex;

use driver::{Driver, Ledgers, body, check, small};
use leveret_log::format::Identity;
use leveret_log::format::batch::BatchHeader;
use leveret_log::format::file_header::FILE_HEADER_BYTES;
use leveret_log::{Disk, Event, Lane, LogId, MemoryDisk, Next, Options, Wait, recover};

const A: LogId = LogId(1);

/// Appends a message and writes it as a batch of its own, without its sync.
fn write(driver: &mut Driver, number: u64, wait: Wait) {
    driver.publish(A, &[body(A, number, 700)], wait);
    driver.now += 2_000_000;
    assert!(driver.step(Lane::Commit), "the write");
    assert!(matches!(driver.events.last(), Some(Event::Written(_))));
}

/// A log with one durable message; those after it up to `last` are only written.
fn written(last: u64) -> Driver {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish(A, &[body(A, 1, 700)], Wait::Confirm);
    driver.settle_down();
    (2..=last).for_each(|number| write(&mut driver, number, Wait::Written));
    assert_eq!((driver.log.durable(), driver.log.appended()), (1, last));
    driver
}

/// The first WAL file and the batches in it.
fn batches(disk: &MemoryDisk) -> (String, Vec<(usize, BatchHeader)>) {
    let name = "wal-0000-0000000000000001".to_owned();
    (name.clone(), batches_of(disk, &name))
}

fn batches_of(disk: &MemoryDisk, name: &str) -> Vec<(usize, BatchHeader)> {
    let number = u64::from_str_radix(name.rsplit('-').next().unwrap(), 16).unwrap();
    let (content, identity) = (disk.content(name).unwrap(), Identity::wal(77, 0, number));
    let mut at = FILE_HEADER_BYTES as usize;
    let mut found = Vec::new();
    while let Some(header) = BatchHeader::decode(&content[at..], &identity, (content.len() - at) as u64) {
        found.push((at, header));
        at += header.padded_bytes() as usize;
    }
    found
}

fn numbers(driver: &Driver) -> Vec<u64> {
    driver.ledgers.0[&A].live.keys().copied().collect()
}

#[test]
fn batches_that_only_have_to_be_written_share_a_sync() {
    let mut driver = written(4);
    let syncs = driver.log.statistics().syncs;
    assert!(!driver.step(Lane::Commit), "nobody waits for a sync");
    let Next::At(at) = driver.log.next_job(Lane::Commit, driver.now) else { panic!("it comes by itself") };
    assert!(at <= driver.now + Options::default().lazy_flush, "{at} at {}", driver.now);
    driver.now = at;
    assert!(driver.step(Lane::Commit), "the sync");
    assert_eq!((driver.log.durable(), driver.log.statistics().syncs), (4, syncs + 1));
    assert!(!driver.step(Lane::Commit));
    let unsynced: Vec<u32> = batches(&driver.disk).1.iter().map(|(_, header)| header.unsynced).collect();
    assert_eq!(unsynced, [0, 0, 1, 2]);
}

#[test]
fn a_wait_for_the_disk_syncs_all_earlier_batches_too() {
    let mut driver = written(3);
    write(&mut driver, 4, Wait::Confirm);
    assert!(driver.step(Lane::Commit), "the sync comes at once");
    assert_eq!(driver.log.durable(), 4);
    // A caller may also ask for durability later.
    write(&mut driver, 5, Wait::Written);
    assert!(!driver.step(Lane::Commit));
    driver.log.hurry(5);
    assert!(driver.log.commit_waiting() && driver.step(Lane::Commit));
    assert_eq!(driver.log.durable(), 5);
    driver.publish(A, &[body(A, 6, 10)], Wait::Written);
    driver.log.hurry(6);
    driver.now += 2_000_000;
    assert!(driver.step(Lane::Commit) && driver.step(Lane::Commit), "write and sync");
    assert_eq!(driver.log.durable(), 6);
}

#[test]
fn many_bytes_are_synced_and_a_file_begins_after_a_sync() {
    let options = Options { unsynced_max: 10 << 10, ..small() };
    let mut driver = Driver::open(MemoryDisk::new(), options);
    let mut longest = 0;
    for number in 1..=300 {
        driver.publish(A, &[body(A, number, 900)], Wait::Written);
        driver.settle(A, number..=number);
        driver.now += 2_000_000;
        while driver.step(Lane::Commit) | driver.step(Lane::Background) {}
        longest = longest.max(driver.log.appended() - driver.log.durable());
    }
    assert!((8..=30).contains(&longest), "{longest} records weren't durable");
    let mut files = driver.disk.list().unwrap();
    files.retain(|name| name.starts_with("wal-"));
    let firsts: Vec<u32> =
        files.iter().filter_map(|file| Some(batches_of(&driver.disk, file).first()?.1.unsynced)).collect();
    assert!(firsts.len() > 2 && firsts.iter().all(|unsynced| *unsynced == 0), "{firsts:?}");
}

/// Tears a batch of `length` bytes that wasn't synced in one of several ways.
fn tear(bytes: &mut [u8], how: usize) {
    match how {
        0 => bytes.fill(0),
        1 => bytes[..512].fill(0),
        2 => bytes[512..].fill(0),
        _ => bytes[200] ^= 1,
    }
}

#[test]
fn a_power_cut_leaves_the_batches_before_the_first_torn_one() {
    for how in 0..4 {
        for torn in 2..=5u64 {
            let driver = written(5);
            let disk = driver.disk.clone();
            let (name, batches) = batches(&disk);
            let mut content = disk.content(&name).unwrap();
            let (at, header) = batches[torn as usize - 1];
            tear(&mut content[at..at + header.padded_bytes() as usize], how);
            disk.put(&name, content);
            let checked = check(&disk, &small()).unwrap();
            assert!(checked.damaged.is_empty(), "{how} {torn}: {:?}", checked.damaged);

            let mut driver = Driver::open(disk, small());
            let report = &driver.report;
            assert!(report.damaged.is_empty(), "{how} {torn}: {:?}", report.damaged);
            // Without its first sector the last batch was never begun.
            let is_seen = torn < 5 || how > 1;
            assert_eq!(report.cut.is_some(), is_seen, "{how} {torn}");
            if let Some(cut) = &report.cut {
                assert_eq!(cut.range.start, at as u64);
                let (last, header) = batches[4];
                assert!(torn == 5 || cut.range.end == last as u64 + header.padded_bytes(), "{cut:?}");
            }
            assert_eq!(numbers(&driver), (1..torn).collect::<Vec<_>>());
            // The numbers are reused, and the next start knows which ones count.
            driver.publish(A, &[body(A, torn, 30)], Wait::Confirm);
            driver.settle_down();
            assert_eq!(driver.read(A, torn, 1)[0].1[4..], body(A, torn, 30)[..]);
            let again = Driver::open(driver.disk.clone(), small());
            assert!(again.report.damaged.is_empty() && again.report.cut.is_none(), "{how} {torn}: {:?}", again.report);
            assert_eq!(again.read(A, 1, 1 << 20).len(), torn as usize);
            assert_eq!(again.read(A, torn, 1)[0].1[4..], body(A, torn, 30)[..]);
            // A clean stop doesn't change what was cut before either: everything up to its last batch was durable,
            // but not the cut batches.
            let closed = Driver::open(again.close(), small());
            assert!(closed.report.clean, "{how} {torn}: {:?}", closed.report);
            assert_eq!(numbers(&closed), (1..=torn).collect::<Vec<_>>());
            assert_eq!(closed.read(A, torn, 1)[0].1[4..], body(A, torn, 30)[..]);
        }
    }
}

#[test]
fn corruption_after_sync_is_reported_as_damage() {
    let mut driver = written(4);
    write(&mut driver, 5, Wait::Confirm);
    driver.settle_down();
    write(&mut driver, 6, Wait::Written);
    write(&mut driver, 7, Wait::Written);
    let (name, batches) = batches(&driver.disk);
    let unsynced: Vec<u32> = batches.iter().map(|(_, header)| header.unsynced).collect();
    assert_eq!(unsynced, [0, 0, 1, 2, 3, 0, 1], "6 was written when all before it was durable");
    for bad in 2..=5 {
        let disk = driver.disk.clone();
        let mut content = disk.content(&name).unwrap();
        content[batches[bad - 1].0 + 200] ^= 1;
        disk.put(&name, content);
        let reopened = Driver::open(disk, small());
        assert!(!reopened.report.damaged.is_empty(), "{bad}");
        assert_eq!(reopened.report.cut, None, "{bad}");
        let live = numbers(&reopened);
        assert!(live.ends_with(&[6, 7]) && live.contains(&1), "{bad}: {live:?}");
    }
}

#[test]
fn everything_was_durable_after_a_clean_stop() {
    let disk = written(4).close();
    let (name, batches) = batches(&disk);
    assert_eq!(batches.last().unwrap().1.unsynced, 3, "the closing batch");
    let mut content = disk.content(&name).unwrap();
    content[batches[2].0 + 200] ^= 1;
    disk.put(&name, content);
    let reopened = Driver::open(disk, small());
    assert!(!reopened.report.damaged.is_empty());
    assert_eq!(reopened.report.cut, None);
    assert_eq!(numbers(&reopened).last(), Some(&4), "what follows is there");
}

/// A file that ends with batches that shared a sync, and its successor, which was begun after that sync.
fn with_a_next_file() -> (Driver, String, Vec<(usize, BatchHeader)>) {
    let mut driver = written(4);
    let mut number = 5;
    while driver.log.statistics().unretired_files < 2 {
        driver.publish(A, &[body(A, number, 6000)], Wait::Written);
        driver.now += 2_000_000;
        driver.step(Lane::Background);
        while driver.step(Lane::Commit) {}
        number += 1;
    }
    let (name, batches) = batches(&driver.disk);
    assert!(batches.last().unwrap().1.unsynced > 2);
    (driver, name, batches)
}

#[test]
fn everything_was_durable_in_a_file_with_a_successor() {
    let (driver, name, batches) = with_a_next_file();
    let disk = driver.disk.clone();
    let mut content = disk.content(&name).unwrap();
    let bad = batches.len() - 3;
    content[batches[bad].0 + 200] ^= 1;
    disk.put(&name, content);
    let reopened = Driver::open(disk, small());
    assert_eq!((reopened.report.damaged.len(), &reopened.report.cut), (1, &None), "{:?}", reopened.report);
    let all = driver.ledgers.0[&A].live.len();
    assert_eq!(numbers(&reopened).len(), all - 1, "those behind it are there");
}

#[test]
fn a_successor_that_was_never_begun_proves_nothing() {
    for length in [0, 100, 600] {
        let disk = written(5).disk;
        let (name, batches) = batches(&disk);
        let mut content = disk.content(&name).unwrap();
        content[batches[2].0 + 200] ^= 1;
        disk.put(&name, content);
        disk.put("wal-0000-0000000000000002", vec![0; length]);
        let reopened = Driver::open(disk, small());
        assert!(reopened.report.cut.is_some() && reopened.report.damaged.is_empty(), "{:?}", reopened.report);
        assert_eq!(numbers(&reopened), [1, 2]);
    }
}

#[test]
fn unreadable_bytes_were_not_torn_by_a_power_cut() {
    let disk = written(5).disk;
    let (name, batches) = batches(&disk);
    let at = batches[2].0 as u64;
    disk.spoil(&name, at..at + 1);
    let error = leveret_log::recover(&disk, small(), &mut driver::Ledgers::default(), 0).unwrap_err();
    assert!(error.to_string().starts_with("storage can't be read: "), "{error}");
    disk.mend();
    let reopened = Driver::open(disk, small());
    assert!(reopened.report.damaged.is_empty() && reopened.report.cut.is_none(), "{:?}", reopened.report);
}

#[test]
fn a_second_power_cut_leaves_batches_before_the_first_unchanged() {
    let disk = written(5).disk;
    let (name, batches) = batches(&disk);
    let mut content = disk.content(&name).unwrap();
    content[batches[2].0..][..1024].fill(0);
    disk.put(&name, content);
    let mut driver = Driver::open(disk, small());
    assert_eq!(numbers(&driver), [1, 2]);
    (3..=5).for_each(|number| write(&mut driver, number, Wait::Written));
    let second = "wal-0000-0000000000000002";
    let first = batches_of(&driver.disk, second)[0].0;
    let mut content = driver.disk.content(second).unwrap();
    content[first..][..512].fill(0);
    driver.disk.put(second, content);
    let mut driver = Driver::open(driver.disk, small());
    assert!(driver.report.damaged.is_empty(), "{:?}", driver.report);
    assert_eq!(numbers(&driver), [1, 2]);
    driver.publish(A, &[body(A, 3, 30)], Wait::Confirm);
    driver.settle_down();
    let driver = Driver::open(driver.close(), small());
    assert!(driver.report.clean, "{:?}", driver.report);
    assert_eq!(numbers(&driver), [1, 2, 3]);
}

#[test]
fn a_bit_that_is_read_wrong_once_cuts_nothing() {
    let disk = written(6).disk;
    let mut met = 0;
    for reads in 0.. {
        let disk = disk.clone();
        disk.misread(reads);
        let reopened = Driver::open(disk, small());
        if reopened.disk.misreads() {
            break;
        }
        met += 1;
        assert_eq!(reopened.report.cut, None, "read {reads}");
        assert_eq!(numbers(&reopened), [1, 2, 3, 4, 5, 6], "read {reads}");
    }
    assert!(met > 2, "{met} reads");
}

/// A disk that notes where it is written to.
#[derive(Default)]
struct Noting {
    disk: MemoryDisk,
    writes: Mutex<Vec<(String, u64)>>,
}

impl Disk for Noting {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str, length: u64) -> io::Result<()> {
        self.disk.create(name, length)
    }

    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        self.writes.lock().unwrap().push((name.to_owned(), offset));
        self.disk.write_at(name, offset, slices)
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.disk.sync(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.read_at(name, offset, buffer)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.disk.len(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
}

#[test]
fn a_start_after_a_kill_rewrites_all_unsynced_batches() {
    let mut driver = written(2);
    driver.log.hurry(2);
    driver.settle_down();
    (3..=5).for_each(|number| write(&mut driver, number, Wait::Written));
    let (name, batches) = batches(&driver.disk);
    let noting = Noting { disk: driver.disk.clone(), ..Noting::default() };
    let (_, report) = recover(&noting, small(), &mut Ledgers::default(), 0).unwrap();
    assert!(report.damaged.is_empty());
    let mut writes = noting.writes.into_inner().unwrap();
    writes.retain(|(file, _)| *file == name);
    let expected: Vec<_> = batches[2..].iter().map(|(at, _)| (name.clone(), *at as u64)).collect();
    assert_eq!(writes, expected, "those that the last one says weren't durable, and itself");
}
