//! What operators see of a queue: counts, conservation, and why it or a consumer waits.

use std::sync::Arc;

use crate::consumer::{Consumer, ConsumerFlow, ConsumerMode, LatencyBuckets};
use crate::consumer_id::ConsumerId;
use crate::contents::Held;
use crate::counts::QueueCounts;
use crate::ledger::Conservation;
use crate::ledger_queue::{ClassicQueue, QueueState};
use crate::wait::{QueueWait, WaitReason};

/// What a listing shows of one consumer.
#[derive(Debug, Clone)]
pub struct ConsumerStatus {
    /// Its tag.
    pub tag: Arc<str>,
    /// Its connection and channel.
    pub channel: Arc<str>,
    /// Whose it is.
    pub user: Arc<str>,
    /// The arguments it came with.
    pub arguments: leveret_model::Arguments,
    /// Its prefetch; 0 is unlimited.
    pub prefetch: u32,
    /// What is left of its link credit, which it has instead of a prefetch (AMQP 1.0).
    pub link_credit: Option<u32>,
    /// Deliveries of its link so far, a serial number (AMQP 1.0).
    pub delivery_count: u32,
    /// Higher ones are served first.
    pub priority: i32,
    /// Whether it takes messages or looks at them.
    pub mode: ConsumerMode,
    /// Without acknowledgements.
    pub automatic_ack: bool,
    /// Alone on the queue.
    pub exclusive: bool,
    /// Delivered and not yet settled.
    pub unacknowledged: u32,
    /// Handed out since it began.
    pub delivered: u64,
    /// Why it waits.
    pub wait: QueueWait,
    /// Time from publish to hand-out in powers of two of microseconds.
    pub latency: LatencyBuckets,
}

/// What a listing shows of a queue.
#[derive(Debug, Clone)]
pub struct QueueStatus {
    /// Whether it works.
    pub state: QueueState,
    /// Ready messages.
    pub ready: u64,
    /// Their body bytes.
    pub ready_bytes: u64,
    /// Delivered, not settled.
    pub unacknowledged: u64,
    /// Their body bytes.
    pub unacknowledged_bytes: u64,
    /// Body bytes of all messages, as the next checkpoint has them: those that are ready and those that are
    /// unacknowledged.
    pub bytes: u64,
    /// Messages on their way to disk.
    pub pending: u64,
    /// Messages on their way to the dead-letter exchange.
    pub moving: u64,
    /// Bytes of messages in memory.
    pub memory: u64,
    /// What became of all messages.
    pub conservation: Conservation,
    /// Why the queue itself waits, if it does.
    pub waits: Vec<QueueWait>,
    /// Its consumers, oldest first.
    pub consumers: Vec<ConsumerStatus>,
    /// Refused by a length limit so far.
    pub refused: u64,
    /// What it counted, with rates.
    pub counts: QueueCounts,
    /// Of its messages, those that don't survive a restart.
    pub volatile: u64,
    /// Their body bytes.
    pub volatile_bytes: u64,
    /// Of its messages, those whose bodies are in memory.
    pub in_memory: u64,
}

impl ClassicQueue {
    /// What a listing shows.
    pub fn status(&self) -> QueueStatus {
        let mut consumers: Vec<_> = self.consumers.iter().collect();
        consumers.sort_by_key(|(id, _)| **id);
        let consumers = consumers.into_iter().map(|(_, consumer)| self.status_of(consumer)).collect();
        let volatile = self.contents.volatile_messages();
        let messages = self.ready.messages + self.unacknowledged.messages;
        let volatile_bytes = match volatile {
            0 => 0,
            _ if volatile >= messages => self.ready.bytes + self.unacknowledged.bytes,
            _ => self.volatile_bytes(),
        };
        QueueStatus {
            state: self.state.clone(),
            ready: self.ready.messages,
            ready_bytes: self.ready.bytes,
            unacknowledged: self.unacknowledged.messages,
            unacknowledged_bytes: self.unacknowledged.bytes,
            bytes: self.ledger.bytes(),
            pending: self.pending_length.messages,
            moving: self.dead.len(),
            memory: self.contents.bytes(),
            conservation: self.ledger.counters(),
            waits: self.waits(),
            consumers,
            refused: self.refused,
            counts: self.counted(),
            volatile,
            volatile_bytes,
            in_memory: self.contents.messages().min(messages),
        }
    }
    /// What a listing shows of one consumer.
    pub fn consumer_status(&self, id: ConsumerId) -> Option<ConsumerStatus> {
        Some(self.status_of(self.consumers.look(id)?))
    }

    /// Body bytes of the live messages that don't outlive this process.
    fn volatile_bytes(&self) -> u64 {
        let bytes = |(first, held): (u64, &Held)| -> u64 {
            let live = (0..held.count).filter(|at| self.ledger.is_live(first + u64::from(*at)));
            live.map(|at| u64::from(held.batch.body_length((held.index + at) as usize))).sum()
        };
        self.contents.volatile().map(bytes).sum()
    }

    fn status_of(&self, consumer: &Consumer) -> ConsumerStatus {
        let shared = if self.ready.messages == 0 {
            Some(QueueWait { reason: WaitReason::Empty, since: self.emptied })
        } else {
            self.disk_wait.map(|since| QueueWait { reason: WaitReason::Disk, since })
        };
        let is_credit = matches!(consumer.options.flow, ConsumerFlow::Credit { .. });
        ConsumerStatus {
            tag: consumer.options.tag.clone(),
            channel: consumer.options.channel.clone(),
            user: consumer.options.user.clone(),
            arguments: consumer.options.arguments.clone(),
            prefetch: match consumer.options.flow {
                ConsumerFlow::Prefetch(prefetch) => prefetch,
                ConsumerFlow::Credit { .. } => 0,
            },
            link_credit: is_credit.then(|| consumer.credit()),
            delivery_count: consumer.delivery_count(),
            priority: consumer.options.priority,
            mode: consumer.options.mode,
            automatic_ack: consumer.options.automatic_ack,
            exclusive: consumer.options.exclusive,
            unacknowledged: consumer.unacknowledged,
            delivered: consumer.delivered,
            wait: consumer.wait(self.wait_of(consumer, shared)),
            latency: *consumer.latency,
        }
    }

    /// What holds a consumer that has credit and room: `shared` what holds all that take messages.
    fn wait_of(&self, consumer: &Consumer, shared: Option<QueueWait>) -> Option<QueueWait> {
        let Some(browser) = &consumer.browser else { return shared };
        let wait = |reason| Some(QueueWait { reason, since: consumer.changed });
        if !browser.is_able() {
            wait(WaitReason::Disk)
        } else if self.ready_numbers().next(browser.next).is_none() {
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
        if let Some(first) = self.pending.front() {
            add(WaitReason::Sync, first.submitted);
        }
        if let Some(since) = self.full_since {
            add(WaitReason::Full, since);
        }
        self.held_publishers.waits().for_each(|wait| add(wait.reason, wait.since));
        if let Some(since) = self.disk_wait {
            add(WaitReason::Disk, since);
        }
        if self.consumers.exclusive().is_some() {
            add(WaitReason::ExclusiveConsumer, self.changed);
        }
        if self.ready.messages > 0 {
            if self.consumers.movers() == 0 {
                add(WaitReason::NoConsumers, self.changed);
            } else if !self.consumers.any_able() {
                let since = self.consumers.iter().map(|(_, consumer)| consumer.changed).max().unwrap_or(0);
                add(WaitReason::ConsumersBusy, since);
            }
        } else if self.unacknowledged.messages > 0 {
            add(WaitReason::Unacknowledged, self.emptied);
        }
        waits
    }
}
