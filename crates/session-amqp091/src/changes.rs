//! Methods that change the control plane: they are asked for, and answered once the change is durable.

use leveret_broker::asked::NowOrLater;
use leveret_broker::queue_handle::Size;
use leveret_broker::registry::{ChangeOutcome, ChangeRequest};
use leveret_broker::streams::Waiter;
use leveret_broker::time::Now;

use super::error::Result;
use super::held::Answer;
use super::questions::{AfterChange, Declared, Question};
use super::session::Session;

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
                self.channel(channel)?.last_queue = Some(queue.clone());
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
}
