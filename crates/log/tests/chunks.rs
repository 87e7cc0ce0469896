//! Chunks: several messages in one record, which is durable, read, kept and withdrawn as a whole.

#[allow(dead_code)]
mod driver;

use std::ops::{ControlFlow, Range};

use driver::copies::Copies;
use driver::watched::Watched;
use driver::{Driver, body, check, small};
use leveret_log::format::record::RecordKind;
use leveret_log::{
    ChunkRecord, Disk, Dumped, Event, GroupId, JoinChunks, LogId, MemoryDisk, NewChunk, Numbers, Options, Payload,
    SettleRange, SettleReason, Skim, StoredMessage, Wait, dump, files, repair, verify,
};

/// A log of chunks.
const A: LogId = LogId(1);
/// A log of messages.
const B: LogId = LogId(2);

fn live(driver: &Driver, log: LogId) -> Vec<u64> {
    driver.ledgers.0.get(&log).map(|ledger| ledger.live.keys().copied().collect()).unwrap_or_default()
}

/// First number and number of messages of each chunk that a read returns.
fn shape(stored: &[StoredMessage]) -> Vec<(u64, u16)> {
    stored.iter().map(|stored| (stored.number, stored.messages)).collect()
}

/// Asserts that each chunk of `A` with a live message is read as it was written.
fn assert_live_chunks(driver: &Driver) {
    let stored = driver.read_stored(A, 0, 10_000);
    for chunk in &stored {
        assert_eq!(chunk.payload[4..], body(A, chunk.number, chunk.payload.len() - 4)[..], "{}", chunk.number);
    }
    for number in live(driver, A) {
        let found = stored.iter().find(|chunk| (chunk.number..=chunk.last()).contains(&number));
        assert!(found.is_some(), "{number} is alive");
    }
}

/// Publishes and settles messages of `B` until `count` more WAL files are retired.
fn retire(driver: &mut Driver, count: u64) {
    let until = driver.log.statistics().retirements + count;
    while driver.log.statistics().retirements < until {
        driver.publish(B, &[body(B, 1, 3000)], Wait::Confirm);
        let last = driver.ledgers.0[&B].next - 1;
        driver.settle(B, last..=last);
        driver.settle_down();
    }
}

#[test]
fn a_chunk_is_durable_as_one_record_and_replayed() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    assert_eq!(driver.publish_chunk(A, 300, 60, Wait::Confirm), 1);
    assert_eq!(driver.publish_chunk(A, u16::MAX, 9000, Wait::Confirm), 2);
    assert_eq!(driver.publish_chunk(A, 1, 60, Wait::Confirm), 3);
    driver.settle(A, 0..=299);
    driver.settle_down();
    assert_eq!(driver.log.durable(), 4);
    let before = live(&driver, A);

    let driver = Driver::open(driver.disk.clone(), small());
    assert!(driver.report.damaged.is_empty(), "{:?}", driver.report);
    assert_eq!((driver.report.position, driver.report.replayed), (4, 4));
    assert_eq!((driver.ledgers.0[&A].next, live(&driver, A)), (65_836, before));
    assert_eq!(shape(&driver.read_stored(A, 0, 100)), [(0, 300), (300, u16::MAX), (65_835, 1)]);
    assert_live_chunks(&driver);
    assert!(check(&driver.disk, &small()).unwrap().is_sound());
}

#[test]
fn a_read_begins_with_the_chunk_that_contains_the_number() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for _ in 0..5 {
        driver.publish_chunk(A, 10, 200, Wait::Confirm);
    }
    // Numbers may be left out between chunks.
    driver.ledgers.0.get_mut(&A).unwrap().next = 100;
    driver.publish_chunk(A, 10, 200, Wait::Confirm);
    driver.settle_down();
    let assert_begins = |driver: &Driver| {
        for (from, first) in [(0, 0), (9, 0), (10, 10), (25, 20), (49, 40), (50, 100), (99, 100), (109, 100)] {
            let plan = driver.log.plan_read(A, from, 1).unwrap();
            let found = plan.run(&driver.disk).unwrap();
            assert_eq!(shape(&found), [(first, 10)], "from {from}");
        }
        assert!(driver.log.plan_read(A, 110, 1).is_none());
    };
    assert_begins(&driver);
    retire(&mut driver, 2);
    assert!(driver.log.statistics().segments > 0, "they are in a segment now");
    assert_begins(&driver);
    assert_begins(&Driver::open(driver.disk.clone(), small()));
}

/// Everything that a reader takes from `from` on if it skips chunks whose number isn't a multiple of 30, and where it gets.
fn skimmed(driver: &Driver, from: u64, end: u64) -> (Vec<(u64, u16)>, u64) {
    let (mut taken, mut next) = (Vec::new(), from);
    while let Some(plan) = driver.log.plan_read(A, next, 500) {
        let (found, seen) = plan
            .skim(&driver.disk, 20, |chunk| {
                let payload = [b"head", &body(A, chunk.number, 200)[..]].concat();
                assert_eq!(chunk.bytes, &payload[..20], "{}", chunk.number);
                match chunk.number {
                    number if number >= end => Skim::Stop,
                    number if number.is_multiple_of(30) => Skim::Take,
                    _ => Skim::Skip,
                }
            })
            .unwrap();
        for chunk in &found {
            assert_eq!(chunk.payload[4..], body(A, chunk.number, 200)[..]);
        }
        taken.extend(shape(&found));
        if seen == next {
            break;
        }
        next = seen;
    }
    (taken, next)
}

#[test]
fn chunks_are_skipped_by_their_beginnings() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for _ in 0..30 {
        driver.publish_chunk(A, 10, 200, Wait::Confirm);
    }
    driver.settle_down();
    let assert_skimmed = |driver: &Driver| {
        let all: Vec<_> = (0..300).step_by(30).map(|number| (number, 10)).collect();
        assert_eq!(skimmed(driver, 0, u64::MAX), (all.clone(), 300));
        assert_eq!(skimmed(driver, 35, u64::MAX), (all[1..].to_vec(), 300));
        assert_eq!(skimmed(driver, 0, 70), (all[..3].to_vec(), 70));
        assert_eq!(skimmed(driver, 70, 70), (vec![], 70));
    };
    assert_skimmed(&driver);
    retire(&mut driver, 2);
    assert!(driver.log.statistics().segments > 0, "they are in a segment now");
    assert_skimmed(&driver);
}

/// Chunks of each size: copied to a segment with their run, or one by one, and with bodies below and above `inline_below`.
#[test]
fn a_retirement_keeps_chunks_with_a_live_message_whole() {
    for (messages, length) in [(1, 50), (8, 50), (8, 5000), (8, 70_000), (3000, 100_000)] {
        let mut driver = Driver::open(MemoryDisk::new(), small());
        let count = u64::from(messages);
        for _ in 0..6 {
            driver.publish_chunk(A, messages, length, Wait::Confirm);
        }
        driver.settle_down();
        // The second one is dead. Of the fourth one the last message is live, of the fifth one the first.
        driver.settle(A, count..=2 * count - 1);
        if count > 1 {
            driver.settle(A, 3 * count..=4 * count - 2);
            driver.settle(A, 4 * count + 1..=5 * count - 1);
        }
        let before = live(&driver, A);
        retire(&mut driver, 4);
        let expected: Vec<(u64, u16)> = [0, 2, 3, 4, 5].map(|at| (at * count, messages)).into();
        assert_eq!(shape(&driver.read_stored(A, 0, 10_000)), expected, "{messages} in {length}");
        assert_live_chunks(&driver);
        assert!(driver.log.statistics().messages_copied >= 5 * count, "{:?}", driver.log.statistics());
        let reopened = Driver::open(driver.disk.clone(), small());
        assert!(reopened.report.damaged.is_empty(), "{:?}", reopened.report);
        assert_eq!((live(&reopened, A), reopened.ledgers.0[&A].next), (before, 6 * count));
        assert_eq!(shape(&reopened.read_stored(A, 0, 10_000)), expected);
        assert_live_chunks(&reopened);
        assert!(check(&driver.disk, &small()).unwrap().is_sound());
    }
}

#[test]
fn a_rewrite_drops_dead_chunks_and_keeps_half_dead_ones() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for _ in 0..400 {
        driver.publish_chunk(A, 5, 900, Wait::Confirm);
        driver.settle_down();
    }
    assert!(driver.log.statistics().segments > 2);
    // Of every eighth chunk one message stays, each time another one.
    for chunk in 0..350 {
        for number in chunk * 5..chunk * 5 + 5 {
            if chunk % 8 != 0 || number % 5 != chunk / 8 % 5 {
                driver.settle(A, number..=number);
            }
        }
    }
    driver.settle_down();
    let statistics = driver.log.statistics().clone();
    assert!(statistics.rewrites > 0 && statistics.bytes_reclaimed > 100_000, "{statistics:?}");
    assert_live_chunks(&driver);
    let stored = driver.read_stored(A, 0, 10_000);
    assert!(stored.len() < 150, "dead ones are left: {}", stored.len());
    let before = live(&driver, A);
    let reopened = Driver::open(driver.disk.clone(), small());
    assert_eq!(live(&reopened, A), before);
    assert_live_chunks(&reopened);
    assert!(check(&driver.disk, &small()).unwrap().is_sound());
}

#[test]
fn a_retirement_waits_until_the_owner_counts_a_chunk() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish_chunk(A, 5, 60, Wait::Confirm);
    // The owner hasn't applied it yet.
    let hidden = std::mem::take(driver.ledgers.0.get_mut(&A).unwrap());
    driver.ledgers.0.get_mut(&A).unwrap().next = 4;
    for number in 1..=300 {
        driver.publish(B, &[body(B, number, 1000)], Wait::Confirm);
        for _ in 0..20 {
            driver.step(leveret_log::Lane::Commit);
            driver.step(leveret_log::Lane::Background);
        }
        driver.now += 2_000_000;
    }
    assert_eq!(driver.log.statistics().retirements, 0, "the last number decides");
    *driver.ledgers.0.get_mut(&A).unwrap() = hidden;
    driver.settle_down();
    assert!(driver.log.statistics().retirements > 0);
    assert_eq!(shape(&driver.read_stored(A, 0, 100)), [(0, 5)]);
}

/// Appends a chunk within a group, whose owner doesn't count it yet. Returns its numbers.
fn put_chunk(driver: &mut Driver, group: GroupId, messages: u16, length: usize) -> Range<u64> {
    let ledger = driver.ledgers.0.entry(A).or_default();
    let first = ledger.next;
    ledger.next += u64::from(messages);
    let payload = Payload { head: b"head", body: Some(&body(A, first, length)) };
    ledger.position = driver.log.append_chunk_in(group, &NewChunk { log: A, first, messages, payload }, driver.now);
    first..ledger.next
}

/// Joins chunks of at most ten bytes. A chunk has a byte at its beginning that is set to the number of all bytes when it is completed.
#[derive(Debug)]
struct ShortOnes;

impl JoinChunks for ShortOnes {
    fn join(&self, data: &mut Vec<u8>, at: usize, next: &Payload<'_>) -> bool {
        assert!(matches!(data[at], b'?'), "a chunk begins there, and isn't complete");
        let body = next.body.expect("it has one");
        if body.len() > 10 {
            return false;
        }
        data.extend_from_slice(body);
        true
    }

    fn complete(&self, chunk: &mut [u8]) {
        assert_eq!(chunk[0], b'?', "it is completed once");
        chunk[0] = chunk.len() as u8;
    }
}

fn put_joining(driver: &mut Driver, messages: u16, body: &'static [u8]) -> ChunkRecord {
    let ledger = driver.ledgers.0.entry(A).or_default();
    let payload = Payload { head: b"?", body: Some(&body.into()) };
    let chunk = NewChunk { log: A, first: ledger.next, messages, payload };
    let record = driver.log.append_joining_chunk(&chunk, &ShortOnes, Wait::Confirm, driver.now);
    let bytes = if record.is_joined { body.len() } else { body.len() + 1 };
    ledger.add_chunk(ledger.next, messages, bytes);
    ledger.position = record.position;
    record
}

#[test]
fn chunks_that_follow_each_other_in_a_batch_become_one_record() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    let record = |position, is_joined| ChunkRecord { position, is_joined };
    assert_eq!(put_joining(&mut driver, 2, b"one"), record(1, false));
    assert_eq!(put_joining(&mut driver, 3, b"two"), record(1, true));
    assert_eq!(put_joining(&mut driver, 1, b"three"), record(1, true));
    assert_eq!(put_joining(&mut driver, 1, b"longer than the others"), record(2, false));
    driver.publish(B, &[body(B, 1, 60)], Wait::Confirm);
    assert_eq!(put_joining(&mut driver, 1, b"behind"), record(4, false), "another record is between them");
    assert_eq!(put_joining(&mut driver, 4, b"last"), record(4, true));
    driver.settle_down();
    assert_eq!(put_joining(&mut driver, 1, b"later"), record(5, false), "the one before is written already");
    let group = driver.log.begin_group();
    put_chunk(&mut driver, group, 1, 9);
    assert_eq!(put_joining(&mut driver, 1, b"outside"), record(7, false), "a group is withdrawn by itself");
    driver.publish_chunk(A, 1, 6000, Wait::Confirm);
    assert_eq!(put_joining(&mut driver, 1, b"x"), record(9, false), "that one isn't copied");
    assert_eq!(put_joining(&mut driver, 2, b"yz"), record(9, true), "behind one that isn't");
    driver.settle_down();

    let expected: [(u64, u16, &[u8]); 7] = [
        (0, 6, b"\x0conetwothree"),
        (6, 1, b"?longer than the others"),
        (7, 5, b"\x0bbehindlast"),
        (12, 1, b"?later"),
        (14, 1, b"?outside"),
        (15, 1, b"head"),
        (16, 3, b"\x04xyz"),
    ];
    let assert_stored = |driver: &Driver| {
        let stored = driver.read_stored(A, 0, 100);
        let found = stored.iter().filter(|chunk| chunk.number != 13);
        let found: Vec<_> =
            found.map(|chunk| (chunk.number, chunk.messages, &chunk.payload[..chunk.payload.len().min(23)])).collect();
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.0, found.1), (expected.0, expected.1));
            assert!(found.2.starts_with(expected.2), "{:?} is no {:?}", found.2, expected.2);
        }
        assert_eq!(found.len(), expected.len());
    };
    assert_stored(&driver);
    let before = (driver.ledgers.0[&A].next, driver.ledgers.0[&A].live.len());
    let mut driver = Driver::open(driver.disk.clone(), small());
    assert!(driver.report.damaged.is_empty(), "{:?}", driver.report);
    // The number of the group's chunk stays used.
    assert_eq!((driver.ledgers.0[&A].next, driver.ledgers.0[&A].live.len()), before);
    assert_stored(&driver);
    retire(&mut driver, 3);
    assert_stored(&driver);
    assert!(check(&driver.disk, &small()).unwrap().is_sound());
}

#[test]
fn a_chunk_of_a_committed_group_holds_after_a_crash() {
    for length in [60, 70_000] {
        let mut driver = Driver::open(MemoryDisk::new(), small());
        driver.publish(B, &[body(B, 1, 60)], Wait::Confirm);
        let group = driver.log.begin_group();
        let range = SettleRange { first: 1, last: 1, bytes: 64 };
        driver.log.append_settle_in(group, B, SettleReason::DeadLettered, &[range], driver.now);
        put_chunk(&mut driver, group, 7, length);
        driver.settle_down();
        assert_eq!((driver.log.durable(), driver.log.durable_as_a_whole()), (3, 1));
        driver.log.commit_group(group, Wait::Confirm, driver.now).unwrap();
        driver.settle_down();
        assert_eq!(driver.log.durable_as_a_whole(), 4);

        let mut driver = Driver::open(driver.disk.clone(), small());
        assert_eq!((live(&driver, A), live(&driver, B)), ((0..7).collect(), vec![]));
        assert_eq!(driver.report.withdrawn, 0);
        retire(&mut driver, 3);
        assert_eq!(shape(&driver.read_stored(A, 3, 100)), [(0, 7)]);
        assert_live_chunks(&driver);
    }
}

#[test]
fn a_chunk_of_a_group_without_commit_is_withdrawn_whole() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish_chunk(A, 4, 60, Wait::Confirm);
    let group = driver.log.begin_group();
    assert_eq!(put_chunk(&mut driver, group, 300, 60), 4..304);
    driver.publish_chunk(A, 4, 60, Wait::Confirm);
    driver.settle_down();
    assert_eq!(driver.log.durable(), driver.log.appended());

    let mut driver = Driver::open(driver.disk.clone(), small());
    let expected: Vec<u64> = (0..4).chain(304..308).collect();
    assert_eq!((live(&driver, A), driver.report.withdrawn), (expected.clone(), 1));
    assert!(driver.report.damaged.is_empty());
    assert!(check(&driver.disk, &small()).unwrap().is_sound(), "a crash may leave that");
    // No copy of it is made, and its numbers stay used.
    assert_eq!(driver.ledgers.0[&A].next, 308);
    retire(&mut driver, 3);
    assert_eq!(shape(&driver.read_stored(A, 0, 100)), [(0, 4), (304, 4)]);
    let driver = Driver::open(driver.disk.clone(), small());
    assert_eq!(live(&driver, A), expected);
}

#[test]
fn a_torn_chunk_is_not_there() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    driver.publish_chunk(A, 40, 60, Wait::Confirm);
    driver.settle_down();
    let intact = driver.disk.clone();
    driver.publish_chunk(A, 40, 3000, Wait::Confirm);
    driver.settle_down();
    let name = "wal-0000-0000000000000001";
    let (before, after) = (intact.content(name).unwrap(), driver.disk.content(name).unwrap());
    let sectors: Vec<usize> =
        (0..after.len()).step_by(512).filter(|at| before[*at..][..512] != after[*at..][..512]).collect();
    assert!(sectors.len() > 5, "it has several sectors");
    for lost in sectors {
        let torn = driver.disk.clone();
        let mut bytes = after.clone();
        bytes[lost..lost + 512].copy_from_slice(&before[lost..lost + 512]);
        torn.put(name, bytes);
        let reopened = Driver::open(torn, small());
        assert!(reopened.report.damaged.is_empty(), "{:?}", reopened.report);
        assert_eq!(live(&reopened, A), (0..40).collect::<Vec<_>>(), "sector {lost}");
        assert_eq!(shape(&reopened.read_stored(A, 0, 100)), [(0, 40)]);
    }
}

/// A closed log with chunks of `A` in a segment and in the WAL, and the places of two: file and offset of the body.
fn with_places() -> (MemoryDisk, [(String, usize); 2]) {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for _ in 0..5 {
        driver.publish_chunk(A, 10, 300, Wait::Confirm);
    }
    driver.settle_down();
    retire(&mut driver, 3);
    for _ in 0..5 {
        driver.publish_chunk(A, 10, 300, Wait::Confirm);
        driver.publish(B, &[body(B, 1, 10)], Wait::Confirm);
    }
    driver.settle_down();
    driver.settle(A, 22..=23);
    let disk = driver.close();
    let place = |first: u64, kind: &str| {
        let wanted = body(A, first, 300);
        let names = disk.list().unwrap().into_iter().filter(|name| name.starts_with(kind));
        let found = names.filter_map(|name| {
            let content = disk.content(&name).unwrap();
            Some((name, content.windows(300).position(|bytes| *bytes == wanted[..])?))
        });
        found.last().expect("it is there")
    };
    let places = [place(20, "segment-"), place(70, "wal-")];
    (disk, places)
}

fn flip(disk: &MemoryDisk, (name, at): &(String, usize)) {
    let mut content = disk.content(name).unwrap();
    content[at + 5] ^= 1;
    disk.put(name, content);
}

#[test]
fn a_check_names_all_live_messages_of_a_damaged_chunk() {
    let (disk, places) = with_places();
    assert!(check(&disk, &small()).unwrap().is_sound());
    let numbers = |first, last| Numbers { log: A, first, last };
    let expected = [vec![numbers(20, 21), numbers(24, 29)], vec![numbers(70, 79)]];
    for (place, expected) in places.iter().zip(expected) {
        let damaged = disk.clone();
        flip(&damaged, place);
        let found = check(&damaged, &small()).unwrap();
        let [damage] = &found.damaged[..] else { panic!("{found:?}") };
        assert_eq!((&damage.file, &damage.messages), (&place.0, &expected));
    }
}

#[test]
fn a_start_reports_a_damaged_chunk_and_reads_fail() {
    let (disk, places) = with_places();
    flip(&disk, &places[0]);
    flip(&disk, &places[1]);
    let driver = Driver::open(disk, small());
    let [damage] = &driver.report.damaged[..] else { panic!("{:?}", driver.report) };
    assert_eq!((&damage.file, damage.messages[0]), (&places[1].0, Numbers { log: A, first: 70, last: 79 }));
    for from in [20, 25, 70, 75] {
        let error = driver.log.plan_read(A, from, 1).unwrap().run(&driver.disk).unwrap_err();
        assert_eq!(error.log, A);
    }
    assert_eq!(shape(&driver.log.plan_read(A, 15, 1).unwrap().run(&driver.disk).unwrap()), [(10, 10)]);
}

#[test]
fn a_retirement_reports_a_damaged_chunk_with_its_numbers() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for _ in 0..5 {
        driver.publish_chunk(A, 10, 300, Wait::Confirm);
    }
    driver.settle_down();
    driver.settle(A, 20..=21);
    let name = "wal-0000-0000000000000001".to_owned();
    let wanted = body(A, 20, 300);
    let at = driver.disk.content(&name).unwrap().windows(300).position(|bytes| *bytes == wanted[..]).unwrap();
    flip(&driver.disk, &(name.clone(), at));
    retire(&mut driver, 2);
    let damaged = driver.events.iter().filter_map(|event| match event {
        Event::Damaged(error) => Some(error),
        _ => None,
    });
    let [error] = &damaged.collect::<Vec<_>>()[..] else { panic!("{:?}", driver.events) };
    assert_eq!((error.log, &error.file), (A, &name));
    assert!(error.to_string().contains("8 messages between the numbers 22 and 29 are lost"), "{error}");
    assert_eq!(shape(&driver.read_stored(A, 0, 100)), [(0, 10), (10, 10), (30, 10), (40, 10)]);
}

#[test]
fn a_repaired_copy_has_every_sound_chunk() {
    let (disk, places) = with_places();
    places.iter().for_each(|place| flip(&disk, place));
    let mut copies = Copies::default();
    let verified = verify(&disk, &small(), &mut copies.ledgers).unwrap();
    let copy = MemoryDisk::new();
    repair(&disk, &copy, &small(), &verified, &mut copies).unwrap();
    assert!(check(&copy, &small()).unwrap().is_sound());
    let driver = Driver::open(copy, small());
    let expected = [0, 10, 30, 40, 50, 60, 80, 90].map(|first| (first, 10));
    assert_eq!(shape(&driver.read_stored(A, 0, 100)), expected);
    assert_eq!(live(&driver, A), expected.iter().flat_map(|(first, _)| *first..first + 10).collect::<Vec<_>>());
    assert_live_chunks(&driver);
}

#[test]
fn a_dump_shows_the_numbers_of_a_chunk() {
    let (disk, _) = with_places();
    let mut shown = Vec::new();
    for file in files(&disk, &small()).unwrap() {
        let mut visit = |found: Dumped<'_>| {
            if let Dumped::Record { log, number, messages, record, .. } = found
                && record.kind == RecordKind::Chunk
            {
                shown.push((log, number, messages));
            }
            ControlFlow::Continue(())
        };
        dump(&disk, &small(), &file, &mut visit).unwrap();
    }
    shown.sort_unstable();
    shown.dedup();
    let expected: Vec<_> = (0..10).map(|at| (A, Some(at * 10), 10)).collect();
    assert_eq!(shown, expected);
}

#[test]
#[should_panic(expected = "a chunk without a message")]
fn a_chunk_without_a_message_is_refused() {
    let mut driver = Driver::open(MemoryDisk::new(), Options::default());
    driver.publish_chunk(A, 0, 10, Wait::Confirm);
}

#[test]
fn chunks_stay_in_files_to_which_nothing_else_is_written() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    for length in [200, 9000, 1] {
        driver.publish_chunk(A, 10, length, Wait::Confirm);
    }
    driver.settle_down();
    let found = |driver: &Driver| {
        let plan = driver.log.plan_read(A, 0, 1 << 20).unwrap();
        plan.skim(&Watched::new(&driver.disk), 20, |_| Skim::Lend).unwrap()
    };
    let read = driver.read_stored(A, 0, 1 << 20);
    let assert_lent = |driver: &Driver| {
        let (lent, seen) = found(driver);
        assert_eq!((shape(&lent), seen), (shape(&read), 30));
        for (chunk, whole) in lent.iter().zip(&read) {
            let part = chunk.lent.as_ref().expect("it is lent");
            let file = part.file.downcast_ref::<Vec<u8>>().expect("a copy");
            assert_eq!(file[part.at as usize..(part.at + part.length) as usize], whole.payload[..], "{}", chunk.number);
            assert!(whole.payload.starts_with(&chunk.payload) && chunk.payload.len() <= 20);
        }
    };
    assert_lent(&driver);
    retire(&mut driver, 2);
    assert!(driver.log.statistics().segments > 0, "they are in a segment now");
    assert_lent(&driver);
    // A read that wants less ends earlier.
    let plan = driver.log.plan_read(A, 0, 1000).unwrap();
    let (lent, seen) = plan.skim(&Watched::new(&driver.disk), 20, |_| Skim::Lend).unwrap();
    assert_eq!((shape(&lent), seen), (vec![(0, 10), (10, 10)], 20));
}
