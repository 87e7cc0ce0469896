//! What reaches a connection from elsewhere, in one order, with one wake-up.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_queue::{Link, QueueWait, Signal};
use parking_lot::Mutex;

use crate::inquiry::Inquiry;
use crate::mailbox::{Inner, Mailbox};
use crate::reply::Reply;
use crate::ticket::StreamId;

/// Wakes whoever owns something: a connection's task, a disk thread. Must not block and must not call
/// back into the broker.
pub trait Wake: Send + Sync {
    /// May be called from any thread, any number of times.
    fn wake(&self);
}

/// One thing a connection is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// From a queue.
    Queue(Signal),
    /// Something this connection waits for became durable in this stream, or the stream has room again.
    Durable(StreamId),
    /// Something this connection waits for was written in this stream.
    Written(StreamId),
    /// A piece of a large body was written to its file, or read from it.
    Body,
    /// Publishing is blocked on the whole node, or goes on: [`crate::Alarms::publishing_blocked`] says which.
    Alarm,
    /// Answers to a request that was registered with [`crate::reply_to::ReplyTargets`].
    Reply(Reply),
    /// Somebody wants to know what it does.
    Describe(Inquiry),
    /// The node wants the connection closed, for this reason.
    Close(Arc<str>),
    /// The node was put into maintenance: connections are closed, but for those whose clients maintain it.
    Maintenance,
    /// The connection has to go at once, for this reason, unless it has logged in.
    Shed(Arc<str>),
}

/// See the module.
pub struct Outbox {
    mailbox: Mailbox<Event, Mutex<Inner<Event>>>,
    /// What the connection's input waits for, for listings.
    wait: Mutex<Option<QueueWait>>,
    wake: Arc<dyn Wake>,
}

impl Outbox {
    /// An outbox whose owner is woken by `wake`.
    pub fn new(wake: Arc<dyn Wake>) -> Self {
        Self { mailbox: Mailbox::default(), wait: Mutex::new(None), wake }
    }

    /// Leaves an event and wakes the owner when it must be.
    pub fn send(&self, event: Event) {
        if self.mailbox.push(event) {
            self.wake.wake();
        }
    }

    /// The owner's input waits, or doesn't any more.
    pub fn set_wait(&self, wait: Option<QueueWait>) {
        *self.wait.lock() = wait;
    }

    /// What the owner's input waits for.
    pub fn wait(&self) -> Option<QueueWait> {
        *self.wait.lock()
    }

    /// Takes all events.
    pub fn drain(&self, out: &mut Vec<Event>) {
        self.mailbox.drain(out);
    }

    /// Takes all events once those that were taken before are handled; keeps the memory that they had.
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
