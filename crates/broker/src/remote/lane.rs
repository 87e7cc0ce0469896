//! The way of one core to the queues of one other node.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use leveret_message::BatchPart;
use leveret_message::chunk::SharedChunk;
use leveret_model::QueueId;
use leveret_queue::{
    ChunkTurn, ConsumerId, ConsumerOptions, Flow, Link, Place, Portion, PublishingIds, Run, Signal, Taken, TakenChunk,
    TurnEnd,
};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::call::{CallKind, HomeAnswer, HomeQuestion, LaneCall};
use super::inbox::{Inbox, RemoteSignal};
use super::writer::LaneWriter;
use crate::asked::{NowOrLater, later_or};
use crate::outbox::Wake;
use crate::publish_origin::PublishOrigin;
use crate::published::{Acceptance, Fate, NotTaken, Published};
use crate::settlement::Settlement;
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::wait_for::WaitFor;

type WhenAnswered = Box<dyn FnOnce(HomeAnswer) + Send>;

/// The calls of one core on queues of one other node.
pub struct Lane {
    writer: Arc<LaneWriter>,
    /// The link's session.
    wake: Arc<dyn Wake>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the link has ended.
    is_over: bool,
    /// Calls that aren't sent.
    waiting: VecDeque<LaneCall>,
    /// The calls with a number that aren't carried out, the oldest first.
    open: VecDeque<Open>,
    /// Number of calls that are carried out.
    done: u64,
    asked: FxHashMap<u64, WhenAnswered>,
    last_question: u64,
    last_group: u64,
    consumers: FxHashMap<ConsumerId, Arc<Inbox>>,
    /// Links that are told when it ends, by their keys.
    watchers: FxHashMap<u64, Arc<dyn Link>>,
}

struct Open {
    fate: Weak<Fate>,
    bytes: u64,
}

impl State {
    /// Adds a call. True if the session has to be woken for it.
    fn push(&mut self, call: LaneCall) -> bool {
        self.waiting.push_back(call);
        self.waiting.len() == 1
    }
}

impl Lane {
    pub(super) fn new(stream: StreamId, wake: Arc<dyn Wake>) -> Arc<Self> {
        Arc::new(Self { writer: Arc::new(LaneWriter::new(stream)), wake, state: Mutex::default() })
    }

    pub(crate) fn writer(&self) -> &Arc<LaneWriter> {
        &self.writer
    }

    /// The id of its commit stream, which no other lane has.
    pub(crate) fn stream_id(&self) -> StreamId {
        self.writer.stream_id()
    }

    /// Makes a call without an answer. Nothing happens if the link has ended.
    pub(crate) fn call(&self, queue: QueueId, what: CallKind) {
        let wakes = {
            let mut state = self.state.lock();
            !state.is_over && state.push(LaneCall { queue, number: None, what })
        };
        if wakes {
            self.wake.wake();
        }
    }

    /// Makes a call whose end is waited for. `None` if the link has ended.
    pub(crate) fn call_and_wait(&self, queue: QueueId, what: CallKind) -> Option<Ticket> {
        self.number(queue, what, 0, Weak::new())
    }

    fn number(&self, queue: QueueId, what: CallKind, bytes: u64, fate: Weak<Fate>) -> Option<Ticket> {
        let (ticket, wakes) = {
            let mut state = self.state.lock();
            if state.is_over {
                return None;
            }
            let ticket = self.writer.begin(bytes);
            state.open.push_back(Open { fate, bytes });
            let number = Some(ticket.place().number());
            (ticket, state.push(LaneCall { queue, number, what }))
        };
        if wakes {
            self.wake.wake();
        }
        Some(ticket)
    }

    /// Offers messages, as part of a group if there is one. `None` if the link has ended.
    pub(crate) fn publish(
        &self,
        queue: QueueId,
        part: BatchPart<'_>,
        persistent: bool,
        group: Option<u64>,
        origin: Option<PublishOrigin>,
    ) -> Option<Published> {
        let bytes = part.indexes().map(|at| u64::from(part.batch.body_length(at as usize))).sum();
        let (batch, index, count) = (part.batch.clone(), part.index, part.count);
        self.offer(queue, CallKind::Publish { batch, index, count, persistent, group, origin }, bytes)
    }

    /// Offers a chunk. `None` if the link has ended.
    pub(crate) fn publish_chunk(
        &self,
        queue: QueueId,
        chunk: &Arc<SharedChunk>,
        numbered: Option<(&str, &PublishingIds)>,
    ) -> Option<Published> {
        let numbered = numbered.map(|(name, numbers)| (name.into(), numbers.clone()));
        let what = CallKind::PublishChunk { chunk: chunk.clone(), numbered };
        self.offer(queue, what, chunk.chunk_bytes())
    }

    fn offer(&self, queue: QueueId, what: CallKind, bytes: u64) -> Option<Published> {
        let fate = Arc::new(Fate::default());
        let ticket = self.number(queue, what, bytes, Arc::downgrade(&fate))?;
        Some(Published {
            acceptance: Acceptance::Later(fate),
            awaited: Awaited::durable(ticket),
            is_behind: false,
            is_gone: false,
            slot: Default::default(),
        })
    }

    /// The place of the last call whose end is waited for.
    pub(crate) fn appended(&self) -> Ticket {
        self.writer.last()
    }

    /// A new group.
    pub(crate) fn begin_group(&self) -> u64 {
        let mut state = self.state.lock();
        state.last_group += 1;
        state.last_group
    }

    /// All of a group has been said. Returns the condition of its answer, which is never reached if the link has ended.
    pub(crate) fn commit(&self, group: u64) -> (Ticket, WaitFor) {
        let fate = Arc::new(Fate::default());
        // No queue: a group has several.
        let committed = self.number(QueueId(0), CallKind::Commit(group), 0, Arc::downgrade(&fate));
        let ticket = committed.unwrap_or_else(|| Ticket::new(self.writer.stream_id(), Place::new(u64::MAX)));
        (ticket, WaitFor::group(ticket.into(), fate))
    }

    /// Rejects messages, and calls `is_over` with the answer, unless the link ends before. True says that they have left the queue for good.
    pub(crate) fn reject(
        &self,
        queue: QueueId,
        (consumer, runs, failed): (Option<ConsumerId>, Vec<Run>, bool),
        is_over: impl FnOnce(bool) + Send + 'static,
    ) {
        let of = |answer| match answer {
            HomeAnswer::Carried(is_done) => Some(is_done),
            _ => None,
        };
        self.ask(queue, HomeQuestion::Reject { consumer, runs, failed }, || false, of).then(is_over);
    }

    /// Asks the home of a queue. `gone` is the answer if the link has ended, or ends before it is there.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        queue: QueueId,
        question: HomeQuestion,
        gone: fn() -> T,
        of: impl FnOnce(HomeAnswer) -> Option<T> + Send + 'static,
    ) -> NowOrLater<T> {
        let (place, later) = later_or(gone);
        let wakes = {
            let mut state = self.state.lock();
            if state.is_over {
                drop(state);
                return NowOrLater::Now(gone());
            }
            state.last_question += 1;
            let number = state.last_question;
            let answer = move |answer| {
                // Another answer is none: the place then says that nobody is there.
                if let Some(answer) = of(answer) {
                    place.answer(answer);
                }
            };
            state.asked.insert(number, Box::new(answer));
            state.push(LaneCall { queue, number: None, what: CallKind::Ask(number, question) })
        };
        if wakes {
            self.wake.wake();
        }
        NowOrLater::Later(later)
    }
}

/// Consumers.
impl Lane {
    /// A consumer is about to be added.
    /// `outlives` says that it is added on another lane when this one ends, so that it needn't know.
    pub(crate) fn add(&self, queue: QueueId, id: ConsumerId, options: &ConsumerOptions, outlives: bool) -> Arc<Inbox> {
        let link = (options.link.clone(), options.key);
        let inbox = Arc::new(Inbox::new(queue, link, options.automatic_ack, outlives));
        self.state.lock().consumers.insert(id, inbox.clone());
        inbox
    }

    /// A consumer leaves. Returns what had come for it and was never sent.
    pub(crate) fn remove(&self, id: ConsumerId) -> Vec<Run> {
        let inbox = self.state.lock().consumers.remove(&id);
        inbox.map_or_else(Vec::new, |inbox| inbox.unsent())
    }

    /// A consumer wasn't added, unless it was added anew since.
    pub(crate) fn remove_inbox(&self, id: ConsumerId, inbox: &Arc<Inbox>) {
        let mut state = self.state.lock();
        if state.consumers.get(&id).is_some_and(|known| Arc::ptr_eq(known, inbox)) {
            state.consumers.remove(&id);
        }
    }

    pub(crate) fn inbox(&self, id: ConsumerId) -> Option<Arc<Inbox>> {
        self.state.lock().consumers.get(&id).cloned()
    }

    /// See [`crate::queue_handle::QueueRef::take`].
    pub(crate) fn take(&self, id: ConsumerId, most: Portion, out: &mut Vec<Taken>) -> TurnEnd {
        let Some(inbox) = self.inbox(id) else { return TurnEnd::Done };
        let before = out.len();
        let taken = inbox.take(most, out);
        if inbox.settles_itself && out.len() > before {
            let runs = out[before..].iter().flat_map(Taken::runs).collect();
            self.call(inbox.queue, CallKind::Acknowledge(vec![(Some(id), runs)]));
        }
        if let Some((messages, bytes)) = taken.freed {
            self.call(inbox.queue, CallKind::Window { id, messages, bytes });
        }
        taken.end
    }

    /// See [`crate::queue_handle::StreamQueueRef::take_chunks`].
    pub(crate) fn take_chunks(&self, id: ConsumerId, bytes: u64, out: &mut Vec<TakenChunk>) -> ChunkTurn {
        let Some(inbox) = self.inbox(id) else { return ChunkTurn { end: TurnEnd::Done, committed: 0 } };
        let (turn, freed) = inbox.take_chunks(bytes, out);
        if let Some((messages, bytes)) = freed {
            self.call(inbox.queue, CallKind::Window { id, messages, bytes });
        }
        turn
    }

    /// Registers `link` to be signalled when the lane ends. False if it has.
    pub(crate) fn watch(&self, key: u64, link: &Arc<dyn Link>) -> bool {
        let mut state = self.state.lock();
        if !state.is_over {
            state.watchers.insert(key, link.clone());
        }
        !state.is_over
    }

    pub(crate) fn unwatch(&self, key: u64) {
        self.state.lock().watchers.remove(&key);
    }

    /// Changes the flow of a consumer in a way that has no answer.
    pub(crate) fn flow(&self, queue: QueueId, id: ConsumerId, flow: Flow) {
        match flow {
            Flow::Overdue(overdue) => self.call(queue, CallKind::Overdue { id, overdue }),
            flow => {
                if let Some(inbox) = self.inbox(id) {
                    inbox.flow(flow);
                }
            }
        }
    }
}

/// For the link's session.
impl Lane {
    /// The next call.
    pub fn next_call(&self) -> Option<LaneCall> {
        self.state.lock().waiting.pop_front()
    }

    /// Whether calls wait to be sent.
    pub fn has_calls(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    /// The home has carried out all calls up to this number; of these publishes not all messages were taken. False if there are no such
    /// calls.
    #[must_use]
    pub fn done(&self, through: u64, not_taken: Vec<(u64, NotTaken)>) -> bool {
        let bytes = {
            let mut state = self.state.lock();
            let done = state.done;
            let count = through.checked_sub(done).filter(|count| *count <= state.open.len() as u64);
            let Some(count) = count else { return false };
            for (number, what) in not_taken {
                let at = number.checked_sub(done + 1).filter(|at| *at < count);
                let Some(at) = at else { return false };
                if let Some(fate) = state.open[at as usize].fate.upgrade() {
                    fate.tell(what);
                }
            }
            state.done = through;
            state.open.drain(..count as usize).map(|open| open.bytes).sum()
        };
        self.writer.done(through, bytes);
        true
    }

    /// A question is answered.
    pub fn answered(&self, number: u64, answer: HomeAnswer) {
        let asked = self.state.lock().asked.remove(&number);
        if let Some(asked) = asked {
            asked(answer);
        }
    }

    /// Messages have come for a consumer. One that is gone sends them back.
    pub fn delivered(&self, queue: QueueId, id: ConsumerId, taken: Taken) {
        match self.inbox(id) {
            Some(inbox) => inbox.put(taken),
            None => {
                let how = Settlement::Requeue { failed: false };
                self.call(queue, CallKind::Settle { consumer: Some(id), runs: taken.runs(), how, group: None });
            }
        }
    }

    /// A chunk has come for a reader, as part of a stream whose last chunk begins at `committed`.
    pub fn delivered_chunk(&self, id: ConsumerId, taken: TakenChunk, committed: u64) {
        if let Some(inbox) = self.inbox(id) {
            inbox.put_chunk(taken, committed);
        }
    }

    /// The queue signals a consumer.
    pub fn signalled(&self, id: ConsumerId, signal: RemoteSignal) {
        let inbox = match signal {
            RemoteSignal::Cancelled => self.state.lock().consumers.remove(&id),
            _ => self.inbox(id),
        };
        if let Some(inbox) = inbox {
            inbox.signal(signal);
        }
    }

    /// No further call is taken, and no question answered.
    pub(super) fn end(&self) {
        let asked = {
            let mut state = self.state.lock();
            state.is_over = true;
            state.waiting.clear();
            std::mem::take(&mut state.asked)
        };
        // Outside of the lock: who asked is told that nobody is there.
        drop(asked);
    }

    /// The link is gone, and its consumers and those who watch it are told.
    pub(super) fn tell_consumers(&self) {
        let (consumers, watchers) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.consumers), std::mem::take(&mut state.watchers))
        };
        let ending = consumers.values().filter(|inbox| !inbox.outlives_lane);
        ending.for_each(|inbox| inbox.signal(RemoteSignal::Cancelled));
        watchers.iter().for_each(|(key, link)| link.signal(Signal::Cancelled(*key)));
    }
}

#[cfg(test)]
mod tests {
    use leveret_message::{Batch, BatchBuilder, StoredMessage};

    use super::*;
    use crate::streams::CommitStream as _;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    fn lane() -> Arc<Lane> {
        Lane::new(StreamId(1 << 20), Arc::new(NoWake))
    }

    fn publish(lane: &Lane) -> Option<Published> {
        let mut builder = BatchBuilder::default();
        builder.push_message(&StoredMessage { body: &[1; 100], ..StoredMessage::default() });
        let batch: Arc<Batch> = builder.finish().into();
        lane.publish(QueueId(3), BatchPart::whole(&batch), true, None, None)
    }

    #[test]
    fn publishes_are_done_in_order_and_refusals_are_told() {
        let lane = lane();
        let published: Vec<_> = (0..3).map(|_| publish(&lane).expect("the lane is open")).collect();
        let numbers: Vec<_> = std::iter::from_fn(|| lane.next_call()).map(|call| call.number).collect();
        assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
        assert!(!lane.done(4, Vec::new()), "there is no fourth one");
        assert!(lane.done(2, vec![(2, NotTaken::Gone)]));
        let reached = lane.writer.watermarks();
        let ends: Vec<_> = published.iter().map(|published| published.awaited.is_reached(reached)).collect();
        assert_eq!(ends, [true, true, false]);
        let Acceptance::Later(fate) = &published[1].acceptance else { panic!("it comes later") };
        assert!(matches!(fate.told(), Some(NotTaken::Gone)));
        assert!(!lane.done(1, Vec::new()), "it doesn't go back");
    }

    #[test]
    fn a_lane_that_has_ended_takes_no_calls_and_answers_questions() {
        let lane = lane();
        let of = |answer| match answer {
            HomeAnswer::Size(ready, _) => Some(ready),
            _ => None,
        };
        let NowOrLater::Later(asked) = lane.ask(QueueId(3), HomeQuestion::Size(false), || 77, of) else {
            panic!("later")
        };
        let NowOrLater::Later(wrong) = lane.ask(QueueId(3), HomeQuestion::Purge, || 77, of) else { panic!("later") };
        lane.answered(2, HomeAnswer::Removed(5));
        assert_eq!((asked.take(), wrong.take()), (None, Some(77)));
        lane.end();
        assert_eq!(asked.take(), Some(77));
        assert!(publish(&lane).is_none());
        assert!(matches!(lane.ask(QueueId(3), HomeQuestion::Size(false), || 77, of), NowOrLater::Now(77)));
    }
}
