//! Records of small messages in the write-ahead log's buffer, the jobs that write them to a disk in memory, and the
//! jobs that move them from there to a segment.

use leveret_log::{
    Done, Job, JointRecord, Lane, LiveState, Log, LogId, MemoryDisk, Next, Options, Payload, Position, Replay,
    RoaringTreemap, SettleRange, SettleReason, Wait, recover,
};

use crate::count::count;
use crate::{MESSAGES, RUN};

/// A stored message with a body of 12 bytes, as passed on by a batch.
const STORED: [u8; 60] = [7; 60];

struct Nobody;

impl Replay for Nobody {
    fn restore(&mut self, _: LiveState) {}
    fn message(&mut self, _: LogId, _: u64, _: &[u8]) {}
    fn references(&mut self, _: JointRecord<'_>) {}
    fn chunk(&mut self, _: JointRecord<'_>) {}
    fn withdraw(&mut self, _: LogId, _: u64, _: &[u8]) {}
    fn withdraw_chunk(&mut self, _: JointRecord<'_>) {}
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

/// The messages that `append` measures: one run of them.
fn append_run(log: &mut Log, first: u64, now: u64) -> Position {
    let payloads = (0..RUN).map(|_| Payload { head: &STORED, body: None });
    log.append_messages(LogId(1), first, payloads, Wait::Confirm, now)
}

pub(crate) fn append() -> u64 {
    let disk = MemoryDisk::new();
    let (mut log, _) = recover(&disk, Options::default(), &mut Nobody, 0).expect("a new log");
    let mut now = 0;
    for first in (1..=MESSAGES).step_by(RUN as usize) {
        count(|| append_run(&mut log, first, now));
        now += 2_000_000;
        write(&mut log, &disk, now);
    }
    MESSAGES
}

/// Runs the jobs of both lanes until there are none. Jobs that move messages are counted, including the disk's
/// copying.
fn run_jobs(log: &mut Log, disk: &MemoryDisk, now: u64, state: &LiveState) {
    let mut is_idle = false;
    while !is_idle {
        is_idle = true;
        for lane in [Lane::Commit, Lane::Background] {
            while let Next::Run(id, job) = log.next_job(lane, now) {
                is_idle = false;
                let done = match &job {
                    Job::Live { logs } => {
                        Ok(Done::Live(logs.iter().map(|log| LiveState { log: *log, ..state.clone() }).collect()))
                    }
                    Job::Retire(_) => count(|| job.run(disk)),
                    _ => job.run(disk),
                };
                drop(job);
                log.complete(id, done, now).expect("the log works");
            }
        }
    }
}

/// A full file with only live messages, which are copied all the same.
pub(crate) fn retire() -> u64 {
    let disk = MemoryDisk::new();
    let keep_live_percent = 101;
    let options = Options {
        file_bytes: 64 << 10,
        unretired_max: 2,
        fill_after: u64::MAX,
        keep_live_percent,
        ..Options::default()
    };
    let (mut log, _) = recover(&disk, options, &mut Nobody, 0).expect("a new log");
    let (mut now, mut next) = (0, 1);
    while log.statistics().retirements == 0 {
        let position = append_run(&mut log, next, now);
        next += RUN;
        now += 2_000_000;
        let live: RoaringTreemap = (1..next).collect();
        run_jobs(&mut log, &disk, now, &LiveState { next, position, live, ..LiveState::default() });
    }
    log.statistics().messages_copied
}
