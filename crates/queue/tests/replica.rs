//! A replica to which records are applied one by one, and its checkpoints.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_message::chunk::{ChunkBuilder, ChunkWriter, stored_head};
use leveret_message::{Added, Batch, BatchBuilder, BatchPart, ComparedBy, Envelope, Reason};
use leveret_model::{Deduplication, QueueOptions, QueueType};
use leveret_queue::shared::encode_reference;
use leveret_queue::{
    Annotated, AttemptCounts, AttemptRun, Checkpoint, Control, ControlError, DelayRun, Departure, DyingRun, Epoch,
    KeptOffset, MemoryBudget, Queue, QueueRecord, Replica, ReplicaError, Run, Surroundings,
};

const EPOCH_MS: u64 = 1_700_000_000_000;
const BODY: &[u8] = b"body";

/// A record with the bytes that a log would have.
enum Record {
    Message(u64, Vec<u8>),
    References(u64, u16, Vec<u8>),
    Chunk(u64, u16, Vec<u8>),
    Settled(u64, u64, Departure),
    Control(Control<'static>),
}

impl Record {
    /// A message of its own time, with a time to live, a priority or something that it is compared by.
    fn message(number: u64, expires: bool, priority: Option<u8>, by: Option<ComparedBy>) -> Self {
        Self::Message(number, batch(number..number + 1, expires, priority, by).message(0).head.to_vec())
    }

    fn plain(number: u64) -> Self {
        Self::message(number, false, None, None)
    }

    fn settled(first: u64, last: u64) -> Self {
        Self::Settled(first, last, Departure::Settled)
    }

    fn chunk(first: u64, messages: u16, writer: Option<ChunkWriter<'_>>) -> Self {
        let mut builder = ChunkBuilder::new(16);
        builder.note_time(EPOCH_MS + 1_000 * first);
        builder.push_entry(b"\0\0\0\x04data", messages).expect("it is small");
        let chunk = builder.finish_of(writer.as_ref());
        Self::Chunk(first, messages, [&stored_head(&chunk)[..], chunk.rest()].concat())
    }

    fn apply_to(&self, replica: &mut Replica) {
        let content;
        let record = match self {
            Self::Message(number, payload) => QueueRecord::Message { number: *number, payload },
            Self::References(first, messages, payload) => {
                QueueRecord::References { first: *first, messages: *messages, payload }
            }
            Self::Chunk(first, messages, payload) => QueueRecord::Chunk { first: *first, messages: *messages, payload },
            Self::Settled(first, last, departure) => {
                let bytes = (last - first + 1) * BODY.len() as u64;
                QueueRecord::Settled { first: *first, last: *last, bytes, departure: *departure }
            }
            Self::Control(control) => {
                content = control.encode();
                QueueRecord::Control { kind: control.kind(), payload: &content }
            }
        };
        replica.apply(record).expect("it is of this version");
    }
}

/// Messages that were received 20 ms apart.
fn batch(numbers: std::ops::Range<u64>, expires: bool, priority: Option<u8>, by: Option<ComparedBy>) -> Batch {
    let mut builder = BatchBuilder::default();
    for number in numbers {
        let received_ms = EPOCH_MS + 20 * number;
        let expiry_ms = if expires { received_ms + 60_000 } else { 0 };
        let envelope = Envelope { durable: true, priority, received_ms, expiry_ms, ..Envelope::default() };
        builder.push(&envelope, b"\0\0", BODY);
    }
    let batch = builder.finish();
    let Some(by) = by else { return batch };
    let mut compared = BatchBuilder::default();
    (0..batch.len()).for_each(|at| compared.push_compared(&batch.message(at), by, None));
    compared.finish()
}

fn run(first: u64, last: u64) -> Run {
    Run { first, last, bytes: (last - first + 1) * BODY.len() as u64, durable: true }
}

fn attempts(first: u64, last: u64, acquired: u32, failed: u32) -> Record {
    let counts = AttemptCounts { acquired, failed };
    Record::Control(Control::Attempts(Cow::Owned(vec![AttemptRun { first, last, counts }])))
}

fn delayed(first: u64, last: u64, due_ms: u64) -> Record {
    let bytes = run(first, last).bytes;
    Record::Control(Control::Delayed(Cow::Owned(vec![DelayRun { first, last, due_ms, bytes }])))
}

fn parked(first: u64, last: u64) -> Record {
    Record::Control(Control::Parked(Cow::Owned(vec![run(first, last)])))
}

fn references(first: u64, messages: u16, shared: u64) -> Record {
    let batch = Arc::new(batch(first..first + u64::from(messages), true, Some(3), None));
    Record::References(first, messages, encode_reference(BatchPart::of(&batch, 0, messages.into()), shared, true))
}

/// The records of a queue with time to live, of this type.
fn ledger_records() -> Vec<Record> {
    vec![
        Record::plain(1),
        Record::message(2, true, None, None),
        references(3, 3, 900),
        Record::settled(4, 4),
        Record::message(6, true, Some(9), None),
        Record::plain(9),
        Record::Settled(6, 6, Departure::Expired),
        references(10, 2, 903),
        Record::settled(10, 10),
        Record::message(12, true, Some(2), None),
        Record::settled(1, 1),
    ]
}

fn quorum_records() -> Vec<Record> {
    let annotation = [0xd1, 0, 0, 0, 9, 0, 0, 0, 2, 0xa3, 1, b'a', 0x54, 7];
    let added = Arc::new(Added::from_bytes(&annotation).expect("it is a map"));
    let annotated = |number| Annotated { number, added: added.clone() };
    let dying = DyingRun { first: 7, last: 8, bytes: 8, reason: Reason::Rejected };
    let mut records: Vec<_> =
        (1..=9).map(|number| Record::message(number, number == 3, Some(number as u8), None)).collect();
    records.extend([
        attempts(1, 3, 1, 1),
        delayed(2, 4, EPOCH_MS + 5_000),
        Record::Control(Control::Annotated(Cow::Owned(vec![annotated(2), annotated(9)]))),
        attempts(2, 2, 2, 1),
        parked(4, 5),
        Record::Control(Control::Dying(Cow::Owned(vec![dying]))),
        delayed(3, 3, EPOCH_MS + 7_000),
        Record::settled(3, 3),
        Record::Settled(8, 9, Departure::DeadLettered),
        Record::message(10, false, None, None),
        Record::Settled(5, 5, Departure::Purged),
        Record::settled(1, 1),
    ]);
    records
}

/// Messages that are compared by these; the last ones have left.
fn compared_records(by: impl Fn(u64) -> ComparedBy) -> Vec<Record> {
    let mut records: Vec<_> = (1..=6).map(|number| Record::message(number, false, None, Some(by(number)))).collect();
    records.insert(4, Record::settled(2, 4));
    records.extend([Record::settled(5, 6), Record::settled(1, 1)]);
    records
}

fn stream_records() -> Vec<Record> {
    let writer = |sequence| Some(ChunkWriter { name: "w", sequence });
    let kept = |name: &str, offset| KeptOffset { name: name.into(), offset };
    vec![
        Record::chunk(0, 3, writer(3)),
        Record::chunk(3, 40, None),
        Record::Control(Control::Offsets(Cow::Owned(vec![kept("a", 2), kept("b", 3)]))),
        Record::chunk(43, 1, writer(9)),
        Record::Settled(0, 2, Departure::Dropped),
        Record::Control(Control::Offsets(Cow::Owned(vec![kept("a", 40)]))),
        Record::chunk(44, 7, writer(11)),
    ]
}

/// Every type of queue with its records.
fn all_types() -> Vec<(&'static str, QueueOptions, Vec<Record>)> {
    let classic = QueueOptions { message_ttl_ms: Some(60_000), ..QueueOptions::default() };
    let of_type = |queue_type| QueueOptions { queue_type, ..QueueOptions::default() };
    let deduplication = Arc::new(Deduplication { size: 4, ttl_ms: None, header: "h".into() });
    let by_id = |number: u64| ComparedBy { id: u128::from(number % 4), sequence: None };
    let by_publisher = |number: u64| ComparedBy { id: u128::from(number % 2), sequence: Some(10 * number) };
    let until = (1..4).map(|number| delayed(number, number, EPOCH_MS + 9_000 - number));
    let releasing = (1..=4).map(Record::plain).chain(until).chain([Record::settled(2, 2), Record::settled(1, 1)]);
    vec![
        ("classic", classic.clone(), ledger_records()),
        ("classic with priorities", QueueOptions { max_priority: Some(5), ..classic }, ledger_records()),
        ("quorum", of_type(QueueType::Quorum), quorum_records()),
        (
            "classic that drops duplicates",
            QueueOptions { deduplication: Some(deduplication), ..QueueOptions::default() },
            compared_records(by_id),
        ),
        (
            "classic that drops what publishers repeat",
            QueueOptions { numbers_publishers: true, ..QueueOptions::default() },
            compared_records(by_publisher),
        ),
        ("of a delayed exchange", QueueOptions { releases: true, ..of_type(QueueType::Quorum) }, releasing.collect()),
        (
            "of a recent history exchange",
            QueueOptions { remembers: true, ..of_type(QueueType::Quorum) },
            ledger_records(),
        ),
        ("stream", of_type(QueueType::Stream), stream_records()),
    ]
}

fn replica_of(records: &[Record], mut replica: Replica) -> Replica {
    records.iter().for_each(|record| record.apply_to(&mut replica));
    replica
}

fn parts_of(checkpoint: Checkpoint) -> (u64, Vec<u64>, u64, Vec<u64>, Vec<u8>) {
    let Checkpoint { next, live, bytes, elsewhere, state } = checkpoint;
    (next, live.iter().collect(), bytes, elsewhere.iter().collect(), state)
}

/// The checkpoint of a machine that begins with this replica.
fn opened(options: &QueueOptions, mut replica: Replica) -> (u64, Vec<u64>, u64, Vec<u64>, Vec<u8>) {
    replica.check_type(options.queue_type).expect("it has no records of another type");
    replica.end_replay(&[], false);
    let budget = Arc::new(MemoryBudget::new(0));
    let surroundings =
        Surroundings { budget, epoch: Epoch::new(EPOCH_MS), strict_compat: false, standing_delay_target: 0 };
    parts_of(Queue::new(options.clone(), true, replica, surroundings, 0).checkpoint())
}

#[test]
fn a_replica_from_a_checkpoint_in_between_is_the_same() {
    for (name, options, records) in all_types() {
        let whole = parts_of(replica_of(&records, Replica::none(0)).checkpoint());
        let machine = opened(&options, replica_of(&records, Replica::none(0)));
        for at in 0..=records.len() {
            let (earlier, later) = records.split_at(at);
            let checkpoint = replica_of(earlier, Replica::none(0)).checkpoint();
            let again = || replica_of(later, Replica::restore(&checkpoint).expect("it was just written"));
            assert_eq!(parts_of(again().checkpoint()), whole, "{name}, checkpoint after {at} records");
            assert_eq!(opened(&options, again()), machine, "{name}, machine, checkpoint after {at} records");
        }
    }
}

#[test]
fn records_that_a_checkpoint_has_already_change_nothing() {
    // Controls and departures that lie before a checkpoint in the same file are replayed again.
    for (name, _, records) in all_types() {
        let mut replica = replica_of(&records, Replica::none(0));
        let once = parts_of(replica.checkpoint());
        let departures = records.iter().filter(|record| matches!(record, Record::Settled(..)));
        departures.for_each(|record| record.apply_to(&mut replica));
        assert_eq!(parts_of(replica.checkpoint()), once, "{name}");
    }
}

#[test]
fn a_machine_has_the_messages_of_its_replica() {
    let mut replica = replica_of(&quorum_records(), Replica::none(0));
    let options = QueueOptions { queue_type: QueueType::Quorum, ..QueueOptions::default() };
    let expected = parts_of(replica.checkpoint());
    // Of priorities and times it keeps those that its type and its arguments give a meaning.
    let (next, live, bytes, elsewhere, _) = opened(&options, replica);
    assert_eq!((next, live, bytes, elsewhere), (expected.0, expected.1, expected.2, expected.3));
}

#[test]
fn a_control_record_of_an_unknown_kind_is_refused() {
    let unknown = Control::KINDS.iter().max().expect("there are kinds") + 1;
    for kind in [0, unknown, 255] {
        let error = Replica::default().apply(QueueRecord::Control { kind, payload: &[] }).expect_err("it is unknown");
        assert_eq!(error, ReplicaError::Control(ControlError::Unknown(kind)));
        let expected = format!("unknown kind {kind}; was this directory written by a newer version?");
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}

#[test]
fn a_control_record_that_is_cut_is_refused() {
    let mut seen = Vec::new();
    let controls = all_types().into_iter().flat_map(|(.., records)| records).filter_map(|record| match record {
        Record::Control(control) => Some(control),
        _ => None,
    });
    for control in controls.chain([
        Control::DeliveredBelow(Cow::Owned(5)),
        Control::Mark(Cow::Owned(6)),
        Control::Active(Cow::Owned(7)),
    ]) {
        let (kind, payload) = (control.kind(), control.encode());
        assert_eq!(Control::decode(kind, &payload), Ok(control), "kind {kind}");
        let cut = QueueRecord::Control { kind, payload: &payload[..payload.len() - 1] };
        let error = Replica::default().apply(cut).expect_err("it isn't whole").to_string();
        let expected =
            format!("its {} bytes can't be read; was this directory written by a newer version?", payload.len() - 1);
        assert!(error.contains(&expected) && error.contains(&format!("of kind {kind} (")), "{error}");
        seen.push(kind);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, Control::KINDS, "every kind is tried");
}

#[test]
fn a_state_of_an_unknown_version_is_refused() {
    let checkpoint = Checkpoint { state: vec![77], ..Replica::none(4).checkpoint() };
    let error = Replica::restore(&checkpoint).expect_err("it is of no version").to_string();
    assert!(error.contains("unknown version 77"), "{error}");
}

#[test]
fn chunks_of_a_queue_that_is_no_stream_are_refused() {
    let mut replica = Replica::default();
    let broken = QueueRecord::Chunk { first: 3, messages: 4, payload: b"chunk" };
    assert!(matches!(replica.apply(broken), Err(ReplicaError::Chunk { first: 3, .. })));
    replica.withdraw_chunk(3, 4, b"chunk");
    assert_eq!(replica.check_type(QueueType::Stream), Ok(()));
    let error = replica.check_type(QueueType::Classic).expect_err("it has no chunks").to_string();
    let expected = "messages 3 to 6: they are stored as a chunk, but the queue has the type classic";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn counts_of_deliveries_are_those_of_the_last_record() {
    let messages = (1..=3).map(Record::plain);
    let counts = [attempts(1, 3, 1, 1), attempts(2, 2, 2, 1), attempts(2, 2, 2, 1), Record::settled(3, 3)];
    let mut replica = replica_of(&messages.chain(counts).collect::<Vec<_>>(), Replica::none(1));
    replica.end_replay(&[], false);
    let counts = [1, 2, 3].map(|number| replica.parts.attempts.of(number));
    assert_eq!(counts.map(|counts| (counts.acquired, counts.failed)), [(1, 1), (2, 1), (0, 0)]);
}

#[test]
fn parked_messages_stay_parked_until_they_leave() {
    let messages = (1..=4).map(Record::plain);
    let left = Record::Settled(2, 2, Departure::Dropped);
    let mut replica =
        replica_of(&messages.chain([parked(1, 2), parked(4, 4), left]).collect::<Vec<_>>(), Replica::none(1));
    replica.end_replay(&[], false);
    let parked = &replica.parts.parked;
    assert_eq!((parked.numbers().collect::<Vec<_>>(), parked.bytes()), (vec![1, 4], 8));
}

#[test]
fn a_message_is_delayed_until_the_time_of_its_last_record() {
    let messages = (1..=5).map(Record::plain);
    let times = [delayed(1, 3, 500), delayed(2, 2, 900), delayed(5, 5, 700), Record::settled(3, 3), parked(5, 5)];
    let mut replica = replica_of(&messages.chain(times).collect::<Vec<_>>(), Replica::none(1));
    replica.end_replay(&[], false);
    assert_eq!(replica.parts.delayed.iter().collect::<Vec<_>>(), [(1, 500), (2, 900)]);
}

#[test]
fn a_clean_stop_says_what_may_have_been_delivered() {
    let below = |number| Record::Control(Control::DeliveredBelow(Cow::Owned(number)));
    for (said, clean, expected) in [(3, true, 3), (3, false, 5), (9, true, 5)] {
        let records: Vec<_> = (1..=4).map(Record::plain).chain([below(said)]).collect();
        let mut replica = replica_of(&records, Replica::none(1));
        replica.end_replay(&[], clean);
        assert_eq!(replica.delivered_below, expected, "{said}, {clean}");
    }
}

#[test]
fn messages_of_a_group_that_is_withdrawn_leave_no_trace() {
    let by = Some(ComparedBy { id: 7, sequence: None });
    let mut replica = replica_of(&[Record::plain(1), Record::message(2, false, None, by)], Replica::none(1));
    let Record::Message(number, payload) = Record::message(2, false, None, by) else { unreachable!("it is a message") };
    replica.withdraw_message(number, &payload);
    assert_eq!((replica.ledger.len(), replica.ledger.next(), replica.ledger.bytes()), (1, 3, 4));
    assert!(replica.parts.repeats.ids.is_empty());
}
