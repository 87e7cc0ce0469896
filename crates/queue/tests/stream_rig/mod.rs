//! A stream and a naive reference: a list of all messages, and for each reader the offset behind the last one that it got.

mod reader;
mod retention;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use leveret_message::Batch;
use leveret_message::chunk::SharedChunk;
use leveret_model::{QueueOptions, QueueType};
use leveret_queue::{
    Checkpoint, ChunkPlacement, ChunkSubmission, ConsumerId, ConsumerOptions, Deadlines, Deliveries, Departure,
    Effects, Epoch, Flow, Ledger, Link, MemoryBudget, OfferedChunk, Parts, Place, Portion, QueueState, Replica, Run,
    Signal, StreamQueue, StreamRead, StreamStart, StreamState, Surroundings, Taken, TurnEnd, Watermarks,
};

pub(crate) use self::reader::{Filtered, ReaderPlan};
use self::reader::{RefReader, Seen};
use crate::chunks::{Runs, chunk, read};

pub(crate) const MS: u64 = 1_000_000;
/// Times of chunks are at most this much older than the time at which they are published, in milliseconds. With limits they are in
/// order: which messages a reader that begins at a time gets doesn't depend on the time when retention removes one then.
pub(crate) const LATE_MS: u64 = 40;

#[derive(Default)]
struct Recorder(Mutex<Vec<Signal>>);

impl Link for Recorder {
    fn signal(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

/// A message as the reference knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    serial: u64,
    time_ms: u64,
    /// Whether its subject is `x`.
    is_x: bool,
    /// It isn't part of the stream, and never was: a crash prevented the group that had its offset.
    is_gap: bool,
}

/// The body of a message, and its subject.
type Content = (Vec<u8>, Option<&'static str>);

/// A read that was asked for.
struct Read {
    id: u64,
    from: u64,
    /// Its answer, once the disk was looked at.
    answer: Option<(Runs, u64, Option<u64>)>,
}

pub(crate) struct Rig {
    pub(crate) queue: StreamQueue,
    pub(crate) budget: Arc<MemoryBudget>,
    options: QueueOptions,
    link: Arc<Recorder>,
    pub(crate) now_ms: u64,
    deadlines: Deadlines,
    position: u64,
    /// Position and end of each chunk that isn't applied.
    pending: VecDeque<(u64, u64)>,
    /// All messages by offset, also those that are gone, or not applied yet.
    messages: Vec<Known>,
    serial: u64,
    low: u64,
    end: u64,
    /// Chunks on disk, also those that aren't applied yet, or never will be.
    store: BTreeMap<u64, Arc<Batch>>,
    /// The messages of the last one, and its time.
    last_chunk: (Vec<Content>, u64),
    checkpoint: Option<Checkpoint>,
    /// Runs that have left since.
    left: Vec<Run>,
    readers: BTreeMap<u64, RefReader>,
    last_id: u64,
    reads: Vec<Read>,
    newest_ms: u64,
    /// A crash has added chunks, and none was published since. The stream keeps its limit of bytes when one is.
    is_recovered: bool,
}

fn new_queue(options: &QueueOptions, replica: Replica, budget: &Arc<MemoryBudget>, now_ms: u64) -> StreamQueue {
    let surroundings = Surroundings {
        budget: budget.clone(),
        epoch: Epoch::default(),
        strict_compat: false,
        standing_delay_target: 0,
    };
    StreamQueue::new(options.clone(), replica, surroundings, now_ms * MS)
}

impl Rig {
    pub(crate) fn new(max_bytes: Option<u64>, max_age_ms: Option<u64>, memory: u64) -> Self {
        let options = QueueOptions {
            queue_type: QueueType::Stream,
            max_length_bytes: max_bytes,
            max_age_ms,
            ..QueueOptions::default()
        };
        let budget = Arc::new(MemoryBudget::new(memory));
        let now_ms = 1_000_000;
        Self {
            queue: new_queue(&options, Replica::none(0), &budget, now_ms),
            budget,
            options,
            link: Arc::default(),
            now_ms,
            deadlines: Deadlines::NONE,
            position: 0,
            pending: VecDeque::new(),
            messages: Vec::new(),
            serial: 0,
            low: 0,
            end: 0,
            store: BTreeMap::new(),
            last_chunk: (Vec::new(), 0),
            checkpoint: None,
            left: Vec::new(),
            readers: BTreeMap::new(),
            last_id: 0,
            reads: Vec::new(),
            newest_ms: 0,
            is_recovered: false,
        }
    }

    pub(crate) fn with<R>(&mut self, call: impl FnOnce(&mut StreamQueue, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = call(&mut self.queue, &mut effects);
        let sooner = self.queue.announce_deadlines();
        assert_eq!(sooner.sooner_than(self.deadlines), sooner, "a later deadline is announced");
        self.deadlines = self.deadlines.and(sooner);
        effects.fire();
        assert!(effects.settled.is_empty() && effects.read.is_none() && !effects.dead_letters);
        let rare = effects.take_rare().unwrap_or_default();
        self.learn_of_retention(&rare.drops, &rare.expired);
        for (id, from) in rare.own_reads {
            assert!(!self.is_reading(id.0), "one read at a time");
            assert!((self.low..self.end).contains(&from), "a read from {from}, {}..{} is there", self.low, self.end);
            self.reads.push(Read { id: id.0, from, answer: None });
        }
        let signals: Vec<_> = self.link.0.lock().unwrap().drain(..).collect();
        for signal in signals {
            match signal {
                Signal::Scheduled(id) => {
                    let reader = self.readers.get_mut(&id).expect("a reader that is there");
                    assert!(!std::mem::replace(&mut reader.is_scheduled, true), "{id} is scheduled twice");
                }
                Signal::Drained { key, delivery_count, .. } => self.drained(key, delivery_count),
                other => panic!("{other:?}"),
            }
        }
        result
    }

    fn is_reading(&self, id: u64) -> bool {
        self.reads.iter().any(|read| read.id == id)
    }

    fn has_limits(&self) -> bool {
        self.options.max_length_bytes.is_some() || self.options.max_age_ms.is_some()
    }

    /// The offsets of messages that are there, from this one on.
    fn live(&self, from: u64) -> impl DoubleEndedIterator<Item = u64> + '_ {
        (from.max(self.low)..self.end).filter(|offset| !self.messages[*offset as usize].is_gap)
    }

    /// The chunks that are there.
    fn live_chunks(&self) -> impl DoubleEndedIterator<Item = (&u64, &Arc<Batch>)> {
        self.store.range(self.low..self.end).filter(|(first, _)| !self.messages[**first as usize].is_gap)
    }

    /// The stream begins with a message.
    fn pass_gaps(&mut self) {
        let first = self.live(self.low).next();
        self.low = first.unwrap_or(self.end);
    }

    /// Publishes a chunk: the body size of each message, and whether its subject is `x`. The log makes it a part of the one before it if
    /// that waits to be written, and has the same time.
    pub(crate) fn publish(&mut self, messages: &[(usize, bool)], late_ms: u64, joins: bool) {
        let time_ms = self.now_ms - if self.has_limits() { 0 } else { late_ms };
        self.newest_ms = self.newest_ms.max(time_ms);
        let serial = self.serial;
        self.serial += messages.len() as u64;
        let bodies = messages.iter().zip(serial..).map(|((size, is_x), serial)| {
            let mut body = serial.to_be_bytes().to_vec();
            body.resize(8 + size, 0);
            (body, if *is_x { Some("x") } else { Some("y") })
        });
        let bodies: Vec<_> = bodies.collect();
        let (batch, now) = (chunk(time_ms, bodies.iter().cloned()), self.now_ms * MS);
        let Some(ChunkSubmission::Accepted(submission)) = self.queue.submit_chunk(batch.len() as u32, None, now) else {
            panic!("it isn't closed");
        };
        assert_eq!(submission.first, self.messages.len() as u64, "offsets are dense");
        for (at, (_, is_x)) in messages.iter().enumerate() {
            self.messages.push(Known { serial: serial + at as u64, time_ms, is_x: *is_x, is_gap: false });
        }
        let end = self.messages.len() as u64;
        let place = match self.pending.back_mut().filter(|_| joins && self.last_chunk.1 == time_ms) {
            Some(last) => {
                last.1 = end;
                self.last_chunk.0.extend(bodies);
                let whole = chunk(time_ms, self.last_chunk.0.iter().cloned());
                *self.store.values_mut().next_back().expect("it isn't applied") = whole;
                ChunkPlacement::Joined(Place::new(self.position))
            }
            None => {
                self.position += 1;
                self.pending.push_back((self.position, end));
                self.last_chunk = (bodies, time_ms);
                self.store.insert(submission.first, batch.clone());
                ChunkPlacement::At(Place::new(self.position))
            }
        };
        let chunk = Arc::new(SharedChunk::of(&batch));
        self.with(|queue, effects| {
            queue.submitted_chunk(submission, OfferedChunk::unnamed(&chunk), place, now, effects)
        });
    }

    /// All but the last `behind` chunks are durable.
    pub(crate) fn apply(&mut self, behind: u64) {
        let reached = self.position.saturating_sub(behind);
        while let Some(&(_, end)) = self.pending.front().filter(|(position, _)| *position <= reached) {
            self.pending.pop_front();
            self.end = end;
            self.is_recovered = false;
        }
        self.with(|queue, effects| queue.apply(Watermarks::synced(Place::new(reached)), effects));
        self.check_limits(false);
    }

    pub(crate) fn withdraw(&mut self) {
        let withdrawn = self.with(|queue, _| queue.withdraw());
        let numbers = self.end..self.messages.len() as u64;
        assert!(withdrawn == numbers || withdrawn.is_empty() && numbers.is_empty(), "{withdrawn:?} for {numbers:?}");
        self.pending.clear();
        self.messages.truncate(self.end as usize);
        self.store.retain(|first, _| *first < self.end);
    }

    /// The id of a reader.
    fn nth(&self, at: usize) -> Option<u64> {
        self.readers.keys().nth(at % self.readers.len().max(1)).copied()
    }

    /// Adds a reader.
    pub(crate) fn add(&mut self, mut plan: ReaderPlan) {
        let next = self.begin(plan.start);
        if let StreamStart::Timestamp(at_ms) = plan.start
            && next == self.end
        {
            // Nothing is that new. The time mustn't be one of messages that are gone, or it would depend on the index.
            if at_ms <= self.newest_ms {
                return;
            }
            plan.start = StreamStart::Next;
        }
        self.last_id += 1;
        let id = self.last_id;
        let (flow, automatic) = (plan.flow, plan.automatic);
        let stream = Some(Box::new(plan.options()));
        let options = ConsumerOptions {
            link: self.link.clone(),
            key: id,
            tag: "t".into(),
            channel: "c".into(),
            automatic_ack: automatic,
            flow,
            priority: 0,
            exclusive: false,
            mode: leveret_queue::ConsumerMode::Move,
            filter: None,
            stream,
            timeout_ms: None,
            user: "u".into(),
            arguments: leveret_model::Arguments::default(),
        };
        self.readers.insert(id, RefReader::new(next, &plan));
        let now = self.now_ms * MS;
        self.with(|queue, effects| assert!(queue.add(ConsumerId(id), options, now, effects).is_ok()));
    }

    pub(crate) fn cancel(&mut self, at: usize, leaves: bool) {
        let Some(id) = self.nth(at) else { return };
        let reader = self.readers.remove(&id).expect("it is there");
        let (left, now) = (self.readers.len(), self.now_ms * MS);
        if leaves {
            let runs: Vec<Run> = reader.held.iter().map(|offset| run(*offset)).collect();
            let held = [(Some(ConsumerId(id)), runs)];
            let count = self.with(|queue, effects| queue.leave(&[ConsumerId(id)], &held, true, now, effects));
            assert_eq!(count, left);
        } else {
            assert_eq!(self.with(|queue, effects| queue.cancel(ConsumerId(id), now, effects)), Some(left));
        }
    }

    /// The turn of a scheduled reader.
    pub(crate) fn take(&mut self, at: usize, most: u32, bytes: u64) {
        let Some(id) = self.nth(at).filter(|id| self.readers[id].is_scheduled) else { return };
        // The call may schedule it again.
        self.readers.get_mut(&id).expect("it is there").is_scheduled = false;
        let (mut out, now) = (Vec::new(), self.now_ms * MS);
        let mut effects = Effects::default();
        let end = self.queue.take(ConsumerId(id), Portion { messages: most, bytes }, now, &mut out, &mut effects);
        self.received(id, &out, (most, bytes));
        self.with(|_, later| *later = effects);
        let reader = self.readers.get_mut(&id).expect("it is there");
        if end == TurnEnd::Done {
            assert!(!reader.is_scheduled, "its turn has ended, and it has another one without anything new");
        } else {
            assert!(!reader.is_scheduled, "scheduled, and its turn goes on");
            reader.is_scheduled = reader.is_eligible();
        }
    }

    /// Checks messages against the reference.
    fn received(&mut self, id: u64, out: &[Taken], (most, bytes): (u32, u64)) {
        let (mut count, mut size) = (0, 0);
        for taken in out {
            assert!(taken.count > 0 && !taken.redelivered && !taken.durable);
            for at in 0..taken.count {
                let offset = taken.first + u64::from(at);
                let index = (taken.index + at) as usize;
                assert!(size < bytes, "its bytes were used up");
                size += 64 + u64::from(taken.batch.body_length(index));
                count += 1;
                let seen = Seen::of(&taken.batch, index);
                let reader = self.readers.get_mut(&id).expect("it is there");
                let expected = reader.first_wanted(&self.messages, (self.low, self.end));
                assert_eq!(Some(offset), expected, "{id} of {reader:?}, {}..{}", self.low, self.end);
                assert!(seen.is(&self.messages[offset as usize]), "{id} at {offset}");
                reader.got(offset);
            }
        }
        assert!(count <= most, "more than asked for");
    }

    pub(crate) fn settle(&mut self, at: usize, which: usize, how: u8) {
        let Some(id) = self.nth(at) else { return };
        let now = self.now_ms * MS;
        let Some(offset) = self.readers.get_mut(&id).and_then(|reader| reader.held.remove(which)) else { return };
        let (id, runs) = (Some(ConsumerId(id)), [run(offset)]);
        self.with(|queue, effects| match how {
            0 => queue.acknowledge(&[(id, runs.to_vec())], now, effects),
            1 => queue.settle(Deliveries::of(id, &runs), Departure::Dropped, now, effects),
            _ => queue.requeue(Deliveries::of(id, &runs), true, now, effects),
        });
    }

    pub(crate) fn able(&mut self, at: usize, which: u8, able: bool) {
        let Some(id) = self.nth(at) else { return };
        let reader = self.readers.get_mut(&id).expect("it is there");
        reader.able[usize::from(which % 3)] = able;
        reader.is_scheduled &= reader.is_eligible();
        let flow = [Flow::Room(able), Flow::Window(able), Flow::Overdue(!able)][usize::from(which % 3)];
        let now = self.now_ms * MS;
        self.with(|queue, effects| assert!(queue.flow(ConsumerId(id), flow, now, effects).is_none()));
    }

    /// Looks at the disk for one of the reads, at most at this many chunks.
    pub(crate) fn look(&mut self, at: usize, most: usize) {
        let count = self.reads.len();
        if count == 0 {
            return;
        }
        let Read { id, from, answer } = &mut self.reads[at % count];
        if answer.is_none() {
            let scan = self.queue.scan(ConsumerId(*id)).unwrap_or_default();
            let (mut runs, end, since_ms) = read(&self.store, &scan, *from, most, self.now_ms);
            // It may also end within a chunk.
            let end = end.saturating_sub(most as u64 * 7 % 4).max(end.min(*from + 1));
            runs.retain(|(first, _)| *first < end);
            // Only a chunk in front of that end can have ended the search for a time. None of those readers has a filter.
            let since_ms = if runs.is_empty() { scan.since_ms } else { since_ms };
            *answer = Some((runs, end, since_ms));
        }
    }

    /// Ends one of the reads.
    pub(crate) fn answer(&mut self, at: usize, most: usize) {
        self.look(at, most);
        if self.reads.is_empty() {
            return;
        }
        let Read { id, from, answer } = self.reads.remove(at % self.reads.len());
        let ((runs, end, since_ms), now) = (answer.expect("it was looked at"), self.now_ms * MS);
        let read = StreamRead { reader: ConsumerId(id), from, end, since_ms };
        self.with(|queue, effects| queue.loaded(read, runs, now, effects));
    }

    pub(crate) fn time(&mut self, ms: u64) {
        self.now_ms += ms;
        let mut runs = 0;
        while self.deadlines.soonest(&Epoch::default()).is_some_and(|deadline| deadline <= self.now_ms * MS) {
            self.deadlines = Deadlines::NONE;
            let now = self.now_ms * MS;
            assert!(!self.with(|queue, effects| queue.run_timers(now, 256, effects)), "a stream isn't deleted");
            runs += 1;
            assert!(runs < 10, "the timer spins");
        }
        self.check_limits(true);
    }

    pub(crate) fn save(&mut self) {
        self.checkpoint = Some(self.queue.checkpoint());
        self.left.clear();
    }

    /// The stream is rebuilt from its last checkpoint; what isn't applied is lost.
    pub(crate) fn restart(&mut self) {
        self.withdraw();
        self.recover(&[]);
    }

    /// The same after a crash: chunks that aren't applied are on disk, and those at these places are of groups that have no end. They
    /// leave gaps, and may stay on disk.
    pub(crate) fn crash(&mut self, groups: u8, stay: bool) {
        let (mut first, mut gaps) = (self.end, Vec::new());
        for (at, (_, end)) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            if groups >> (at % 8) & 1 == 1 {
                self.messages[first as usize..end as usize].iter_mut().for_each(|message| message.is_gap = true);
                gaps.push(first);
            }
            first = end;
        }
        self.end = first;
        self.recover(&gaps);
        if !stay {
            gaps.iter().for_each(|first| drop(self.store.remove(first)));
        }
        self.pass_gaps();
        self.is_recovered = true;
    }

    fn recover(&mut self, gaps: &[u64]) {
        let checkpoint = self.checkpoint.take().unwrap_or_else(|| self.queue.checkpoint());
        let mut index = Parts::decode(&checkpoint.state).expect("it was encoded a moment ago").stream.index;
        let mut ledger = Ledger::restore(checkpoint.next, &checkpoint.live, checkpoint.bytes);
        for (&first, batch) in &self.store {
            let bytes = u64::from(batch.chunk_bytes());
            if first >= checkpoint.next {
                ledger.accept(first, batch.len() as u64, bytes);
                index.replay(first, bytes, batch.times(0).0);
            }
        }
        for first in gaps {
            let (last, bytes) =
                (first + self.store[first].len() as u64 - 1, u64::from(self.store[first].chunk_bytes()));
            ledger.settle(*first, last, bytes, Departure::Dropped);
            index.withdraw(*first, bytes);
        }
        for run in self.left.drain(..) {
            ledger.settle(run.first, run.last, run.bytes, Departure::Dropped);
        }
        self.readers.clear();
        self.deadlines = Deadlines::NONE;
        let parts = Parts { stream: StreamState { index, ..StreamState::default() }, ..Parts::default() };
        let replica = Replica { ledger, parts, ..Replica::default() };
        self.queue = new_queue(&self.options, replica, &self.budget, self.now_ms);
        assert_eq!(self.budget.used(), 0, "the stream before it has given its memory back");
        self.with(|_, _| ());
    }

    /// Chunks that retention removed leave the disk.
    pub(crate) fn retire(&mut self) {
        // A checkpoint may be followed by departures of chunks that it has, never by chunks that aren't there any more.
        let low = self.low.min(self.checkpoint.as_ref().map_or(self.low, |checkpoint| checkpoint.next));
        self.store.retain(|first, batch| first + batch.len() as u64 > low);
    }

    /// Checks the rules that hold after every step.
    pub(crate) fn check(&mut self) {
        let status = self.queue.status();
        assert_eq!(status.state, QueueState::Running);
        let (low, end) = (self.low, self.end);
        let stream = status.stream.as_ref().expect("it is a stream");
        assert_eq!((stream.first, stream.next, status.ready), (low, end, self.live(low).count() as u64));
        assert_eq!(status.pending, self.messages.len() as u64 - end);
        assert!(status.in_memory <= status.ready, "messages that are gone are in memory: {status:?}");
        assert_eq!(status.bytes, self.live_bytes(), "the bytes of its chunks");
        assert_eq!(status.conservation.accepted - status.conservation.gone(), status.ready);
        let held: usize = self.readers.values().map(|reader| reader.held.len()).sum();
        assert_eq!(status.unacknowledged, held as u64);
        let gauges = self.queue.gauges();
        let sizes = [gauges.ready, gauges.ready_bytes, gauges.unacknowledged, gauges.memory, gauges.in_memory];
        // A message that a reader holds is counted as ready, so that sums over queues don't have it twice.
        let listed = [status.ready, status.ready_bytes, 0, status.memory, status.in_memory];
        assert_eq!(sizes, listed, "what sums are made of isn't what is listed");
        assert_eq!((gauges.consumers, status.consumers.len()), (self.readers.len() as u64, self.readers.len()));
        let links = self.readers.values().filter(|reader| reader.is_link()).count();
        assert_eq!(gauges.links, links as u64);
        for (id, reader) in &self.readers {
            let shown = self.queue.consumer_status(ConsumerId(*id)).expect("it is there");
            assert_eq!(shown.unacknowledged as usize, reader.held.len());
            assert_eq!(shown.link_credit, reader.is_link().then_some(reader.link_credit));
            let is_served = reader.is_scheduled || self.is_reading(*id);
            let wanted = reader.first_wanted(&self.messages, (low, end));
            assert!(!reader.is_eligible() || wanted.is_none() || is_served, "{id} sleeps: {reader:?}, {low}..{end}");
            assert!(!reader.is_eligible() || !reader.is_draining || is_served, "the drain of {id} never ends");
            assert!(!reader.is_draining || reader.link_credit > 0, "the drain of {id} has ended");
        }
    }

    /// Lets every reader read to the end, whatever happened before, and checks that nothing is left.
    pub(crate) fn finish(&mut self) {
        self.apply(0);
        for at in 0..self.readers.len() {
            (0..3).for_each(|which| self.able(at, which, true));
            self.grant(at, 0, 1_000_000, false);
        }
        for _ in 0..100_000 {
            self.answer(0, 3);
            for at in 0..self.readers.len() {
                self.take(at, 100, 1 << 20);
                while self.readers.values().nth(at).is_some_and(|reader| !reader.held.is_empty()) {
                    self.settle(at, 0, 0);
                }
            }
            if self.reads.is_empty() && self.readers.values().all(|reader| !reader.is_scheduled) {
                break;
            }
        }
        self.check();
        for (id, reader) in &self.readers {
            let wanted = reader.first_wanted(&self.messages, (self.low, self.end));
            assert_eq!(wanted, None, "{id} comes to no end: {reader:?}");
        }
        let all_have_read = self.readers.values().all(|reader| reader.credit() > 0);
        assert!(all_have_read && self.queue.status().memory == 0, "memory for readers that are at the end");
        assert_eq!(self.budget.used(), 0, "what was read for readers that are at the end");
        self.readers.clear();
        self.reads.clear();
        self.queue = new_queue(&self.options, Replica::none(0), &self.budget, self.now_ms);
        assert_eq!(self.budget.used(), 0);
    }
}

fn run(offset: u64) -> Run {
    Run { first: offset, last: offset, bytes: 0, durable: false }
}
