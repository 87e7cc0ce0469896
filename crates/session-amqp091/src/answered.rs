//! Methods whose queue, or the control plane, answers later: their channel takes no further frame before the answer, and other channels go on.
//!
//! Input is read in order: it stops at the first frame of a channel that waits. A method on channel 0 waits for all of them.

use leveret_queue::GetOutcome;

use super::error::Result;
use super::held::InputHold;
use super::questions::{Getting, Question};
use super::session::Session;
use leveret_broker::queue_handle::LedgerQueueRef;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::CONTROL;
use leveret_session::driven::Steps;

impl Session {
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
            && let Some(channel) = self.questions.next_signalled()
        {
            self.take_answer(channel, now);
        }
    }

    fn take_answer(&mut self, channel: u16, now: Now) {
        let Some(question) = self.questions.take(channel) else { return };
        self.client.budget.spend(CONTROL);
        // The frame that stopped the input is looked at again.
        self.held = InputHold::No;
        let result = match question {
            Question::Change { then, answer } => match self.client.take_change(&answer, now) {
                Some(outcome) => self.changed(channel, then, outcome, now),
                None => self.wait_on(channel, Question::Change { then, answer }),
            },
            Question::Get { queue, no_ack, state } => self.take_got(channel, queue, no_ack, state, now),
            Question::Consume { consuming, answer, early } => match answer.take() {
                Some(added) => {
                    let result = self.consumed(channel, *consuming, added, now);
                    early.into_signals().into_iter().for_each(|signal| self.signal(signal, now));
                    result
                }
                None => self.wait_on(channel, Question::Consume { consuming, answer, early }),
            },
            Question::Purge { nowait, queue, answer } => match answer.take() {
                Some(purged) => self.purged(channel, nowait, &queue, purged),
                None => self.wait_on(channel, Question::Purge { nowait, queue, answer }),
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
        self.end_consumers_after_answer(now);
    }

    fn take_got(&mut self, channel: u16, queue: LedgerQueueRef, no_ack: bool, state: Getting, now: Now) -> Result<()> {
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
        self.questions.wait_on(channel, question);
        Ok(())
    }
}
