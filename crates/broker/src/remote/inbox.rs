//! Messages that have come for a consumer of another node's queue, until its connection takes them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leveret_model::QueueId;
use leveret_queue::{ChunkTurn, CreditState, Flow, Link, Portion, Run, Signal, Taken, TakenChunk, TurnEnd};
use parking_lot::Mutex;

/// Messages, or whole chunks, that an inbox has room for, as its queue's home counts them.
pub const WINDOW_MESSAGES: u32 = 256;
/// Bytes that an inbox has room for; a message may be larger.
pub const WINDOW_BYTES: u64 = 256 << 10;

/// A signal of the queue for a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteSignal {
    /// See [`Signal::Cancelled`].
    Cancelled,
    /// See [`Signal::Activity`].
    Activity {
        /// Whether it is active.
        active: bool,
        /// Number of such signals.
        change: u32,
        /// Messages that are ready for it.
        available: u32,
    },
    /// See [`Signal::Drained`].
    Drained {
        /// The link's delivery-count.
        delivery_count: u32,
        /// Messages that are ready, for other consumers.
        available: u32,
    },
}

/// The inbox of a consumer.
pub(crate) struct Inbox {
    pub(super) queue: QueueId,
    link: Arc<dyn Link>,
    key: u64,
    /// Whether messages count as settled when they are taken. At the queue's home they never do before: one that is on its way when the
    /// consumer goes isn't lost.
    pub(super) settles_itself: bool,
    /// Whether the consumer outlives the lane.
    pub(super) outlives_lane: bool,
    /// Whether what comes is for it: not what an earlier leader on the same node sent, of a consumer that outlives the lane.
    is_open: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: VecDeque<Taken>,
    messages: u32,
    /// For a reader that takes whole chunks, and the first offset of the last chunk that the stream had when they were sent.
    chunks: VecDeque<TakenChunk>,
    committed: u64,
    /// Room that was used and isn't given back.
    used: (u32, u64),
    is_scheduled: bool,
    /// Whether the connection, and the session, can't take any.
    is_without: [bool; 2],
    /// A drain that is over at the queue, but not here.
    drained: Option<(u32, u32)>,
}

/// The result of a turn.
pub(super) struct TakenHere {
    pub end: TurnEnd,
    /// The room to be given back to the home.
    pub freed: Option<(u32, u64)>,
}

impl Inbox {
    pub(super) fn new(
        queue: QueueId,
        (link, key): (Arc<dyn Link>, u64),
        settles_itself: bool,
        outlives_lane: bool,
    ) -> Self {
        let is_open = AtomicBool::new(!outlives_lane);
        Self { queue, link, key, settles_itself, outlives_lane, is_open, state: Mutex::default() }
    }

    /// The queue has added the consumer.
    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// Messages have come.
    pub(super) fn put(&self, taken: Taken) {
        if !self.is_open.load(Ordering::Acquire) {
            return;
        }
        let is_news = {
            let mut state = self.state.lock();
            state.messages += taken.count;
            state.taken.push_back(taken);
            state.schedule()
        };
        if is_news {
            self.link.signal(Signal::Scheduled(self.key));
        }
    }

    /// A chunk has come.
    pub(super) fn put_chunk(&self, taken: TakenChunk, committed: u64) {
        let is_news = {
            let mut state = self.state.lock();
            state.chunks.push_back(taken);
            state.committed = committed;
            state.schedule()
        };
        if is_news {
            self.link.signal(Signal::Scheduled(self.key));
        }
    }

    /// See [`crate::queue_handle::StreamQueueRef::take_chunks`]. The second value is the room to be given back to the home.
    pub(super) fn take_chunks(&self, bytes: u64, out: &mut Vec<TakenChunk>) -> (ChunkTurn, Option<(u32, u64)>) {
        let mut state = self.state.lock();
        let (mut count, mut sum) = (0, 0);
        while let Some(next) = state.chunks.front() {
            let length = next.chunk.chunk_bytes();
            if count > 0 && sum + length > bytes {
                break;
            }
            (count, sum) = (count + 1, sum + length);
            out.extend(state.chunks.pop_front());
        }
        let (end, freed) = state.taken(count, sum);
        (ChunkTurn { end, committed: state.committed }, freed)
    }

    /// See [`crate::queue_handle::QueueRef::take`].
    pub(super) fn take(&self, most: Portion, out: &mut Vec<Taken>) -> TakenHere {
        let (taken, drained) = {
            let mut state = self.state.lock();
            let (messages, bytes) = state.take(most, out);
            let (end, freed) = state.taken(messages, bytes);
            let drained = if state.messages == 0 { state.drained.take() } else { None };
            (TakenHere { end, freed }, drained)
        };
        if let Some((delivery_count, available)) = drained {
            self.link.signal(Signal::Drained { key: self.key, delivery_count, available });
        }
        taken
    }

    /// The connection, or the session, can or can't take any.
    pub(super) fn flow(&self, flow: Flow) {
        let is_news = {
            let mut state = self.state.lock();
            match flow {
                Flow::Room(room) => state.is_without[0] = !room,
                Flow::Window(window) => state.is_without[1] = !window,
                Flow::Overdue(_) | Flow::Credit { .. } => return,
            }
            if state.is_blocked() {
                state.is_scheduled = false;
            }
            state.schedule()
        };
        if is_news {
            self.link.signal(Signal::Scheduled(self.key));
        }
    }

    /// The queue signals the consumer.
    pub(super) fn signal(&self, signal: RemoteSignal) {
        let key = self.key;
        self.link.signal(match signal {
            RemoteSignal::Cancelled => Signal::Cancelled(key),
            RemoteSignal::Activity { active, change, available } => Signal::Activity { key, active, change, available },
            RemoteSignal::Drained { delivery_count, available } => {
                let mut state = self.state.lock();
                if state.messages > 0 {
                    state.drained = Some((delivery_count, available));
                    return;
                }
                Signal::Drained { key, delivery_count, available }
            }
        });
    }

    /// The link's state as its client knows it: the queue has counted what is here as delivered.
    pub(crate) fn granted(&self, state: CreditState, drains: bool) -> CreditState {
        let mut here = self.state.lock();
        let waiting = here.messages;
        if waiting == 0 {
            return state;
        }
        if drains && state.credit == 0 {
            here.drained = Some((state.delivery_count, state.available));
        }
        let delivery_count = state.delivery_count.wrapping_sub(waiting);
        CreditState { delivery_count, credit: state.credit + waiting, available: state.available }
    }

    /// Takes out what was never sent, as runs.
    pub(super) fn unsent(&self) -> Vec<Run> {
        let mut state = self.state.lock();
        state.messages = 0;
        state.chunks.clear();
        state.taken.drain(..).flat_map(|taken| taken.runs()).collect()
    }
}

impl State {
    fn is_blocked(&self) -> bool {
        self.is_without != [false; 2]
    }

    /// Whether the connection has to be told that there is something.
    fn schedule(&mut self) -> bool {
        let is_news = !self.is_scheduled && !self.is_blocked() && self.has_any();
        self.is_scheduled |= is_news;
        is_news
    }

    fn has_any(&self) -> bool {
        !self.taken.is_empty() || !self.chunks.is_empty()
    }

    /// Notes that so many messages or chunks were taken. Returns the end of the turn, and the room to be given back.
    fn taken(&mut self, count: u32, bytes: u64) -> (TurnEnd, Option<(u32, u64)>) {
        self.used = (self.used.0 + count, self.used.1 + bytes);
        let is_due = self.used.0 >= WINDOW_MESSAGES / 2 || self.used.1 >= WINDOW_BYTES / 2;
        let freed = is_due.then(|| std::mem::take(&mut self.used));
        self.is_scheduled = self.has_any() && !self.is_blocked();
        (if self.is_scheduled { TurnEnd::More } else { TurnEnd::Done }, freed)
    }

    /// Takes out messages, one at least if any may be taken. Returns their number and body bytes.
    fn take(&mut self, most: Portion, out: &mut Vec<Taken>) -> (u32, u64) {
        let (mut messages, mut bytes) = (0, 0);
        while let Some(first) = self.taken.front_mut() {
            let fits = first.part().indexes().take((most.messages - messages) as usize).take_while(|at| {
                let length = u64::from(first.batch.body_length(*at as usize));
                let fits = messages == 0 && *at == first.index || bytes + length <= most.bytes;
                bytes += if fits { length } else { 0 };
                fits
            });
            let count = fits.count() as u32;
            messages += count;
            if count == first.count {
                out.extend(self.taken.pop_front());
                continue;
            }
            if count > 0 {
                out.push(Taken { count, ..first.clone() });
                *first = first.rest(count);
            }
            break;
        }
        self.messages -= messages;
        (messages, bytes)
    }
}

#[cfg(test)]
mod tests {
    use leveret_message::chunk::SharedChunk;
    use leveret_message::{BatchBuilder, StoredMessage};
    use leveret_queue::AttemptCounts;

    use super::*;

    /// Notes signals.
    #[derive(Default)]
    struct Bell(Mutex<Vec<Signal>>);

    impl Link for Bell {
        fn signal(&self, signal: Signal) {
            self.0.lock().push(signal);
        }
    }

    const KEY: u64 = 7;

    fn inbox() -> (Inbox, Arc<Bell>) {
        let bell = Arc::new(Bell::default());
        (Inbox::new(QueueId(1), (bell.clone(), KEY), false, false), bell)
    }

    fn taken(first: u64, count: u32) -> Taken {
        let mut builder = BatchBuilder::default();
        (0..count).for_each(|_| builder.push_message(&StoredMessage { body: &[1; 100], ..StoredMessage::default() }));
        let batch = Arc::new(builder.finish());
        Taken { batch, index: 0, count, first, redelivered: false, attempts: AttemptCounts::default(), durable: true }
    }

    fn take(inbox: &Inbox, messages: u32, bytes: u64) -> (Vec<(u64, u32)>, bool) {
        let mut out = Vec::new();
        let end = inbox.take(Portion { messages, bytes }, &mut out).end;
        (out.iter().map(|taken| (taken.first, taken.count)).collect(), end == TurnEnd::More)
    }

    #[test]
    fn messages_are_taken_in_order_and_in_portions() {
        let (inbox, bell) = inbox();
        inbox.put(taken(5, 3));
        inbox.put(taken(8, 2));
        assert_eq!(*bell.0.lock(), [Signal::Scheduled(KEY)], "once");
        assert_eq!(take(&inbox, 4, 1000), (vec![(5, 3), (8, 1)], true));
        assert_eq!(take(&inbox, 4, 1), (vec![(9, 1)], false), "one at least");
        assert_eq!(take(&inbox, 4, 1000), (vec![], false));
        inbox.put(taken(10, 3));
        assert_eq!(bell.0.lock().len(), 2, "it is scheduled anew");
        assert_eq!(take(&inbox, 4, 250), (vec![(10, 2)], true));
    }

    #[test]
    fn a_blocked_consumer_is_scheduled_when_it_has_room() {
        let (inbox, bell) = inbox();
        inbox.flow(Flow::Room(false));
        inbox.flow(Flow::Window(false));
        inbox.put(taken(1, 1));
        inbox.flow(Flow::Room(true));
        assert!(bell.0.lock().is_empty());
        inbox.flow(Flow::Window(true));
        assert_eq!(*bell.0.lock(), [Signal::Scheduled(KEY)]);
    }

    #[test]
    fn a_drain_is_over_behind_the_last_message() {
        let (inbox, bell) = inbox();
        inbox.put(taken(1, 2));
        let state = CreditState { delivery_count: 10, credit: 0, available: 3 };
        let told = inbox.granted(state, true);
        assert_eq!((told.delivery_count, told.credit), (8, 2));
        let drained = Signal::Drained { key: KEY, delivery_count: 10, available: 3 };
        take(&inbox, 1, 1000);
        assert!(!bell.0.lock().contains(&drained));
        take(&inbox, 1, 1000);
        assert_eq!(bell.0.lock().last(), Some(&drained));
        assert_eq!(inbox.granted(state, true), state);
    }

    #[test]
    fn whole_chunks_are_taken_one_at_least() {
        let (inbox, bell) = inbox();
        let chunk = Arc::new(SharedChunk::of(&taken(0, 3).batch));
        let length = chunk.chunk_bytes();
        for first in [6, 9, 12] {
            inbox.put_chunk(TakenChunk { first, chunk: chunk.clone(), joins: false }, 20 + first);
        }
        assert_eq!(*bell.0.lock(), [Signal::Scheduled(KEY)], "once");
        let take = |bytes| {
            let mut out = Vec::new();
            let (turn, _) = inbox.take_chunks(bytes, &mut out);
            (out.iter().map(|taken| taken.first).collect::<Vec<_>>(), turn.end == TurnEnd::More, turn.committed)
        };
        assert_eq!(take(1), (vec![6], true, 32));
        inbox.flow(Flow::Room(false));
        assert_eq!(take(2 * length), (vec![9, 12], false, 32));
        assert_eq!(take(2 * length), (vec![], false, 32));
    }

    #[test]
    fn room_is_given_back_in_halves() {
        let (inbox, _) = inbox();
        let mut freed = 0;
        for number in 0..300 {
            inbox.put(taken(number, 1));
            freed += inbox.take(Portion { messages: 9, bytes: 1000 }, &mut Vec::new()).freed.map_or(0, |(n, _)| n);
        }
        assert_eq!(freed, 256);
    }

    #[test]
    fn unsent_messages_are_told_as_runs() {
        let (inbox, _) = inbox();
        inbox.put(taken(1, 3));
        take(&inbox, 1, 1000);
        let unsent: Vec<_> = inbox.unsent().iter().map(|run| (run.first, run.last)).collect();
        assert_eq!(unsent, [(2, 3)]);
        assert_eq!(take(&inbox, 9, 1000), (vec![], false));
    }
}
