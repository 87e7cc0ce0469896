//! The commit streams that a node knows at the moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use leveret_model::{Home, Queue};
use leveret_queue::Watermarks;
use parking_lot::Mutex;

use super::{CommitStream as _, LocalStream, StoreRef, StreamRef, Waiter};
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::wait_for::{WaitEnd, WaitFor};

/// Decides which stream a queue belongs to.
pub type Placing = fn(&Queue) -> StreamId;

/// The function that gets the end of a wait.
pub type WhenOver = Box<dyn FnOnce(WaitEnd) + Send>;

/// A stream, and the store that has the messages of its queues.
#[derive(Clone)]
struct Known {
    id: StreamId,
    stream: StreamRef,
    /// The same, if it is a log of this disk.
    log: Option<Arc<LocalStream>>,
    store: StoreRef,
}

impl Known {
    fn of(log: &Arc<LocalStream>) -> Self {
        Self { id: log.id(), stream: log.clone(), log: Some(log.clone()), store: log.clone() }
    }
}

/// All commit streams of the node. They come and go while others look them up without a lock; only the node's own log stays.
pub struct Streams {
    /// The node's own log.
    local: Known,
    /// The same, known as such: it is asked for each frame.
    log: Arc<LocalStream>,
    /// The others, in the order of their ids.
    others: ArcSwap<Vec<Known>>,
    /// Whether there were ever others: where there weren't, none are looked for.
    has_others: AtomicBool,
    /// Held while `others` changes.
    changing: Mutex<()>,
    placing: Placing,
}

impl Streams {
    /// Streams that are logs of this disk.
    ///
    /// # Panics
    /// If there is none, or the first isn't the node's own, or two have the same id.
    pub fn new(logs: &[Arc<LocalStream>], placing: Placing) -> Self {
        let log = logs.first().expect("a node has a log").clone();
        let local = Known::of(&log);
        assert_eq!(local.id, StreamId::LOCAL, "the first one is the node's own");
        let streams = Self {
            local,
            log,
            others: ArcSwap::default(),
            has_others: AtomicBool::new(false),
            changing: Mutex::default(),
            placing,
        };
        logs[1..].iter().for_each(|log| streams.add(Known::of(log)));
        streams
    }

    /// The placing of a node on its own: its queues are in its log.
    pub fn by_home(queue: &Queue) -> StreamId {
        match queue.home {
            // Replicated queues have their messages there, too.
            Home::Owner(_) | Home::Placement(_) => StreamId::LOCAL,
        }
    }

    /// Adds a stream. The messages of its queues are in `store`.
    ///
    /// # Panics
    /// If its id is taken.
    pub fn join(&self, stream: StreamRef, store: StoreRef) {
        self.add(Known { id: stream.id(), stream, log: None, store });
    }

    fn add(&self, known: Known) {
        let _changing = self.changing.lock();
        let mut others = Vec::clone(&self.others.load());
        let at = others.binary_search_by_key(&known.id, |known| known.id);
        let at = at.expect_err("an id is given once");
        others.insert(at, known);
        self.others.store(others.into());
        self.has_others.store(true, Ordering::Release);
    }

    /// Removes a stream: who waits for one of its places is notified, and finds that it is gone.
    ///
    /// # Panics
    /// If it is the node's own log.
    pub fn leave(&self, id: StreamId) {
        assert_ne!(id, StreamId::LOCAL, "the node's own log stays");
        let left = {
            let _changing = self.changing.lock();
            let mut others = Vec::clone(&self.others.load());
            let at = others.binary_search_by_key(&id, |known| known.id);
            let left = at.ok().map(|at| others.remove(at));
            self.others.store(others.into());
            left
        };
        if let Some(Known { stream, .. }) = left {
            stream.leave();
        }
    }

    /// The node's own log, where the control plane's records are.
    pub fn local(&self) -> &StreamRef {
        &self.local.stream
    }

    /// The same, for appends.
    pub fn log(&self) -> &Arc<LocalStream> {
        &self.log
    }

    /// The store of the node's own log.
    pub(crate) fn local_store(&self) -> &StoreRef {
        &self.local.store
    }

    fn find<T>(&self, id: StreamId, get: impl FnOnce(&Known) -> T) -> Option<T> {
        if id == StreamId::LOCAL {
            return Some(get(&self.local));
        }
        let others = self.others.load();
        let at = others.binary_search_by_key(&id, |known| known.id).ok()?;
        Some(get(&others[at]))
    }

    /// The stream with an id; `None` if it has left.
    pub fn get(&self, id: StreamId) -> Option<StreamRef> {
        self.find(id, |known| known.stream.clone())
    }

    /// The log that a queue's records and messages are in.
    ///
    /// # Panics
    /// If that log has left: its queues are gone before it is.
    pub fn of(&self, queue: &Queue) -> Arc<LocalStream> {
        let found = self.find((self.placing)(queue), |known| known.log.clone());
        found.flatten().expect("a queue's log stays as long as the queue")
    }

    /// The watermarks of a stream; `None` if it has left.
    #[inline]
    pub fn reached(&self, id: StreamId) -> Option<Watermarks> {
        if id == StreamId::LOCAL {
            return Some(self.log.watermarks());
        }
        self.find(id, |known| known.stream.watermarks())
    }

    /// Whether a stream has room for publishes. One that has left holds nobody back.
    #[inline]
    pub fn has_room(&self, id: StreamId) -> bool {
        if id == StreamId::LOCAL {
            return self.log.has_room();
        }
        self.find(id, |known| known.stream.has_room()).unwrap_or(true)
    }

    /// Whether clients may publish to a stream, see [`CommitStream::takes_publishers`]. One that has left holds nobody back.
    #[inline]
    pub fn takes_publishers(&self, id: StreamId) -> bool {
        if id == StreamId::LOCAL {
            return self.log.has_room();
        }
        self.find(id, |known| known.stream.takes_publishers()).unwrap_or(true)
    }

    /// Whether a ticket is durable.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        self.reached(ticket.stream()).is_some_and(|reached| reached.have(ticket.place(), false))
    }

    /// How a condition ended; `None` if it hasn't.
    pub fn end(&self, wait: &WaitFor) -> Option<WaitEnd> {
        wait.end(&|stream| self.reached(stream))
    }

    /// Whether a condition is reached. A condition that ended otherwise isn't, and never will be: see [`Streams::end`].
    pub fn have(&self, wait: &WaitFor) -> bool {
        self.end(wait).is_some_and(|end| end.is_reached())
    }

    /// Notifies `waiter` when the condition is reached, in this call if it is already or its stream has left.
    pub fn notify(&self, awaited: Awaited, waiter: Waiter) {
        if awaited.stream() == StreamId::LOCAL {
            return self.local.stream.notify(awaited, waiter);
        }
        match self.get(awaited.stream()) {
            Some(stream) => stream.notify(awaited, waiter),
            None => waiter.notify(awaited),
        }
    }

    /// Calls `call` once a condition has ended, in this call if it has already; for callers other than connections, such as the
    /// HTTP API. It runs on a disk thread and must only forward the notification.
    pub fn when_over(self: &Arc<Self>, wait: impl Into<WaitFor>, call: WhenOver) {
        let wait: WaitFor = wait.into();
        if let Some(end) = self.end(&wait) {
            return call(end);
        }
        match wait.next_awaited(&|stream| self.reached(stream)) {
            Some(awaited) => {
                let streams = self.clone();
                let again = Box::new(move || streams.when_over(wait, call));
                self.notify(awaited, Waiter::Call(again));
            }
            // A move of dead letters that isn't written: those who call this don't wait for such.
            None => call(WaitEnd::Reached),
        }
    }

    /// Starts the processing of appended records in each stream.
    pub fn announce(&self) {
        self.log.announce();
        if self.has_others.load(Ordering::Acquire) {
            self.announce_others();
        }
    }

    #[cold]
    fn announce_others(&self) {
        self.others.load().iter().for_each(|known| known.stream.announce());
    }
}
