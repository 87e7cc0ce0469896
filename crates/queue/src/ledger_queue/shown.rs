//! The queue as operators see it.

use crate::answers::QueueState;
use crate::consumer_id::ConsumerId;
use crate::contents::HeldBatch;
use crate::counts::{Count, QueueCounts};
use crate::dispatch::Consumer;
use crate::gauges::{QueueGauges, Waits};
use crate::ledger::Conservation;
use crate::ledger_queue::LedgerQueue;
use crate::status::{ConsumerStatus, QueueStatus, QuorumStatus};
use crate::wait::{QueueWait, WaitReason};

impl LedgerQueue {
    /// The queue as a listing shows it.
    pub fn status(&self) -> QueueStatus {
        let mut consumers: Vec<_> = self.consumers.iter().collect();
        consumers.sort_by_key(|(id, _)| **id);
        let consumers = consumers.into_iter().map(|(_, consumer)| self.status_of(consumer)).collect();
        let volatile = self.contents.volatile_messages();
        let messages = self.ready.messages() + self.ready.unacknowledged().messages;
        let volatile_bytes = match volatile {
            0 => 0,
            _ if volatile >= messages => self.ready.length().bytes + self.ready.unacknowledged().bytes,
            _ => self.volatile_bytes(),
        };
        QueueStatus {
            state: self.state.clone(),
            ready: self.ready.messages(),
            ready_bytes: self.ready.length().bytes,
            unacknowledged: self.ready.unacknowledged().messages,
            unacknowledged_bytes: self.ready.unacknowledged().bytes,
            bytes: self.ledger.bytes(),
            pending: self.pending.length().messages,
            moving: self.dead.len(),
            memory: self.contents.bytes(),
            conservation: Conservation { parked: self.parked.len(), ..self.ledger.counters() },
            waits: self.waits(),
            consumers,
            refused: self.refusals.messages(),
            duplicates: self.repeats.as_ref().map(|repeats| repeats.dropped()),
            counts: self.counted(),
            volatile,
            volatile_bytes,
            in_memory: self.contents.messages().min(messages),
            timed: self.clock.timed(),
            quorum: self.rules.logs_attempts.then(|| self.quorum_status()),
            by_priority: self.rules.priorities.map(|_| self.ready.by_lane().1).unwrap_or_default(),
            stream: None,
        }
    }

    fn quorum_status(&self) -> QuorumStatus {
        let (returned, by_priority) = self.ready.by_lane();
        let dying = self.kept_dead_letters();
        QuorumStatus {
            low: self.ledger.low(),
            next: self.ledger.next(),
            delivery_limit: self.options.delivery_limit,
            returned,
            by_priority,
            parked: self.parked.len(),
            parked_bytes: self.parked.bytes(),
            dying: dying.messages,
            dying_bytes: dying.bytes,
            delayed: self.delayed.len(),
            delayed_bytes: self.delayed.bytes(),
        }
    }

    /// One consumer as a listing shows it.
    pub fn consumer_status(&self, id: ConsumerId) -> Option<ConsumerStatus> {
        Some(self.status_of(self.consumers.look(id)?))
    }

    /// Body bytes of the live messages that don't survive a restart.
    fn volatile_bytes(&self) -> u64 {
        let bytes = |(first, held): (u64, &HeldBatch)| -> u64 {
            let live = (0..held.count).filter(|at| self.ledger.is_live(first + u64::from(*at)));
            live.map(|at| u64::from(held.batch.body_length((held.index + at) as usize))).sum()
        };
        self.contents.volatile().map(bytes).sum()
    }

    fn status_of(&self, consumer: &Consumer) -> ConsumerStatus {
        let shared = if self.ready.messages() == 0 {
            Some(QueueWait { reason: WaitReason::Empty, since: self.emptied })
        } else {
            self.reads.blocked_since().map(|since| QueueWait { reason: WaitReason::Disk, since })
        };
        ConsumerStatus::of(consumer, self.wait_of(consumer, shared), self.options.consumer_timeout_ms)
    }

    /// The reason why a consumer with credit and room waits: `shared` is the reason that applies to all that take messages.
    fn wait_of(&self, consumer: &Consumer, shared: Option<QueueWait>) -> Option<QueueWait> {
        let Some(seeker) = &consumer.seeker else { return shared };
        let wait = |reason| Some(QueueWait { reason, since: consumer.changed });
        if !seeker.reads.is_able() {
            wait(WaitReason::Disk)
        } else if self.ready_numbers().next(seeker.looks_from(self.consumers.came_back())).is_none() {
            wait(WaitReason::Empty)
        } else {
            None
        }
    }

    fn waits(&self) -> Vec<QueueWait> {
        let mut waits = Vec::new();
        let mut add = |reason, since| waits.push(QueueWait { reason, since });
        if let QueueState::Failed(_) = self.state {
            add(WaitReason::Failed, self.changed);
        }
        if let Some(since) = self.pending.oldest() {
            add(WaitReason::Sync, since);
        }
        if let Some(since) = self.refusals.since() {
            add(WaitReason::Full, since);
        }
        self.held_publishers.waits().for_each(|wait| add(wait.reason, wait.since));
        if let Some(since) = self.paced_since() {
            add(WaitReason::Pacing, since);
        }
        if let Some(since) = self.reads.blocked_since() {
            add(WaitReason::Disk, since);
        }
        if self.consumers.exclusive().is_some() {
            add(WaitReason::ExclusiveConsumer, self.changed);
        }
        if self.ready.messages() > 0 {
            if self.consumers.movers() == 0 {
                add(WaitReason::NoConsumers, self.changed);
            } else if !self.consumers.any_able() {
                let since = self.consumers.iter().map(|(_, consumer)| consumer.changed).max().unwrap_or(0);
                add(WaitReason::ConsumersBusy, since);
            }
        } else if self.ready.unacknowledged().messages > 0 {
            add(WaitReason::Unacknowledged, self.emptied);
        }
        waits
    }

    /// Its gauges; zero for a deleted queue.
    pub fn gauges(&self) -> QueueGauges {
        if self.state == QueueState::Deleted {
            return QueueGauges::default();
        }
        let messages = self.ready.messages() + self.ready.unacknowledged().messages;
        QueueGauges {
            ready: self.ready.messages(),
            ready_bytes: self.ready.length().bytes,
            unacknowledged: self.ready.unacknowledged().messages,
            unacknowledged_bytes: self.ready.unacknowledged().bytes,
            delayed: self.delayed.len(),
            delayed_bytes: self.delayed.bytes(),
            memory: self.contents.bytes(),
            in_memory: self.contents.messages().min(messages),
            volatile: self.contents.volatile_messages().min(messages),
            consumers: self.consumers.len() as u64,
            links: self.consumers.links() as u64,
            waits: self.wait_reasons(),
            counted: self.counts.any(),
            failed: matches!(self.state, QueueState::Failed(_)),
        }
    }

    /// The reasons of [`LedgerQueue::status`] without the times since when they apply, because these need a scan of all
    /// consumers. So would a check whether all consumers that wait for the disk are busy, too.
    fn wait_reasons(&self) -> Waits {
        let mut waits = Waits::default();
        waits.add_if(matches!(self.state, QueueState::Failed(_)), WaitReason::Failed);
        waits.add_if(!self.pending.is_empty(), WaitReason::Sync);
        waits.add_if(self.refusals.since().is_some(), WaitReason::Full);
        self.held_publishers.waits().for_each(|wait| waits.add_if(true, wait.reason));
        waits.add_if(self.paced_since().is_some(), WaitReason::Pacing);
        waits.add_if(self.reads.blocked_since().is_some(), WaitReason::Disk);
        waits.add_if(self.consumers.exclusive().is_some(), WaitReason::ExclusiveConsumer);
        let (has_ready, has_movers) = (self.ready.messages() > 0, self.consumers.movers() > 0);
        waits.add_if(has_ready && !has_movers, WaitReason::NoConsumers);
        let is_busy = self.reads.blocked_since().is_none() && !self.consumers.any_scheduled();
        waits.add_if(has_ready && has_movers && is_busy, WaitReason::ConsumersBusy);
        waits.add_if(!has_ready && self.ready.unacknowledged().messages > 0, WaitReason::Unacknowledged);
        waits
    }

    /// The count of one kind; `None` if nothing has been counted at all.
    pub fn counted_of(&self, what: Count) -> Option<u64> {
        self.counts.any().then(|| self.counts.total(what))
    }

    /// Its counts, if it has counted anything.
    pub fn counts_if_any(&self) -> Option<QueueCounts> {
        self.counts.any().then(|| self.counted())
    }

    /// Its counts, with its current lengths.
    fn counted(&self) -> QueueCounts {
        self.counts.with_lengths(self.lengths())
    }
}
