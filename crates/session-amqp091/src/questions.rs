//! Questions of channels to their queues and to the control plane that are answered later.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_amqp091::{Frame, FrameKind};
use leveret_model::Arguments;
use leveret_queue::{ConsumerId, GetOutcome, Signal};
use rustc_hash::FxHashMap;

use super::held::Answer;
use leveret_broker::asked::Later;
use leveret_broker::consumer_timeout::ConsumerTimeout;
use leveret_broker::outbox::Outbox;
use leveret_broker::queue_handle::{LedgerQueueRef, NoConsumer, QueueRef, Removed};
use leveret_broker::registry::ChangeOutcome;
use leveret_broker::ticket::Ticket;
use leveret_session::early_signals::EarlySignals;
use leveret_session::gone::GoneAt;

/// The rest of a method, once its change is made.
pub(crate) enum AfterChange {
    /// It answers, unless its client doesn't wait for that (`nowait`).
    Answer(Answer),
    /// It asks the queue that was declared for the numbers of its messages and consumers.
    Declare { queue: Arc<str>, nowait: bool },
    /// It answers with the number of messages that the deleted queue had.
    DeleteQueue { nowait: bool },
}

/// A method that waits for its queue or for the control plane.
pub(crate) enum Question {
    /// A method that changes the control plane.
    Change { then: AfterChange, answer: Later<ChangeOutcome> },
    /// `basic.get`.
    Get { queue: LedgerQueueRef, no_ack: bool, state: Getting },
    /// `basic.consume`.
    Consume { consuming: Box<Consuming>, answer: Later<Result<(), NoConsumer>>, early: EarlySignals },
    /// `queue.purge`.
    Purge { nowait: bool, queue: LedgerQueueRef, answer: Later<Removed> },
    /// `queue.declare`.
    Declare { declared: Declared, answer: Later<(u64, usize)> },
    /// The end of a consumer, a channel or the connection, answered once the queues are gone that are deleted with it.
    End { gone_at: GoneAt, answer: Answer },
}

/// A consumer that a client wants.
pub(crate) struct WantedConsumer {
    /// Its queue.
    pub name: Arc<str>,
    pub tag: Arc<[u8]>,
    pub no_ack: bool,
    pub exclusive: bool,
    pub nowait: bool,
    /// The arguments of the method.
    pub options: Arguments,
}

/// A consumer that a queue was asked for.
pub(crate) struct Consuming {
    pub wanted: WantedConsumer,
    pub queue: QueueRef,
    pub id: ConsumerId,
    pub timeout: Option<ConsumerTimeout>,
    pub prefetch: u16,
}

/// The state of a `basic.get` that waits.
pub(crate) enum Getting {
    /// The queue hasn't answered. With `is_loaded`, it has signalled that a message was read.
    Asked { answer: Later<GetOutcome>, is_loaded: bool },
    /// The queue reads the message from disk, and has to be asked again then.
    Reading,
}

/// A queue that was declared, apart from its size.
pub(crate) struct Declared {
    pub queue: Arc<str>,
    pub nowait: bool,
    /// The answer waits until this is durable.
    pub ticket: Ticket,
}

/// The questions of a connection.
#[derive(Default)]
pub(crate) struct Questions {
    /// One of each channel, by its number; 0 is the connection.
    waiting: FxHashMap<u16, Question>,
    /// Channels that were signalled.
    signalled: VecDeque<u16>,
    /// Number of channels that wait for a consumer.
    consuming: usize,
    /// Consumers that their queues ended while their channels waited: clients are notified after the answer.
    ended: Vec<u64>,
}

impl Questions {
    /// Whether this frame has to wait for an answer.
    #[inline]
    pub(super) fn hold(&self, frame: &Frame<'_>) -> bool {
        !self.waiting.is_empty() && self.hold_waiting(frame)
    }

    fn hold_waiting(&self, frame: &Frame<'_>) -> bool {
        let is_next = frame.channel == 0 || self.waiting.contains_key(&0) || self.waiting.contains_key(&frame.channel);
        is_next && frame.kind != FrameKind::Heartbeat
    }

    /// Has a channel wait. Its link is signalled with the channel's number as key.
    pub(super) fn ask(&mut self, channel: u16, question: Question, outbox: &Arc<Outbox>) {
        let key = u64::from(channel);
        match &question {
            Question::Change { answer, .. } => answer.notify(outbox.clone(), key),
            Question::Get { state: Getting::Asked { answer, .. }, .. } => answer.notify(outbox.clone(), key),
            Question::Get { state: Getting::Reading, .. } => {}
            Question::Consume { answer, .. } => {
                self.consuming += 1;
                answer.notify(outbox.clone(), key);
            }
            Question::Purge { answer, .. } => answer.notify(outbox.clone(), key),
            Question::Declare { answer, .. } => answer.notify(outbox.clone(), key),
            Question::End { gone_at, .. } => gone_at.notify(outbox, key),
        }
        self.waiting.insert(channel, question);
    }

    /// Has a channel wait on: the signal was for an earlier question of it, or for a part of the answer only.
    pub(super) fn wait_on(&mut self, channel: u16, question: Question) {
        self.consuming += usize::from(matches!(question, Question::Consume { .. }));
        self.waiting.insert(channel, question);
    }

    /// Notes that the question with this key has an answer.
    pub(super) fn answered(&mut self, key: u64) {
        // The channel that asked may be gone.
        if let Ok(channel) = u16::try_from(key)
            && self.waiting.contains_key(&channel)
        {
            self.signalled.push_back(channel);
        }
    }

    /// Notes that the message is in memory that the `basic.get` with this key waits for.
    pub(super) fn loaded(&mut self, key: u64) {
        let Ok(channel) = u16::try_from(key) else { return };
        match self.waiting.get_mut(&channel) {
            Some(Question::Get { state: Getting::Asked { is_loaded, .. }, .. }) => *is_loaded = true,
            Some(Question::Get { state: Getting::Reading, .. }) => self.signalled.push_back(channel),
            _ => {}
        }
    }

    /// The next channel that was signalled.
    pub(super) fn next_signalled(&mut self) -> Option<u16> {
        self.signalled.pop_front()
    }

    /// Keeps a signal to a consumer whose queue hasn't answered yet. False if it is another's.
    #[inline]
    pub(super) fn keep_early(&mut self, signal: Signal) -> bool {
        self.consuming > 0 && self.keep_for_consumer(signal)
    }

    #[cold]
    fn keep_for_consumer(&mut self, signal: Signal) -> bool {
        self.waiting.values_mut().any(|question| match question {
            Question::Consume { early, .. } => early.keep(signal),
            _ => false,
        })
    }

    /// Takes out the question of a channel.
    pub(super) fn take(&mut self, channel: u16) -> Option<Question> {
        let question = self.waiting.remove(&channel);
        self.consuming -= usize::from(matches!(question, Some(Question::Consume { .. })));
        question
    }

    /// Whether a channel waits.
    pub(super) fn wait(&self, channel: u16) -> bool {
        self.waiting.contains_key(&channel)
    }

    /// Keeps the key of a consumer that ended while its channel waits.
    pub(super) fn keep_ended(&mut self, key: u64) {
        self.ended.push(key);
    }

    /// Takes out the consumers that ended while their channels waited.
    pub(super) fn take_ended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ended)
    }

    /// The channels that wait.
    pub(super) fn channels(&self) -> Vec<u16> {
        self.waiting.keys().copied().collect()
    }

    /// Whether answers can be handled.
    pub(super) fn are_signalled(&self) -> bool {
        !self.signalled.is_empty()
    }
}
