//! Consumers of another node, and messages on their way to them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;
use leveret_broker::Broker;
use leveret_broker::bodies::{Pieces, WholeBody};
use leveret_broker::outbox::Outbox;
use leveret_broker::output::Output;
use leveret_broker::queue_handle::{QueueKey, QueueRef, StreamQueueRef};
use leveret_broker::remote::{HeldRuns, WINDOW_BYTES, WINDOW_MESSAGES};
use leveret_broker::time::Nanos;
use leveret_message::chunk::Joined;
use leveret_model::QueueId;
use leveret_queue::{
    ConsumerId, ConsumerMode, ConsumerOptions, Flow, HeldSet, Portion, Run, Taken, TakenChunk, TurnEnd,
};
use rustc_hash::FxHashMap;

use crate::replies::{encode_deliver, encode_deliver_chunk};

/// Messages and bytes that a consumer's inbox takes before it says that it has room again.
const WINDOW: (u32, u64) = (WINDOW_MESSAGES, WINDOW_BYTES);

/// A consumer.
pub(super) struct RemoteConsumer {
    pub id: ConsumerId,
    pub queue: QueueRef,
    /// The same, if it is a stream that whole chunks are taken from.
    stream: Option<StreamQueueRef>,
    mode: ConsumerMode,
    /// Room of its inbox.
    window: (u32, u64),
    /// Whether the queue was told that there is none.
    is_blocked: bool,
    /// Its next message, whose body is being read.
    reading: Option<Reading>,
}

/// A message whose body is in a file.
pub(super) struct Reading {
    pub taken: Taken,
    pub whole: WholeBody,
}

impl Reading {
    /// Begins to read the body of the last of these messages.
    pub(super) fn new(taken: Taken, queue: &QueueRef, broker: &Broker, outbox: &Arc<Outbox>) -> Self {
        let last = taken.batch.message((taken.index + taken.count - 1) as usize);
        let file = last.file.expect("the body of the last one is in a file").clone();
        let whole = Pieces::new(&file, &broker.bodies, queue.body_owner(), outbox).whole();
        Self { taken, whole }
    }
}

/// Messages and chunks while they are sent; empty in between, so that the memory is used again.
#[derive(Default)]
pub(super) struct TakenBuffers {
    messages: Vec<Taken>,
    chunks: Vec<TakenChunk>,
}

/// All consumers of a link.
#[derive(Default)]
pub(super) struct Consumers {
    by_key: FxHashMap<u64, RemoteConsumer>,
    keys: FxHashMap<ConsumerId, u64>,
    last_key: u64,
    /// Consumers whose queues have messages for them.
    scheduled: VecDeque<u64>,
    /// Messages that are held, by queue and consumer; those of gets by none.
    held: HeldByAll,
}

/// The messages that are held, by queue and consumer.
type HeldByAll = FxHashMap<(QueueId, Option<ConsumerId>), (QueueRef, HeldSet)>;

fn hold(held: &mut HeldByAll, queue: &QueueRef, consumer: Option<ConsumerId>, runs: Vec<Run>) {
    let key = (queue.info().id, consumer);
    let (of, set) = held.entry(key).or_insert_with(|| (queue.clone(), HeldSet::default()));
    if !of.is_same(queue) {
        // The machine of an earlier leadership handed these out.
        (*of, *set) = (queue.clone(), HeldSet::default());
    }
    set.add(runs);
}

impl Consumers {
    /// The key of the next consumer.
    pub(super) fn next_key(&mut self) -> u64 {
        self.last_key += 1;
        self.last_key
    }

    pub(super) fn add(&mut self, id: ConsumerId, queue: QueueRef, options: &ConsumerOptions) {
        let (key, mode) = (options.key, options.mode);
        let takes_chunks = options.stream.as_ref().is_some_and(|stream| stream.whole_chunks);
        let stream = queue.as_stream().filter(|_| takes_chunks);
        let consumer = RemoteConsumer { id, queue, stream, mode, window: WINDOW, is_blocked: false, reading: None };
        // One of an earlier leadership of this node.
        let _ = self.remove(id);
        self.by_key.insert(key, consumer);
        self.keys.insert(id, key);
    }

    /// The consumer with a key.
    pub(super) fn id_of(&self, key: u64) -> Option<ConsumerId> {
        self.by_key.get(&key).map(|consumer| consumer.id)
    }

    /// Whether this queue, in its present leadership, has the consumer.
    pub(super) fn is_known(&self, id: ConsumerId, queue: &QueueRef) -> bool {
        let consumer = self.keys.get(&id).and_then(|key| self.by_key.get(key));
        consumer.is_some_and(|consumer| consumer.queue.is_same(queue))
    }

    /// A consumer is gone. What it holds stays with it until it is settled.
    pub(super) fn remove(&mut self, id: ConsumerId) -> Option<RemoteConsumer> {
        self.by_key.remove(&self.keys.remove(&id)?)
    }

    /// A consumer is gone from a queue that isn't here any more.
    pub(super) fn forget(&mut self, queue: QueueId, id: ConsumerId) {
        let _ = self.remove(id);
        self.held.remove(&(queue, Some(id)));
    }

    /// Messages that the consumer held and doesn't any more: those of these runs that it had.
    pub(super) fn settled(&mut self, queue: &QueueRef, consumer: Option<ConsumerId>, runs: &[Run]) -> Vec<Run> {
        let key = (queue.info().id, consumer);
        let Some((of, held)) = self.held.get_mut(&key) else { return Vec::new() };
        if !of.is_same(queue) {
            self.held.remove(&key);
            return Vec::new();
        }
        let removed = held.remove(runs);
        if held.is_empty() && consumer.is_none_or(|id| !self.keys.contains_key(&id)) {
            self.held.remove(&key);
        }
        removed
    }

    /// The same of several consumers of a queue, without those that held nothing of it.
    pub(super) fn all_settled(&mut self, queue: &QueueRef, held: HeldRuns) -> HeldRuns {
        let settled = |(consumer, runs): (Option<ConsumerId>, Vec<Run>)| {
            let runs = self.settled(queue, consumer, &runs);
            (!runs.is_empty()).then_some((consumer, runs))
        };
        held.into_iter().filter_map(settled).collect()
    }

    pub(super) fn hold(&mut self, queue: &QueueRef, consumer: Option<ConsumerId>, runs: Vec<Run>) {
        hold(&mut self.held, queue, consumer, runs);
    }

    /// All that a consumer holds.
    pub(super) fn all_of(&mut self, queue: &QueueRef, consumer: Option<ConsumerId>) -> Vec<Run> {
        let held = self.held.remove(&(queue.info().id, consumer));
        held.filter(|(of, _)| of.is_same(queue)).map_or_else(Vec::new, |(_, mut held)| held.take_all())
    }

    /// The consumers, and all that they and others hold, by queue.
    pub(super) fn take_all(&mut self) -> (Vec<RemoteConsumer>, Vec<(QueueRef, HeldRuns)>) {
        self.keys.clear();
        let consumers = self.by_key.drain().map(|(_, consumer)| consumer).collect();
        // Not by its id: a machine of an earlier leadership handed out others than the one that has the queue now.
        let mut by_queue: FxHashMap<QueueKey, (QueueRef, HeldRuns)> = FxHashMap::default();
        for ((_, consumer), (queue, mut held)) in self.held.drain() {
            let (_, of_queue) = by_queue.entry(queue.key()).or_insert_with(|| (queue, Vec::new()));
            of_queue.push((consumer, held.take_all()));
        }
        (consumers, by_queue.into_values().collect())
    }

    pub(super) fn scheduled(&mut self, key: u64) {
        self.scheduled.push_back(key);
    }

    pub(super) fn next_scheduled(&mut self) -> Option<u64> {
        self.scheduled.pop_front()
    }

    pub(super) fn has_scheduled(&self) -> bool {
        !self.scheduled.is_empty()
    }

    /// An inbox has room again.
    pub(super) fn give_room(&mut self, id: ConsumerId, messages: u32, bytes: u64, now: Nanos) {
        let Some(consumer) = self.keys.get(&id).and_then(|key| self.by_key.get_mut(key)) else { return };
        consumer.window.0 = consumer.window.0.saturating_add(messages).min(WINDOW.0);
        consumer.window.1 = consumer.window.1.saturating_add(bytes).min(WINDOW.1);
        consumer.unblock(now);
    }

    /// Hands out messages to a scheduled consumer. Returns whether it is to be asked again.
    pub(super) fn serve(
        &mut self,
        key: u64,
        (broker, outbox): (&Broker, &Arc<Outbox>),
        output: &mut Output,
        buffers: &mut TakenBuffers,
        now: Nanos,
    ) -> bool {
        let Some(consumer) = self.by_key.get_mut(&key) else { return false };
        if consumer.window.0 == 0 || consumer.window.1 == 0 || consumer.reading.is_some() {
            consumer.is_blocked = true;
            consumer.queue.flow(consumer.id, Flow::Window(false), now);
            return false;
        }
        if let Some(stream) = &consumer.stream {
            let turn = stream.take_chunks(consumer.id, consumer.window.1, now, &mut buffers.chunks);
            for taken in buffers.chunks.chunk_by(|_, next| next.joins) {
                let bytes = send_chunk(output.buffer(), consumer.id, taken, turn.committed);
                consumer.window.0 = consumer.window.0.saturating_sub(1);
                consumer.window.1 = consumer.window.1.saturating_sub(bytes);
            }
            buffers.chunks.clear();
            return turn.end == TurnEnd::More;
        }
        let buffer = &mut buffers.messages;
        let most = Portion { messages: consumer.window.0, bytes: consumer.window.1 };
        let end = consumer.queue.take(consumer.id, most, now, buffer);
        for taken in buffer.drain(..) {
            let bytes = taken.batch.body_bytes(taken.index as usize, taken.count as usize);
            consumer.window.0 = consumer.window.0.saturating_sub(taken.count);
            consumer.window.1 = consumer.window.1.saturating_sub(bytes);
            if consumer.mode == ConsumerMode::Move {
                hold(&mut self.held, &consumer.queue, Some(consumer.id), taken.runs());
            }
            if taken.ends_in_file() {
                consumer.reading = Some(Reading::new(taken, &consumer.queue, broker, outbox));
            } else {
                let to = (consumer.queue.info().id, consumer.id);
                encode_deliver(output.buffer(), to, &taken, None);
            }
        }
        end == TurnEnd::More
    }

    /// Sends messages whose bodies have been read.
    pub(super) fn look_at_reads(&mut self, output: &mut Output, now: Nanos) {
        for consumer in self.by_key.values_mut() {
            let Some(reading) = &mut consumer.reading else { continue };
            match reading.whole.look() {
                None => continue,
                Some(Ok(body)) => {
                    let to = (consumer.queue.info().id, consumer.id);
                    encode_deliver(output.buffer(), to, &reading.taken, Some(body));
                }
                // Its queue has failed by that, which its consumers are told.
                Some(Err(_)) => {}
            }
            consumer.reading = None;
            consumer.unblock(now);
        }
    }
}

/// Sends chunks that are one for their reader. Returns its length.
fn send_chunk(to: &mut Vec<u8>, id: ConsumerId, taken: &[TakenChunk], committed: u64) -> u64 {
    let [TakenChunk { first, chunk, .. }, rest @ ..] = taken else { return 0 };
    if rest.is_empty() {
        encode_deliver_chunk(to, id, (*first, chunk), committed);
        return chunk.chunk_bytes();
    }
    let mut joined = Joined::new(*first, chunk).expect("others were joined to it");
    for TakenChunk { first, chunk, .. } in rest {
        assert!(joined.join(*first, chunk), "it was joined when it was taken");
    }
    let mut entries = BytesMut::new();
    taken.iter().for_each(|taken| entries.extend_from_slice(taken.chunk.entries()));
    let chunk = joined.chunk(entries.freeze());
    encode_deliver_chunk(to, id, (*first, &chunk), committed);
    chunk.chunk_bytes()
}

impl RemoteConsumer {
    fn unblock(&mut self, now: Nanos) {
        let has_room = self.window.0 > 0 && self.window.1 > 0 && self.reading.is_none();
        if has_room && std::mem::take(&mut self.is_blocked) {
            self.queue.flow(self.id, Flow::Window(true), now);
        }
    }
}
