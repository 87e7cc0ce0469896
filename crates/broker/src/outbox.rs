//! Events for a connection from elsewhere, in one order, with one wake-up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leveret_queue::{Link, QueueWait, Signal};
use parking_lot::Mutex;

use crate::inquiry::Inquiry;
use crate::mailbox::{Inner, Mailbox};
use crate::reply::Reply;
use crate::ticket::StreamId;

/// Wakes an owner, such as a connection's task or a disk thread. Must not block and must not call back into the broker.
pub trait Wake: Send + Sync {
    /// Wakes the owner. May be called from any thread, any number of times.
    fn wake(&self);
}

/// An event for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A signal of a queue.
    Queue(Signal),
    /// Something this connection waits for became durable in this stream, or the stream has room again.
    Durable(StreamId),
    /// Something this connection waits for was written in this stream.
    Written(StreamId),
    /// A piece of a large body was written to its file, or read from it.
    Body,
    /// Publishing is blocked or unblocked on the whole node: [`crate::Alarms::publishing_blocked`] tells which.
    Alarm,
    /// Answers to a request that was registered with [`crate::reply_to::ReplyTargets`].
    Reply(Reply),
    /// An inquiry about its state.
    Describe(Inquiry),
    /// A stream was restarted: clients of its protocol look for its leader again.
    StreamRestarted {
        /// Its vhost.
        vhost: Arc<str>,
        /// Its name there.
        stream: Arc<str>,
    },
    /// The node wants the connection closed, for this reason.
    Close(Arc<str>),
    /// The node was put into maintenance: connections are closed, except those of clients that maintain it.
    Maintenance,
    /// The connection has to close at once for this reason, unless it has logged in.
    Shed(Arc<str>),
}

/// The events of a connection, with its wake-up.
pub struct Outbox {
    mailbox: Mailbox<Event, Mutex<Inner<Event>>>,
    /// The reason why the connection's input waits, for listings.
    wait: Mutex<Option<QueueWait>>,
    /// Whether the connection is to end without a word to its client.
    is_killed: AtomicBool,
    /// Bytes of the owner's partially received messages in memory.
    unfinished: Arc<AtomicU64>,
    /// Bytes of its input that wasn't handled: a part of a frame, or input that waits.
    kept: AtomicU64,
    /// Bytes of memory of its open transactions.
    transactions: AtomicU64,
    wake: Arc<dyn Wake>,
}

impl Outbox {
    /// An outbox whose owner is woken by `wake`.
    pub fn new(wake: Arc<dyn Wake>) -> Self {
        Self {
            mailbox: Mailbox::default(),
            wait: Mutex::new(None),
            unfinished: Arc::default(),
            kept: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            is_killed: AtomicBool::new(false),
            wake,
        }
    }

    /// The count of bytes of the owner's partially received messages in memory.
    pub fn unfinished(&self) -> Arc<AtomicU64> {
        self.unfinished.clone()
    }

    /// Sets the number of input bytes that are kept for the owner.
    pub(crate) fn set_kept(&self, bytes: usize) {
        self.kept.store(bytes as u64, Ordering::Relaxed);
    }

    /// Sets the bytes of memory that the owner's open transactions take.
    pub fn set_transactions(&self, bytes: u64) {
        self.transactions.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of memory that the owner's unfinished input takes.
    pub fn unfinished_bytes(&self) -> u64 {
        [&*self.unfinished, &self.kept, &self.transactions].iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Adds an event, and wakes the owner if necessary.
    pub fn send(&self, event: Event) {
        if self.mailbox.push(event) {
            self.wake.wake();
        }
    }

    /// Has the owner end at once, without a word to its client.
    pub fn kill(&self) {
        self.is_killed.store(true, Ordering::Release);
        self.wake.wake();
    }

    /// Whether the owner has to end without a word to its client.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }

    /// Sets the reason why the owner's input waits; `None` if it doesn't.
    pub fn set_wait(&self, wait: Option<QueueWait>) {
        *self.wait.lock() = wait;
    }

    /// The reason why the owner's input waits.
    pub fn wait(&self) -> Option<QueueWait> {
        *self.wait.lock()
    }

    /// Moves all events to the end of `out`.
    pub fn drain(&self, out: &mut Vec<Event>) {
        self.mailbox.drain(out);
    }

    /// Takes all events if `events` is empty, so that earlier ones are handled first; keeps its allocated memory.
    pub fn drain_after(&self, events: &mut VecDeque<Event>) {
        if events.is_empty() {
            let mut taken = Vec::from(std::mem::take(events));
            self.mailbox.drain(&mut taken);
            *events = taken.into();
        }
    }
}

impl Link for Outbox {
    fn signal(&self, signal: Signal) {
        self.send(Event::Queue(signal));
    }
}
