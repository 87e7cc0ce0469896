//! The consumers of the queues of a session.

use leveret_broker::asked::Later;
use leveret_broker::events::ConsumerEvent;
use leveret_broker::queue_handle::QueueRef;
use leveret_queue::{ConsumerId, Flow, Nanos, NoConsumer};

use super::subscriptions::Level;

/// The tag of all consumers, as in RabbitMQ.
pub(crate) const TAG: &str = "mqtt";

/// The consumers of a session: one for each of its queues.
#[derive(Default)]
pub(crate) struct Consumers([Option<Box<Consumer>>; 2]);

impl Consumers {
    pub(crate) fn get(&self, level: Level) -> Option<&Consumer> {
        self.0[level as usize].as_deref()
    }

    pub(crate) fn get_mut(&mut self, level: Level) -> Option<&mut Consumer> {
        self.0[level as usize].as_deref_mut()
    }

    pub(crate) fn set(&mut self, level: Level, consumer: Consumer) {
        self.0[level as usize] = Some(Box::new(consumer));
    }

    pub(crate) fn take(&mut self, level: Level) -> Option<Box<Consumer>> {
        self.0[level as usize].take()
    }

    /// The level of the consumer with this key.
    pub(crate) fn level_of(&self, key: u64) -> Option<Level> {
        Level::BOTH.into_iter().find(|level| self.get(*level).is_some_and(|known| known.id.0 == key))
    }

    /// Tells the queue of the consumer with this key whether the socket keeps up. False if there is none.
    pub(crate) fn tell_room(&self, key: u64, has_room: bool, now: Nanos) -> bool {
        let Some(consumer) = self.level_of(key).and_then(|level| self.get(level)) else { return false };
        consumer.queue.flow(consumer.id, Flow::Room(has_room), now);
        true
    }

    /// All may take messages again.
    pub(crate) fn unpark(&mut self, now: Nanos) {
        self.0.iter_mut().flatten().for_each(|consumer| consumer.unpark(now));
    }
}

/// A consumer of a queue of the session.
pub(crate) struct Consumer {
    id: ConsumerId,
    queue: QueueRef,
    /// The queue was told that the client can't take more before it acknowledges something.
    is_parked: bool,
    asked: Option<Later<Result<(), NoConsumer>>>,
}

impl Consumer {
    /// A consumer whose queue answers, if it does so later, by `asked`.
    pub(crate) fn new(id: ConsumerId, queue: QueueRef, asked: Option<Later<Result<(), NoConsumer>>>) -> Self {
        Self { id, queue, is_parked: false, asked }
    }

    pub(crate) fn id(&self) -> ConsumerId {
        self.id
    }

    pub(crate) fn queue(&self) -> &QueueRef {
        &self.queue
    }

    /// Whether the queue has answered that it doesn't take the consumer. Answers are taken once.
    pub(crate) fn is_refused(&mut self) -> bool {
        let answer = self.asked.take().and_then(|answer| answer.take());
        matches!(answer, Some(Err(_)))
    }

    /// The client can't take more before it acknowledges something.
    pub(crate) fn park(&mut self, now: Nanos) {
        self.is_parked = true;
        self.queue.flow(self.id, Flow::Window(false), now);
    }

    /// The client can take more again.
    pub(crate) fn unpark(&mut self, now: Nanos) {
        if std::mem::take(&mut self.is_parked) {
            self.queue.flow(self.id, Flow::Window(true), now);
        }
    }

    /// The consumer as events name it.
    pub(crate) fn event(&self) -> ConsumerEvent<'_> {
        ConsumerEvent { channel: 0, tag: TAG.as_bytes(), queue: &self.queue.info().name }
    }
}
