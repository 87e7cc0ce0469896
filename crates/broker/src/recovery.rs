//! Recovery: routes the records of a log to those who own them, and they build the model and the queues.

use std::collections::BTreeMap;

use leveret_log::{JointRecord, LiveState, LogId, Replay, RoaringTreemap, SettleRange, SettleReason};
use leveret_message::stored::StoredError;
use leveret_model::{EarlierPriorities, Model, PlacementNumber, QueueId};
use leveret_queue::{QueueRecord, Replica, ReplicaError};
use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::records::{CONTROL_MODEL_COMMAND, checkpoint_of, departure_of};
use crate::recovered_shared::RecoveredShared;
use crate::replicas::{self, AppliedMark, CONTROL_APPLIED};

/// A data directory that this version can't read.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The model refuses its own record.
    #[error("metadata record cannot be replayed: {0}")]
    Metadata(String),
    /// A queue's record or its state can't be read.
    #[error("log {log:?}, {error}")]
    Queue {
        /// The log of the queue.
        log: LogId,
        /// The error.
        error: ReplicaError,
    },
    /// The checkpoint state of the shared log can't be decoded by this version.
    #[error("the shared log's state of {length} bytes isn't one of this version")]
    Shared {
        /// Length of the state in bytes.
        length: usize,
    },
    /// A message of the shared log can't be decoded.
    #[error("message {number} of the shared log: {error}")]
    SharedMessage {
        /// Its number.
        number: u64,
        /// The error.
        error: StoredError,
    },
    /// Neither the metadata nor the shared log has such records.
    #[error("log {log:?} has {what}; was this directory written by a newer version?")]
    Misplaced {
        /// The log.
        log: LogId,
        /// The record.
        what: String,
    },
}

/// The owner of a log.
#[derive(Debug, Clone, Copy)]
enum Owner {
    Metadata,
    Shared,
    /// The marks of a placement.
    Placement(PlacementNumber),
    Queue,
}

impl Owner {
    fn of(log: LogId) -> Self {
        match log {
            LogId::METADATA => Self::Metadata,
            LogId::SHARED => Self::Shared,
            _ => replicas::placement_of(log).map_or(Self::Queue, Self::Placement),
        }
    }
}

/// The state that is built from the replay of the log.
#[derive(Default)]
pub struct Recovered {
    /// The control plane.
    pub model: Model,
    /// The shared log.
    pub shared: RecoveredShared,
    queues: FxHashMap<LogId, Replica>,
    /// The last marks of placements.
    marks: BTreeMap<PlacementNumber, AppliedMark>,
    error: Option<RecoveryError>,
}

impl Recovered {
    /// Checks that everything could be decoded.
    ///
    /// # Errors
    /// [`RecoveryError`] of the first problem.
    pub fn check(&mut self) -> Result<(), RecoveryError> {
        for (log, replica) in &self.queues {
            // A log without a queue is one of a queue that is deleted by now.
            let id = QueueId(replicas::queue_of(*log).0);
            let Some(queue) = self.model.topology().queue_by_id(id) else { continue };
            replica.check_type(queue.queue_type()).map_err(|error| RecoveryError::Queue { log: *log, error })?;
        }
        self.error.take().map_or(Ok(()), Err)
    }

    /// Removes and returns a queue, see [`Replica::end_replay`].
    pub fn take(&mut self, id: QueueId, earlier: &[EarlierPriorities], clean: bool) -> Replica {
        let Some(mut replica) = self.queues.remove(&LogId(id.0)) else { return Replica::default() };
        replica.end_replay(earlier, clean);
        replica
    }

    /// Removes and returns the replica of a queue of a placement.
    pub(crate) fn take_replicated(&mut self, log: LogId) -> Option<Replica> {
        self.queues.remove(&log)
    }

    /// The last marks of placements.
    pub(crate) fn take_marks(&mut self) -> BTreeMap<PlacementNumber, AppliedMark> {
        std::mem::take(&mut self.marks)
    }

    /// The queue with this log.
    pub(crate) fn replica(&self, log: LogId) -> Option<&Replica> {
        self.queues.get(&log)
    }

    /// Every queue, with its log.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = (LogId, &Replica)> {
        self.queues.iter().map(|(log, replica)| (*log, replica))
    }

    /// The messages of the shared log for which live messages of queues stand.
    pub(crate) fn referred(&self) -> RoaringTreemap {
        let mut referred = RoaringTreemap::new();
        for (first, last) in self.queues.values().flat_map(Replica::referred) {
            referred.insert_range(first..=last);
        }
        referred
    }

    /// Logs that no queue owns.
    pub fn orphans(&self) -> Vec<LogId> {
        let mut orphans: Vec<_> = self.queues.keys().copied().collect();
        orphans.sort_unstable();
        orphans
    }

    /// Gives a record to the owner of its log. The first error is kept; the replay goes on, for those who look for more.
    fn route(&mut self, log: LogId, record: QueueRecord<'_>) {
        let outcome = match (Owner::of(log), record) {
            (Owner::Queue, record) => {
                let replica = self.queues.entry(log).or_default();
                replica.apply(record).map_err(|error| RecoveryError::Queue { log, error })
            }
            (Owner::Metadata, QueueRecord::Control { kind: CONTROL_MODEL_COMMAND, payload }) => {
                self.model.replay(payload).map_err(|error| RecoveryError::Metadata(error.to_string()))
            }
            (Owner::Shared, QueueRecord::Message { number, payload }) => {
                self.shared.message(number, payload).map_err(|error| RecoveryError::SharedMessage { number, error })
            }
            (Owner::Placement(placement), QueueRecord::Control { kind: CONTROL_APPLIED, payload }) => {
                self.mark(log, placement, payload)
            }
            (Owner::Metadata | Owner::Shared | Owner::Placement(_), other) => {
                let what = match other {
                    QueueRecord::Message { number, .. } => format!("message {number}"),
                    QueueRecord::References { first, .. } => format!("a record of shared messages from {first} on"),
                    QueueRecord::Chunk { first, .. } => format!("a chunk with message {first}"),
                    QueueRecord::Settled { first, last, .. } => format!("a record that {first} to {last} left"),
                    QueueRecord::Control { kind, .. } => format!("a control record of unknown kind {kind}"),
                };
                Err(RecoveryError::Misplaced { log, what })
            }
        };
        outcome.unwrap_or_else(|error| self.fail(error));
    }

    fn mark(&mut self, log: LogId, placement: PlacementNumber, payload: &[u8]) -> Result<(), RecoveryError> {
        let what = || format!("a mark of {} bytes that isn't one of this version", payload.len());
        let mark = AppliedMark::decode(payload).ok_or_else(|| RecoveryError::Misplaced { log, what: what() })?;
        self.marks.insert(placement, mark);
        Ok(())
    }

    fn fail(&mut self, error: RecoveryError) {
        self.error.get_or_insert(error);
    }
}

impl Replay for Recovered {
    fn restore(&mut self, state: LiveState) {
        let log = state.log;
        let outcome = match Owner::of(log) {
            Owner::Metadata if state.state.is_empty() => Ok(()),
            Owner::Metadata => Model::restore(&state.state)
                .map(|model| self.model = model)
                .map_err(|error| RecoveryError::Metadata(error.to_string())),
            // The live ones among them are those that queues have.
            Owner::Shared => RecoveredShared::decode(&state)
                .map(|shared| self.shared = shared)
                .map_err(|length| RecoveryError::Shared { length }),
            Owner::Placement(placement) => self.mark(log, placement, &state.state),
            Owner::Queue => Replica::restore(&checkpoint_of(state))
                .map(|replica| _ = self.queues.insert(log, replica))
                .map_err(|error| RecoveryError::Queue { log, error }),
        };
        outcome.unwrap_or_else(|error| self.fail(error));
    }

    fn message(&mut self, log: LogId, number: u64, payload: &[u8]) {
        self.route(log, QueueRecord::Message { number, payload });
    }

    fn references(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        self.route(log, QueueRecord::References { first, messages, payload });
    }

    fn chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        self.route(log, QueueRecord::Chunk { first, messages, payload });
    }

    fn settle(&mut self, log: LogId, reason: SettleReason, ranges: &[SettleRange]) {
        for &SettleRange { first, last, bytes } in ranges {
            self.route(log, QueueRecord::Settled { first, last, bytes, departure: departure_of(reason) });
        }
    }

    fn control(&mut self, log: LogId, kind: u8, payload: &[u8]) {
        self.route(log, QueueRecord::Control { kind, payload });
    }

    fn withdraw(&mut self, log: LogId, number: u64, payload: &[u8]) {
        if let Some(replica) = self.queues.get_mut(&log) {
            replica.withdraw_message(number, payload);
        }
    }

    fn withdraw_chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        if let Some(replica) = self.queues.get_mut(&log) {
            replica.withdraw_chunk(first, messages, payload);
        }
    }

    fn owned(&self, first: LogId, last: LogId) -> Vec<LogId> {
        let topology = self.model.topology();
        let logged = topology.vhosts().flat_map(|vhost| topology.queues(vhost)).filter(|queue| queue.is_logged());
        logged.map(|queue| LogId(queue.id.0)).filter(|log| (first..=last).contains(log)).collect()
    }

    fn wanted(&self, log: LogId, numbers: &RoaringTreemap) -> RoaringTreemap {
        match Owner::of(log) {
            Owner::Shared => numbers & self.referred(),
            _ => self.queues.get(&log).map(|replica| replica.own_among(numbers)).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_log::{Lane, MemoryDisk, NewChunk, Next, Options, Payload, Wait, recover};
    use leveret_message::chunk::{ChunkBuilder, stored_head};
    use leveret_model::{Arguments, Command, DeclareQueue, Permit};
    use leveret_queue::Departure;

    use super::*;

    const QUEUE: LogId = LogId(7);

    #[test]
    fn the_chunks_of_a_log_without_a_queue_are_left_to_its_deletion() {
        let mut recovered = Recovered::default();
        let chunk = ChunkBuilder::new(16).finish();
        let bytes = u64::from(chunk.chunk_bytes());
        let chunk = [&stored_head(&chunk)[..], chunk.rest()].concat();
        recovered.chunk(JointRecord { log: QUEUE, first: 0, messages: 300, payload: &chunk });
        recovered.chunk(JointRecord { log: QUEUE, first: 300, messages: 4, payload: &chunk });
        recovered.withdraw_chunk(JointRecord { log: QUEUE, first: 300, messages: 4, payload: &chunk });
        recovered.settle(QUEUE, SettleReason::Dropped, &[SettleRange { first: 0, last: 99, bytes: 0 }]);
        recovered.check().expect("its queue is deleted");
        let ledger = &recovered.replica(QUEUE).expect("it is known").ledger;
        assert_eq!((ledger.low(), ledger.len(), ledger.next(), ledger.bytes()), (100, 200, 304, bytes));
        assert_eq!(recovered.orphans(), [QUEUE]);
    }

    #[test]
    fn a_chunk_of_a_queue_that_is_no_stream_is_refused() {
        let mut recovered = Recovered::default();
        let declare = DeclareQueue::durable("/".into(), "orders".into(), Arguments::default());
        for command in [Command::CreateVhost { name: "/".into() }, Command::DeclareQueue(declare)] {
            let _ = recovered.model.submit(Permit::system(), command).expect("it is taken");
        }
        let id = recovered.model.topology().queue("/", "orders").expect("it was declared").id;
        recovered.chunk(JointRecord { log: LogId(id.0), first: 3, messages: 4, payload: b"chunk" });
        recovered.withdraw_chunk(JointRecord { log: LogId(id.0), first: 3, messages: 4, payload: b"chunk" });
        let error = recovered.check().expect_err("it has no chunks").to_string();
        let expected = "messages 3 to 6: they are stored as a chunk, but the queue has the type classic";
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_record_that_the_owner_of_its_log_does_not_know_is_refused() {
        let departed = QueueRecord::Settled { first: 2, last: 3, bytes: 0, departure: Departure::Purged };
        let unknown = ("control record of unknown kind 99", QueueRecord::Control { kind: 99, payload: &[] });
        let of_queues = [
            ("a record of shared messages from 2 on", QueueRecord::References { first: 2, messages: 1, payload: &[] }),
            ("a chunk with message 2", QueueRecord::Chunk { first: 2, messages: 1, payload: &[] }),
            ("2 to 3 left", departed),
        ];
        let nobodys =
            [LogId::METADATA, LogId::SHARED].map(|log| of_queues.map(|(expected, record)| (log, expected, record)));
        let unknown = [LogId::METADATA, LogId::SHARED, QUEUE].map(|log| (log, unknown.0, unknown.1));
        for (log, expected, record) in nobodys.into_iter().flatten().chain(unknown) {
            let mut recovered = Recovered::default();
            recovered.route(log, record);
            let error = recovered.check().expect_err("nobody knows it").to_string();
            assert!(error.contains(expected) && error.contains("written by a newer version?"), "{log:?}: {error}");
        }
    }

    #[test]
    fn the_first_error_is_the_one_that_is_told() {
        let mut recovered = Recovered::default();
        recovered.message(QUEUE, 1, b"no message");
        recovered.control(QUEUE, 99, &[]);
        let error = recovered.check().expect_err("neither is one").to_string();
        assert!(error.starts_with("log LogId(7), message 1: "), "{error}");
    }

    #[test]
    fn chunks_alone_and_in_a_group_are_recovered() {
        let disk = MemoryDisk::new();
        let (mut log, _) = recover(&disk, Options::default(), &mut Recovered::default(), 0).expect("a new log");
        let mut builder = ChunkBuilder::new(16);
        builder.push_entry(b"\0\0\0\x04data", 1).expect("it is small");
        let small = builder.finish();
        let (head, body) = (stored_head(&small), small.rest().clone());
        let chunk = |first, messages| {
            let payload = Payload { head: &head, body: Some(&body) };
            NewChunk { log: QUEUE, first, messages, payload }
        };
        assert_eq!(log.append_chunk(&chunk(0, 3), Wait::Confirm, 0), 1);
        let [committed, open] = [(); 2].map(|()| log.begin_group());
        assert_eq!(log.append_chunk_in(committed, &chunk(3, 200), 0), 2);
        assert_eq!(log.commit_group(committed, Wait::Confirm, 0), Some(3));
        assert_eq!(log.append_chunk_in(open, &chunk(203, 9), 0), 4);
        let mut now = 0;
        while log.durable() < log.appended() {
            now += 1_000_000;
            while let Next::Run(id, job) = log.next_job(Lane::Commit, now) {
                let done = job.run(&disk);
                log.complete(id, done, now).expect("the disk works");
            }
        }
        let found = log.plan_read(QUEUE, 0, 1 << 20).expect("it has messages").run(&disk).expect("the disk works");
        let shape: Vec<_> = found.iter().map(|chunk| (chunk.number, chunk.messages)).collect();
        assert_eq!(shape, [(0, 3), (3, 200), (203, 9)]);
        assert!(found.iter().all(|chunk| chunk.payload[..] == *[&head[..], &body].concat()));
        // The group that stayed open never was.
        let mut recovered = Recovered::default();
        let (_, report) = recover(&disk, Options::default(), &mut recovered, 0).expect("it is sound");
        let ledger = &recovered.replica(QUEUE).expect("it has messages").ledger;
        assert_eq!(
            (report.withdrawn, ledger.len(), ledger.next(), ledger.bytes()),
            (1, 203, 212, 2 * u64::from(small.chunk_bytes()))
        );
    }
}
