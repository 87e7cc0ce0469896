//! Records of small messages into the write-ahead log's buffer, and the jobs that write it to a disk in memory.

use leveret_log::{
    Lane, LiveState, Log, LogId, MemoryDisk, Next, Options, Payload, Replay, SettleRange, SettleReason, Wait, recover,
};

use crate::count::count;
use crate::{MESSAGES, RUN};

/// What a batch hands over of a message with a body of 12 bytes.
const STORED: [u8; 60] = [7; 60];

struct Nobody;

impl Replay for Nobody {
    fn restore(&mut self, _: LiveState) {}
    fn message(&mut self, _: LogId, _: u64, _: &[u8]) {}
    fn references(&mut self, _: LogId, _: u64, _: u16, _: &[u8]) {}
    fn withdraw(&mut self, _: LogId, _: u64, _: &[u8]) {}
    fn settle(&mut self, _: LogId, _: SettleReason, _: &[SettleRange]) {}
    fn control(&mut self, _: LogId, _: u8, _: &[u8]) {}
}

/// The disk's own work isn't counted.
fn write(log: &mut Log, disk: &MemoryDisk, now: u64) {
    while let Next::Run(id, job) = count(|| log.next_job(Lane::Commit, now)) {
        let done = job.run(disk);
        count(|| {
            drop(job);
            log.complete(id, done, now)
        })
        .expect("the log works");
    }
}

pub(crate) fn append() -> u64 {
    let disk = MemoryDisk::new();
    let (mut log, _) = recover(&disk, Options::default(), &mut Nobody, 0).expect("a new log");
    let mut now = 0;
    for first in (1..=MESSAGES).step_by(RUN as usize) {
        count(|| {
            let payloads = (0..RUN).map(|_| Payload { head: &STORED, body: None });
            log.append_messages(LogId(1), first, payloads, Wait::Confirm, now)
        });
        now += 2_000_000;
        write(&mut log, &disk, now);
    }
    MESSAGES
}
