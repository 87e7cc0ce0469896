//! A placement as this node sees it: who leads it, and its queues.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use leveret_model::{MemberNumber, PlacementNumber, QueueId};
use parking_lot::Mutex;

use super::leaderless::LeaderlessStream;
use super::queue::PlacedQueue;
use super::stream::PlacedStream;
use crate::remote::MovingHome;
use crate::streams::StreamRef;

/// The leader of a placement.
#[derive(Clone)]
pub enum Leading {
    /// None that this node knows of.
    Nobody,
    /// This node.
    Here(Arc<PlacedStream>),
    /// Another member.
    There(MemberNumber),
}

/// A placement of the cluster. Every node has one of each, with a replica or without.
pub struct PlacementHere {
    number: PlacementNumber,
    leading: ArcSwap<Leading>,
    leaderless: Arc<LeaderlessStream>,
    /// Held while the leader changes, and while a queue comes: each queue has a machine if the placement is led here, and no other.
    queues: Mutex<BTreeMap<QueueId, Weak<PlacedQueue>>>,
    /// Whether a consumer has to be registered again.
    is_to_register: AtomicBool,
}

impl PlacementHere {
    pub(super) fn new(number: PlacementNumber, leaderless: Arc<LeaderlessStream>) -> Arc<Self> {
        let (leading, queues) = (ArcSwap::from_pointee(Leading::Nobody), Mutex::default());
        Arc::new(Self { number, leading, leaderless, queues, is_to_register: AtomicBool::new(false) })
    }

    /// Its number.
    pub fn number(&self) -> PlacementNumber {
        self.number
    }

    /// Its leader.
    pub fn leading(&self) -> Arc<Leading> {
        self.leading.load_full()
    }

    pub(super) fn leading_now(&self) -> Guard<Arc<Leading>> {
        self.leading.load()
    }

    /// Adds a queue, which gets a machine by `open` if the placement is led here.
    pub(super) fn add(&self, queue: &Arc<PlacedQueue>, open: impl FnOnce(&Arc<PlacedStream>)) {
        let mut queues = self.queues.lock();
        queues.insert(queue.info().id, Arc::downgrade(queue));
        if let Leading::Here(stream) = &**self.leading.load() {
            open(stream);
        }
    }

    /// Removes a queue.
    pub(super) fn remove(&self, id: QueueId) {
        self.queues.lock().remove(&id);
    }

    /// Changes the leader; `each` is called with every queue before anybody else sees it. Returns the queues.
    pub(super) fn lead(&self, leading: Leading, each: impl Fn(&Arc<PlacedQueue>)) -> Vec<Arc<PlacedQueue>> {
        let (has_leader, queues) = {
            let mut queues = self.queues.lock();
            queues.retain(|_, queue| queue.strong_count() > 0);
            let all: Vec<_> = queues.values().filter_map(Weak::upgrade).collect();
            let has_leader = !matches!(leading, Leading::Nobody);
            self.leading.store(Arc::new(leading));
            all.iter().for_each(each);
            (has_leader, all)
        };
        if has_leader {
            self.leaderless.found();
        }
        queues
    }

    /// A consumer has to be registered again.
    pub(super) fn has_unregistered(&self) {
        self.is_to_register.store(true, Ordering::Release);
    }

    /// Whether one has to be since the last call.
    pub(super) fn take_unregistered(&self) -> bool {
        self.is_to_register.swap(false, Ordering::AcqRel)
    }

    /// All its queues.
    pub(super) fn queues(&self) -> Vec<Arc<PlacedQueue>> {
        self.queues.lock().values().filter_map(Weak::upgrade).collect()
    }
}

impl MovingHome for PlacementHere {
    fn member(&self) -> Option<MemberNumber> {
        match **self.leading.load() {
            Leading::There(member) => Some(member),
            Leading::Nobody | Leading::Here(_) => None,
        }
    }

    fn stream_without(&self) -> StreamRef {
        self.leaderless.clone()
    }
}
