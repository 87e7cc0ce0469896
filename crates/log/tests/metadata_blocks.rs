//! A device loses whole blocks of 4 KiB: no block has both copies of a metadata record.

#[allow(dead_code)]
mod driver;

use driver::{Driver, Ledgers, body, small};
use leveret_log::{Disk, Lane, LogId, MemoryDisk, Wait, recover};

const A: LogId = LogId(5);
const BLOCK: usize = 4096;

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

/// A payload of a metadata record that stands nowhere else by chance.
fn payload(at: usize, length: usize) -> Vec<u8> {
    let mut payload = format!("metadata {at:06} ").into_bytes();
    payload.resize(payload.len() + length, b'm');
    payload
}

/// Metadata among messages, in batches of any size.
fn random_log(seed: u64) -> Driver {
    let mut random = Random(seed * 2 + 1);
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let mut records = 0;
    for _ in 0..40 + random.below(60) {
        match random.below(8) {
            0..3 => {
                let length = if random.below(10) == 0 { random.below(9000) } else { random.below(300) };
                driver.control(LogId::METADATA, 1, &payload(records, length as usize));
                records += 1;
            }
            3..6 => {
                let length_max = if random.below(6) == 0 { 6000 } else { 700 };
                let length = random.below(length_max) as usize;
                let number = driver.ledgers.0.get(&A).map_or(1, |ledger| ledger.next.max(1));
                let wait = [Wait::Confirm, Wait::Written, Wait::Lazy][random.below(3) as usize];
                driver.publish(A, &[body(A, number, length)], wait);
            }
            6 => driver.now += random.below(60_000_000),
            _ => driver.settle_down(),
        }
        for _ in 0..random.below(4) {
            driver.step(Lane::Commit);
        }
    }
    if random.below(2) == 0 {
        driver.settle_down();
    }
    driver
}

fn wal_files(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.list().unwrap().into_iter().filter(|name| name.starts_with("wal-"));
    names.map(|name| (name.clone(), disk.content(&name).unwrap())).collect()
}

/// Where the metadata records with this number begin, in which file.
fn places(files: &[(String, Vec<u8>)], at: usize) -> Vec<(usize, usize)> {
    let head = payload(at, 0);
    let in_file = |content: &[u8]| -> Vec<usize> {
        let found = content.windows(head.len()).enumerate().filter(|(_, part)| *part == &head[..]);
        found.map(|(at, _)| at).collect()
    };
    files
        .iter()
        .enumerate()
        .flat_map(|(file, (_, content))| in_file(content).into_iter().map(move |at| (file, at)))
        .collect()
}

fn found(disk: &MemoryDisk) -> Result<Vec<Vec<u8>>, String> {
    let mut ledgers = Ledgers::default();
    recover(disk, small(), &mut ledgers, 0).map_err(|error| error.to_string())?;
    let controls = ledgers.0.remove(&LogId::METADATA).unwrap_or_default().controls;
    Ok(controls.into_iter().map(|(_, payload)| payload).collect())
}

/// Overwrites each block of each WAL file and starts. Returns how many starts had only a part of the metadata.
fn lose_each_block(disk: &MemoryDisk, seed: u64, closes: bool) -> u64 {
    let files = wal_files(disk);
    let all = found(&disk.clone()).unwrap();
    let stand_once: Vec<bool> = (0..all.len()).map(|at| places(&files, at).len() == 1).collect();
    assert!(!closes || !stand_once.contains(&true), "seed {seed}: a clean stop leaves two copies");
    let mut lost = 0;
    for (name, content) in &files {
        let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for block in 0..used.div_ceil(BLOCK) {
            for byte in [0, 0xff] {
                let disk = disk.clone();
                let mut bytes = content.clone();
                let end = bytes.len().min((block + 1) * BLOCK);
                bytes[block * BLOCK..end].fill(byte);
                disk.put(name, bytes);
                let place = format!("seed {seed}, {name}, block {block}, {byte:#x}, closes {closes}");
                match found(&disk) {
                    Ok(controls) if controls == all => {}
                    // Of the last block, nothing tells whether it was ever written.
                    Ok(controls) => {
                        let missing = (0..all.len()).filter(|at| !controls.contains(&all[*at]));
                        assert!(missing.clone().all(|at| stand_once[at]), "{place}: {:?}", missing.collect::<Vec<_>>());
                        lost += 1;
                    }
                    Err(error) => {
                        assert!(stand_once.contains(&true), "{place}: {error}");
                        lost += 1;
                    }
                }
            }
        }
    }
    lost
}

#[test]
fn no_block_has_both_copies_of_a_record() {
    let mut pairs = 0;
    for seed in 0..200 {
        let driver = random_log(seed);
        let records = driver.ledgers.0.get(&LogId::METADATA).map_or(0, |ledger| ledger.controls.len());
        let payloads: Vec<usize> =
            (0..records).map(|at| driver.ledgers.0[&LogId::METADATA].controls[at].1.len()).collect();
        let files = wal_files(&driver.close());
        for (at, length) in payloads.iter().enumerate() {
            let [(file, first), (other, second)] = places(&files, at)[..] else { continue };
            if file == other {
                assert!((first + length - 1) / BLOCK < second / BLOCK, "seed {seed}, record {at}: {first}, {second}");
                pairs += 1;
            }
        }
    }
    assert!(pairs > 1000, "{pairs}");
}

#[test]
fn a_start_has_all_metadata_whatever_block_is_lost() {
    let mut lost = 0;
    for seed in 0..60 {
        lose_each_block(&random_log(seed).close(), seed, true);
        lost += lose_each_block(&random_log(seed).disk, seed, false);
    }
    println!("{lost} starts lost what a kill had kept from being copied");
}

#[test]
fn a_record_alone_takes_a_block_more_at_most() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let mut before = driver.log.statistics().bytes_written;
    for at in 0..10 {
        driver.control(LogId::METADATA, 1, &payload(at, 100));
        driver.settle_down();
        let written = driver.log.statistics().bytes_written;
        assert!(written - before <= 512 + 4096, "{} bytes", written - before);
        before = written;
        driver.now += 1_000_000_000;
        driver.settle_down();
        assert_eq!(driver.log.statistics().bytes_written, before, "nothing more is due");
    }
    let syncs = driver.log.statistics().syncs;
    assert!(syncs <= 20, "{syncs} syncs");
}

#[test]
fn copies_wait_for_other_bytes_instead_of_a_filler() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let mut own = 0;
    for at in 0..30 {
        driver.control(LogId::METADATA, 1, &payload(at, 100));
        // Its write and its sync; the next one comes before the copies are due.
        while driver.step(Lane::Commit) {}
        own = driver.log.appended() - driver.log.appended_by_callers();
    }
    assert_eq!(driver.log.appended_by_callers(), 30);
    assert!((3..=5).contains(&own), "{own} records of copies for 30 batches of 512 bytes");
    assert_eq!(driver.log.statistics().batches, 30, "no batch is written for copies alone");
}
