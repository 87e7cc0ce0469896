//! Recovery: builds the model and the ledgers from a replay of the log.

use leveret_log::{LiveState, LogId, Replay, RoaringTreemap, SettleRange, SettleReason};
use leveret_message::chunk::{self, ChunkError, ChunkHeader, within_stored};
use leveret_message::{ComparedBy, stored};
use leveret_model::{EarlierPriorities, Model, QueueId, QueueType};
use leveret_queue::shared::{ReferenceError, ReferenceRecord};
use leveret_queue::{
    Annotated, Annotations, AttemptRun, Attempts, DelayRun, Delayed, Departure, Dying, DyingRun, Expiry, Kept,
    KeptError, KeptOffset, Ledger, Parked, Priorities, RecoveredIds, RecoveredSequences, References, Stretches,
    Tracking, Writers,
};
use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::planted::{Bug, is_planted};
use crate::records::{
    CONTROL_ANNOTATED, CONTROL_ATTEMPTS, CONTROL_DELAYED, CONTROL_DELIVERED_BELOW, CONTROL_DYING,
    CONTROL_MODEL_COMMAND, CONTROL_OFFSETS, CONTROL_PARKED, decode_parked,
};
use crate::recovered_shared::RecoveredShared;

/// A data directory that this version can't read.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The model refuses its own record.
    #[error("metadata record cannot be replayed: {0}")]
    Metadata(String),
    /// The record kind belongs to a newer version.
    #[error("log {log:?} has a control record of unknown kind {kind}; was this directory written by a newer version?")]
    UnknownControl {
        /// The log with the record.
        log: LogId,
        /// The kind found.
        kind: u8,
    },
    /// A queue's checkpoint state can't be decoded by this version.
    #[error("log {log:?}: {error}")]
    Kept {
        /// The log of the queue.
        log: LogId,
        /// The error.
        error: KeptError,
    },
    /// The checkpoint state of the shared log can't be decoded by this version.
    #[error("the shared log's state of {length} bytes isn't one of this version")]
    Shared {
        /// Length of the state in bytes.
        length: usize,
    },
    /// A record that refers to shared messages can't be decoded.
    #[error("log {log:?}, messages from {first} on: {error}")]
    Reference {
        /// The log with the record.
        log: LogId,
        /// Number of the first message.
        first: u64,
        /// The error.
        error: ReferenceError,
    },
    /// A queue whose messages are stored one by one has a chunk of messages.
    #[error(
        "log {log:?}, messages {first} to {last}: they are stored as a chunk, but the queue has the type {queue_type}, and \
         only streams have chunks; was this directory written by a newer version?"
    )]
    Chunk {
        /// The log of the queue.
        log: LogId,
        /// Number of the first message.
        first: u64,
        /// Number of the last message.
        last: u64,
        /// Name of the queue's type.
        queue_type: &'static str,
    },
    /// A chunk can't be decoded.
    #[error("log {log:?}, chunk with message {first}: {error}")]
    ChunkHeader {
        /// The log of the stream.
        log: LogId,
        /// Offset of the first message.
        first: u64,
        /// The error.
        error: ChunkError,
    },
    /// A message can't be decoded.
    #[error("log {log:?}, message {number}: {error}")]
    Message {
        /// The log with the message.
        log: LogId,
        /// Its number.
        number: u64,
        /// The error.
        error: stored::StoredError,
    },
}

#[derive(Default)]
struct RecoveredLog {
    ledger: Ledger,
    delivered_below: u64,
    expiry: Expiry,
    references: References,
    attempts: Attempts,
    priorities: Priorities,
    parked: Parked,
    delayed: Delayed,
    annotations: Annotations,
    dying: Dying,
    stream: Stretches,
    tracking: Tracking,
    writers: Writers,
    ids: RecoveredIds,
    sequences: RecoveredSequences,
}

/// The state that is built from the replay of the log.
#[derive(Default)]
pub struct Recovered {
    /// The control plane.
    pub model: Model,
    /// The shared log.
    pub shared: RecoveredShared,
    logs: FxHashMap<LogId, RecoveredLog>,
    /// The first and the last number of the first chunk of each log that has some.
    chunks: FxHashMap<LogId, (u64, u64)>,
    error: Option<RecoveryError>,
}

impl Recovered {
    /// Checks that everything could be decoded.
    ///
    /// # Errors
    /// [`RecoveryError`] of the first problem.
    pub fn check(&mut self) -> Result<(), RecoveryError> {
        for (log, (first, last)) in std::mem::take(&mut self.chunks) {
            // A log without a queue is one of a queue that is deleted by now.
            let queue_type = self.model.topology().queue_by_id(QueueId(log.0)).map(|queue| queue.queue_type());
            if let Some(queue_type) = queue_type.filter(|queue_type| *queue_type != QueueType::Stream) {
                return Err(RecoveryError::Chunk { log, first, last, queue_type: queue_type.name() });
            }
        }
        self.error.take().map_or(Ok(()), Err)
    }

    /// Removes and returns the state of a queue. After a clean stop it is known which messages may have been delivered; after a
    /// crash, all may have been. `earlier` are the priorities from before the queue was converted.
    pub fn take(&mut self, id: QueueId, earlier: &[EarlierPriorities], clean: bool) -> leveret_queue::Recovered {
        let Some(mut log) = self.logs.remove(&LogId(id.0)) else { return leveret_queue::Recovered::default() };
        // Volatile messages had numbers, too, which are reused.
        let redelivered_below = if clean { log.delivered_below.min(log.ledger.next()) } else { log.ledger.next() };
        for earlier in earlier {
            log.priorities.map(|number, priority| earlier.of(number, priority));
        }
        log.references.keep_live(&log.ledger);
        log.attempts.keep(|number| log.ledger.is_live(number));
        log.parked.keep(|number| log.ledger.is_live(number));
        log.annotations.keep(|number| log.ledger.is_live(number));
        log.dying.keep(|number| log.ledger.is_live(number));
        // A message that was delayed before it was parked, or died, isn't delayed any more.
        let is_elsewhere = |number| log.parked.contains(number) || log.dying.contains(number);
        log.delayed.keep(|number| log.ledger.is_live(number) && !is_elsewhere(number));
        log.priorities.keep(|number| log.ledger.is_live(number));
        leveret_queue::Recovered {
            ledger: log.ledger,
            redelivered_below,
            expiry: log.expiry,
            references: log.references,
            attempts: log.attempts,
            priorities: log.priorities,
            parked: log.parked,
            delayed: log.delayed,
            annotations: log.annotations,
            dying: log.dying,
            stream: log.stream,
            tracking: log.tracking,
            writers: log.writers,
            ids: log.ids,
            sequences: log.sequences,
        }
    }

    /// The live messages of a log.
    pub(crate) fn ledger(&self, log: LogId) -> Option<&Ledger> {
        self.logs.get(&log).map(|log| &log.ledger)
    }

    /// Every log with its live messages, and its references to the shared log.
    pub(crate) fn ledgers(&self) -> impl Iterator<Item = (LogId, &Ledger, &References)> {
        self.logs.iter().map(|(id, log)| (*id, &log.ledger, &log.references))
    }

    /// The messages of the shared log for which live messages of queues stand.
    pub(crate) fn referred(&self) -> RoaringTreemap {
        let mut referred = RoaringTreemap::new();
        for (_, ledger, references) in self.ledgers() {
            for place in references.stretches() {
                for (first, last) in ledger.live_runs(place.first, place.first + place.count - 1) {
                    let at = |number| place.shared + (number - place.first);
                    referred.insert_range(at(first)..=at(last));
                }
            }
        }
        referred
    }

    /// Whether a log has something that only messages of quorum queues have.
    pub(crate) fn is_of_quorum_queue(&self, log: LogId) -> bool {
        self.logs.get(&log).is_some_and(|log| {
            let is_counted = log.ledger.live_set().iter().any(|number| log.attempts.of(number).acquired > 0);
            is_counted || log.parked.numbers().next().is_some() || log.delayed.iter().next().is_some()
        })
    }

    /// Logs that no queue owns.
    pub fn orphans(&self) -> Vec<LogId> {
        let mut orphans: Vec<_> = self.logs.keys().copied().filter(|log| *log != LogId::METADATA).collect();
        orphans.sort_unstable();
        orphans
    }

    fn fail(&mut self, error: RecoveryError) {
        self.error.get_or_insert(error);
    }
}

impl Replay for Recovered {
    fn restore(&mut self, state: LiveState) {
        if state.log == LogId::METADATA {
            if !state.state.is_empty() {
                match Model::restore(&state.state) {
                    Ok(model) => self.model = model,
                    Err(error) => self.fail(RecoveryError::Metadata(error.to_string())),
                }
            }
            return;
        }
        if state.log == LogId::SHARED {
            // The live ones among them are those that queues have.
            match RecoveredShared::decode(&state) {
                Ok(shared) => self.shared = shared,
                Err(length) => self.fail(RecoveryError::Shared { length }),
            }
            return;
        }
        let ledger = Ledger::restore(state.next, &state.live, state.bytes);
        match Kept::decode(&state.state) {
            Ok(kept) => {
                let Kept { expiry, references, attempts, priorities, parked, delayed, annotations, dying, .. } = kept;
                let Kept { stream, tracking, writers, ids, sequences, .. } = kept;
                let log = RecoveredLog {
                    ledger,
                    delivered_below: 0,
                    expiry,
                    references,
                    attempts,
                    priorities,
                    parked,
                    delayed,
                    annotations,
                    dying,
                    stream,
                    tracking,
                    writers,
                    ids,
                    sequences,
                };
                self.logs.insert(state.log, log);
            }
            Err(error) => self.fail(RecoveryError::Kept { log: state.log, error }),
        }
    }

    fn message(&mut self, log: LogId, number: u64, payload: &[u8]) {
        if log == LogId::SHARED {
            self.shared.next = number + 1;
            match stored::body_file(payload) {
                Ok(file) => self.shared.files.extend(file.map(|(id, ..)| (number, id))),
                Err(error) => self.fail(RecoveryError::Message { log, number, error }),
            }
            return;
        }
        match stored::lengths(payload) {
            Ok((_, body)) => {
                let log = self.logs.entry(log).or_default();
                log.ledger.accept(number, 1, body as u64);
                if let Some(priority) = stored::priority(payload) {
                    log.priorities.note(number, priority);
                }
                let failed = stored::failures(payload);
                if failed > 0 {
                    log.attempts.begin_at(number, failed);
                }
                if let Some(due_ms) = stored::delivery_ms(payload) {
                    log.delayed.replay(number, due_ms, body as u64);
                }
                let (received_ms, expiry_ms) = stored::times(payload);
                match stored::compared_by(payload) {
                    Some(ComparedBy { id, sequence: None }) => log.ids.replay(number, id, received_ms),
                    Some(ComparedBy { id, sequence: Some(sequence) }) if !is_planted(Bug::ForgetSequences) => {
                        log.sequences.replay(number, id, sequence);
                    }
                    _ => {}
                }
                log.expiry.arrived(number, 1, received_ms, log.ledger.low());
                if expiry_ms != 0 {
                    log.expiry.expires(number, expiry_ms, body as u32);
                }
            }
            Err(error) => self.fail(RecoveryError::Message { log, number, error }),
        }
    }

    fn references(&mut self, log: LogId, first: u64, messages: u16, payload: &[u8]) {
        let count = u64::from(messages);
        let record = match ReferenceRecord::decode(payload, count) {
            Ok(record) => record,
            Err(error) => return self.fail(RecoveryError::Reference { log, first, error }),
        };
        let log = self.logs.entry(log).or_default();
        log.ledger.accept(first, count, record.body_bytes);
        log.references.add(first, count, record.shared);
        log.expiry.arrived(first, count, record.received_ms, log.ledger.low());
        for (place, priority) in record.priorities() {
            log.priorities.note(first + place, priority);
        }
        for (place, bytes, due_ms) in record.delivery_times() {
            log.delayed.replay(first + place, due_ms, bytes.into());
        }
        for (place, body_bytes, expiry_ms) in record.times() {
            log.expiry.expires(first + place, expiry_ms, body_bytes);
        }
    }

    fn chunk(&mut self, log: LogId, first: u64, messages: u16, payload: &[u8]) {
        let count = u64::from(messages);
        // Its queue's declaration may come later, if that is damaged and has to be taken from its second copy.
        self.chunks.entry(log).or_insert((first, first + (count - 1)));
        let chunk = within_stored(payload)
            .and_then(|chunk| Ok((ChunkHeader::decode(chunk)?, chunk.len() as u64, chunk::writer(chunk)?)));
        match chunk {
            Ok((header, bytes, writer)) => {
                let at_ms = header.timestamp_ms.max(0) as u64;
                let log = self.logs.entry(log).or_default();
                log.ledger.accept(first, count, bytes);
                log.stream.replay(first, bytes, at_ms);
                if let Some(writer) = writer.filter(|_| !is_planted(Bug::ForgetSequences)) {
                    log.writers.apply(writer.name, writer.sequence, at_ms);
                }
            }
            Err(error) => self.fail(RecoveryError::ChunkHeader { log, first, error }),
        }
    }

    fn owned(&self, first: LogId, last: LogId) -> Vec<LogId> {
        let topology = self.model.topology();
        let logged = topology.vhosts().flat_map(|vhost| topology.queues(vhost)).filter(|queue| queue.is_logged());
        logged.map(|queue| LogId(queue.id.0)).filter(|log| (first..=last).contains(log)).collect()
    }

    fn wanted(&self, log: LogId, numbers: &RoaringTreemap) -> RoaringTreemap {
        if log == LogId::SHARED {
            return numbers & self.referred();
        }
        let Some(found) = self.logs.get(&log) else { return RoaringTreemap::new() };
        let elsewhere = found.references.numbers();
        let is_wanted = |number: &u64| found.ledger.is_live(*number) && !elsewhere.contains(*number);
        numbers.iter().filter(is_wanted).collect()
    }

    fn withdraw(&mut self, log: LogId, number: u64, payload: &[u8]) {
        if let Ok((_, body)) = stored::lengths(payload)
            && let Some(log) = self.logs.get_mut(&log)
        {
            log.ledger.settle(number, number, body as u64, Departure::Dropped);
            log.ids.withdraw(number);
            log.sequences.withdraw(number);
        }
    }

    fn withdraw_chunk(&mut self, log: LogId, first: u64, messages: u16, payload: &[u8]) {
        if let Some(log) = self.logs.get_mut(&log) {
            let bytes = within_stored(payload).map_or(0, |chunk| chunk.len() as u64);
            let last = first + (u64::from(messages) - 1);
            if log.ledger.settle(first, last, bytes, Departure::Dropped) > 0 {
                log.stream.withdraw(first, bytes);
            }
        }
    }

    fn settle(&mut self, log: LogId, reason: SettleReason, ranges: &[SettleRange]) {
        let outcome = match reason {
            SettleReason::Purged => Departure::Purged,
            SettleReason::Expired => Departure::Expired,
            SettleReason::Acknowledged => Departure::Settled,
            SettleReason::DeadLettered => Departure::DeadLettered,
            _ => Departure::Dropped,
        };
        let ledger = &mut self.logs.entry(log).or_default().ledger;
        for range in ranges {
            ledger.settle(range.first, range.last, range.bytes, outcome);
        }
    }

    fn control(&mut self, log: LogId, kind: u8, payload: &[u8]) {
        if log == LogId::METADATA && kind == CONTROL_MODEL_COMMAND {
            if let Err(error) = self.model.replay(payload) {
                self.fail(RecoveryError::Metadata(error.to_string()));
            }
        } else if log != LogId::METADATA && kind == CONTROL_DELIVERED_BELOW && payload.len() == 8 {
            let mut number = [0; 8];
            number.copy_from_slice(payload);
            self.logs.entry(log).or_default().delivered_below = u64::from_le_bytes(number);
        } else if log != LogId::METADATA
            && kind == CONTROL_ATTEMPTS
            && let Some(runs) = AttemptRun::decode(payload)
        {
            let attempts = &mut self.logs.entry(log).or_default().attempts;
            runs.iter().for_each(|run| attempts.replay(run));
        } else if log != LogId::METADATA
            && kind == CONTROL_PARKED
            && let Some(runs) = decode_parked(payload)
        {
            let parked = &mut self.logs.entry(log).or_default().parked;
            runs.iter().for_each(|run| parked.add(run));
        } else if log != LogId::METADATA
            && kind == CONTROL_DELAYED
            && let Some(runs) = DelayRun::decode(payload)
        {
            let delayed = &mut self.logs.entry(log).or_default().delayed;
            runs.iter().for_each(|run| delayed.add(run));
        } else if log != LogId::METADATA
            && kind == CONTROL_ANNOTATED
            && let Some(all) = Annotated::decode_all(payload)
        {
            let annotations = &mut self.logs.entry(log).or_default().annotations;
            all.into_iter().for_each(|annotated| annotations.replay(annotated));
        } else if log != LogId::METADATA
            && kind == CONTROL_DYING
            && let Some(runs) = DyingRun::decode(payload)
        {
            let dying = &mut self.logs.entry(log).or_default().dying;
            runs.iter().for_each(|run| dying.add(run));
        } else if log != LogId::METADATA
            && kind == CONTROL_OFFSETS
            && let Some(all) = KeptOffset::decode_all(payload)
        {
            let tracking = &mut self.logs.entry(log).or_default().tracking;
            all.into_iter().for_each(|kept| tracking.replay(kept));
        } else {
            self.fail(RecoveryError::UnknownControl { log, kind });
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_message::chunk::{ChunkBuilder, stored_head};
    use leveret_message::{BatchBuilder, Envelope};
    use leveret_model::{Arguments, Command, DeclareQueue, Permit};
    use leveret_queue::AttemptCounts;

    use super::*;
    use crate::records::encode_parked;

    const QUEUE: LogId = LogId(7);

    fn with_messages(count: u64) -> Recovered {
        let mut builder = BatchBuilder::default();
        builder.push(&Envelope { durable: true, ..Envelope::default() }, b"\0\0", b"body");
        let batch = builder.finish();
        let payload = batch.message(0).head.to_vec();
        let mut recovered = Recovered::default();
        (1..=count).for_each(|number| recovered.message(QUEUE, number, &payload));
        recovered
    }

    #[test]
    fn counts_of_deliveries_are_those_of_the_last_record() {
        let mut recovered = with_messages(3);
        let counted = |first, last, acquired, failed| {
            AttemptRun::encode(&[AttemptRun { first, last, counts: AttemptCounts { acquired, failed } }])
        };
        for payload in [counted(1, 3, 1, 1), counted(2, 2, 2, 1), counted(2, 2, 2, 1)] {
            recovered.control(QUEUE, CONTROL_ATTEMPTS, &payload);
        }
        recovered.settle(QUEUE, SettleReason::Acknowledged, &[SettleRange { first: 3, last: 3, bytes: 4 }]);
        recovered.check().expect("all is of this version");
        let attempts = recovered.take(QueueId(QUEUE.0), &[], false).attempts;
        let counts = [1, 2, 3].map(|number| attempts.of(number));
        assert_eq!(counts.map(|counts| (counts.acquired, counts.failed)), [(1, 1), (2, 1), (0, 0)]);
    }

    #[test]
    fn parked_messages_stay_parked_until_they_leave() {
        let mut recovered = with_messages(4);
        let run = |first, last, bytes| leveret_queue::Run { first, last, bytes, durable: true };
        recovered.control(QUEUE, CONTROL_PARKED, &encode_parked(&[run(1, 2, 8), run(4, 4, 4)]));
        recovered.settle(QUEUE, SettleReason::Dropped, &[SettleRange { first: 2, last: 2, bytes: 4 }]);
        recovered.check().expect("all is of this version");
        let parked = recovered.take(QueueId(QUEUE.0), &[], false).parked;
        assert_eq!((parked.numbers().collect::<Vec<_>>(), parked.bytes()), (vec![1, 4], 8));
    }

    #[test]
    fn a_message_is_delayed_until_the_time_of_its_last_record() {
        let mut recovered = with_messages(5);
        let delay = |first, last, due_ms| DelayRun::encode(&[DelayRun { first, last, due_ms, bytes: 4 }]);
        for payload in [delay(1, 3, 500), delay(2, 2, 900), delay(5, 5, 700)] {
            recovered.control(QUEUE, CONTROL_DELAYED, &payload);
        }
        recovered.settle(QUEUE, SettleReason::Dropped, &[SettleRange { first: 3, last: 3, bytes: 4 }]);
        let parked = leveret_queue::Run { first: 5, last: 5, bytes: 4, durable: true };
        recovered.control(QUEUE, CONTROL_PARKED, &encode_parked(&[parked]));
        recovered.check().expect("all is of this version");
        let delayed = recovered.take(QueueId(QUEUE.0), &[], false).delayed;
        assert_eq!(delayed.iter().collect::<Vec<_>>(), [(1, 500), (2, 900)]);
    }

    #[test]
    fn the_chunks_of_a_log_without_a_queue_are_left_to_its_deletion() {
        let mut recovered = Recovered::default();
        let chunk = ChunkBuilder::new(16).finish();
        let bytes = u64::from(chunk.chunk_bytes());
        let chunk = [&stored_head(&chunk)[..], chunk.rest()].concat();
        recovered.chunk(QUEUE, 0, 300, &chunk);
        recovered.chunk(QUEUE, 300, 4, &chunk);
        recovered.withdraw_chunk(QUEUE, 300, 4, &chunk);
        recovered.settle(QUEUE, SettleReason::Dropped, &[SettleRange { first: 0, last: 99, bytes: 0 }]);
        recovered.check().expect("its queue is deleted");
        let ledger = recovered.ledger(QUEUE).expect("it is known");
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
        recovered.chunk(LogId(id.0), 3, 4, b"chunk");
        recovered.withdraw_chunk(LogId(id.0), 3, 4, b"chunk");
        let error = recovered.check().expect_err("it has no chunks").to_string();
        let expected = "messages 3 to 6: they are stored as a chunk, but the queue has the type classic";
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_record_of_counts_that_is_cut_is_refused() {
        let mut recovered = with_messages(1);
        recovered.control(QUEUE, CONTROL_ATTEMPTS, &[0; 23]);
        let error = recovered.check().expect_err("it isn't whole");
        assert!(matches!(error, RecoveryError::UnknownControl { log: QUEUE, kind: CONTROL_ATTEMPTS }), "{error}");
    }
}
