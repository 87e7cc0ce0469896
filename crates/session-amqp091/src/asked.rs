//! Methods whose queue, or the control plane, answers later: their channel takes no further frame before the answer, and other channels go on.
//!
//! Input is read in order: it stops at the first frame of a channel that waits. A method on channel 0 waits for all of them.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_amqp091::{Frame, FrameKind};
use leveret_queue::GetOutcome;
use rustc_hash::FxHashMap;

use super::changes::AfterChange;
use super::error::Result;
use super::held::{Answer, InputHold};
use super::session::Session;
use leveret_broker::asked::Later;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::ChangeOutcome;

use leveret_broker::ticket::Ticket;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::CONTROL;
use leveret_session::driven::Steps;
use leveret_session::gone::GoneAt;

/// A method that waits for its queue or for the control plane.
pub(crate) enum Question {
    /// A method that changes the control plane.
    Change { then: AfterChange, answer: Later<ChangeOutcome> },
    /// `basic.get`.
    Get { queue: QueueRef, no_ack: bool, state: Getting },
    /// `queue.purge`.
    Purge { nowait: bool, answer: Later<(u64, Ticket)> },
    /// `queue.declare`.
    Declare { declared: Declared, answer: Later<(u64, usize)> },
    /// The end of a consumer, a channel or the connection, answered once the queues are gone that are deleted with it.
    End { gone_at: GoneAt, answer: Answer },
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

    /// Whether answers can be handled.
    pub(super) fn are_signalled(&self) -> bool {
        !self.signalled.is_empty()
    }
}

impl Session {
    /// Has a channel wait for its queue.
    pub(super) fn ask(&mut self, channel: u16, question: Question) {
        let (outbox, key) = (&self.client.outbox, u64::from(channel));
        match &question {
            Question::Change { answer, .. } => answer.notify(outbox.clone(), key),
            Question::Get { state: Getting::Asked { answer, .. }, .. } => answer.notify(outbox.clone(), key),
            Question::Get { state: Getting::Reading, .. } => {}
            Question::Purge { answer, .. } => answer.notify(outbox.clone(), key),
            Question::Declare { answer, .. } => answer.notify(outbox.clone(), key),
            Question::End { gone_at, .. } => gone_at.notify(outbox, key),
        }
        self.questions.waiting.insert(channel, question);
    }

    /// Notes that the question with this key has an answer.
    pub(super) fn answered(&mut self, key: u64) {
        // The channel that asked may be gone.
        if let Ok(channel) = u16::try_from(key)
            && self.questions.waiting.contains_key(&channel)
        {
            self.questions.signalled.push_back(channel);
        }
    }

    /// Notes that the message is in memory that the `basic.get` with this key waits for.
    pub(super) fn loaded(&mut self, key: u64) {
        let Ok(channel) = u16::try_from(key) else { return };
        match self.questions.waiting.get_mut(&channel) {
            Some(Question::Get { state: Getting::Asked { is_loaded, .. }, .. }) => *is_loaded = true,
            Some(Question::Get { state: Getting::Reading, .. }) => self.questions.signalled.push_back(channel),
            _ => {}
        }
    }

    /// Whether answers that came may be handled: each of them may block input itself, or add a message to the output, which
    /// the client has to read before.
    pub(super) fn takes_answers(&self) -> bool {
        let is_free = matches!(self.held, InputHold::No | InputHold::Asked);
        self.questions.are_signalled() && is_free && !self.has_full_output()
    }

    /// Handles the answers that came, as far as the turn allows.
    pub(super) fn take_answers(&mut self, now: Now) {
        while self.takes_answers()
            && !self.client.budget.is_spent()
            && let Some(channel) = self.questions.signalled.pop_front()
        {
            self.take_answer(channel, now);
        }
    }

    fn take_answer(&mut self, channel: u16, now: Now) {
        let Some(question) = self.questions.waiting.remove(&channel) else { return };
        self.client.budget.spend(CONTROL);
        // The frame that stopped the input is looked at again.
        self.held = InputHold::No;
        let result = match question {
            Question::Change { then, answer } => match self.client.take_change(&answer, now) {
                Some(outcome) => self.changed(channel, then, outcome, now),
                None => self.wait_on(channel, Question::Change { then, answer }),
            },
            Question::Get { queue, no_ack, state } => self.take_got(channel, queue, no_ack, state, now),
            Question::Purge { nowait, answer } => match answer.take() {
                Some(purged) => {
                    self.purged(channel, nowait, purged);
                    Ok(())
                }
                None => self.wait_on(channel, Question::Purge { nowait, answer }),
            },
            Question::Declare { declared, answer } => match answer.take() {
                Some(size) => {
                    self.declared(channel, declared, size);
                    Ok(())
                }
                None => self.wait_on(channel, Question::Declare { declared, answer }),
            },
            Question::End { mut gone_at, answer } => match gone_at.ticket() {
                Some(ticket) => {
                    self.answer_when_durable(ticket, answer);
                    Ok(())
                }
                None => self.wait_on(channel, Question::End { gone_at, answer }),
            },
        };
        if let Err(error) = result {
            self.fail(channel, error, now);
        }
    }

    fn take_got(&mut self, channel: u16, queue: QueueRef, no_ack: bool, state: Getting, now: Now) -> Result<()> {
        let (outcome, is_loaded) = match state {
            Getting::Reading => return self.try_get(channel, queue, no_ack, now),
            Getting::Asked { answer, is_loaded } => match answer.take() {
                Some(outcome) => (outcome, is_loaded),
                None => {
                    let state = Getting::Asked { answer, is_loaded };
                    return self.wait_on(channel, Question::Get { queue, no_ack, state });
                }
            },
        };
        match outcome {
            GetOutcome::Wait if is_loaded => self.try_get(channel, queue, no_ack, now),
            outcome => self.got(channel, queue, no_ack, outcome, now),
        }
    }

    /// A signal for an earlier question of the channel, or for a part of the answer only.
    fn wait_on(&mut self, channel: u16, question: Question) -> Result<()> {
        self.questions.waiting.insert(channel, question);
        Ok(())
    }

    /// Answers the end of something on a channel once the queues are gone that are deleted with it.
    pub(super) fn answer_when_gone(&mut self, channel: u16, mut gone_at: GoneAt, answer: Answer) {
        match gone_at.ticket() {
            Some(ticket) => self.answer_when_durable(ticket, answer),
            None => self.ask(channel, Question::End { gone_at, answer }),
        }
    }

    /// Ends the wait of a channel that ends, without an answer to its client.
    pub(super) fn abandon_question(&mut self, channel: u16, now: Now) {
        let Some(question) = self.questions.waiting.remove(&channel) else { return };
        if matches!(self.held, InputHold::Asked) {
            self.held = InputHold::No;
        }
        match question {
            Question::Get { queue, no_ack, state: Getting::Asked { answer, .. } } => {
                queue.give_back(answer, no_ack, now.monotonic);
            }
            // A change is made and published all the same.
            Question::Declare { .. } | Question::Change { .. } => {}
            Question::Get { .. } | Question::Purge { .. } | Question::End { .. } => {}
        }
    }

    /// Ends the waits of all channels.
    pub(super) fn abandon_questions(&mut self, now: Now) {
        let channels: Vec<u16> = self.questions.waiting.keys().copied().collect();
        channels.into_iter().for_each(|channel| self.abandon_question(channel, now));
        self.questions.signalled.clear();
    }
}
