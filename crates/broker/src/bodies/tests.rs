use std::io;

use leveret_log::{BODY_PIECE_BYTES, MemoryDisk};
use leveret_message::FileBody;

use super::*;
use crate::partial::PartialMessages;
use crate::queue_handle::LocalQueue;
use crate::queue_handle::tests::Fixture;
use crate::settings::{Settings, UNWRITTEN_BYTES_MAX};

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

const FILES: BodyFiles = BodyFiles::new(1, 0);

fn outbox() -> Arc<Outbox> {
    Arc::new(Outbox::new(Arc::new(Nobody)))
}

/// A queue that would fail if a body couldn't be read.
fn queue() -> LocalQueue {
    Fixture::new().queue
}

fn run_all(bodies: &Arc<Bodies>, disk: &MemoryDisk) {
    loop {
        if let Some(job) = bodies.next_job() {
            job.run(disk).expect("a working disk");
        } else if let Some(read) = bodies.next_read() {
            read.run(disk);
        } else {
            return;
        }
    }
}

fn list(disk: &MemoryDisk) -> Vec<u64> {
    FILES.list(disk).expect("a working disk")
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

#[test]
fn a_file_is_removed_when_its_upload_is_abandoned() {
    let disk = MemoryDisk::new();
    let bodies = Bodies::new(FILES, 5);
    let outbox = outbox();
    let kept = bodies.write(&Bytes::from_static(b"kept"), &outbox);
    let given_up = bodies.write(&Bytes::from_static(b"given up"), &outbox);
    assert!(kept.is_pending());
    drop(given_up);
    run_all(&bodies, &disk);
    assert!(kept.is_written());
    let mut events = Vec::new();
    outbox.drain(&mut events);
    assert_eq!(events, [Event::Body, Event::Body]);
    assert_eq!(kept.keep(), 5);
    run_all(&bodies, &disk);
    assert_eq!(list(&disk), [5]);
}

#[test]
fn a_body_is_written_before_it_is_complete_and_read_in_pieces() {
    let disk = MemoryDisk::new();
    let bodies = Bodies::new(FILES, 1);
    let (outbox, unwritten) = (outbox(), Unwritten::default());
    let partial = PartialMessages::new(&Settings::default(), Arc::default());
    let whole = bytes(5 * BODY_PIECE_BYTES + 7);
    let mut file = bodies.begin(&unwritten, &outbox);
    for (at, part) in whole.chunks(100_000).enumerate() {
        file.add(part, &partial).expect("room");
        assert!(at == 0 || !unwritten.is_full() || (at + 1) * 100_000 >= UNWRITTEN_BYTES_MAX as usize);
    }
    assert!(unwritten.is_full());
    run_all(&bodies, &disk);
    assert!(unwritten.is_low() && file.is_pending());
    assert_eq!(list(&disk), [1]);
    file.finish();
    run_all(&bodies, &disk);
    assert!(file.is_written());
    assert_eq!(disk.content(&FILES.name(1)).map(|file| file[512..512 + whole.len()] == whole[..]), Some(true));

    let mut pieces = Pieces::new(&file.body(Bytes::new()), &bodies, queue(), &outbox);
    let mut received = Vec::new();
    while pieces.left() > 0 {
        assert!(pieces.available() <= 2 * BODY_PIECE_BYTES);
        if pieces.available() == 0 {
            run_all(&bodies, &disk);
            pieces.look();
        }
        pieces.append(pieces.available().min(70_000), &mut received);
    }
    assert!(received == whole);
}

#[test]
fn a_file_exists_until_its_last_reader_is_done() {
    let disk = MemoryDisk::new();
    let bodies = Bodies::new(FILES, 1);
    let file = bodies.write(&bytes(3 * BODY_PIECE_BYTES).into(), &outbox());
    run_all(&bodies, &disk);
    let body: FileBody = file.body(Bytes::new());
    let mut pieces = Pieces::new(&body, &bodies, queue(), &outbox());
    drop(body);
    bodies.remove(file.keep());
    run_all(&bodies, &disk);
    assert_eq!(list(&disk), [1]);
    pieces.look();
    assert_eq!((pieces.failure(), pieces.available()), (None, BODY_PIECE_BYTES));
    drop(pieces);
    run_all(&bodies, &disk);
    assert_eq!(list(&disk), [0; 0]);
}

#[test]
fn a_damaged_piece_is_reported_after_the_pieces_before_it() {
    let disk = MemoryDisk::new();
    let bodies = Bodies::new(FILES, 1);
    let file = bodies.write(&bytes(3 * BODY_PIECE_BYTES).into(), &outbox());
    run_all(&bodies, &disk);
    let mut damaged = disk.content(&FILES.name(1)).expect("it is there");
    damaged[512 + BODY_PIECE_BYTES + 9] ^= 1;
    disk.put(&FILES.name(1), damaged);
    let queue = queue();
    let mut pieces = Pieces::new(&file.body(Bytes::new()), &bodies, queue.clone(), &outbox());
    for _ in 0..3 {
        run_all(&bodies, &disk);
        pieces.look();
    }
    assert_eq!(pieces.available(), BODY_PIECE_BYTES);
    let failure = pieces.failure().expect("the second piece is damaged");
    assert!(failure.contains(&FILES.name(1)) && failure.contains("checksum"), "{failure}");
    assert!(matches!(queue.state(), leveret_queue::QueueState::Failed(reason) if reason == failure));
}

#[test]
fn whole_bodies_beyond_the_limit_wait_until_others_are_dropped() {
    let disk = MemoryDisk::new();
    let bodies = Bodies::new(FILES, 1);
    let outbox = outbox();
    let length = crate::settings::WHOLE_BODIES_BYTES_MAX as usize / 2 + 1;
    let file = bodies.write(&bytes(length).into(), &outbox);
    run_all(&bodies, &disk);
    let pieces = Pieces::new(&file.body(Bytes::new()), &bodies, queue(), &outbox);
    let (mut one, mut two) = (pieces.whole(), pieces.whole());
    run_all(&bodies, &disk);
    assert!(one.look().is_some_and(|body| body.is_ok_and(|body| body.len() == length)));
    assert!(two.look().is_none());
    drop(one);
    run_all(&bodies, &disk);
    assert!(two.look().is_some());
}

#[test]
fn a_body_is_refused_without_disk_space_and_leaves_nothing() {
    let disk = MemoryDisk::new();
    disk.limit(Some(2 * BODY_PIECE_BYTES as u64));
    let bodies = Bodies::new(FILES, 1);
    let file = bodies.write(&bytes(4 * BODY_PIECE_BYTES).into(), &outbox());
    run_all(&bodies, &disk);
    assert!(!file.is_pending() && !file.is_written());
    assert_eq!(list(&disk), [0; 0]);
}

/// A disk whose files can't grow beyond a quota.
struct Quota(MemoryDisk);

impl Disk for Quota {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create(&self, name: &str, length: u64) -> io::Result<()> {
        self.0.create(name, length)
    }

    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        match offset {
            0..1_000_000 => self.0.write_at(name, offset, slices),
            _ => Err(io::ErrorKind::QuotaExceeded.into()),
        }
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.0.sync(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(name, offset, buffer)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.0.len(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
}

#[test]
fn a_body_beyond_a_quota_is_refused_and_others_are_written() {
    let disk = Quota(MemoryDisk::new());
    let bodies = Bodies::new(FILES, 1);
    let outbox = outbox();
    let (refused, written) = (bodies.write(&bytes(2_000_000).into(), &outbox), bodies.write(&bytes(9).into(), &outbox));
    while let Some(job) = bodies.next_job() {
        job.run(&disk).expect("only the body is refused");
    }
    assert!(!refused.is_pending() && !refused.is_written());
    assert!(written.is_written());
    assert_eq!(list(&disk.0), [2]);
}

#[test]
fn the_fields_of_a_message_are_read_from_its_file() {
    // A properties section with a subject that ends in the second piece of the file.
    let length = BODY_PIECE_BYTES + 70_000;
    let subject = length as u32 + 5;
    let mut bare = vec![0, 0x53, 0x73, 0xd0];
    bare.extend((subject + 4 + 3).to_be_bytes());
    bare.extend([0, 0, 0, 4, 0x40, 0x40, 0x40, 0xb1]);
    bare.extend((length as u32).to_be_bytes());
    bare.extend(vec![b's'; length]);
    let fields = bare.clone();
    bare.extend([0, 0x53, 0x75, 0xa0, 3, 1, 2, 3]);
    let disk = MemoryDisk::new();
    let bodies = Bodies::new(FILES, 1);
    let file = bodies.write(&bare.into(), &outbox());
    run_all(&bodies, &disk);
    let pin = BodyPin::of(&file.body(Bytes::new()));
    let read = pin.fields(&disk, queue().log_id()).expect("it is written");
    assert_eq!((read.len(), &read[..]), (fields.len(), &fields[..]));
}
