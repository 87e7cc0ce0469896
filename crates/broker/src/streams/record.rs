//! Records, as queues and the control plane append them.

use bytes::Bytes;
use leveret_log::{GroupId, JointRecord, Log, LogId, NewChunk, Payload, Position, SettleRange, SettleReason, Wait};
use leveret_message::BatchPart;

use crate::time::Nanos;

/// A record for a commit stream.
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// Messages of a log.
    Messages {
        /// The log.
        log: LogId,
        /// Number of the first message.
        first: u64,
        /// The messages.
        part: BatchPart<'a>,
        /// Payload that replaces their bodies, which are in files.
        instead: Option<&'a Bytes>,
    },
    /// Messages of a log whose bytes are in another log; see [`leveret_queue::shared`].
    References(JointRecord<'a>),
    /// Several messages of a log that are one record, as streams have them.
    Chunk(NewChunk<'a>),
    /// Messages left a log.
    Settle {
        /// The log.
        log: LogId,
        /// The reason.
        reason: SettleReason,
        /// Their numbers.
        ranges: &'a [SettleRange],
    },
    /// A record with an owner-specific meaning; see [`crate::records`].
    Control {
        /// The log.
        log: LogId,
        /// The kind of record.
        kind: u8,
        /// Its content.
        payload: &'a [u8],
    },
}

impl Record<'_> {
    /// Appends it to a log.
    #[inline]
    pub(super) fn append_to(self, to: &mut Log, wait: Wait, now: Nanos) -> Position {
        match self {
            Self::Messages { log, first, part, instead } => {
                to.append_messages(log, first, payloads(part, instead), wait, now)
            }
            Self::References(references) => to.append_references(&references, wait, now),
            Self::Chunk(chunk) => to.append_chunk(&chunk, wait, now),
            Self::Settle { log, reason, ranges } => to.append_settle(log, reason, ranges, wait, now),
            Self::Control { log, kind, payload } => to.append_control(log, kind, payload, wait, now),
        }
    }

    /// Appends it to a log as part of a group.
    pub(super) fn append_in(self, group: GroupId, to: &mut Log, now: Nanos) -> Position {
        match self {
            Self::Messages { log, first, part, instead } => {
                to.append_messages_in(group, log, first, payloads(part, instead), now)
            }
            Self::Chunk(chunk) => to.append_chunk_in(group, &chunk, now),
            Self::Settle { log, reason, ranges } => to.append_settle_in(group, log, reason, ranges, now),
            Self::References(_) | Self::Control { .. } => {
                unreachable!("a group has messages, chunks and settles only")
            }
        }
    }
}

fn payloads<'a>(part: BatchPart<'a>, instead: Option<&'a Bytes>) -> impl Iterator<Item = Payload<'a>> {
    part.indexes().map(move |at| {
        let message = part.batch.message(at as usize);
        assert!(message.file.is_none() || instead.is_some(), "a body in a file is referred to");
        Payload { head: message.head, body: instead.or(message.large) }
    })
}

#[cfg(test)]
mod tests {
    use leveret_log::{Lane, MemoryDisk, Next, Options, recover};

    use leveret_message::chunk::{ChunkBuilder, stored_head};

    use super::*;
    use crate::recovery::Recovered;

    #[test]
    fn a_chunk_is_appended_alone_and_in_a_group() {
        const LOG: LogId = LogId(7);
        let disk = MemoryDisk::new();
        let (mut log, _) = recover(&disk, Options::default(), &mut Recovered::default(), 0).expect("a new log");
        let mut builder = ChunkBuilder::new(16);
        builder.push_entry(b"\0\0\0\x04data", 1).expect("it is small");
        let small = builder.finish();
        let (head, body) = (stored_head(&small), small.rest().clone());
        let chunk = |first, messages| {
            let payload = Payload { head: &head, body: Some(&body) };
            Record::Chunk(NewChunk { log: LOG, first, messages, payload })
        };
        assert_eq!(chunk(0, 3).append_to(&mut log, Wait::Confirm, 0), 1);
        let [committed, open] = [(); 2].map(|()| log.begin_group());
        assert_eq!(chunk(3, 200).append_in(committed, &mut log, 0), 2);
        assert_eq!(log.commit_group(committed, Wait::Confirm, 0), Some(3));
        assert_eq!(chunk(203, 9).append_in(open, &mut log, 0), 4);
        let mut now = 0;
        while log.durable() < log.appended() {
            now += 1_000_000;
            while let Next::Run(id, job) = log.next_job(Lane::Commit, now) {
                let done = job.run(&disk);
                log.complete(id, done, now).expect("the disk works");
            }
        }
        let found = log.plan_read(LOG, 0, 1 << 20).expect("it has messages").run(&disk).expect("the disk works");
        let shape: Vec<_> = found.iter().map(|chunk| (chunk.number, chunk.messages)).collect();
        assert_eq!(shape, [(0, 3), (3, 200), (203, 9)]);
        assert!(found.iter().all(|chunk| chunk.payload[..] == *[&head[..], &body].concat()));
        // The group that stayed open never was.
        let mut recovered = Recovered::default();
        let (_, report) = recover(&disk, Options::default(), &mut recovered, 0).expect("it is sound");
        let ledger = &recovered.replica(LOG).expect("it has messages").ledger;
        assert_eq!(
            (report.withdrawn, ledger.len(), ledger.next(), ledger.bytes()),
            (1, 203, 212, 2 * u64::from(small.chunk_bytes()))
        );
    }
}
