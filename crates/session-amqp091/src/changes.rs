//! Methods that change the control plane: they are asked for, and answered once the change is durable.

use super::error::Result;
use super::held::Answer;
use super::questions::{AfterChange, Declared, Question};
use super::session::Session;
use leveret_broker::asked::NowOrLater;
use leveret_broker::queue_handle::Size;
use leveret_broker::registry::{ChangeOutcome, ChangeRequest};
use leveret_broker::streams::Waiter;
use leveret_broker::time::Now;

impl Session {
    /// Asks for the change of a method.
    pub(super) fn change(&mut self, channel: u16, request: ChangeRequest, then: AfterChange, now: Now) -> Result<()> {
        match self.client.change(request, now) {
            NowOrLater::Now(outcome) => self.changed(channel, then, outcome, now),
            NowOrLater::Later(answer) => {
                self.ask(channel, Question::Change { then, answer });
                Ok(())
            }
        }
    }

    /// Goes on with a method whose change was made or refused.
    pub(super) fn changed(&mut self, channel: u16, then: AfterChange, outcome: ChangeOutcome, now: Now) -> Result<()> {
        let changed = outcome?;
        match then {
            AfterChange::Declare { queue, nowait } => {
                let size = match &changed.declared {
                    Some(declared) => declared.ask(Size { used: Some(now.monotonic) }),
                    None => NowOrLater::Now((0, 0)),
                };
                self.channel(channel)?.declared(queue.clone());
                self.declared_with(channel, Declared { queue, nowait, ticket: changed.ticket }, size);
            }
            AfterChange::DeleteQueue { nowait: true } => self.answer_when_durable(changed.ticket, Answer::Nothing),
            AfterChange::DeleteQueue { nowait: false } => {
                let answer = Answer::QueueDeleteOk { channel, deleted: changed.deleted };
                self.answer_when_durable(changed.ticket, answer);
            }
            AfterChange::Answer(answer) => {
                let outbox = &self.client.outbox;
                let wait = changed.wait(|| Waiter::Connection(outbox.clone()));
                self.answer_when_durable(wait, answer);
            }
        }
        Ok(())
    }

    /// Answers a declaration once its queue has given its numbers of messages and consumers.
    pub(super) fn declared_with(&mut self, channel: u16, declared: Declared, size: NowOrLater<(u64, usize)>) {
        match size {
            NowOrLater::Now(size) => self.declared(channel, declared, size),
            NowOrLater::Later(answer) => self.ask(channel, Question::Declare { declared, answer }),
        }
    }

    pub(super) fn declared(&mut self, channel: u16, declared: Declared, (messages, consumers): (u64, usize)) {
        let Declared { queue, nowait, ticket } = declared;
        let answer = match nowait {
            true => Answer::Nothing,
            false => {
                Answer::QueueDeclareOk { channel, queue, messages: clamp(messages), consumers: clamp(consumers as u64) }
            }
        };
        match ticket.is_nothing() {
            true => self.answer(answer),
            false => self.answer_when_durable(ticket, answer),
        }
    }
}

pub(super) fn clamp(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
