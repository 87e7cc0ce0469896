//! Measures the cost of an append: nanoseconds per 60-byte message, with batches written to a disk that does nothing.
//! `cargo run --release -p leveret-log --example append`

use std::hint::black_box;
use std::io;
use std::time::Instant;

use bytes::Bytes;
use leveret_log::{
    Disk, JointRecord, Lane, LiveState, LogId, MemoryDisk, Next, Options, Payload, Replay, SettleRange, SettleReason,
    Wait, recover,
};

const MESSAGES: u64 = 20_000_000;

fn main() {
    for run in [1, 8, 64, 256] {
        for (bytes, batch) in [(60, 1000), (60, 1 << 20), (1000, 1000)] {
            let (append, all) = measure(run, bytes, batch, MESSAGES / bytes as u64 * 60);
            println!(
                "{bytes:4} bytes, runs of {run:3}, batches of up to {batch:7}: {append:6.1} ns per message appended, \
                 {all:6.1} ns with its write"
            );
        }
    }
}

fn measure(run: u64, bytes: usize, batch: u64, messages: u64) -> (f64, f64) {
    let disk = Nothing(MemoryDisk::new());
    let options = Options { file_bytes: 1 << 30, ..Options::default() };
    let (mut log, _) = recover(&disk, options, &mut Nobody, 0).expect("a new log");
    let body = Bytes::from(vec![7; bytes - 12]);
    let head = [1; 12];
    let (mut number, mut now) = (1, 0);
    let mut appending = 0.0;
    let start = Instant::now();
    while number < messages {
        let appended = Instant::now();
        let end = messages.min(number + batch);
        while log.room() && number < end {
            let payloads = (0..run).map(|_| Payload { head: &head, body: Some(&body) });
            black_box(log.append_messages(LogId(1 + number % 7), number, payloads, Wait::Confirm, now));
            number += run;
        }
        appending += appended.elapsed().as_secs_f64();
        for lane in [Lane::Commit, Lane::Commit, Lane::Background] {
            now += 2_000_000;
            if let Next::Run(id, job) = log.next_job(lane, now) {
                if matches!(job, leveret_log::Job::Live { .. }) {
                    log.complete(id, Ok(leveret_log::Done::Live(Vec::new())), now).expect("goes on");
                    continue;
                }
                let done = job.run(&disk);
                drop(job);
                log.complete(id, done, now).expect("goes on");
            }
        }
    }
    let per_message = 1e9 / messages as f64;
    (appending * per_message, start.elapsed().as_secs_f64() * per_message)
}

/// A disk that discards all writes.
struct Nothing(MemoryDisk);

impl Disk for Nothing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn create(&self, name: &str, _: u64) -> io::Result<()> {
        self.0.create(name, 0)
    }
    fn write_at(&self, _: &str, _: u64, slices: &[&[u8]]) -> io::Result<()> {
        black_box(slices);
        Ok(())
    }
    fn sync(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
    fn read_at(&self, _: &str, _: u64, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
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
