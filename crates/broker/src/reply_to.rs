//! Direct reply-to: answers that reach the requester's connection without a queue.
//!
//! A requester registers and gets a volatile name that can't be guessed. A publish to the default exchange with that name as
//! its routing key goes to the requester's outbox. Nothing is stored: an answer is unroutable if its name isn't registered, and
//! dropped if the connection can't take it. Protocols share the names, so a request over one can be answered over another.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leveret_message::Batch;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use crate::names::Names;
use crate::outbox::{Event, Outbox};
use crate::reply::Reply;

/// The pseudo queue that a requester of AMQP 0-9-1 consumes from, and names as `reply-to`.
pub const REPLY_TO: &str = "amq.rabbitmq.reply-to";
/// The beginning of volatile names.
pub const VOLATILE_PREFIX: &str = "amq.rabbitmq.reply-to.";
/// Bytes of answers that may wait for a requester's connection; further ones are dropped.
pub const WAITING_BYTES_MAX: u64 = 4 << 20;

/// Whether a routing key or queue name is a volatile name, registered or not.
pub fn is_volatile(name: &[u8]) -> bool {
    name.starts_with(VOLATILE_PREFIX.as_bytes())
}

/// A requester that waits for answers.
pub struct ReplyTarget {
    name: Arc<str>,
    key: u64,
    outbox: Arc<Outbox>,
    open: AtomicBool,
    waiting_bytes: Arc<AtomicU64>,
}

impl ReplyTarget {
    /// The volatile name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The owner's key of it.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether its owner still waits.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Sends answers to the owner's outbox. Returns false if they are dropped, because it is gone or too many bytes wait.
    pub fn send(&self, batch: &Arc<Batch>) -> bool {
        if !self.is_open() || self.waiting_bytes.load(Ordering::Relaxed) >= WAITING_BYTES_MAX {
            return false;
        }
        let reply = Reply::new(self.key, batch.clone(), self.waiting_bytes.clone());
        self.outbox.send(Event::Reply(reply));
        true
    }

    /// Whether these answers are for this requester, and not for an earlier one with the same key.
    pub fn is_target_of(&self, reply: &Reply) -> bool {
        reply.counts_in(&self.waiting_bytes)
    }
}

impl fmt::Debug for ReplyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTarget").field("key", &self.key).field("open", &self.is_open()).finish_non_exhaustive()
    }
}

/// All requesters that wait for answers, by volatile name.
pub struct ReplyTargets {
    names: Arc<Names>,
    targets: RwLock<FxHashMap<Arc<str>, Arc<ReplyTarget>>>,
}

impl ReplyTargets {
    /// An empty registry that takes its volatile names from `names`.
    pub fn new(names: Arc<Names>) -> Self {
        Self { names, targets: RwLock::default() }
    }

    /// Registers a requester, which is reached by `outbox` under this key, until the registration is dropped.
    pub fn register(self: &Arc<Self>, outbox: Arc<Outbox>, key: u64) -> Registration {
        let target = Arc::new(ReplyTarget {
            name: self.names.next(VOLATILE_PREFIX).into(),
            key,
            outbox,
            open: AtomicBool::new(true),
            waiting_bytes: Arc::default(),
        });
        self.targets.write().insert(target.name.clone(), target.clone());
        Registration { targets: self.clone(), target }
    }

    /// The requester with this name.
    pub fn find(&self, name: &[u8]) -> Option<Arc<ReplyTarget>> {
        if !is_volatile(name) {
            return None;
        }
        self.targets.read().get(core::str::from_utf8(name).ok()?).cloned()
    }
}

/// The registration of a requester; its name becomes invalid when this is dropped.
pub struct Registration {
    targets: Arc<ReplyTargets>,
    target: Arc<ReplyTarget>,
}

impl Registration {
    /// The registered requester.
    pub fn target(&self) -> &Arc<ReplyTarget> {
        &self.target
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.target.open.store(false, Ordering::Release);
        self.targets.targets.write().remove(&self.target.name);
    }
}

#[cfg(test)]
mod tests {
    use leveret_message::{BatchBuilder, Envelope};

    use super::*;

    struct Nobody;

    impl crate::Wake for Nobody {
        fn wake(&self) {}
    }

    fn batch(body: &[u8]) -> Arc<Batch> {
        let mut builder = BatchBuilder::default();
        let envelope = Envelope { routing_key: b"k", ..Envelope::default() };
        builder.push(&envelope, &[0, 0], body);
        Arc::new(builder.finish())
    }

    #[test]
    fn a_name_leads_to_its_owner_until_the_registration_ends() {
        let targets = Arc::new(ReplyTargets::new(Arc::new(Names::new([1; 16]))));
        let outbox = Arc::new(Outbox::new(Arc::new(Nobody)));
        let (first, second) = (targets.register(outbox.clone(), 7), targets.register(outbox.clone(), 8));
        assert_ne!(first.target().name(), second.target().name());
        let name = second.target().name().clone();
        let found = targets.find(name.as_bytes()).expect("is registered");
        assert!(found.send(&batch(b"answer")));
        let mut events = Vec::new();
        outbox.drain(&mut events);
        let [Event::Reply(reply)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(reply.key, 8);
        drop(second);
        assert!(targets.find(name.as_bytes()).is_none());
        assert!(!found.send(&batch(b"late")), "also for who has found it before");
        assert!(targets.find(REPLY_TO.as_bytes()).is_none());
    }

    #[test]
    fn waiting_answers_are_bounded() {
        let targets = Arc::new(ReplyTargets::new(Arc::new(Names::new([1; 16]))));
        let outbox = Arc::new(Outbox::new(Arc::new(Nobody)));
        let registration = targets.register(outbox.clone(), 7);
        let large = batch(&vec![0; 1 << 20]);
        let sent = (0..100).filter(|_| registration.target().send(&large)).count();
        assert_eq!(sent, 4);
        let mut events = Vec::new();
        outbox.drain(&mut events);
        let Some(Event::Reply(reply)) = events.pop() else { panic!("{events:?}") };
        reply.done();
        assert!(registration.target().send(&large), "there is room again");
    }
}
