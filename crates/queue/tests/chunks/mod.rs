//! Chunks of a stream as its log has them, and reads of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_amqp10::message::{Properties, write_data};
use leveret_message::chunk::ChunkBuilder;
use leveret_message::{Batch, BatchBuilder, Encoding, Envelope, StoredMessage};
use leveret_queue::Scan;
use leveret_selector::{Budget, Verdict};

/// A chunk of messages that were received at this time: the body of each, and its subject.
pub(crate) fn chunk<'a>(received_ms: u64, messages: impl Iterator<Item = (Vec<u8>, Option<&'a str>)>) -> Arc<Batch> {
    let mut builder = BatchBuilder::default();
    for (body, subject) in messages {
        let mut bare = Vec::new();
        Properties { subject, ..Properties::default() }.encode(&mut bare);
        write_data(&mut bare, &body);
        let envelope = Envelope { durable: true, received_ms, ..Envelope::default() };
        builder.push_message(&StoredMessage {
            encoding: Encoding::Amqp10,
            envelope,
            body: &bare,
            ..StoredMessage::default()
        });
    }
    let (batch, mut builder) = (builder.finish(), ChunkBuilder::new(16));
    builder.push_all(&batch, 0..batch.len()).expect("it is a small chunk");
    Arc::new(builder.finish().batch().expect("it was encoded a moment ago"))
}

/// Messages that a read has loaded, in runs with the number of the first one.
pub(crate) type Runs = Vec<(u64, Arc<Batch>)>;

/// The answer of a read from an offset on, which looks at no more than `most` chunks: the messages that a reader wants, the offset
/// up to which all were looked at, and the time for the next read.
pub(crate) fn read(
    chunks: &BTreeMap<u64, Arc<Batch>>,
    scan: &Scan,
    from: u64,
    most: usize,
    now_ms: u64,
) -> (Runs, u64, Option<u64>) {
    let holds_it = chunks.range(..=from).next_back().filter(|(first, batch)| *first + batch.len() as u64 > from);
    let begin = holds_it.map_or(from, |(first, _)| *first);
    let (mut runs, mut end, mut since_ms) = (Runs::new(), from, scan.since_ms);
    for (&first, batch) in chunks.range(begin..).take(most) {
        end = first + batch.len() as u64;
        if scan.is_gap(first) {
            continue;
        }
        if since_ms.is_some_and(|since_ms| batch.times(0).0 < since_ms) {
            continue;
        }
        since_ms = None;
        match &scan.filter {
            None => runs.push((first, batch.clone())),
            Some(filter) if !filter.may_match(batch.chunk_bloom()) => {}
            Some(filter) if !filter.looks_at_messages() => runs.push((first, batch.clone())),
            Some(filter) => {
                let budget = &mut Budget::new(u64::MAX);
                let mut is_match =
                    |at: usize| filter.messages.evaluate(batch, at, now_ms, budget) == Some(Verdict::Match);
                let matches: Vec<usize> = (0..batch.len()).filter(|at| is_match(*at)).collect();
                for run in matches.chunk_by(|one, next| one + 1 == *next) {
                    let mut builder = BatchBuilder::default();
                    run.iter().for_each(|at| builder.push_copy(&batch.message(*at)));
                    runs.push((first + run[0] as u64, Arc::new(builder.finish())));
                }
            }
        }
    }
    (runs, end, since_ms)
}
