//! The dispatcher's side of consumers: credit, room, whose turn it is, and why each one waits.
//!
//! While messages are ready, an unscheduled consumer with credit and room is scheduled, round robin.
//! It, and nobody else, knows how much credit a consumer has left; sessions relay.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::Nanos;
use crate::effects::{Effects, Link, Signal};
use crate::wait::{QueueWait, WaitReason};

/// A consumer of one queue; unique within the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumerId(pub u64);

/// What a consumer asked for.
#[derive(Clone)]
pub struct ConsumerOptions {
    /// Where signals go.
    pub link: Arc<dyn Link>,
    /// How the connection knows it.
    pub key: u64,
    /// The client's name for it, as shown to operators.
    pub tag: Arc<str>,
    /// The connection and channel, as shown to operators.
    pub channel: Arc<str>,
    /// Delivered messages count as settled.
    pub automatic_ack: bool,
    /// Unacknowledged messages at most; 0 is unlimited.
    pub prefetch: u32,
    /// Nobody else may consume from the queue.
    pub exclusive: bool,
}

/// Powers of two of microseconds between publish and hand-out.
pub type LatencyBuckets = [u64; 24];

pub(crate) struct Consumer {
    pub options: ConsumerOptions,
    pub unacknowledged: u32,
    pub room: bool,
    pub scheduled: bool,
    /// Ready messages that are kept for its turn.
    pub promise: u64,
    in_ring: bool,
    pub changed: Nanos,
    pub delivered: u64,
    pub latency: Box<LatencyBuckets>,
}

impl Consumer {
    pub(crate) fn credit(&self) -> u32 {
        if self.options.prefetch == 0 || self.options.automatic_ack {
            u32::MAX
        } else {
            self.options.prefetch.saturating_sub(self.unacknowledged)
        }
    }

    fn is_eligible(&self) -> bool {
        self.room && self.credit() > 0
    }

    pub(crate) fn record_latency(&mut self, elapsed: Nanos, count: u64) {
        let bucket = (64 - (elapsed / 1000).leading_zeros() as usize).min(self.latency.len() - 1);
        self.latency[bucket] += count;
        self.delivered += count;
    }

    /// Why it waits, where `queue` tells what holds everybody: nothing ready or a read under way.
    pub(crate) fn wait(&self, queue: Option<QueueWait>) -> QueueWait {
        let own = |reason| QueueWait { reason, since: self.changed };
        if !self.room {
            own(WaitReason::Room)
        } else if self.credit() == 0 {
            own(WaitReason::Credit)
        } else if let Some(wait) = queue {
            QueueWait { since: wait.since.max(self.changed), ..wait }
        } else {
            own(WaitReason::Turn)
        }
    }
}

/// All consumers of one queue.
#[derive(Default)]
pub(crate) struct Consumers {
    all: FxHashMap<ConsumerId, Consumer>,
    /// Those that could take and aren't scheduled, in turn.
    ring: VecDeque<ConsumerId>,
    /// Those that are scheduled, the one that got ready messages last at the end.
    scheduled: VecDeque<ConsumerId>,
    /// Sum of all promises.
    promised: u64,
    exclusive: Option<ConsumerId>,
}

impl Consumers {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn exclusive(&self) -> Option<ConsumerId> {
        self.exclusive
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ConsumerId, &Consumer)> {
        self.all.iter()
    }

    pub(crate) fn find(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.all.get_mut(&id)
    }

    pub(crate) fn add(&mut self, id: ConsumerId, options: ConsumerOptions, now: Nanos) {
        if options.exclusive {
            self.exclusive = Some(id);
        }
        let consumer = Consumer {
            options,
            unacknowledged: 0,
            room: true,
            scheduled: false,
            promise: 0,
            in_ring: false,
            changed: now,
            delivered: 0,
            latency: Box::new([0; 24]),
        };
        let replaced = self.all.insert(id, consumer);
        debug_assert!(replaced.is_none(), "consumer ids are unique");
        self.enter_ring(id);
    }

    /// Removes a consumer; returns whether it was there.
    pub(crate) fn remove(&mut self, id: ConsumerId) -> bool {
        let Some(consumer) = self.all.remove(&id) else { return false };
        if consumer.scheduled {
            self.scheduled.retain(|other| *other != id);
            self.promised -= consumer.promise;
        }
        if consumer.in_ring {
            self.ring.retain(|other| *other != id);
        }
        if self.exclusive == Some(id) {
            self.exclusive = None;
        }
        true
    }

    /// Puts a consumer back in turn when it could take.
    pub(crate) fn enter_ring(&mut self, id: ConsumerId) {
        if let Some(consumer) = self.all.get_mut(&id)
            && !consumer.scheduled
            && !consumer.in_ring
            && consumer.is_eligible()
        {
            consumer.in_ring = true;
            self.ring.push_back(id);
        }
    }

    /// `taken` of what was kept for a scheduled consumer is with it. True when it stays scheduled: something
    /// is still kept for it, or messages are ready that are kept for nobody and nobody waits for a turn.
    pub(crate) fn end_turn(&mut self, id: ConsumerId, taken: u64, ready: u64, more: bool, now: Nanos) -> bool {
        let Some(consumer) = self.all.get_mut(&id) else { return false };
        if !consumer.scheduled {
            return false;
        }
        let taken = taken.min(consumer.promise);
        consumer.promise -= taken;
        self.promised -= taken;
        if more && consumer.is_eligible() {
            let free = ready.saturating_sub(self.promised);
            if consumer.promise == 0 && self.ring.is_empty() && free > 0 {
                let share = free.div_ceil(self.scheduled.len().max(1) as u64);
                consumer.promise = share.min(u64::from(consumer.credit()));
                self.promised += consumer.promise;
            }
            if consumer.promise > 0 {
                return true;
            }
        }
        self.promised -= std::mem::take(&mut consumer.promise);
        consumer.scheduled = false;
        consumer.changed = now;
        self.scheduled.retain(|other| *other != id);
        self.enter_ring(id);
        false
    }

    /// Gives messages that are ready and kept for nobody to consumers in turn, an equal share to each: one
    /// that comes late to its turn finds its share there.
    pub(crate) fn schedule(&mut self, ready: u64, effects: &mut Effects) {
        let mut free = ready.saturating_sub(self.promised);
        let before = self.scheduled.len() as u64;
        while free > 0 {
            let share = free.div_ceil((self.ring.len() as u64 + before).max(1));
            let Some(id) = self.ring.pop_front() else { break };
            let Some(consumer) = self.all.get_mut(&id) else { continue };
            consumer.in_ring = false;
            if !consumer.is_eligible() {
                continue;
            }
            consumer.scheduled = true;
            consumer.promise = share.min(u64::from(consumer.credit()));
            free -= consumer.promise;
            self.promised += consumer.promise;
            self.scheduled.push_back(id);
            effects.signals.push((consumer.options.link.clone(), Signal::Scheduled(consumer.options.key)));
        }
        // The rest goes to those that were on their way already, and what credit keeps from one to the others.
        let all = self.scheduled.len() as u64;
        for left in (1..=before).rev().chain((1..=all).rev()) {
            if free == 0 {
                return;
            }
            self.scheduled.rotate_left(1);
            let Some(consumer) = self.scheduled.back().and_then(|id| self.all.get_mut(id)) else { return };
            let spare = u64::from(consumer.credit()).saturating_sub(consumer.promise);
            let share = free.div_ceil(left).min(spare);
            consumer.promise += share;
            free -= share;
            self.promised += share;
        }
    }

    /// Takes all out and tells each that it is cancelled.
    pub(crate) fn cancel_all(&mut self, effects: &mut Effects) {
        self.ring.clear();
        self.scheduled.clear();
        self.promised = 0;
        self.exclusive = None;
        let mut all: Vec<_> = self.all.drain().collect();
        all.sort_by_key(|(id, _)| *id);
        for (_, consumer) in all {
            effects.signals.push((consumer.options.link, Signal::Cancelled(consumer.options.key)));
        }
    }

    /// True when some consumer could take a message now.
    pub(crate) fn any_able(&self) -> bool {
        !self.scheduled.is_empty() || !self.ring.is_empty()
    }
}
